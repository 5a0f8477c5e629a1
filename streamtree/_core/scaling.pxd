from libc.stdint cimport int32_t, int64_t

from streamtree._core.features cimport RowBuffer


cdef enum:
    SCALE_LIMIT = 5


cdef struct ColumnScale:
    double pivot            # the first non-zero value: sums are taken from there
    double sum              # of value - pivot over the non-zero values
    double sum_squares
    double center           # what is subtracted; 0 for a sparse column
    double factor           # what is multiplied; 0 while nothing is known
    int64_t nonzeros
    int64_t zeros           # explicit ones, less the rows in which zero was not implied
    int64_t birth           # rows seen before the column was first named
    int64_t refresh_at      # the count of non-zeros at which center and factor are next computed
    int64_t is_dense


cdef inline double clipped(double value) noexcept nogil:
    if value > SCALE_LIMIT:
        return SCALE_LIMIT
    return -SCALE_LIMIT if value < -SCALE_LIMIT else value


cdef inline double scaled(const ColumnScale* column, double value) noexcept nogil:
    return clipped((value - column.center) * column.factor)


cdef inline bint has_varied(const ColumnScale* column) noexcept nogil:
    """Whether the column has shown two different values besides zero."""
    return column.sum_squares > 0.0


cdef class ColumnScaler:
    cdef bint enabled
    cdef bint listing
    cdef ColumnScale* _columns
    cdef int32_t size
    cdef int32_t _capacity
    cdef int64_t rows
    cdef int64_t _implied_rows      # rows in which every column not listed was zero
    cdef int64_t dense_changes      # how often a column became dense or sparse
    cdef double mean_norm           # mean over rows of |scaled row|^2 + 1

    cdef int add_columns(self, int32_t size, int64_t birth) except -1
    cdef bint is_dense(self, int32_t column) noexcept nogil
    cdef int learn(self, RowBuffer raw, bint zeros_implied, RowBuffer out) except -1 nogil
    cdef int apply(self, RowBuffer raw, RowBuffer out) except -1 nogil
    cdef void _write_zeros(self, RowBuffer raw, RowBuffer out) noexcept nogil
    cdef void _count(self, RowBuffer raw, bint zeros_implied) noexcept nogil
    cdef void _refresh(self, ColumnScale* column) noexcept nogil
    cdef void not_implied(self, int32_t column, int64_t rows) noexcept nogil
