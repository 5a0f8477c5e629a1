"""The nodes of a tree that counts: small ones, for there are half as many as rows."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from streamtree._core.splits.bounds cimport Bound, is_above, is_in_set
from streamtree._core.store.pool cimport Pool, room_for
from streamtree._core.stream.row cimport Row
from streamtree._core.trees.extra.strength cimport Strength

cpdef enum:
    MOST_KEPT = 16      # rows of a leaf whose numbers are kept


cdef struct Test:
    # of a split
    int32_t column      # -1: there is none
    Bound bound
    uint8_t missing_right
    uint8_t salt        # by which categories lie in buckets; 0: the bound is a threshold


cdef struct ExtraNode:
    int32_t column      # of a split, else -1; with buckets one of the feature's categories
    Bound bound
    int32_t left        # of a split: the first child, the other is the next node; else -1
    int32_t parent
    float weight        # of the examples that came here
    int32_t n_labels    # met here
    int32_t counts      # the only label, or the block of all labels and of their weights
    int32_t kept        # of a leaf: the block of its last rows
    uint8_t n_kept
    uint8_t since       # rows since the last search for a split
    uint8_t missing_right
    uint8_t salt


cdef struct NodeRecord:
    # of an ExtraNode what is not found anew
    int32_t column
    float threshold
    int32_t left
    int32_t parent
    float weight
    int32_t n_labels
    int32_t n_kept
    int32_t since
    int32_t missing_right
    uint32_t members
    int32_t salt


cdef class ExtraNodes:
    cdef ExtraNode* nodes
    cdef double* means          # of numbers
    cdef Pool pool
    cdef readonly int32_t size
    cdef int32_t capacity
    cdef size_t limit           # of the bytes that it may grow to
    cdef bint has_numbers

    cdef void _release(self) noexcept nogil
    cdef size_t _node_bytes(self) noexcept nogil
    cdef void _open(self, int32_t parent) noexcept nogil
    cdef NodeRecord _record(self, int32_t node) noexcept nogil
    cdef int reserve(self, int32_t size) except -1 nogil
    cdef bint may_take(self, size_t more) noexcept nogil
    cdef bint may_split(self) noexcept nogil
    cdef size_t split_bytes(self) noexcept nogil
    cdef int32_t split(self, int32_t node, Test test) except -1 nogil
    cdef int32_t descend(self, int32_t node, const Row* row,
                         const int32_t* groups) noexcept nogil
    cdef int set_labels(self, int32_t node, const int32_t* labels, const double* weights,
                        int32_t n) except -1 nogil
    cdef int add_label(self, int32_t node, int32_t label, float weight) except -1 nogil
    cdef void add_number(self, int32_t node, double number, float weight) noexcept nogil
    cdef int keep(self, int32_t node, uint32_t row) except -1 nogil
    cdef void drop_kept(self, int32_t node) noexcept nogil
    cdef int clear(self) except -1 nogil
    cdef void swap(self, ExtraNodes other) noexcept nogil
    cdef void shares(self, int32_t node, Strength strength, int32_t n_labels, double* out,
                     double* slopes) noexcept nogil
    cdef double _surprise(self, int32_t label, double weight, double total,
                          int32_t parent) noexcept nogil
    cdef double mean(self, int32_t node, double strength, double* slope) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1

    cdef inline int32_t* labels_of(self, int32_t node) noexcept nogil:
        """The labels met in a node, in any order."""
        if self.nodes[node].n_labels < 2:
            return &self.nodes[node].counts
        return &self.pool.words[self.nodes[node].counts].number

    cdef inline float* weights_of(self, int32_t node) noexcept nogil:
        """Their weights."""
        if self.nodes[node].n_labels < 2:
            return &self.nodes[node].weight
        return &self.pool.words[self.nodes[node].counts].value + room_for(
            self.nodes[node].n_labels
        )

    cdef inline uint32_t* kept_of(self, int32_t node) noexcept nogil:
        """The lower halves of the numbers of its last rows, the oldest first."""
        return <uint32_t*> &self.pool.words[self.nodes[node].kept].number


cdef inline bint goes_right(const ExtraNode* node, const Row* row,
                            const int32_t* groups) noexcept nogil:
    """The test of a split; `groups` has the features of the columns, see context.pxd."""
    if node.salt:
        return is_in_set(node.bound.members, row.kinds[groups[node.column]], node.salt)
    return is_above(row.table[node.column], node.bound.threshold, node.missing_right)


cdef inline void descend_together(const ExtraNode** trees, int32_t* at, Py_ssize_t n,
                                  const Row* row, const int32_t* groups) noexcept nogil:
    """Follow a row down n trees to their leaves, side by side: alone it waits at every node."""
    cdef const ExtraNode* here
    cdef Py_ssize_t i
    cdef bint is_on_the_way = True
    while is_on_the_way:
        is_on_the_way = False
        for i in range(n):
            here = &trees[i][at[i]]
            if here.left >= 0:
                at[i] = here.left + goes_right(here, row, groups)
                is_on_the_way = True
