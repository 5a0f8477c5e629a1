"""Rows as additive models read them: in parts, in an order that the names decide.

Every value has a linear part; the value of a column that varies has two more, the knots around
it, so that what a column says may be any piecewise linear function of its value. Part 0 is the
bias. Sums over parts go by the hashes of the columns' names, so that the order of the columns
makes no difference: with single precision it would.
"""

cimport cython
from libc.math cimport NAN
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport EncodedRow, View
from streamtree._core.stream.scales cimport ColumnScale

cdef enum:
    MOST_ORDERED = 1000     # columns that are ordered once and not by row
    # of room for a value: keys and numbers of its parts, its presence, and whether it is sparse
    VALUE_BYTES = PARTS * (sizeof(int32_t) + sizeof(float)) + sizeof(float) + 1


# from the first knot of a column to the last one, in deviations
KNOT_RANGE = (KNOTS - 1) / (knot_place(1.0) - knot_place(0.0))


cdef void sort_words(uint64_t* words, Py_ssize_t n) noexcept nogil:
    """Shell sort: most rows are short, and mostly in order already."""
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
cdef class RowEncoder:
    """Divides standardised rows into parts, one row at a time."""

    def __cinit__(self, Context context):
        self.context = context

    def __dealloc__(self):
        free(self._keys)
        free(self._full_order)
        free(self._by_column)
        free(self._order)

    cdef size_t n_bytes(self) noexcept nogil:
        return self._capacity * VALUE_BYTES + self._n_spread * sizeof(double) + (
            self._n_columns + self._n_sorted
        ) * sizeof(uint64_t)

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t capacity
        if n < self._capacity:
            return 0
        capacity = larger(self._capacity, n + 1)
        # one block: the row before is forgotten anyway
        self._keys = <int32_t*> regrown(self._keys, capacity * VALUE_BYTES)
        self._values = <float*> (self._keys + PARTS * capacity)
        self._presence = self._values + PARTS * capacity
        self._sparse = <char*> (self._presence + capacity)
        self._capacity = capacity
        return 0

    cdef int _order_columns(self) except -1 nogil:
        """Put the columns that are new into the order of a full row."""
        cdef int32_t column, size = self.context.n_columns
        cdef Py_ssize_t capacity = larger(self._n_columns, size)
        if size > self._n_columns:
            self._full_order = <uint64_t*> regrown(
                self._full_order, capacity * sizeof(uint64_t)
            )
            self._n_columns = capacity
        for column in range(self._n_ordered, size):
            self._full_order[column] = (
                <uint64_t> self.context.features.hashes[column] << 32 | <uint32_t> column
            )
        sort_words(self._full_order, size)
        self._n_ordered = size
        return 0

    cdef int _spread(self, const View* view) except -1 nogil:
        """Write the values of a view by column, NaN where there is none."""
        cdef Py_ssize_t i, n = self.context.n_columns, capacity = larger(self._n_spread, n)
        if n > self._n_spread:
            self._by_column = <double*> regrown(self._by_column, capacity * sizeof(double))
            self._n_spread = capacity
        for i in range(n):
            self._by_column[i] = NAN
        for i in range(view.n):
            self._by_column[view.columns[i]] = view.values[i]
        return 0

    cdef int _sort(self, const View* view) except -1 nogil:
        """Write where to look next: words that ascend by the names, with places in low halves."""
        cdef const uint32_t* hashes = self.context.features.hashes
        cdef Py_ssize_t i, capacity = larger(self._n_sorted, view.n)
        if view.n > self._n_sorted:
            self._order = <uint64_t*> regrown(self._order, capacity * sizeof(uint64_t))
            self._n_sorted = capacity
        for i in range(view.n):
            self._order[i] = <uint64_t> hashes[view.columns[i]] << 32 | <uint64_t> i
        sort_words(self._order, view.n)
        return 0

    cdef inline int _arrange(self, const View* view, EncodedRow* out) except -1 nogil:
        """Put a view in order: by column, unless most are missing."""
        cdef int32_t n_columns = self.context.n_columns
        out.by_column = NULL
        if n_columns > MOST_ORDERED or n_columns > 2 * view.n:
            return self._sort(view)
        if self._n_ordered < n_columns:
            self._order_columns()
        out.by_column = view.values
        if not view.is_full or view.n < n_columns:
            self._spread(view)
            out.by_column = self._by_column
        return 0

    cdef int encode(self, const View* view, EncodedRow* out) except -1 nogil:
        """Write a standardised view in parts: the bias and the values, then the knots around them.

        What is written to points into the encoder, and is gone with the next row.
        """
        cdef const uint64_t* order
        cdef const ColumnScale* scales = self.context.scaler.columns
        cdef Py_ssize_t i, k, n_linear = 1, n_present = 0, n = view.n + 1, length = view.n
        cdef int32_t column
        cdef double value
        cdef bint is_spread
        # in local variables: as far as the compiler knows, what is written might move the others
        cdef int32_t* keys
        cdef float *values, *presence
        cdef char* sparse
        self._reserve(view.n)
        self._arrange(view, out)
        keys, values, presence, sparse = self._keys, self._values, self._presence, self._sparse
        is_spread = out.by_column != NULL
        order = self._full_order if is_spread else self._order
        if is_spread:
            length = self.context.n_columns
        keys[0] = 0
        values[0] = presence[0] = 1.0
        sparse[0] = False
        for i in range(length):
            k = <uint32_t> order[i]
            if is_spread:
                column = <int32_t> k
                value = out.by_column[k]
                if value != value:
                    continue
            else:
                column = view.columns[k]
                value = view.values[k]
            keys[n_linear] = column + 1
            values[n_linear] = <float> value
            presence[n_linear] = 0.0
            sparse[n_linear] = not scales[column].is_dense
            n_linear += 1
            if not scales[column].has_varied:
                if value > 0.0:
                    presence[n_linear - 1] = 1.0
                    n_present += 1
                continue
            put_knots(knot_place(value), KNOTS, column, &keys[n], &values[n])
            n += 2
        out.keys, out.values, out.presence, out.sparse = keys, values, presence, sparse
        out.n_linear, out.n_present, out.n = n_linear, n_present, n
        return 0
