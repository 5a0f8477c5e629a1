"""Memory that grows, with one error for all, and memory that is asked for early."""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy


cdef inline void* regrown(void* block, size_t size) except NULL nogil:
    """`block` enlarged to `size` bytes; on failure it raises and the old block stays valid."""
    cdef void* grown = realloc(block, size)
    if grown == NULL:
        with gil:
            raise MemoryError("streamtree: the model found no memory to grow")
    return grown


cdef inline void* regrown_lines(
    void** block, const void* lines, size_t used, size_t size
) except NULL nogil:
    """As `regrown`, beginning on a cache line; `block` is what is to be freed."""
    cdef void* grown = malloc(size + 63)
    cdef void* start = <void*> ((<uintptr_t> grown + 63) & ~<uintptr_t> 63)
    if grown == NULL:
        with gil:
            raise MemoryError("streamtree: the model found no memory to grow")
    if used:
        memcpy(start, lines, used)
    free(block[0])
    block[0] = grown
    return start


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define streamtree_prefetch(address) __builtin_prefetch(address)
    #else
    #define streamtree_prefetch(address) ((void) (address))
    #endif
    """
    # a hint that may be wrong or even point nowhere: it never faults
    void prefetch "streamtree_prefetch"(const void* address) noexcept nogil
