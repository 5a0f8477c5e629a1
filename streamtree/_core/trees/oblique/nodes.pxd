"""The nodes of an oblique tree: linear splits, and leaves with an output a class or target."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.linear cimport Inputs, dot, limited
from streamtree._core.kernels.moments cimport Moments
from streamtree._core.store.links cimport TreeLinks
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.inputs cimport find_inputs
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch, View
from streamtree._core.trees.tree cimport Tree

cpdef enum:
    WIDTH = 2           # of every record: weight and squares, velocity and pending
    MOST_DEPTH = 24


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
    double visits           # weight of the examples that taught it, decayed where it has means
    double log_sum          # ln of the sum of exp(output) over the first `n_outputs` classes
    int64_t n_outputs


cdef struct Node:
    ObliqueNode stats
    Table weights           # column -> weight, sum of squared gradients
    Table moving            # column -> velocity, pending gradient
    Table held              # column -> weight when the round began
    # Of class or target i at 2 i, its sum of squared gradients at 2 i + 1: of a leaf logits, or
    # numbers; else means, of 0 and 1 for a class.
    double* outputs
    double* moving_outputs  # velocity and pending gradient, likewise
    int64_t n_allocated


cdef struct Voices:
    # what a leaf and the nodes above it that have learned something count in what is said
    int32_t n
    int32_t nodes[MOST_DEPTH + 1]
    double parts[MOST_DEPTH + 1]
    double rest             # for what is said where nothing was learned
    double guess            # by a leaf that says so by itself, in deviations from the mean
    double log_total        # of the outputs of a leaf of classes


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
    cdef bint spreads           # leaves of numbers begin with guesses that differ
    cdef int32_t depth
    cdef Py_ssize_t batch_size
    cdef double momentum
    cdef double strength        # with which what a node says is drawn to the node above
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
    cdef void weigh(self, int32_t leaf, Voices* voices) noexcept nogil
    cdef double blended(self, const Voices* voices, int32_t i) noexcept nogil
    cdef void answer(self, int32_t leaf, Prediction* out) noexcept nogil
    cdef int count_in(self, int32_t leaf, const Example* example) except -1 nogil
    cdef void count_anew(self) noexcept nogil
    cdef void sum_outputs(self, Node* node) noexcept nogil
    cdef tuple split(self, int32_t node)
    cdef int set_outputs(self, int32_t leaf, const double* sums) except -1

    cdef void _free_nodes(self) noexcept
    cdef void _free_node(self, Node* node) noexcept nogil
    cdef void _clear(self, int32_t node) noexcept nogil
    cdef void _hand_down(self, int32_t node, int32_t child) noexcept nogil
    cdef int32_t _above(self, int32_t node) noexcept nogil
    cdef double _first_guess(self, int32_t leaf) noexcept nogil
    cdef double _prior(self, int32_t i, double guess) noexcept nogil
    cdef double _deviation(self, int32_t target) noexcept nogil
    cdef double _own(self, int32_t node, int32_t i, const Voices* voices) noexcept nogil
    cdef double _log_total(self, int32_t leaf) noexcept nogil
    cdef double _output(self, int32_t node, int32_t i) noexcept nogil
