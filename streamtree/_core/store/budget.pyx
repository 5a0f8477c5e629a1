"""Taking memory in the name of a model, see budget.pxd."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport raise_no_memory

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(_MSC_VER)
    #define STREAMTREE_OF_THREAD __declspec(thread)
    #else
    #define STREAMTREE_OF_THREAD _Thread_local
    #endif
    /* of the model that learns in this thread, NULL if none does */
    static STREAMTREE_OF_THREAD void *streamtree_ledger = NULL;
    """
    void* present "streamtree_ledger"

cdef enum:
    # bytes that the allocator adds to a block, as glibc does
    OVERHEAD = 16
    # of what trees may take, this many parts of 8 are for new nodes; the rest is left to what the
    # nodes that are there have still to learn
    PARTS_TO_GROW = 6
    # and so many for columns that few rows have
    PARTS_FOR_RARE = 2


cdef struct Header:
    # before every block; as large as what malloc aligns
    size_t size             # without the header
    Ledger* ledger          # NULL: nobody's


@cython.final
cdef class Budget:
    """What one model may take, and has taken."""

    def __cinit__(self):
        self.ledger = <Ledger*> calloc(1, sizeof(Ledger))
        if self.ledger == NULL:
            raise_no_memory()
        self.limit(None)

    def __dealloc__(self):
        if self.ledger == NULL:
            return
        self.ledger.is_orphan = True
        if self.ledger.n_blocks == 0:
            free(self.ledger)

    def limit(self, bytes):
        """Set the bound; None: there is none."""
        self.ledger.limit = <size_t> -1 if bytes is None else bytes

    cdef size_t used(self) noexcept nogil:
        return self.ledger.used


cdef Ledger* begin_counting(Budget budget) noexcept nogil:
    """Let new blocks of this thread be those of a model; returns what `end_counting` is to have."""
    global present
    cdef Ledger* before = <Ledger*> present
    present = budget.ledger
    return before


cdef Ledger* count_for_nobody() noexcept nogil:
    """Let new blocks of this thread be nobody's, until they are enlarged in a model's name."""
    global present
    cdef Ledger* before = <Ledger*> present
    present = NULL
    return before


cdef void end_counting(Ledger* before) noexcept nogil:
    global present
    present = before


cdef inline void* enter(Header* header, size_t size) noexcept nogil:
    """Write a header, and the block into the ledger that it belongs to."""
    header.size = size
    if header.ledger == NULL:
        header.ledger = <Ledger*> present
        if header.ledger != NULL:
            header.ledger.n_blocks += 1
            header.ledger.used += sizeof(Header) + OVERHEAD
    if header.ledger != NULL:
        header.ledger.used += size
    return header + 1


cdef void* counted(void* block, size_t size) except NULL nogil:
    """`block` enlarged to `size` bytes; on failure it raises and the old block stays valid."""
    cdef Header* header = NULL
    cdef size_t before = 0
    if block != NULL:
        header = <Header*> block - 1
        before = header.size
    header = <Header*> realloc(header, sizeof(Header) + size)
    if header == NULL:
        raise_no_memory()
    if block == NULL:
        header.ledger = NULL
    elif header.ledger != NULL:
        header.ledger.used -= before
    return enter(header, size)


cdef void* shrunk(void* block, size_t size) noexcept nogil:
    """`block` cut to `size` bytes, which cannot fail: at worst it stays as it is."""
    cdef void* cut = realloc(<Header*> block - 1, sizeof(Header) + size)
    if cut == NULL:
        return block
    count_as(<Header*> cut + 1, size)
    return <Header*> cut + 1


cdef void count_as(void* block, size_t size) noexcept nogil:
    """Let a block count as so many bytes, those of it that are in use."""
    cdef Header* header = <Header*> block - 1
    if header.ledger != NULL:
        header.ledger.used += size
        header.ledger.used -= header.size
    header.size = size


cdef void* counted_zeros(size_t size) except NULL nogil:
    """A new block of `size` bytes that are 0."""
    cdef Header* header = <Header*> calloc(sizeof(Header) + size, 1)
    if header == NULL:
        raise_no_memory()
    return enter(header, size)


cdef void* counted_room(
    void* block, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil:
    """Room for n things of `size` bytes that begin as 0: `block`, enlarged if need be."""
    cdef int64_t before = capacity[0], after = spacious(n)
    if n <= before:
        return block
    block = counted(block, after * size)
    memset(<char*> block + before * size, 0, (after - before) * size)
    capacity[0] = <int32_t> after
    return block


cdef void* counted_nodes(
    void* block, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil:
    """As `counted_room`, of a tree: a root alone has no spare places, for most of many models have
    no other node."""
    if n > 1 or capacity[0]:
        return counted_room(block, capacity, n, size)
    block = counted_zeros(size)
    capacity[0] = 1
    return block


cdef void* counted_lines(
    void** block, void* lines, int32_t* capacity, int32_t n, size_t size
) except? NULL nogil:
    """As `counted_room`, beginning on a cache line; `block` is what is to be given back."""
    cdef int64_t before = capacity[0], after = spacious(n)
    cdef void* grown
    cdef char* start
    if n <= before:
        return lines
    grown = counted(NULL, after * size + 63)
    start = <char*> ((<uintptr_t> grown + 63) & ~<uintptr_t> 63)
    if before:
        memcpy(start, lines, before * size)
    memset(start + before * size, 0, (after - before) * size)
    give_back(block[0])
    block[0], capacity[0] = grown, <int32_t> after
    return start


cdef void give_back(void* block) noexcept nogil:
    """Free a block, or nothing where it is NULL."""
    cdef Header* header
    cdef Ledger* ledger
    if block == NULL:
        return
    header = <Header*> block - 1
    ledger = header.ledger
    if ledger != NULL:
        ledger.used -= header.size + sizeof(Header) + OVERHEAD
        ledger.n_blocks -= 1
        if ledger.n_blocks == 0 and ledger.is_orphan:
            free(ledger)
    free(header)


cdef size_t bytes_used() noexcept nogil:
    """What the model that learns in this thread has taken."""
    cdef const Ledger* ledger = <const Ledger*> present
    return 0 if ledger == NULL else ledger.used


cdef size_t bytes_allowed() noexcept nogil:
    """What it may take."""
    cdef const Ledger* ledger = <const Ledger*> present
    return <size_t> -1 if ledger == NULL else ledger.limit


cdef inline bint is_within(size_t size, size_t limit) noexcept nogil:
    """Whether so many bytes more keep a limit; if not, that is noted."""
    cdef Ledger* ledger = <Ledger*> present
    cdef size_t used = bytes_used()
    if used <= limit and size <= limit - used:
        return True
    ledger.was_refused = True
    return False


cdef bint has_room(size_t size) noexcept nogil:
    """Whether it may take so many bytes more."""
    return is_within(size, bytes_allowed())


cdef bint may_grow(size_t size) noexcept nogil:
    """The same of new nodes, which are to leave room for what others have still to learn."""
    return is_within(size, bytes_allowed() // 8 * PARTS_TO_GROW)


cdef bint may_take_rare() noexcept nogil:
    """The same of columns that are rare, which are to leave room for what others are."""
    return bytes_used() < bytes_allowed() // 8 * PARTS_FOR_RARE
