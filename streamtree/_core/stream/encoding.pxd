from libc.stdint cimport int32_t, uint64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport EncodedRow, Row, View


cpdef enum:
    KNOTS = 8           # of a column
    PARTS = 3           # of a value, at most: its linear part and two knots
    FINE_KNOTS = 48     # of a column that is looked at closely

# Knots lie at -2.1, -1.5, ... 2.1 scales, fine ones at -3, -2.875, ... 2.875. What is beyond counts
# as the last one.
cdef enum:
    FINE_KNOTS_A_SCALE = 8


cdef inline void put_knots(double place, int32_t n, int32_t column, int32_t* keys,
                           float* values) noexcept nogil:
    """Write the two of a column's n knots that a place is between, and how near it is to each."""
    cdef int32_t knot
    place = min(max(place, 0.0), <double> (n - 1))
    knot = min(<int32_t> place, n - 2)
    place -= knot
    keys[0], keys[1] = n * column + knot, n * column + knot + 1
    values[0], values[1] = <float> (1.0 - place), <float> place


cdef inline double knot_place(double value) noexcept nogil:
    """Where a value lies among the knots of its column, from the first one on."""
    return (value + 2.1) * (1.0 / 0.6)


cdef inline void put_fine_knots(double value, int32_t place, int32_t* keys,
                                float* values) noexcept nogil:
    """The same of the column in a place among those that are looked at closely."""
    put_knots(FINE_KNOTS_A_SCALE * value + FINE_KNOTS // 2, FINE_KNOTS, place, keys, values)


cdef inline double encoded_value(const Row* row, int32_t column) noexcept nogil:
    """The standardised value of a column, 0 if it is not listed; rows are to be encoded."""
    cdef double value
    cdef Py_ssize_t i
    if row.encoded.by_column != NULL:
        value = row.encoded.by_column[column]
        return value if value == value else 0.0
    for i in range(row.standard.n):
        if row.standard.columns[i] == column:
            return row.standard.values[i]
    return 0.0


cdef void sort_words(uint64_t* words, Py_ssize_t n) noexcept nogil


cdef class RowEncoder:
    cdef Context context
    cdef int32_t* _keys
    cdef float* _values
    cdef float* _presence
    cdef char* _sparse
    cdef Py_ssize_t _capacity
    # of rows that have at least half of the columns
    cdef uint64_t* _full_order
    cdef int32_t _n_ordered
    cdef Py_ssize_t _n_columns      # for which there is room
    cdef double* _by_column         # of those that miss some
    cdef Py_ssize_t _n_spread
    # of others
    cdef uint64_t* _order
    cdef Py_ssize_t _n_sorted

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil
    cdef int _order_columns(self) except -1 nogil
    cdef int _spread(self, const View* view) except -1 nogil
    cdef int _sort(self, const View* view) except -1 nogil
    cdef int _arrange(self, const View* view, EncodedRow* out) except -1 nogil
    cdef int encode(self, const View* view, EncodedRow* out) except -1 nogil
    cdef size_t n_bytes(self) noexcept nogil
