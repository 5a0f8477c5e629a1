from libc.stdint cimport int32_t, int64_t

from streamtree._core.features cimport RowBuffer
from streamtree._core.scaling cimport ColumnScaler


cdef class RowSource:
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t n_columns
    cdef readonly bint is_sparse
    cdef int _cell_size     # which of the next three is set; 0 for a sparse source
    cdef const double[:, ::1] _float64
    cdef const float[:, ::1] _float32
    cdef const unsigned char[:, ::1] _uint8
    cdef const double[::1] _data
    cdef const int32_t[::1] _indices
    cdef const int64_t[::1] _indptr
    cdef const int32_t[::1] _columns        # model column of every array column, -1 unknown
    cdef int32_t[::1] _dense_positions      # array columns that the scaler centres
    cdef Py_ssize_t _n_dense
    cdef int64_t[::1] _stored_in            # the last row read that stores an array column
    cdef int64_t _dense_changes

    cdef void _find_dense(self, ColumnScaler scaler) noexcept nogil
    cdef int read(self, Py_ssize_t i, ColumnScaler scaler, RowBuffer out) except -1 nogil
