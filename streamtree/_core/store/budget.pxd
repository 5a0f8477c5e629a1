"""The memory that a model holds: counted as it is taken and given back, and its bound.

Whoever keeps what was learned takes its blocks here and gives them back here. A block knows whose
it is; a new one belongs to the model that learns in the present thread. So one number is true of
any tree, and nobody walks nodes to add up what they take. Buffers that only hold the row at hand
are not counted, and come from memory.pxd.

A tree that could grow asks `may_grow`; one that has to write down what it knows of another column
asks `has_room`, which leaves a part of the bound to it. The answers depend on what was learned
alone: the same for dicts and arrays, before and after a model is saved. For that the capacity of
an array that grows is `spacious` of what it holds.
"""

from libc.stdint cimport int32_t, int64_t


cdef struct Ledger:
    size_t used             # bytes of all blocks, and of what it takes to keep them
    size_t limit            # of them; no number is too large where there is no bound
    int64_t n_blocks
    bint is_orphan          # its Budget is gone, some blocks are not
    bint was_refused        # it asked for more than it may take


cdef class Budget:
    cdef Ledger* ledger

    cdef size_t used(self) noexcept nogil


cdef inline int64_t spacious(int64_t n) noexcept nogil:
    """A capacity for n things that depends on n only: at most a quarter more, in steps."""
    cdef int64_t step = 4
    while 8 * step < n:
        step *= 2
    return (n + step - 1) // step * step


cdef Ledger* begin_counting(Budget budget) noexcept nogil
cdef Ledger* count_for_nobody() noexcept nogil
cdef void end_counting(Ledger* before) noexcept nogil
cdef void* counted(void* block, size_t size) except NULL nogil
cdef void count_as(void* block, size_t size) noexcept nogil
cdef void* shrunk(void* block, size_t size) noexcept nogil
cdef void* counted_zeros(size_t size) except NULL nogil
cdef void* counted_room(
    void* block, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil
cdef void* counted_nodes(
    void* block, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil
cdef void* counted_lines(
    void** block, void* lines, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil
cdef void give_back(void* block) noexcept nogil
cdef size_t bytes_used() noexcept nogil
cdef size_t bytes_allowed() noexcept nogil
cdef bint has_room(size_t size) noexcept nogil
cdef bint may_grow(size_t size) noexcept nogil
cdef bint may_take_rare() noexcept nogil
