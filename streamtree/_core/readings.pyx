"""Rows as leaf models read them: in parts, in an order that the names decide."""

cimport cython
from libc.math cimport NAN
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free

from streamtree._core.additive cimport KNOTS
from streamtree._core.features cimport stable_hash
from streamtree._core.memory cimport regrown
from streamtree._core.rng cimport splitmix64
from streamtree._core.scaling cimport ColumnScale, ColumnScaler, has_varied
from streamtree._core.types cimport Parts, Row

cdef enum:
    MOST_ORDERED = 1000     # columns that are ordered once and not by row

# Knots lie at -2, -1.5, ... 1.5 scales; what is beyond counts as the last one.
cdef double FIRST_KNOT = -2.0
cdef double KNOT_DISTANCE = 0.5


cdef void sort_words(uint64_t* words, Py_ssize_t n) noexcept nogil:
    """Shell sort: rows are short, and mostly in order already."""
    cdef Py_ssize_t gap = 1, i, j
    cdef uint64_t word
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            word = words[i]
            j = i
            while j >= gap and words[j - gap] > word:
                words[j] = words[j - gap]
                j -= gap
            words[j] = word
        gap //= 3


@cython.final
cdef class RowReader:
    """Divides scaled rows into parts: linear ones, and with `has_knots` those of knots."""

    def __cinit__(self, ColumnScaler scaler, bint has_knots):
        self.scaler = scaler
        self.has_knots = has_knots

    def __dealloc__(self):
        free(self.hashes)
        free(self.full_order)

    cdef size_t n_bytes(self) noexcept nogil:
        return self._capacity * (sizeof(uint32_t) + sizeof(uint64_t))

    cdef int add_column(self, object name) except -1:
        cdef int32_t capacity = self._capacity
        cdef uint32_t value = stable_hash(name)
        if self.n_columns == capacity:
            capacity += capacity // 2 + 8
            self.hashes = <uint32_t*> regrown(self.hashes, capacity * sizeof(uint32_t))
            self.full_order = <uint64_t*> regrown(
                self.full_order, capacity * sizeof(uint64_t)
            )
            self._capacity = capacity
        self.hashes[self.n_columns] = <uint32_t> splitmix64(value)
        self.full_order[self.n_columns] = (
            <uint64_t> self.hashes[self.n_columns] << 32 | <uint32_t> self.n_columns
        )
        self.n_columns += 1
        if self.n_columns <= MOST_ORDERED:
            sort_words(self.full_order, self.n_columns)
        return 0

    cdef void take(self, Reading* reading, const Row* row) noexcept nogil:
        """Begin to read a row: enough to ask for the value of a column."""
        cdef double* by_column = row.parts.by_column
        cdef Py_ssize_t i
        reading.row = row
        reading.by_column = NULL
        if self.n_columns > MOST_ORDERED or self.n_columns > 2 * row.n:
            return
        if row.is_full and row.n == self.n_columns:
            reading.by_column = row.values
            return
        for i in range(self.n_columns):
            by_column[i] = NAN
        for i in range(row.n):
            by_column[row.columns[i]] = row.values[i]
        reading.by_column = by_column

    cdef const uint64_t* order(self, const Row* row) noexcept nogil:
        """Where the values of a row are, in the low halves of words that ascend."""
        cdef uint64_t* order = row.parts.order
        cdef Py_ssize_t i
        for i in range(row.n):
            order[i] = <uint64_t> self.hashes[row.columns[i]] << 32 | <uint64_t> i
        sort_words(order, row.n)
        return order

    cdef void read(self, Reading* reading) noexcept nogil:
        """Read a row in parts: the bias and the values, then the knots around them.

        Sums go by the hashes of the names, so that the order of the columns is no matter: with
        single precision it would be.
        """
        cdef const Row* row = reading.row
        cdef const uint64_t* order
        cdef const Parts* parts = row.parts
        cdef const ColumnScale* scales = self.scaler._columns
        cdef Py_ssize_t i, k, n_linear = 1, n_present = 0, n = row.n + 1
        cdef int32_t column, knot
        cdef double value, place
        cdef bint is_dense = reading.by_column != NULL
        if is_dense:
            order = self.full_order
        else:
            order = self.order(row)
        parts.keys[0] = 0
        parts.values[0] = parts.presence[0] = 1.0
        for i in range(self.n_columns if is_dense else row.n):
            k = <uint32_t> order[i]
            if is_dense:
                column = <int32_t> k
                value = reading.by_column[k]
                if value != value:
                    continue
            else:
                column = row.columns[k]
                value = row.values[k]
            parts.keys[n_linear] = column + 1
            parts.values[n_linear] = <float> value
            parts.presence[n_linear] = 0.0
            n_linear += 1
            if not self.has_knots or not has_varied(&scales[column]):
                if value > 0.0:
                    parts.presence[n_linear - 1] = 1.0
                    n_present += 1
                continue
            place = (value - FIRST_KNOT) / KNOT_DISTANCE
            place = min(max(place, 0.0), <double> (KNOTS - 1))
            knot = min(<int32_t> place, KNOTS - 2)
            place -= knot
            parts.keys[n] = KNOTS * column + knot
            parts.values[n] = <float> (1.0 - place)
            parts.keys[n + 1] = KNOTS * column + knot + 1
            parts.values[n + 1] = <float> place
            n += 2
        reading.n_linear = n_linear
        reading.n_present = n_present
        reading.n = n
