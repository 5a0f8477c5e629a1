"""How the splits of an oblique tree learn together: by projected SGD on a surrogate of the loss."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.row cimport Example, Scratch, View
from streamtree._core.trees.oblique.nodes cimport Node, ObliqueNodes


cdef struct Step:
    # an example on its way through the tree
    const View* x
    Scratch* scratch
    const Example* example


cdef struct Extremes:
    # the leaves that a step is between, and what they attain
    int32_t fear
    int32_t hope
    double fear_value
    double hope_value


cdef class ObliqueSteps(ObliqueNodes):
    # what stays as it was made
    cdef bint hopes
    cdef bint exact
    cdef int64_t hold
    # what may change
    cdef double max_norm
    cdef double learning_rate
    cdef double fear
    cdef double decay
    # for the example at hand
    cdef double _rate
    cdef double _limit
    cdef int64_t n_learned
    cdef int64_t _round
    cdef Py_ssize_t in_batch
    cdef int32_t* _touched
    cdef Py_ssize_t _n_touched
    cdef Py_ssize_t _touched_capacity
    cdef double* _scores
    cdef int64_t* _scored_at
    cdef int32_t _n_scores
    cdef int32_t* _fear_path
    cdef int32_t* _hope_path
    cdef double* _costs
    cdef double* _gradient
    cdef int32_t _n_gradient
    cdef int64_t _now

    cdef int reserve_steps(self) except -1 nogil
    cdef void set_rates(self) noexcept nogil
    cdef int32_t begin(self, const Step* step) except -1 nogil
    cdef void find(self, const Step* step, int32_t home, Extremes* found) noexcept nogil
    cdef int step(self, const Step* step, int32_t home) except -1 nogil
    cdef int set_split(
        self, int32_t node, int32_t column, double threshold, double factor
    ) except -1
    cdef int push(self, int32_t node, const Step* step, double factor) except -1 nogil

    cdef double _score(self, int32_t node, const Step* step) noexcept nogil
    cdef int32_t _held_leaf(self, const Step* step) noexcept nogil
    cdef void _compare(
        self, int32_t leaf, double loss, double cost, Extremes* found
    ) noexcept nogil
    cdef void _find_in_ball(self, const Step* step, Extremes* found) noexcept nogil
    cdef void _find_among_all(self, const Step* step, Extremes* found) noexcept nogil
    cdef Py_ssize_t _path(self, int32_t leaf, int32_t* path) noexcept nogil
    cdef int _step_between(self, const Extremes* found, const Step* step) except -1 nogil
    cdef bint _disagrees(
        self, const int32_t* path, Py_ssize_t i, const Step* step
    ) noexcept nogil
    cdef double _flipped(self, int32_t node, const Step* step) noexcept nogil
    cdef int _step_split(self, int32_t node, const Step* step, double slope) except -1 nogil
    cdef int _step_now(self, int32_t node, const Step* step, double slope) except -1 nogil
    cdef int _hold_split(self, Node* split) except -1 nogil
    cdef int _project(self, Node* split) except -1 nogil
    cdef int _unscale(self, Node* split) except -1 nogil
    cdef int _teach(self, int32_t leaf, const Example* example) except -1 nogil
    cdef void _move_output(
        self, Node* node, int32_t i, double gradient, double step
    ) noexcept nogil
    cdef int _touch(self, int32_t node) except -1 nogil
    cdef int _add_gradient(self, int32_t node, const Step* step, double slope) except -1 nogil
    cdef int _flush(self) except -1 nogil
    cdef int _flush_split(self, Node* split) except -1 nogil
    cdef void _move_weight(
        self, Node* split, double* weight, double* moving, double rate
    ) noexcept nogil
    cdef void _flush_leaf(self, Node* node) noexcept nogil
