"""Growing a tree from the window, a few steps at a time."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.nodes cimport ExtraNodes
from streamtree._core.trees.extra.search cimport SplitSearch


cpdef enum Phase:
    IDLE = 0
    GROWING = 1
    REPLAYING = 2       # grown, and learning the rows that came meanwhile


cdef struct Pending:
    # a node that is still to be grown from slots[begin:end]
    int32_t node
    int32_t begin
    int32_t end


cdef class Growth:
    cdef Window window
    cdef ExtraNodes shadow
    cdef SplitSearch search
    cdef int phase
    cdef int64_t first          # the rows that it grows from
    cdef int64_t end
    cdef int64_t next_row       # to be replayed
    cdef uint64_t random
    cdef int64_t credit         # cells that may be looked at
    cdef int64_t spent          # that were looked at
    cdef int32_t* slots         # of the rows, those of a node side by side
    cdef int32_t* spare
    cdef int32_t n
    cdef Pending* stack
    cdef int32_t n_stack
    cdef int32_t stack_capacity
    cdef Pending at             # the node that is being split; node -1: none
    cdef int32_t n_tried        # candidates of it that split its rows
    cdef int32_t n_drawn
    cdef int32_t n_wanted       # how many of these are enough
    cdef bint is_begun          # the search knows its rows

    cdef int start(self, uint64_t random) except -1 nogil
    cdef int32_t n_candidates(self) noexcept nogil
    cdef int64_t limit(self) noexcept nogil
    cdef int run(self) except -1 nogil
    cdef bint _is_decided(self) noexcept nogil
    cdef int64_t _next_cost(self) except -1 nogil
    cdef int _step(self) except -1 nogil
    cdef int _open(self) except -1 nogil
    cdef int _resume(self) except -1 nogil
    cdef int _begin(self) except -1 nogil
    cdef int _end_node(self) except -1 nogil
    cdef int _close(self) except -1 nogil
    cdef int _count(self) except -1 nogil
    cdef int64_t _row_of(self, int32_t slot) noexcept nogil
    cdef int _push(self, int32_t node, int32_t begin, int32_t end) except -1 nogil
    cdef void drop(self) noexcept nogil
    cdef void _release(self) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
