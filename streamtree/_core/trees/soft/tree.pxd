"""A soft tree: how it responds, learns, grows and collapses."""

from libc.stdint cimport int32_t, uint64_t

from streamtree._core.kernels.linear cimport Inputs
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.row cimport Prediction, Row, Scratch, View
from streamtree._core.trees.soft.nodes cimport Node, SoftNode, SoftNodes, Visit


cdef enum:
    BLOCK = 64          # responses that a prediction holds at a time


cdef struct Step:
    # what the nodes need to know of the example that they learn
    const View* x
    Scratch* scratch
    double target       # a number, 0 or 1, or the number of the class
    double weight
    double rate
    double loss         # of the tree's response


cdef struct Waiting:
    # a node that a walk has still to visit
    double reach
    int32_t node
    int32_t parent      # its visit


cdef class SoftTree(SoftNodes):
    cdef bint is_paper
    cdef bint is_linear
    cdef bint is_joint
    cdef uint64_t seed
    cdef int penalty
    cdef double strength
    cdef double learning_rate
    cdef double threshold           # the reach below which learning skips a path
    cdef double routing_threshold   # the same of a prediction
    cdef double window
    cdef double delta
    cdef int32_t max_nodes
    cdef int32_t max_depth

    cdef const View* _view(self, const Row* row) noexcept nogil
    cdef double* _room(self, int i) noexcept nogil
    cdef int32_t _likelier_child(self, int32_t node, double score) noexcept nogil
    cdef double _gate_score(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil
    cdef Inputs _leaf_inputs(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil
    cdef void _respond(
        self, int32_t node, const Inputs* inputs, int32_t first, int32_t n, double* out
    ) noexcept nogil
    cdef void _leaf_response(self, int32_t node, const Step* step, double* out) noexcept nogil
    cdef int32_t _visit(self, const View* x, Scratch* scratch, double* total) noexcept nogil
    cdef void _respond_to(
        self, int32_t node, const View* x, Scratch* scratch, int32_t first, int32_t n, double* out
    ) noexcept nogil
    cdef void _add_leaf(
        self, const Waiting* here, const View* x, Scratch* scratch, int32_t first, int32_t n,
        double* out
    ) noexcept nogil
    cdef void _answer(self, const double* response, Prediction* out) noexcept nogil
    cdef int32_t _most_likely(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil
    cdef object _blank_response(self, int32_t node, Explanation out)
    cdef object _gate_parts(self, int32_t node, double score, double reach, const Row* row,
                            Scratch* scratch, Explanation out)
    cdef double _number(self, double response) noexcept nogil
    cdef int _add_class(self, int32_t label) except -1 nogil
    cdef int _learn(self, Step* step, int32_t n) except -1 nogil
    cdef void _value_subtrees(self, int32_t n, const double* slopes) noexcept nogil
    cdef int _step(
        self, const Visit* visit, const Step* step, const double* slopes
    ) except -1 nogil
    cdef int _change_shape(self, int32_t n) except -1 nogil
    cdef int _step_leaf(
        self, int32_t node, const Step* step, const double* response, const double* slopes,
        double weight
    ) except -1 nogil
    cdef int _step_gate(self, int32_t node, const Step* step, double slope) except -1 nogil
    cdef void _shrink_weights(
        self, Node* node, const Inputs* inputs, double shrink
    ) noexcept nogil
    cdef double _shrunk(self, double weight, double amount) noexcept nogil
    cdef bint _is_last_split(self, int32_t node) noexcept nogil
    cdef int _learn_pair(self, int32_t i, const Step* step) except -1 nogil
    cdef int _learn_leaf(self, int32_t i, const Step* step) except -1 nogil
    cdef bint _may_split(self, int32_t node) noexcept nogil
    cdef size_t _leaf_bytes(self, int32_t node) noexcept nogil
    cdef int _start_pair(self, int32_t node) except -1 nogil
    cdef bint _is_decided(self, const SoftNode* stats, bint is_split) noexcept nogil
    cdef bint _decide(self, int32_t node) except -1 nogil
    cdef void _begin_contest(self, int32_t node) noexcept nogil
    cdef void _split(self, int32_t node) noexcept nogil
    cdef void _collapse(self, int32_t node) noexcept nogil
