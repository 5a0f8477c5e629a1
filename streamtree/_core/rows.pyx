"""Rows out of arrays: the lines of a dense array or of a CSR matrix, as raw rows.

A sparse row lists what is stored and, as zeros, the columns that the scaler centres, because
zero is an observed value in those. The scaler brings the zeros of a dense row to the same place:
behind the rest.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from streamtree._core.features cimport RowBuffer
from streamtree._core.scaling cimport ColumnScaler

import numpy as np


ctypedef fused Cell:
    double
    float
    unsigned char


cdef Py_ssize_t copy_line(
    const Cell* line, const int32_t[::1] known, int32_t* columns, double* values
) noexcept nogil:
    """Write the cells of known columns; returns how many."""
    cdef Py_ssize_t position, n = 0
    for position in range(known.shape[0]):
        columns[n] = known[position]
        values[n] = line[position]
        n += known[position] >= 0
    return n


@cython.final
cdef class RowSource:
    """The rows of one array; use `dense` or `sparse` to make one."""

    @staticmethod
    def dense(values):
        """Rows of a C-contiguous array of shape (n_rows, n_columns), read as it is.

        Its type is float64, float32 or uint8.
        """
        cdef RowSource source = RowSource.__new__(RowSource)
        if values.dtype == np.float64:
            source._float64 = values
        elif values.dtype == np.float32:
            source._float32 = values
        else:
            source._uint8 = values
        source._cell_size = values.itemsize
        source.n_rows, source.n_columns = values.shape
        return source

    @staticmethod
    def sparse(const double[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr,
               Py_ssize_t n_columns):
        """Rows of a CSR matrix in canonical form: sorted indices, no duplicates."""
        cdef RowSource source = RowSource.__new__(RowSource)
        source._data = data
        source._indices = indices
        source._indptr = indptr
        source.n_rows = indptr.shape[0] - 1
        source.n_columns = n_columns
        source.is_sparse = True
        return source

    def bind(self, const int32_t[::1] columns):
        """Say which model column each array column is; -1 where the model knows none."""
        if columns.shape[0] != self.n_columns:
            raise ValueError(f"{columns.shape[0]} names for {self.n_columns} columns")
        self._columns = columns
        self._dense_positions = np.empty(self.n_columns, dtype=np.int32)
        self._stored_in = np.full(self.n_columns, -1, dtype=np.int64)
        self._dense_changes = -1

    cdef void _find_dense(self, ColumnScaler scaler) noexcept nogil:
        cdef Py_ssize_t position
        cdef int32_t column
        self._n_dense = 0
        for position in range(self.n_columns):
            column = self._columns[position]
            if column >= 0 and scaler.is_dense(column):
                self._dense_positions[self._n_dense] = <int32_t> position
                self._n_dense += 1
        self._dense_changes = scaler.dense_changes

    cdef int read(self, Py_ssize_t i, ColumnScaler scaler, RowBuffer out) except -1 nogil:
        """Write row i to `out`, unscaled."""
        cdef Py_ssize_t position, k, d, n = 0
        if not self.is_sparse:
            out.reserve(self.n_columns)
            if self.n_columns == 0:
                out.n = 0
            elif self._cell_size == sizeof(double):
                out.n = copy_line(&self._float64[i, 0], self._columns, out.columns, out.values)
            elif self._cell_size == sizeof(float):
                out.n = copy_line(&self._float32[i, 0], self._columns, out.columns, out.values)
            else:
                out.n = copy_line(&self._uint8[i, 0], self._columns, out.columns, out.values)
            return 0
        if self._dense_changes != scaler.dense_changes:
            self._find_dense(scaler)
        out.reserve(self._indptr[i + 1] - self._indptr[i] + self._n_dense)
        for k in range(self._indptr[i], self._indptr[i + 1]):
            # a zero that is stored is no different from one that is not
            if self._data[k] == 0.0:
                continue
            position = self._indices[k]
            self._stored_in[position] = i
            out.columns[n] = self._columns[position]
            out.values[n] = self._data[k]
            n += out.columns[n] >= 0
        for d in range(self._n_dense):
            position = self._dense_positions[d]
            out.columns[n] = self._columns[position]
            out.values[n] = 0.0
            n += self._stored_in[position] != i
        out.n = n
        return 0
