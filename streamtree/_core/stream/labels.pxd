from libc.stdint cimport int32_t


cdef class LabelIndex:
    cdef dict _ids
    cdef readonly list labels
    cdef readonly int32_t size

    cpdef object normalized(self, object label)
    cdef int32_t find(self, object label) except -2
    cdef int32_t add(self, object label) except -1
    cdef int truncate(self, int32_t size) except -1
