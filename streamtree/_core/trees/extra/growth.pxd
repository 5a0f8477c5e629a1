"""Growing a tree from the window, a few steps at a time."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.nodes cimport ExtraNodes
from streamtree._core.trees.extra.search cimport ExtraSearch


cdef enum:
    # what a step costs besides the rows that it looks at, in cells
    STEP = 64


cpdef enum:
    IDLE = 0
    GROWING = 1
    REPLAYING = 2       # grown, and learning the rows that came meanwhile


cpdef enum:
    # of the node that is being split
    COUNTING = 0        # its rows, some at a time
    SAMPLING = 1        # rows that compare candidates, where there are more than a chunk
    CHOOSING = 2        # between two candidates
    DIVIDING = 3        # its rows by the best candidate, some at a time


cdef struct Pending:
    # a node that is still to be grown from slots[begin:end]
    int32_t node
    int32_t begin
    int32_t end
    uint64_t constant   # fields of which a search found out; not kept in a state


cdef struct GrowthRecord:
    int64_t first
    int64_t end
    int64_t next_row
    int64_t credit
    int64_t spent
    uint64_t random
    uint64_t word       # that the sample is drawn by
    double appetite
    double score        # of the best candidate
    int64_t n_gathered  # fields whose values the search keeps; 64 bits, so that no byte is unused
    int32_t phase
    int32_t n_labels    # that the search knows
    int32_t node
    int32_t node_begin
    int32_t node_end
    int32_t n_tried
    int32_t n_drawn
    int32_t stage
    int32_t done
    int32_t n_left
    int32_t column      # of the best candidate
    float threshold
    int32_t missing_right
    uint32_t members
    int32_t salt
    int32_t stack_capacity


cdef class Growth:
    cdef Window window
    cdef ExtraNodes shadow
    cdef ExtraSearch search
    cdef bint is_member         # of an ensemble
    cdef int haste              # done within about one part of so many of the rows, if few
    cdef int listed_columns     # as how many columns a value in a list counts for candidates
    cdef int phase
    cdef int64_t window_moves   # of the window at the last look
    cdef int64_t first          # the rows that it grows from
    cdef int64_t end
    cdef int64_t next_row       # to be replayed
    cdef uint64_t random
    cdef int64_t credit         # cells that may be looked at
    cdef int64_t spent          # that were looked at
    cdef int32_t* slots         # of the rows, those of a node side by side
    cdef int32_t* right         # of those that were divided, what went right
    cdef int32_t n
    cdef int64_t n_open         # rows of nodes that are still to be grown
    cdef double appetite        # bytes a row of the last tree, times the least rows of its splits
    cdef Pending* stack
    cdef int32_t n_stack
    cdef int32_t stack_capacity
    cdef Pending at             # the node that is being split; node -1: none
    cdef int stage
    cdef int32_t done           # rows of it that the stage is through with
    cdef int32_t n_left         # of these rows, while they are divided
    cdef int32_t n_tried        # candidates of it that split its rows
    cdef int32_t n_drawn
    cdef int32_t n_wanted       # how many of these are enough, for so many columns
    cdef bint is_begun          # the search knows its rows
    cdef uint64_t word          # that its sample is drawn by

    cdef int start(self, uint64_t random, size_t most_scratch) except -1 nogil
    cdef int64_t limit(self) noexcept nogil
    cdef bint loses_rows(self) noexcept nogil
    cdef int run(self, int64_t spent_elsewhere) except -1 nogil
    cdef void _measure(self) noexcept nogil
    cdef bint _looks_on(self) noexcept nogil
    cdef bint _is_decided(self) noexcept nogil
    cdef int32_t _chunk(self) noexcept nogil
    cdef bint _choose(self) noexcept nogil
    cdef int64_t _next_cost(self) noexcept nogil
    cdef int _step(self) except -1 nogil
    cdef void _prepare(self) noexcept nogil
    cdef void _open(self) noexcept nogil
    cdef int _resume(self) except -1 nogil
    cdef bint _is_leaf(self) noexcept nogil
    cdef bint _has_room(self) noexcept nogil
    cdef int _close(self) except -1 nogil
    cdef int _count(self) except -1 nogil
    cdef int _divide(self) except -1 nogil
    cdef int _pace(self) noexcept nogil
    cdef size_t _scratch(self, int32_t n, int32_t n_labels, int32_t n_gathered) noexcept nogil
    cdef int _reserve(self, int32_t n, int32_t n_labels, int32_t n_gathered) except -1 nogil
    cdef int64_t _row_of(self, int32_t slot) noexcept nogil
    cdef int _reserve_stack(self, int32_t capacity) except -1 nogil
    cdef int _push(self, int32_t node, int32_t begin, int32_t end,
                   uint64_t constant) except -1 nogil
    cdef int drop(self) except -1 nogil
    cdef void _release(self) noexcept nogil
    cdef GrowthRecord _record(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
