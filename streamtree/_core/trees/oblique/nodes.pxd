"""The nodes of an oblique tree: linear splits, and leaves with an output a class or target."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.linear cimport Inputs, dot, limited
from streamtree._core.kernels.moments cimport Moments
from streamtree._core.store.links cimport TreeLinks
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.inputs cimport find_inputs
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch, View
from streamtree._core.trees.tree cimport Tree

cdef enum:
    WIDTH = 2           # of every record: weight and squares, velocity and pending


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
    double visits           # of a leaf: weight of the examples that taught it, decayed
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


cdef inline double split_score(const Node* node, const View* x, Scratch* scratch) noexcept nogil:
    """w . x of a split."""
    cdef Inputs inputs = find_inputs(&node.weights, x, scratch)
    return limited((node.stats.bias + dot(node.weights.records, &inputs)) * node.stats.scale)


cdef class ObliqueNodes(Tree):
    cdef TreeLinks shape
    cdef Node* nodes
    cdef int32_t capacity
    cdef bint is_paper
    cdef bint is_regression
    cdef int32_t depth
    cdef Py_ssize_t batch_size
    cdef double momentum
    cdef int32_t n_outputs
    cdef Moments* totals        # of every target, or the weight of every class
    cdef int32_t n_totals
    cdef double total           # the weight of all classes

    cdef int plant(self) except -1
    cdef int complete(self) except -1
    cdef int reserve(self, int32_t n) except -1 nogil
    cdef int reserve_outputs(self, int32_t n_outputs) except -1 nogil
    cdef bint admits(self, int32_t n_outputs) noexcept nogil
    cdef int open_outputs(self, int32_t leaf) except -1 nogil
    cdef int _open_outputs(self, Node* node, int64_t n_outputs) except -1 nogil
    cdef bint moves(self) noexcept nogil
    cdef object _all_outputs(self, bint are_moving)
    cdef const View* view_of(self, const Row* row) noexcept nogil
    cdef int32_t leaf_below(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil
    cdef void count(self, const Example* example) noexcept nogil
    cdef double loss(self, int32_t leaf, const Example* example) noexcept nogil
    cdef double scaled_square(self, int32_t target, double difference) noexcept nogil
    cdef void answer(self, int32_t leaf, Prediction* out) noexcept nogil
    cdef int average(self, int32_t leaf, const Example* example) except -1 nogil
    cdef void sum_outputs(self, Node* node) noexcept nogil
    cdef tuple split(self, int32_t node)
    cdef int set_outputs(self, int32_t leaf, const double* sums) except -1

    cdef void _free_nodes(self) noexcept
    cdef void _free_node(self, Node* node) noexcept nogil
    cdef void _clear(self, int32_t node) noexcept nogil
    cdef void _hand_down(self, int32_t node, int32_t child) noexcept nogil
    cdef double _guess(self, int32_t leaf, int32_t target) noexcept nogil
    cdef double _deviation(self, int32_t target) noexcept nogil
    cdef double _number(self, int32_t leaf, int32_t target) noexcept nogil
    cdef double _log_total(self, int32_t leaf) noexcept nogil
    cdef double _output(self, int32_t leaf, int32_t label) noexcept nogil
    cdef int32_t _most_likely(self, int32_t leaf) noexcept nogil
    cdef void _write_shares(self, int32_t leaf, double* out) noexcept nogil
