from libc.stdint cimport int64_t, uint64_t

from streamtree._core.stream.window cimport Window
from streamtree._core.trees.boosted.growth cimport BoostedGrowth
from streamtree._core.trees.boosted.stages cimport Stages
from streamtree._core.trees.tree cimport Tree


cdef class BoostedTrees(Tree):
    cdef Window window
    cdef bint has_numbers
    cdef Stages stages
    cdef BoostedGrowth growth
    cdef uint64_t random
    cdef int64_t next_growth    # rows of the window when the trees are to be grown anew
    cdef double mean            # of numbers, before the first growth
    cdef double weight

    cdef int _give_up(self) except -1 nogil
    cdef int _begin_window(self) except -1
    cdef int _grow(self) except -1 nogil
    cdef int64_t _wait(self) noexcept nogil
    cdef void _turn(self, double* scores) noexcept nogil
