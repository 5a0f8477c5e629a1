"""Rows out of arrays: the lines of a dense array, of a CSR matrix or of a frame, as raw rows.

A sparse row lists what is stored and, as zeros, the columns in which zero is an observed value.
The views of a row bring the zeros of a dense row to the same place: behind the rest.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.scaling cimport ColumnScaler

import numpy as np


ctypedef fused Cell:
    double
    float
    unsigned char


cdef Py_ssize_t copy_line(
    const Cell* line, const int32_t[::1] known, bint are_all_known, int32_t* columns,
    double* values
) noexcept nogil:
    """Write the cells of known columns; returns how many."""
    cdef Py_ssize_t position, n = 0
    if are_all_known:
        memcpy(columns, &known[0], known.shape[0] * sizeof(int32_t))
        for position in range(known.shape[0]):
            values[position] = line[position]
        return known.shape[0]
    for position in range(known.shape[0]):
        columns[n] = known[position]
        values[n] = line[position]
        n += known[position] >= 0
    return n


cdef class RowSource:
    """Rows that can be read one after the other, by number."""

    cdef int bind(self, ColumnScaler scaler, const int32_t[::1] columns) except -1:
        """Say which model column each array column is; -1 where the model knows none."""
        if columns.shape[0] != self.n_columns:
            raise ValueError(f"{columns.shape[0]} names for {self.n_columns} columns")
        self.scaler = scaler
        self.implied_before = scaler.implied_rows
        self.columns = columns
        return 0

    cdef RowSource reader(self):
        """The same rows for another thread; None: one thread reads them at a time."""
        return None

    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil:
        """Write row i as it came to `out`; `learns`: it is to be learned, not only predicted."""
        raise NotImplementedError


@cython.final
cdef class DenseRows(RowSource):
    """The rows of a C-contiguous array of shape (n_rows, n_columns), read as it is.

    Its type is float64, float32 or uint8.
    """

    cdef bint _are_all_known
    cdef int _cell_size     # which of the next three is set
    cdef const double[:, ::1] _float64
    cdef const float[:, ::1] _float32
    cdef const unsigned char[:, ::1] _uint8

    def __cinit__(self, values):
        if values.dtype == np.float64:
            self._float64 = values
        elif values.dtype == np.float32:
            self._float32 = values
        else:
            self._uint8 = values
        self._cell_size = values.itemsize
        self.n_rows, self.n_columns = values.shape

    cdef RowSource reader(self):
        return self

    cdef int bind(self, ColumnScaler scaler, const int32_t[::1] columns) except -1:
        cdef Py_ssize_t i
        RowSource.bind(self, scaler, columns)
        self._are_all_known = True
        for i in range(columns.shape[0]):
            self._are_all_known &= columns[i] >= 0
        return 0

    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil:
        out.reserve(self.n_columns)
        if self.n_columns == 0:
            out.n = 0
        elif self._cell_size == sizeof(double):
            out.n = copy_line(
                &self._float64[i, 0], self.columns, self._are_all_known, out.columns, out.values
            )
        elif self._cell_size == sizeof(float):
            out.n = copy_line(
                &self._float32[i, 0], self.columns, self._are_all_known, out.columns, out.values
            )
        else:
            out.n = copy_line(
                &self._uint8[i, 0], self.columns, self._are_all_known, out.columns, out.values
            )
        return 0


@cython.final
cdef class CodedRows(RowSource):
    """Rows whose cells say of which column they are, for those of categories are many.

    Two arrays of shape (n_rows, n_cells): numbers from 0 to n_columns - 1, and values, NaN where
    they are missing.
    """

    cdef const int32_t[:, ::1] _codes
    cdef const double[:, ::1] _values

    def __cinit__(self, const int32_t[:, ::1] codes, const double[:, ::1] values,
                  Py_ssize_t n_columns):
        self._codes, self._values = codes, values
        self.n_rows, self.n_columns = codes.shape[0], n_columns

    cdef RowSource reader(self):
        return self

    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil:
        cdef Py_ssize_t cell, n = 0
        out.reserve(self._codes.shape[1])
        for cell in range(self._codes.shape[1]):
            out.columns[n] = self.columns[self._codes[i, cell]]
            out.values[n] = self._values[i, cell]
            n += out.columns[n] >= 0
        out.n = n
        return 0


@cython.final
cdef class SparseRows(RowSource):
    """The rows of a CSR matrix in canonical form: sorted indices, no duplicates.

    What is not stored is zero, or absent if zeros are not implied.
    """

    cdef const double[::1] _data
    cdef const int32_t[::1] _indices
    cdef const int64_t[::1] _indptr
    cdef int32_t[::1] _dense_positions      # array columns whose zeros are values
    cdef Py_ssize_t _n_dense
    cdef int64_t[::1] _stored_in            # the last row read that stores an array column
    cdef int64_t _changes

    def __cinit__(self, const double[::1] data, const int32_t[::1] indices,
                  const int64_t[::1] indptr, Py_ssize_t n_columns, bint implies_zeros=True):
        self._data = data
        self._indices = indices
        self._indptr = indptr
        self.n_rows = indptr.shape[0] - 1
        self.n_columns = n_columns
        self.is_sparse = implies_zeros

    cdef RowSource reader(self):
        return SparseRows(
            self._data, self._indices, self._indptr, self.n_columns, self.is_sparse
        )

    cdef int bind(self, ColumnScaler scaler, const int32_t[::1] columns) except -1:
        RowSource.bind(self, scaler, columns)
        self._dense_positions = np.empty(self.n_columns, dtype=np.int32)
        self._stored_in = np.full(self.n_columns, -1, dtype=np.int64)
        self._changes = -1
        return 0

    cdef void _find_dense(self) noexcept nogil:
        cdef Py_ssize_t position
        cdef int32_t column
        self._n_dense = 0
        for position in range(self.n_columns if self.is_sparse else 0):
            column = self.columns[position]
            if column >= 0 and self.scaler.has_zeros(column):
                self._dense_positions[self._n_dense] = <int32_t> position
                self._n_dense += 1
        self._changes = self.scaler.changes

    cdef int read(self, Py_ssize_t i, bint learns, RowBuffer out) except -1 nogil:
        cdef Py_ssize_t position, k, d, n = 0
        if self._changes != self.scaler.changes:
            self._find_dense()
        out.reserve(self._indptr[i + 1] - self._indptr[i] + self._n_dense)
        for k in range(self._indptr[i], self._indptr[i + 1]):
            # a zero that is stored is no different from one that is not
            if self._data[k] == 0.0:
                continue
            position = self._indices[k]
            self._stored_in[position] = i
            out.columns[n] = self.columns[position]
            out.values[n] = self._data[k]
            n += out.columns[n] >= 0
        for d in range(self._n_dense):
            position = self._dense_positions[d]
            out.columns[n] = self.columns[position]
            out.values[n] = 0.0
            n += self._stored_in[position] != i
        out.n = n
        return 0
