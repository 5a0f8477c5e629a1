"""Memory that grows: one call, one error."""

from libc.stdlib cimport realloc


cdef inline void* regrown(void* block, size_t size) except NULL nogil:
    """`block` enlarged to `size` bytes; on failure it raises and the old block stays valid."""
    cdef void* grown = realloc(block, size)
    if grown == NULL:
        with gil:
            raise MemoryError("streamtree: the model found no memory to grow")
    return grown
