from libc.stdint cimport int32_t, int64_t, uint64_t

from streamtree._core.stream.row cimport Prediction, Row, Scratch
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.growth cimport Growth
from streamtree._core.trees.extra.nodes cimport ExtraNodes
from streamtree._core.trees.extra.search cimport ExtraSearch
from streamtree._core.trees.extra.strength cimport Strength
from streamtree._core.trees.tree cimport Tree


cdef class ExtraTree(Tree):
    cdef Window window
    cdef bint owns_window
    cdef bint has_numbers
    cdef ExtraNodes nodes
    cdef Growth growth
    cdef ExtraSearch search
    cdef Strength strength      # of shrinking
    cdef int32_t wait           # until it is grown anew, in quarters of the rows of the window
    cdef uint64_t random
    cdef int64_t next_growth    # rows of the window when the tree is to be grown anew
    cdef bint may_begin         # to be grown anew

    cdef void allow(self, size_t most, bint may_begin) noexcept nogil
    cdef bint is_due(self) noexcept nogil
    cdef int32_t _leaf_of(self, const Row* row, Scratch* scratch) noexcept nogil
    cdef void _answer(self, int32_t node, Scratch* scratch, double* slopes,
                      Prediction* out) noexcept nogil
    cdef void _say(self, int32_t node, double* said, double* slopes) noexcept nogil
    cdef int64_t _count(self, ExtraNodes nodes, int32_t leaf, int64_t row) except -1 nogil
    cdef int64_t _extend(self, ExtraNodes nodes, int32_t leaf) except -1 nogil
    cdef int _split(self, ExtraNodes nodes, int32_t leaf, int32_t* slots) except -1 nogil
    cdef int _begin_with(self, ExtraNodes nodes, int32_t leaf, int32_t slot) except -1 nogil
    cdef int _grow(self, int64_t spent) except -1 nogil
    cdef int _quarters(self) noexcept nogil
    cdef int drop_lost(self) except -1 nogil
    cdef int _replay(self) except -1 nogil
    cdef int32_t _descend_in_window(self, ExtraNodes nodes, int32_t slot) noexcept nogil
    cdef list _kept_below(self, int32_t node)


cdef inline size_t left_of(size_t most, size_t taken) noexcept nogil:
    """What is left of a bound."""
    return most - taken if most > taken else 0


cdef inline size_t bytes_of_scratch(size_t most) noexcept nogil:
    """What growing may take besides the nodes, where these may take `most` bytes."""
    return most // 3 * 2


cdef inline size_t bytes_of_each(size_t most, Py_ssize_t n, Py_ssize_t n_growing) noexcept nogil:
    """What the nodes of one of n trees may take, where so many grow at a time: as many again."""
    return most // (3 * n + 5 * n_growing) * 3
