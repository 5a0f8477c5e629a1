"""A tree of linear splits that are trained jointly; shared by classifiers and regressors."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from streamtree._core.nodes cimport BinaryTree
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.tables cimport Table
from streamtree._core.types cimport Row


cdef struct ObliqueNode:
    double bias             # the split's offset and its sum of squared gradients
    double bias_squares
    double bias_velocity
    double bias_pending     # gradients of the mini-batch so far
    double scale            # the weights and the offset are `scale` times what is stored
    double norm             # sum of squares of what is stored
    double held_bias        # the split as it was when the round of stable SGD began
    double held_scale
    int64_t held_round
    double visits           # of a leaf: weight of the examples that taught it, faded
    double place            # of a leaf: from 0 (leftmost) to 1, in the middle of its share
    double log_sum          # ln of the sum of exp(output) over the first `n_outputs` classes
    int64_t n_outputs


cdef struct Node:
    ObliqueNode stats
    Table weights           # column -> weight, sum of squared gradients
    Table moving            # column -> velocity, pending gradient
    Table held              # column -> weight when the round began
    double* outputs         # of class or target i at 2 i, its sum of squared gradients at 2 i + 1
    double* moving_outputs  # velocity and pending gradient, likewise
    int64_t n_allocated


cdef class ObliqueTree:
    cdef BinaryTree shape
    cdef Node* nodes
    cdef int32_t capacity
    cdef size_t _bytes
    cdef ColumnScaler scaler
    # what stays as it was made
    cdef bint literal
    cdef bint is_regression
    cdef bint hopes
    cdef bint exact
    cdef int32_t depth
    cdef int64_t hold
    cdef Py_ssize_t batch_size
    # what may change
    cdef double max_norm
    cdef double learning_rate
    cdef double fear
    cdef double momentum
    cdef double keep
    # the classes' weights, or mean and sum of squared deviations of every target
    cdef int32_t n_outputs
    cdef double* totals
    cdef int64_t n_totals
    cdef double total
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
    cdef int32_t* _fear_path
    cdef int32_t* _hope_path
    cdef double* _costs
    cdef double* _gradient
    cdef int64_t _now

    cdef int plant(self) except -1
    cdef int complete(self) except -1
    cdef int reserve(self, int32_t capacity) except -1 nogil
    cdef int reserve_outputs(self, int32_t n_outputs) except -1 nogil
    cdef int learn(
        self, Row row, int32_t label, const double* target, double weight
    ) except -1 nogil
    cdef void set_rates(self) noexcept nogil
    cdef int step(
        self, Row row, int32_t label, const double* target, double weight
    ) except -1 nogil
    cdef int32_t leaf(self, Row row) noexcept nogil
    cdef list path(self, Row row)
    cdef double loss(self, int32_t leaf, int32_t label, const double* target) noexcept nogil
    cdef int32_t most_likely(self, int32_t leaf) noexcept nogil
    cdef void probabilities(self, int32_t leaf, double* out) noexcept nogil
    cdef void numbers(self, int32_t leaf, double* out) noexcept nogil
    cdef void find(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil
    cdef double score(self, int32_t node, Row row) noexcept nogil
    cdef int set_split(
        self, int32_t node, int32_t column, double threshold, double factor
    ) except -1
    cdef int push(self, int32_t node, Row row, double factor) except -1 nogil
    cdef tuple split(self, int32_t node)
    cdef int set_outputs(self, int32_t leaf, const double* sums) except -1
    cdef double scaled_square(self, int32_t target, double difference) noexcept nogil

    cdef void _free_nodes(self) noexcept
    cdef void _free_node(self, Node* node) noexcept nogil
    cdef void _hand_down(self, int32_t node, int32_t child) noexcept nogil
    cdef void _clear(self, int32_t node) noexcept nogil
    cdef int _open_outputs(self, int32_t leaf) except -1 nogil
    cdef bint _moves(self) noexcept nogil
    cdef double _score(
        self, int32_t node, Row row, int32_t** slots, Py_ssize_t* absent
    ) noexcept nogil
    cdef double _score_once(self, int32_t node, Row row) noexcept nogil
    cdef int32_t _turn(self, int32_t node, double score) noexcept nogil
    cdef int32_t _follow(self, int32_t node, Row row) noexcept nogil
    cdef int32_t _leaf_below(self, int32_t node, Row row) noexcept nogil
    cdef int32_t _held_leaf(self, Row row) noexcept nogil
    cdef double _guess(self, int32_t leaf, int32_t target) noexcept nogil
    cdef double _deviation(self, int32_t target) noexcept nogil
    cdef double _number(self, int32_t leaf, int32_t target) noexcept nogil
    cdef double _log_total(self, int32_t leaf) noexcept nogil
    cdef double _output(self, int32_t leaf, int32_t label) noexcept nogil
    cdef void _compare(
        self, int32_t leaf, double loss, double cost, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil
    cdef void _find_in_ball(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil
    cdef void _find_among_all(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil
    cdef void _count_targets(self, const double* target, double weight) noexcept nogil
    cdef Py_ssize_t _path(self, int32_t leaf, int32_t* path) noexcept nogil
    cdef int _step_between(
        self, int32_t fear, int32_t hope, Row row, double weight
    ) except -1 nogil
    cdef bint _disagrees(self, const int32_t* path, Py_ssize_t i, Row row) noexcept nogil
    cdef double _flipped(self, int32_t node, Row row) noexcept nogil
    cdef int _step(self, int32_t node, Row row, double slope) except -1 nogil
    cdef int _step_now(self, Node* split, Row row, double slope) except -1 nogil
    cdef int _hold_split(self, Node* split) except -1 nogil
    cdef int32_t* _locate(self, Table* table, Row row) except? NULL nogil
    cdef int _project(self, Node* split) except -1 nogil
    cdef int _unscale(self, Node* split) except -1 nogil
    cdef int _teach(
        self, int32_t leaf, int32_t label, const double* target, double weight
    ) except -1 nogil
    cdef void _move_output(
        self, Node* node, int32_t i, double gradient, double step
    ) noexcept nogil
    cdef void _sum_outputs(self, Node* node) noexcept nogil
    cdef int _average(self, int32_t leaf, const double* target, double weight) except -1 nogil
    cdef int _touch(self, int32_t node) except -1 nogil
    cdef int _add_gradient(self, int32_t node, Row row, double slope) except -1 nogil
    cdef int _flush(self) except -1 nogil
    cdef int _flush_split(self, Node* split) except -1 nogil
    cdef void _move_weight(
        self, Node* split, double* weight, double* moving, double rate
    ) noexcept nogil
    cdef void _flush_leaf(self, Node* node) noexcept nogil
