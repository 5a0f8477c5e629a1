from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.stream.row cimport View


cdef enum:
    SCALE_LIMIT = 5
    REFRESH_PARTS = 16      # scales are computed anew when the count has grown by a 16th
    TRUSTED_COUNT = 32      # after so many values a scale is trusted to tell an outlier
    OUTLIER = 10            # deviations: a value farther out is counted as one at this edge


cdef struct ColumnScale:
    double pivot            # the first non-zero value: sums are taken from there
    double sum              # of value - pivot over the non-zero values
    double sum_squares
    double center           # what is subtracted; 0 for a sparse column
    double factor           # what is multiplied; 0 while nothing is known
    int64_t nonzeros
    int64_t zeros           # explicit ones, less the rows in which zero was not implied
    int64_t birth           # rows seen before the column was first named
    int64_t refresh_at      # the count of non-zeros at which scales are next computed
    int32_t is_dense        # centred; its zeros are values
    int32_t is_listed       # its zeros are listed where values are not scaled


cdef inline double clipped(double value) noexcept nogil:
    if value > SCALE_LIMIT:
        return SCALE_LIMIT
    # so that NaN, of values near the end of the number range, does not get through
    return value if value > -SCALE_LIMIT else -SCALE_LIMIT


cdef inline double scaled(const ColumnScale* column, double value) noexcept nogil:
    return clipped((value - column.center) * column.factor)


cdef inline bint has_varied(const ColumnScale* column) noexcept nogil:
    """Whether the column has shown two different values besides zero."""
    return column.sum_squares > 0.0


cdef inline void count_value(ColumnScale* column, double value) noexcept nogil:
    """Let a value into the sums of a column.

    One far out is counted as one at the edge: a sentinel such as 99999 must not flatten all others
    for ever. A lasting change of scale still gets through.
    """
    cdef double distance = (value - column.center) * column.factor
    if column.nonzeros == 0:
        column.pivot = value
    elif column.nonzeros >= TRUSTED_COUNT:
        if distance > OUTLIER:
            value = column.center + OUTLIER / column.factor
        elif distance < -OUTLIER:
            value = column.center - OUTLIER / column.factor
    column.nonzeros += 1
    value -= column.pivot
    column.sum += value
    column.sum_squares += value * value


cdef class ColumnScaler:
    cdef bint standardises
    cdef bint lists
    cdef ColumnScale* columns
    cdef int32_t size
    cdef int32_t n_born             # columns that some row so far had
    cdef int32_t _capacity
    cdef int64_t rows
    cdef int64_t _implied_rows      # rows in which every column not listed was zero
    cdef int64_t changes            # how often zeros of a column began or ceased to be values
    cdef double mean_norm           # mean over rows of |standardised row|^2 + 1

    cdef int add_columns(self, int32_t size, int64_t birth) except -1
    cdef bint has_zeros(self, int32_t column) noexcept nogil
    cdef bint standardise(self, RowBuffer raw, RowBuffer out, View* view) except -1 nogil
    cdef Py_ssize_t list_values(self, RowBuffer raw, RowBuffer out) except -1 nogil
    cdef bint count(self, RowBuffer raw, bint zeros_implied) noexcept nogil
    cdef void count_norm(self, const double* values, Py_ssize_t n) noexcept nogil
    cdef void not_implied(self, int32_t column, int64_t rows) noexcept nogil
    cdef bint _refresh(self, ColumnScale* column) noexcept nogil
    cdef void _refresh_scale(self, ColumnScale* column, int64_t zeros) noexcept nogil
