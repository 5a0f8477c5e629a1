"""Running standardisation of columns whose scales nobody knows in advance.

Every column keeps the mean and the variance of what it has shown so far. A *dense* column,
one that is non-zero in at least half of the rows since it first appeared, is centred and
divided by its standard deviation. A *sparse* one (a word, the indicator of a category, a
column that only ever has one non-zero value) is divided by the root mean square of its
non-zero values and never centred, for centring would make it vanish or make sparse rows
dense. Scaled values are clipped at +-5.

So zero means nothing in a sparse column and an observed value in a dense one, whereas a
missing value means nothing in either: in a dense column that is its mean. Counts are integers
and sums run over non-zero values only, which is why a zero that is given and a zero that a
sparse matrix implies leave exactly the same state.
"""

cimport cython
from libc.math cimport copysign, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.features cimport RowBuffer
from streamtree._core.memory cimport regrown

import numpy as np

# A column counts as dense above this share of non-zero rows. The head start makes a column
# prove itself for a few rows first: a word's first appearance must not be centred away.
cdef double DENSE_SHARE = 0.5
cdef int64_t HEAD_START = 4
# How many scales away a value is an outlier, and after how many values a scale is trusted so far
cdef double OUTLIER = 10.0
cdef int64_t TRUSTED_COUNT = 32
# center and factor are computed anew whenever the count of non-zeros has grown by a 16th
cdef int64_t REFRESH_PARTS = 16
# Without scaling, zeros are listed in columns that are non-zero in at least one row of so many; in
# columns that were seen both zero and missing, one of so many will do, to tell the two apart.
cdef int64_t LISTED_PART = 4
cdef int64_t MIXED_PART = 16


