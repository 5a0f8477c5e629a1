"""Memory that grows, with one error for all, and memory that is asked for early."""

from libc.stdlib cimport realloc


cdef inline void* regrown(void* block, size_t size) except NULL nogil:
    """`block` enlarged to `size` bytes; on failure it raises and the old block stays valid."""
    cdef void* grown = realloc(block, size)
    if grown == NULL:
        with gil:
            raise MemoryError("streamtree: the model found no memory to grow")
    return grown


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
