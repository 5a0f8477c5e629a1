"""The nodes of a soft tree; `SoftTree` makes them learn."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.store.links cimport TreeLinks
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.scales cimport ColumnScale
from streamtree._core.trees.tree cimport Tree


cpdef enum:
    GATE_WIDTH = 2              # weight, sum of squared gradients
    MAX_DEPTH = 60              # what the stacks of a walk hold


cdef struct SoftNode:
    double gate_bias            # the gate's offset and its sum of squared gradients
    double gate_squares
    double count                # the contest of leaf and pair: examples of the window,
    double gain_sum             # their loss by the leaf less that by the pair, weighted,
    double gain_squares         # and the squares of that
    int32_t windows             # closed ones since the leaf was made
    int32_t tries               # pairs that were tried since
    int32_t pair                # the first of two nodes: children or, of a leaf, candidates; -1
    int32_t depth               # -1 while the node is free


cdef struct Node:
    SoftNode stats
    Table gate                  # column -> weight, sum of squared gradients
    Table leaf                  # column -> weights and sums of squared gradients, by output
    double* bias                # the leaf's offsets: a record like those of its table


cdef struct Visit:
    # a node of the tree that the example at hand reaches
    double reach
    double gate
    double value                # <slopes, response of the subtree>
    int32_t node
    int32_t left                # visits of the children; -1 if skipped or a leaf
    int32_t right


cdef struct TargetUnit:
    double center
    double factor               # 0 as long as all targets are alike
    int64_t n_units             # that began before


cdef class SoftNodes(Tree):
    cdef TreeLinks shape
    cdef Node* nodes
    cdef int32_t capacity
    cdef bint is_regression
    cdef int response           # a Response
    cdef int32_t outputs
    cdef int32_t output_capacity
    cdef int32_t n_classes      # that were learned
    cdef TargetUnit unit        # of the leaves' responses
    cdef int64_t n_targets      # learned
    cdef double low             # the least and the greatest of them
    cdef double high
    cdef int32_t first_free     # head of the list of free pairs, linked by stats.pair; -1
    cdef int32_t newest         # the last node to be split or to collapse
    cdef int32_t n_reached      # nodes of the tree
    cdef readonly Py_ssize_t n_splits
    cdef readonly Py_ssize_t n_collapses
    cdef Visit* visits
    cdef double* responses      # of the visited leaves, `outputs` each
    cdef double* _rooms

    cdef int _reserve(self, int32_t n) except -1 nogil
    cdef void _clear(self, int32_t node, int32_t depth) noexcept nogil
    cdef int32_t _new_pair(self, int32_t depth) except -1 nogil
    cdef void _free_pair(self, int32_t node) noexcept nogil
    cdef int _copy_leaf(self, int32_t source, int32_t target) except -1 nogil
    cdef void _begin_window(self, int32_t node) noexcept nogil
    cdef int _set_outputs(self, int32_t outputs) except -1 nogil
    cdef int _reserve_answers(self, int32_t outputs) except -1 nogil
    cdef int _widen_node(self, int32_t node, int32_t capacity) except -1 nogil
    cdef int _widen(self, int32_t capacity) except -1 nogil
    cdef void _split_logit(self) noexcept nogil
    cdef void _widen_range(self, double target) noexcept nogil
    cdef bint _follow(self, const ColumnScale* scale) noexcept nogil
    cdef void _rescale(self, double factor, double offset) noexcept nogil
