from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport View


cdef float absent(Context context, int32_t column) noexcept nogil
cdef float narrowed(Context context, int32_t column, double value) noexcept nogil


cdef class RowTable:
    cdef Context context
    cdef float* values          # by column
    cdef uint32_t* kinds        # by feature with categories, and before them 0 for no feature
    cdef int32_t* written       # the columns of the row before
    cdef Py_ssize_t n_written
    cdef int32_t size
    cdef int32_t capacity
    cdef int32_t n_kinds        # the one before included
    cdef int64_t _changes       # of the scales, when all absent values were written

    cdef int make(self, const View* listed) except -1 nogil
    cdef void _clear(self) noexcept nogil
    cdef void _write_kinds(self, const int32_t* columns, Py_ssize_t n,
                           bint are_there) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
