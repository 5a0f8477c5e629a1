from libc.stdint cimport int32_t, uint32_t, uint64_t

from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.types cimport Row


cdef struct Reading:
    # a row on its way down, and in parts
    const Row* row
    const double* by_column     # its values, NaN where there is none; NULL: many are missing
    Py_ssize_t n_linear
    Py_ssize_t n_present        # columns that do not vary and are not zero
    Py_ssize_t n


cdef inline double value_of(const Reading* reading, int32_t column) noexcept nogil:
    """The value of a column in a row, 0 if it is not listed."""
    cdef const Row* row = reading.row
    cdef double value
    cdef Py_ssize_t i
    if reading.by_column != NULL:
        value = reading.by_column[column]
        return value if value == value else 0.0
    for i in range(row.n):
        if row.columns[i] == column:
            return row.values[i]
    return 0.0


cdef class RowReader:
    cdef ColumnScaler scaler
    cdef bint has_knots
    cdef int32_t n_columns
    cdef uint32_t* hashes           # of the names of the columns
    cdef uint64_t* full_order       # of a row that lists all columns
    cdef int32_t _capacity

    cdef size_t n_bytes(self) noexcept nogil
    cdef int add_column(self, object name) except -1
    cdef void take(self, Reading* reading, const Row* row) noexcept nogil
    cdef const uint64_t* order(self, const Row* row) noexcept nogil
    cdef void read(self, Reading* reading) noexcept nogil
