from libc.stdint cimport int32_t, int64_t


cdef class LabelIndex:
    cdef dict _ids
    cdef readonly list labels
    cdef readonly int32_t size
    cdef int64_t most           # bytes that labels may take
    cdef int64_t most_labels
    cdef int64_t _bytes

    cpdef object normalized(self, object label)
    cdef size_t n_bytes(self) noexcept nogil
    cdef int32_t find(self, object label) except -2
    cdef int32_t add(self, object label) except -1
    cdef int truncate(self, int32_t size) except -1
