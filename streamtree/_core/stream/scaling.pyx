"""Running standardisation of columns whose scales nobody knows in advance.

Every column keeps the mean and the variance of what it has shown so far. A *dense* column,
one that is non-zero in at least half of the rows since it first appeared, is centred and
divided by its standard deviation. A *bit*, whose values are zero and one other, and that is
non-zero in at least a quarter of the rows, is dense as well: its two values become -1 and 1,
which no later row changes. A *sparse* column (a word, the indicator of a category, a column
that only ever has one value) is divided by the root mean square of its non-zero values and
never centred, for centring would make it vanish or make sparse rows dense. Scaled values are
clipped at +-5. What outliers and changes of unit do, see scales.pyx.

So zero means nothing in a sparse column and an observed value in a dense one, whereas a
missing value means nothing in either: in a dense column that is its mean. Counts are integers
and sums run over non-zero values only, which is why a zero that is given and a zero that a
sparse matrix implies leave exactly the same state.
"""

cimport cython
from libc.math cimport HUGE_VAL, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.store.state cimport export_records
from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.row cimport View
from streamtree._core.stream.scales cimport (
    ColumnScale, advance, count_value, moments_before, moments_of, n_shown, plan,
)

import numpy as np

cdef ColumnScale _blank
SCALE = np.asarray(<ColumnScale[:1]> &_blank).dtype

# A column counts as dense above this share of non-zero rows. The head start makes a column
# prove itself for a few rows first: a word's first appearance must not be centred away.
cdef double DENSE_SHARE = 0.5
cdef int64_t HEAD_START = 4
# A bit of which a quarter is enough, and with the head start a few rows more. One that is dense
# stays so down to half of that: where it comes and goes, what was learned of it shall stand.
cdef double BIT_SHARE = 0.25
cdef double BIT_KEPT = 0.5
cdef int64_t BIT_START = 12
# Values that are not scaled: zeros are listed in columns that are non-zero in at least one row of
# so many; in columns that were seen both zero and missing, one of so many will do, to tell the two
# apart.
cdef int64_t LISTED_PART = 4
cdef int64_t MIXED_PART = 16
# The first two values of a column are so many times as far from zero as from each other, if it has
# an origin.
cdef double FAR = 4096.0
# Of columns that no row had at first, only so many have one: for each, trees that grow may have to
# begin anew.
cdef int32_t FEW_ORIGINS = 64
# of a value in the unit of the first ones
MOST_VALUE = 1e300


