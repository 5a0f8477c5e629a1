"""The trees of a boosted model: flat arrays, for a row goes down all of them."""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from streamtree._core.splits.bounds cimport Bound, is_above, is_in_set
from streamtree._core.stream.row cimport Row

cpdef enum:
    MOST_SAID = 8       # what a leaf adds to a score, at most


cdef struct StageNode:
    int32_t column      # of the test, with a set one of the feature's categories; of a leaf -1
    Bound bound
    int32_t next        # the first child, the other is the next node; of a leaf: its place
    uint8_t missing_right
    uint8_t salt        # of a set, else 0


cdef struct Grown:
    # of a node what no row asks for
    float gain          # of the split
    int32_t n_rows      # that it was grown from


cdef struct Code:
    # of a column that is tested: how values are coded, as they were in bins when trees grew
    int32_t column
    int32_t n_cuts
    uint8_t salt        # of categories: the code is their bucket


cdef struct CodedNode:
    uint64_t right      # by code: whether a row goes right; of a leaf 0
    int32_t next        # the first child, the other is the next node; of a leaf: itself
    int32_t code


cdef class Stages:
    cdef StageNode* nodes
    cdef Grown* grown           # by node
    cdef int32_t* roots         # by tree
    cdef float* values          # by leaf, then by output: what is added to the score
    cdef double* base           # by output: the score without any tree
    cdef double unit            # of the values; a label's is 1
    cdef readonly int32_t n_nodes
    cdef readonly int32_t n_trees
    cdef readonly int32_t n_leaves
    cdef int32_t n_outputs      # scores that there are; 0: nothing was grown
    cdef int32_t n_labels       # that they are about
    cdef int32_t node_capacity
    cdef int32_t tree_capacity
    cdef int32_t leaf_capacity
    # what `encode` makes of the nodes, to go down them faster
    cdef CodedNode* coded       # by node; NULL: there are too many columns
    cdef Code* codes
    cdef float* cuts            # by code: STREAMTREE_BINS, those that are not there above all
    cdef int32_t n_codes

    cdef int begin(self, int32_t n_labels, int32_t n_outputs) except -1 nogil
    cdef int begin_tree(self) except -1 nogil
    cdef int reserve_nodes(self, int32_t n) except -1 nogil
    cdef int reserve_leaves(self, int32_t n) except -1 nogil
    cdef int32_t add_node(self) except -1 nogil
    cdef int32_t split(self, int32_t node) except -1 nogil
    cdef float* add_leaf(self, int32_t node) except NULL nogil
    cdef int32_t step_of(self, int32_t node, const Row* row,
                         const int32_t* groups) noexcept nogil
    cdef int encode(self) except -1 nogil
    cdef void _drop_codes(self) noexcept nogil
    cdef int32_t _find_code(self, const StageNode* node) noexcept nogil
    cdef uint64_t _right_codes(self, const StageNode* node, int32_t code) noexcept nogil
    cdef void _descend(self, int32_t* at, int32_t n, const Row* row, const int32_t* groups,
                       const uint8_t* codes) noexcept nogil
    cdef size_t coded_bytes(self) noexcept nogil
    cdef void score(self, const Row* row, const int32_t* groups, double* out) noexcept nogil
    cdef void swap(self, Stages other) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1


cdef inline bint is_right(const StageNode* node, const Row* row,
                          const int32_t* groups) noexcept nogil:
    """The test of a split; `groups` has the features of the columns, see context.pxd."""
    if node.salt:
        return is_in_set(node.bound.members, row.kinds[groups[node.column]], node.salt)
    return is_above(row.table[node.column], node.bound.threshold, node.missing_right)
