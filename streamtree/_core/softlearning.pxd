"""A soft tree without names, labels and scales."""

from libc.stdint cimport int32_t, uint64_t

from streamtree._core.softnodes cimport SoftNode, SoftNodes, Visit
from streamtree._core.types cimport Row


cdef enum:
    MAX_DEPTH = 60      # what the stacks of a prediction hold
    BLOCK = 64          # responses that a prediction holds at a time


cdef class SoftTree(SoftNodes):
    cdef bint literal
    cdef bint linear
    cdef bint jointly
    cdef uint64_t seed
    cdef int penalty
    cdef double strength
    cdef double learning_rate
    cdef double threshold
    cdef double window
    cdef double delta
    cdef int32_t max_nodes
    cdef int32_t max_depth

    cdef double _gate(self, int32_t node, Row row) noexcept nogil
    cdef double _gate_score(self, int32_t node, Row row) noexcept nogil
    cdef list path(self, Row row)
    cdef const int32_t* _leaf_slots(self, int32_t node, Row row) noexcept nogil
    cdef void _leaf(
        self, int32_t node, Row row, const int32_t* slots, int32_t first, int32_t n, double* out
    ) noexcept nogil
    cdef int32_t _visit(self, Row row, double threshold, double* total) noexcept nogil
    cdef void respond_to(
        self, Row row, double threshold, int32_t first, int32_t n, double* out
    ) noexcept nogil
    cdef void _add_leaf(
        self, int32_t node, Row row, double reach, int32_t first, int32_t n, double* out
    ) noexcept nogil
    cdef int learn(
        self, Row row, int32_t n_columns, double target, double weight, double norm
    ) except -1 nogil
    cdef void _value_subtrees(self, int32_t n, const double* slopes) noexcept nogil
    cdef int _step(
        self, const Visit* visit, Row row, int32_t n_columns, const double* slopes,
        const double* total, double target, double weight, double rate
    ) except -1 nogil
    cdef int _change_shape(self, int32_t n) except -1 nogil
    cdef int _step_leaf(
        self, int32_t node, Row row, int32_t n_columns, const double* slopes, double weight,
        const double* response, double target, double rate
    ) except -1 nogil
    cdef int _step_gate(
        self, int32_t node, Row row, int32_t n_columns, double slope, double weight, double rate
    ) except -1 nogil
    cdef double _shrunk(self, double weight, double amount) noexcept nogil
    cdef bint _is_last_split(self, int32_t node) noexcept nogil
    cdef int _learn_in_shade(
        self, Visit* visit, int32_t i, Row row, int32_t n_columns, double target, double weight,
        double rate, double loss
    ) except -1 nogil
    cdef void _count(self, SoftNode* stats, double gain) noexcept nogil
    cdef bint _may_split(self, int32_t node) noexcept nogil
    cdef int _start_pair(self, int32_t node) except -1 nogil
    cdef bint _decide(self, int32_t node) except -1 nogil
    cdef void _begin_contest(self, int32_t node) noexcept nogil
    cdef void _split(self, int32_t node) noexcept nogil
    cdef void _collapse(self, int32_t node) noexcept nogil
