from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.scaling cimport ColumnScaler


cdef class RowSource:
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t n_columns
    cdef readonly bint is_sparse
    cdef ColumnScaler scaler
    cdef int64_t implied_before         # before the first of its rows, see ColumnScaler
    cdef const int32_t[::1] columns     # model column of every array column, -1 unknown

    cdef int bind(self, ColumnScaler scaler, const int32_t[::1] columns) except -1
    cdef RowSource reader(self)
    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil
