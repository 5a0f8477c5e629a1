from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.row cimport View
from streamtree._core.stream.scales cimport ColumnScale


cdef enum:
    SCALE_LIMIT = 5

cdef double MOST_VALUE


cdef inline double clipped(double value) noexcept nogil:
    value = SCALE_LIMIT if value > SCALE_LIMIT else value
    # so that NaN, of values near the end of the number range, does not get through
    return value if value > -SCALE_LIMIT else -SCALE_LIMIT


cdef inline double scaled(const ColumnScale* column, double value) noexcept nogil:
    return clipped((value - column.center) * column.factor)


cdef inline double in_first_unit(const ColumnScale* column, double value) noexcept nogil:
    """A value as it would be had its column the unit of its first values; a finite number."""
    if column.n_units == 0:
        return value
    value = (value - column.center) * column.factor
    value = column.unit_center + column.unit_deviation * value
    # NaN, of values near the end of the number range, is none
    return min(max(-MOST_VALUE, value), MOST_VALUE)


cdef class ColumnScaler:
    cdef bint standardises
    cdef bint lists
    cdef ColumnScale* columns
    cdef int32_t size
    cdef int32_t n_born             # columns that some row so far had
    cdef int32_t _capacity
    cdef int64_t rows
    cdef int64_t implied_rows       # rows in which every column not listed was zero
    cdef bint has_other_units       # whether some column began another unit
    cdef int64_t changes            # how often what a column is where it is not listed has changed
    cdef int32_t n_origins          # columns that have an origin
    cdef double mean_norm           # mean over rows of |standardised row|^2 + 1

    cdef int reserve(self, int32_t size) except -1
    cdef int add_columns(self, int32_t size, int64_t birth) except -1
    cdef size_t n_bytes(self) noexcept
    cdef int forget(self) except -1
    cdef bint has_zeros(self, int32_t column) noexcept nogil
    cdef bint standardise(self, RowBuffer raw, RowBuffer out, View* view,
                          double* norm) except -1 nogil
    cdef Py_ssize_t list_values(self, RowBuffer raw, RowBuffer out) except -1 nogil
    cdef bint count(self, RowBuffer raw, bint zeros_implied) noexcept nogil
    cdef void count_norm(self, double norm) noexcept nogil
    cdef void not_implied(self, int32_t column, int64_t rows) noexcept nogil
    cdef bint _look(self, ColumnScale* column) noexcept nogil
    cdef void _find_origin(self, ColumnScale* column, double first, double value) noexcept nogil
    cdef void _keep_unit(self, ColumnScale* column, const ColumnScale* before) noexcept nogil
    cdef bint _scale(self, const ColumnScale* column, double mean, double spread, double* center,
                     double* factor) noexcept nogil
    cdef void _refresh(self, ColumnScale* column) noexcept nogil