@cython.final
cdef class ColumnScaler:
    """The scales of all columns, for as much as the views of a row need them.

    With `standardises` it knows centers and factors, with `lists` in which columns a zero is a
    value: there a column that a row does not list is missing, elsewhere it is mostly zero.
    """

    def __cinit__(self, bint standardises, bint lists):
        self.standardises = standardises
        self.lists = lists
        self.mean_norm = 1.0

    def __dealloc__(self):
        free(self.columns)

    cdef size_t n_bytes(self) noexcept:
        return self._capacity * sizeof(ColumnScale)

    cdef int reserve(self, int32_t size) except -1:
        """Make room for the columns up to `size`."""
        cdef int32_t capacity = <int32_t> larger(self._capacity, size)
        if size > self._capacity:
            self.columns = <ColumnScale*> regrown(
                self.columns, capacity * sizeof(ColumnScale)
            )
            self._capacity = capacity
        return 0

    cdef int add_columns(self, int32_t size, int64_t birth) except -1:
        """Add the columns up to `size`; the new ones are born after `birth` rows."""
        cdef int32_t column
        self.reserve(size)
        for column in range(self.size, size):
            memset(&self.columns[column], 0, sizeof(ColumnScale))
            self.columns[column].birth = birth
            self.columns[column].zeros = -self.implied_rows
        self.size = max(self.size, size)
        return 0

    cdef int forget(self) except -1:
        """Be as before any row."""
        self.size = self.n_born = 0
        self.rows = self.implied_rows = 0
        self.mean_norm = 1.0
        self.has_other_units = False
        self.n_origins = 0
        return 0

    cdef bint has_zeros(self, int32_t column) noexcept nogil:
        """Whether the zeros of a column are values, in one view or another."""
        return self.columns[column].is_dense or self.columns[column].is_listed

    cdef void not_implied(self, int32_t column, int64_t rows) noexcept nogil:
        """Take back the zeros that `rows` sparse rows without this column implied."""
        self.columns[column].zeros -= rows

    cdef bint standardise(self, RowBuffer raw, RowBuffer out, View* view,
                          double* norm) except -1 nogil:
        """Write a raw row scaled to `out`, without what is missing or zero after scaling.

        The zeros of dense columns come last, so that it makes no difference whether a sparse row
        stored them. `view` becomes that of `out`, `norm` 1 and the squares of its values; returns
        whether nothing in the raw row is missing or zero.
        """
        cdef Py_ssize_t i
        cdef double value, total = 1.0
        cdef bint has_zeros = False, has_gaps = False
        cdef int32_t number, top = -1, apart = 0, n = 0
        cdef const ColumnScale* column
        # in local variables, so that no loop reads them again for every value
        cdef const ColumnScale* columns = self.columns
        cdef const int32_t* numbers = raw.columns
        cdef const double* values = raw.values
        out.reserve(raw.n)
        cdef int32_t* out_numbers = out.columns
        cdef double* out_values = out.values
        for i in range(raw.n):
            number = numbers[i]
            value = values[i]
            # false of NaN, too
            if not fabs(value) > 0.0:
                has_zeros |= value == 0.0
                has_gaps = True
                continue
            value = scaled(&columns[number], value)
            if value == 0.0:
                continue
            out_numbers[n] = number
            out_values[n] = value
            total += value * value
            top = max(top, number)
            apart |= number ^ n
            n += 1
        for i in range(raw.n if has_zeros else 0):
            number = numbers[i]
            column = &columns[number]
            if values[i] == 0.0 and column.center != 0.0 and column.factor != 0.0:
                value = clipped(-column.center * column.factor)
                out_numbers[n] = number
                out_values[n] = value
                total += value * value
                top = max(top, number)
                apart |= number ^ n
                n += 1
        out.n = n
        norm[0] = total
        view.columns, view.values, view.n = out_numbers, out_values, n
        view.top, view.is_full = top, apart == 0
        return not has_gaps

    cdef Py_ssize_t list_values(self, RowBuffer raw, RowBuffer out) except -1 nogil:
        """Write a raw row to `out` in its first units; returns how many values are not zeros.

        The zeros, of columns where they are listed, come last, as in `standardise`.
        """
        cdef Py_ssize_t i, n = 0, n_values
        cdef bint has_zeros = False
        out.reserve(raw.n)
        for i in range(raw.n):
            out.columns[n] = raw.columns[i]
            out.values[n] = raw.values[i]
            n += fabs(raw.values[i]) > 0.0
            has_zeros |= raw.values[i] == 0.0
        n_values = n
        if has_zeros and self.lists:
            for i in range(raw.n):
                out.columns[n] = raw.columns[i]
                out.values[n] = 0.0
                n += raw.values[i] == 0.0 and self.columns[raw.columns[i]].is_listed != 0
        for i in range(n if self.has_other_units and self.lists else 0):
            out.values[i] = in_first_unit(&self.columns[out.columns[i]], out.values[i])
        out.n = n
        return n_values

    cdef bint count(self, RowBuffer raw, bint zeros_implied) noexcept nogil:
        """Let a raw row into the statistics of its columns; returns whether it looks different now.
        """
        cdef Py_ssize_t i
        cdef double value
        cdef ColumnScale* column
        cdef ColumnScale* columns = self.columns
        cdef const int32_t* numbers = raw.columns
        cdef const double* values = raw.values
        cdef double first
        cdef bint changes = False
        self.rows += 1
        # a batch announces its columns early, in the order of their births
        while self.n_born < self.size and self.columns[self.n_born].birth < self.rows:
            self.n_born += 1
            # also where a sparse row does not store the zero that it is born with
            changes = True
        if not (self.standardises or self.lists):
            return False
        self.implied_rows += zeros_implied
        for i in range(raw.n):
            value = values[i]
            column = &columns[numbers[i]]
            if value == 0.0:
                column.zeros += not zeros_implied
                continue
            if zeros_implied:
                column.zeros -= 1
            if value != value:
                continue
            first = column.pivot
            if count_value(column, value):
                changes = True
                self._find_origin(column, first, value)
            if column.counted >= column.look_at:
                changes |= self._look(column)
        return changes

    cdef void _find_origin(self, ColumnScale* column, double first, double value) noexcept nogil:
        """Take the first value for an origin if another one differs from it by little.

        Single precision could not tell apart seconds since 1970, nor what else lies far from zero.
        """
        if (
            self.lists and fabs(value - first) * FAR < fabs(first)
            and column.zeros + self.implied_rows == 0
            and LISTED_PART * n_shown(column) >= self.rows - column.birth
            and (column.birth == 0 or self.n_origins < FEW_ORIGINS)
        ):
            self.n_origins += 1
            # what is not listed is as far from the origin
            self.changes += 1
            column.origin, column.origin_rank = first, self.n_origins

    cdef void count_norm(self, double norm) noexcept nogil:
        """Let the norm of a standardised row into the mean, after `count`."""
        self.mean_norm += (norm - self.mean_norm) / self.rows

    cdef bint _look(self, ColumnScale* column) noexcept nogil:
        """Do what is due of a column; returns whether its scale is another one."""
        cdef ColumnScale before = column[0]
        cdef bint has_flipped, has_other_unit = advance(column)
        if not has_other_unit and column.counted < column.refresh_at:
            plan(column, False)
            return False
        plan(column, True)
        self._refresh(column)
        if has_other_unit:
            self.has_other_units = True
            if column.n_units == 1:
                self._keep_unit(column, &before)
        has_flipped = (
            column.is_dense != before.is_dense or column.is_listed != before.is_listed
        )
        self.changes += has_flipped
        # values in the first unit are those in the present one by its scale
        return has_flipped or has_other_unit or (self.standardises or column.n_units > 0) and (
            column.center != before.center or column.factor != before.factor
        )

    cdef void _keep_unit(self, ColumnScale* column, const ColumnScale* before) noexcept nogil:
        """Note what standardised values were in the first unit, from before they looked strange."""
        cdef double mean, spread, factor
        moments_before(before, &mean, &spread)
        self._scale(before, mean, spread, &column.unit_center, &factor)
        column.unit_deviation = 1.0 / factor if factor > 0.0 else 1.0

    cdef void _refresh(self, ColumnScale* column) noexcept nogil:
        """Compute a column's scale anew."""
        cdef int64_t rows = self.rows - column.birth, shown = n_shown(column)
        cdef int64_t zeros = column.zeros + self.implied_rows
        cdef double mean, spread
        moments_of(column, &mean, &spread)
        column.is_dense = self._scale(column, mean, spread, &column.center, &column.factor)
        if self.lists:
            # the head start again
            column.is_listed = LISTED_PART * shown >= rows + 2 * LISTED_PART or (
                zeros > 0 and shown + zeros < rows
                and MIXED_PART * shown >= rows + 2 * MIXED_PART
            )

    cdef bint _scale(self, const ColumnScale* column, double mean, double spread, double* center,
                     double* factor) noexcept nogil:
        """Write the center and factor of a column whose non-zero values have these moments.

        Returns whether it is dense.
        """
        cdef int64_t rows = self.rows - column.birth, shown = n_shown(column)
        cdef int64_t zeros = column.zeros + self.implied_rows
        cdef double share = shown / <double> (shown + zeros)
        # variance of the mixture of the non-zero values and the zeros
        cdef double variance = share * (spread + (1.0 - share) * mean * mean)
        cdef bint is_bit = not spread > 0.0, is_dense
        if is_bit:
            # what is absent from most rows is a word, with or without zeros
            is_dense = shown + zeros >= DENSE_SHARE * (rows + HEAD_START) and (
                shown >= (BIT_KEPT if column.is_dense else 1.0) * BIT_SHARE * (rows + BIT_START)
            )
        else:
            is_dense = shown >= DENSE_SHARE * (rows + HEAD_START)
        # one value, and no zeros, do not vary
        is_dense &= variance > 1e-300
        if is_dense and is_bit:
            center[0] = 0.5 * mean
            factor[0] = 2.0 / fabs(mean)
        elif is_dense:
            center[0] = mean * share
            factor[0] = 1.0 / sqrt(variance)
        else:
            center[0] = 0.0
            factor[0] = 1.0 / sqrt(mean * mean + (spread if spread > 0.0 else 0.0))
        if not isfinite(center[0]) or not 0.0 < factor[0] < HUGE_VAL:
            # values near the end of the number range: better silent than wrong
            center[0] = factor[0] = 0.0
        return is_dense

    def snapshot(self):
        """The statistics as plain arrays and numbers, the same by whichever route they came."""
        columns = export_records(self.columns, sizeof(ColumnScale), self.size, SCALE)
        columns["zeros"] += self.implied_rows
        return {"columns": columns, "rows": self.rows, "mean_norm": self.mean_norm}

    def restore(self, state):
        """Take over what `snapshot` gave; the scaler must be new."""
        cdef const ColumnScale[::1] columns = state["columns"]
        self.add_columns(<int32_t> columns.shape[0], 0)
        if self.size:
            memcpy(self.columns, &columns[0], self.size * sizeof(ColumnScale))
        self.rows = state["rows"]
        self.n_born = self.size
        self.has_other_units = bool(state["columns"]["n_units"].any())
        self.n_origins = <int32_t> state["columns"]["origin_rank"].max(initial=0)
        self.mean_norm = state["mean_norm"]