@cython.final
cdef class ColumnScaler:
    """The scales of all columns; with `enabled=False` values pass through as they are.

    With `listing=True` values are not scaled either, but in dense columns zeros are listed:
    a column that a row does not list is missing there, or zero in a column that is mostly so.
    """

    def __cinit__(self, bint enabled=True, bint listing=False):
        self.enabled = enabled
        self.listing = listing
        self.mean_norm = 1.0

    def __dealloc__(self):
        free(self._columns)

    def __sizeof__(self):
        return object.__sizeof__(self) + self._capacity * sizeof(ColumnScale)

    cdef int add_columns(self, int32_t size, int64_t birth) except -1:
        """Make room for the columns up to `size`; the new ones are born after `birth` rows."""
        cdef int32_t capacity, column
        if size > self._capacity:
            capacity = size + size // 2 + 8
            self._columns = <ColumnScale*> regrown(
                self._columns, capacity * sizeof(ColumnScale)
            )
            self._capacity = capacity
        for column in range(self.size, size):
            memset(&self._columns[column], 0, sizeof(ColumnScale))
            self._columns[column].birth = birth
            self._columns[column].zeros = -self._implied_rows
        self.size = max(self.size, size)
        return 0

    cdef bint is_dense(self, int32_t column) noexcept nogil:
        return self._columns[column].is_dense

    cdef void not_implied(self, int32_t column, int64_t rows) noexcept nogil:
        """Take back the zeros that `rows` sparse rows without this column implied."""
        if self.enabled:
            self._columns[column].zeros -= rows

    cdef int learn(self, RowBuffer raw, bint zeros_implied, RowBuffer out) except -1 nogil:
        """Count a raw row into the statistics, then write it scaled to `out`."""
        cdef Py_ssize_t i, n = 0
        cdef double value, unclipped, counted
        cdef ColumnScale* column
        cdef double norm = 1.0
        cdef bint has_zeros = False
        self.rows += 1
        if self.listing:
            self._count(raw, zeros_implied)
            self.apply(raw, out)
            return 0
        if not self.enabled:
            self.apply(raw, out)
            for i in range(out.n):
                norm += out.values[i] * out.values[i]
            self.mean_norm += (norm - self.mean_norm) / self.rows
            return 0
        self._implied_rows += zeros_implied
        out.reserve(raw.n)
        for i in range(raw.n):
            value = raw.values[i]
            column = &self._columns[raw.columns[i]]
            if value == 0.0:
                has_zeros = True
                column.zeros += not zeros_implied
                continue
            column.zeros -= zeros_implied
            if value != value:
                continue
            if column.nonzeros == 0:
                column.pivot = value
            counted = value
            unclipped = (value - column.center) * column.factor
            if fabs(unclipped) > OUTLIER and column.nonzeros >= TRUSTED_COUNT:
                # A value far out is counted as one at the edge: a sentinel such as 99999 must not
                # flatten all others for ever. A lasting change of scale still gets through.
                counted = column.center + copysign(OUTLIER, unclipped) / column.factor
            column.nonzeros += 1
            counted -= column.pivot
            column.sum += counted
            column.sum_squares += counted * counted
            if column.nonzeros >= column.refresh_at:
                self._refresh(column)
                unclipped = (value - column.center) * column.factor
            value = clipped(unclipped)
            out.columns[n] = raw.columns[i]
            out.values[n] = value
            norm += value * value
            n += value != 0.0
        out.n = n
        if has_zeros:
            self._write_zeros(raw, out)
            for i in range(n, out.n):
                norm += out.values[i] * out.values[i]
        self.mean_norm += (norm - self.mean_norm) / self.rows
        return 0

    cdef int apply(self, RowBuffer raw, RowBuffer out) except -1 nogil:
        """Write a raw row scaled to `out`, without what is missing or zero after scaling."""
        cdef Py_ssize_t i, n = 0
        cdef double value
        cdef bint has_zeros = False
        out.reserve(raw.n)
        if self.listing:
            for i in range(raw.n):
                out.columns[n] = raw.columns[i]
                out.values[n] = raw.values[i]
                n += raw.values[i] < 0.0 or raw.values[i] > 0.0
                has_zeros |= raw.values[i] == 0.0
            if has_zeros:
                # last, as everywhere, whether a sparse row stored them or not
                for i in range(raw.n):
                    out.columns[n] = raw.columns[i]
                    out.values[n] = 0.0
                    n += raw.values[i] == 0.0 and self._columns[raw.columns[i]].is_dense != 0
            out.n = n
            return 0
        for i in range(raw.n):
            value = raw.values[i]
            # a NaN equals nothing: neither it nor a zero is kept
            if not (value < 0.0 or value > 0.0):
                has_zeros |= value == 0.0
                continue
            if self.enabled:
                value = scaled(&self._columns[raw.columns[i]], value)
            out.columns[n] = raw.columns[i]
            out.values[n] = value
            n += value != 0.0
        out.n = n
        if has_zeros and self.enabled:
            self._write_zeros(raw, out)
        return 0

    cdef void _write_zeros(self, RowBuffer raw, RowBuffer out) noexcept nogil:
        """Append the zeros of dense columns, where zero is a value like others.

        They come last, so that it makes no difference whether a sparse row stored them.
        """
        cdef Py_ssize_t i, n = out.n
        cdef const ColumnScale* column
        for i in range(raw.n):
            column = &self._columns[raw.columns[i]]
            # in a sparse column the center is 0, and so is what this gives
            out.columns[n] = raw.columns[i]
            out.values[n] = scaled(column, 0.0)
            n += raw.values[i] == 0.0 and column.center != 0.0 and column.factor != 0.0
        out.n = n

    cdef void _count(self, RowBuffer raw, bint zeros_implied) noexcept nogil:
        """Count the zeros and the others of a row that is not scaled."""
        cdef Py_ssize_t i
        cdef ColumnScale* column
        cdef int64_t rows, zeros
        cdef bint was_dense
        self._implied_rows += zeros_implied
        for i in range(raw.n):
            column = &self._columns[raw.columns[i]]
            if raw.values[i] == 0.0:
                column.zeros += not zeros_implied
                continue
            column.zeros -= zeros_implied
            if raw.values[i] != raw.values[i]:
                continue
            column.nonzeros += 1
            if column.nonzeros >= column.refresh_at:
                column.refresh_at = column.nonzeros + 1 + column.nonzeros // REFRESH_PARTS
                was_dense = column.is_dense
                rows = self.rows - column.birth
                zeros = column.zeros + self._implied_rows
                # the head start: a word's first appearances must not make it a dense column
                column.is_dense = LISTED_PART * column.nonzeros >= rows + 2 * LISTED_PART or (
                    zeros > 0 and column.nonzeros + zeros < rows
                    and MIXED_PART * column.nonzeros >= rows + 2 * MIXED_PART
                )
                self.dense_changes += column.is_dense != was_dense

    cdef void _refresh(self, ColumnScale* column) noexcept nogil:
        cdef double nonzeros = <double> column.nonzeros
        cdef double zeros = <double> (column.zeros + self._implied_rows)
        cdef double total = nonzeros + zeros
        cdef double mean = column.pivot + column.sum / nonzeros
        cdef double spread = column.sum_squares / nonzeros
        cdef double variance
        cdef bint was_dense = column.is_dense
        spread -= (column.sum / nonzeros) * (column.sum / nonzeros)
        column.refresh_at = column.nonzeros + 1 + column.nonzeros // REFRESH_PARTS
        # variance of the mixture of the non-zero values and the zeros
        variance = nonzeros / total * (spread + zeros / total * mean * mean)
        column.is_dense = (
            nonzeros >= DENSE_SHARE * (self.rows - column.birth + HEAD_START)
            and spread > 0.0 and variance > 1e-300
        )
        if column.is_dense:
            column.center = mean * nonzeros / total
            column.factor = 1.0 / sqrt(variance)
        else:
            column.center = 0.0
            column.factor = 1.0 / sqrt(mean * mean + (spread if spread > 0.0 else 0.0))
        if not isfinite(column.center) or not isfinite(column.factor):
            # values near the end of the number range: better silent than wrong
            column.center = column.factor = 0.0
        self.dense_changes += column.is_dense != was_dense

    def snapshot(self):
        """The statistics as plain arrays and numbers, the same by whichever route they came."""
        cdef ColumnScale empty
        memset(&empty, 0, sizeof(ColumnScale))
        columns = np.asarray(<ColumnScale[:1]> &empty)[:0]
        if self.size:
            columns = np.asarray(<ColumnScale[:self.size]> self._columns)
        columns = columns.copy()
        columns["zeros"] += self._implied_rows
        return {"columns": columns, "rows": self.rows, "mean_norm": self.mean_norm}

    def restore(self, state):
        """Take over what `snapshot` gave; the scaler must be new."""
        cdef const ColumnScale[::1] columns = state["columns"]
        self.add_columns(<int32_t> columns.shape[0], 0)
        if self.size:
            memcpy(self._columns, &columns[0], self.size * sizeof(ColumnScale))
        self.rows = state["rows"]
        self.mean_norm = state["mean_norm"]
