from libc.stdint cimport int32_t

from streamtree._core.stream.row cimport View


cdef class RowBuffer:
    cdef double* values
    cdef int32_t* columns           # behind the values
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef int32_t* marks             # by column, all zero between two uses
    cdef Py_ssize_t n_marks

    cdef int reserve(self, Py_ssize_t capacity) except -1 nogil
    cdef int reserve_marks(self, Py_ssize_t n_columns) except -1 nogil
    cdef View view(self, Py_ssize_t n) noexcept nogil
    cdef void swap(self, RowBuffer other) noexcept nogil
    cdef bint is_dense(self) noexcept nogil
    cdef bint equals(self, RowBuffer other) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
