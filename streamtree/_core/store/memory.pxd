"""Memory that grows or begins as zeros, with one error for all, and memory asked for early."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, realloc


cdef inline int raise_no_memory() except -1 nogil:
    with gil:
        raise MemoryError("streamtree: the model found no memory to grow")


cdef inline void* regrown(void* block, size_t size) except NULL nogil:
    """`block` enlarged to `size` bytes; on failure it raises and the old block stays valid."""
    cdef void* grown = realloc(block, size)
    if grown == NULL:
        raise_no_memory()
    return grown


cdef inline int64_t larger(int64_t capacity, int64_t n) noexcept nogil:
    """A capacity for n things: no more at first, and then at least an eighth more than before."""
    return max(n, capacity + capacity // 8)


cdef inline void* zeroed(size_t size) except NULL nogil:
    """A new block of `size` bytes that are 0."""
    cdef void* block = calloc(size + (size == 0), 1)
    if block == NULL:
        raise_no_memory()
    return block


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
