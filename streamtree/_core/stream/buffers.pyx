"""Room for one row, as pairs of column and value."""

cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.row cimport View, describe


@cython.final
cdef class RowBuffer:
    """Grows with the rows."""

    def __dealloc__(self):
        free(self.values)
        free(self.marks)

    cdef size_t n_bytes(self) noexcept nogil:
        return (
            self.capacity * (sizeof(int32_t) + sizeof(double)) + self.n_marks * sizeof(int32_t)
        )

    cdef int reserve(self, Py_ssize_t capacity) except -1 nogil:
        """Make room for a row; the one that was there is lost where it grows."""
        if capacity < self.capacity:
            return 0
        # one place more than asked for: writers store first and then decide whether it counts
        capacity = larger(self.capacity, capacity + 1)
        self.values = <double*> regrown(
            self.values, capacity * (sizeof(int32_t) + sizeof(double))
        )
        self.columns = <int32_t*> (self.values + capacity)
        self.capacity = capacity
        return 0

    cdef int reserve_marks(self, Py_ssize_t n_columns) except -1 nogil:
        if n_columns <= self.n_marks:
            return 0
        self.marks = <int32_t*> regrown(self.marks, n_columns * sizeof(int32_t))
        memset(&self.marks[self.n_marks], 0, (n_columns - self.n_marks) * sizeof(int32_t))
        self.n_marks = n_columns
        return 0

    cdef View view(self, Py_ssize_t n) noexcept nogil:
        """The first n pairs."""
        cdef View view
        view.columns = self.columns
        view.values = self.values
        view.n = n
        describe(&view)
        return view

    cdef void swap(self, RowBuffer other) noexcept nogil:
        """Exchange what the two hold."""
        self.columns, other.columns = other.columns, self.columns
        self.values, other.values = other.values, self.values
        self.n, other.n = other.n, self.n
        self.capacity, other.capacity = other.capacity, self.capacity

    cdef bint is_dense(self) noexcept nogil:
        """Whether nothing in it is zero or missing."""
        cdef const double* values = self.values
        cdef Py_ssize_t i, gaps = 0
        for i in range(self.n):
            gaps += not (values[i] < 0.0 or values[i] > 0.0)
        return gaps == 0

    cdef bint equals(self, RowBuffer other) noexcept nogil:
        """Whether the other row has the same bytes."""
        return (
            self.n == other.n
            and memcmp(self.values, other.values, self.n * sizeof(double)) == 0
            and memcmp(self.columns, other.columns, self.n * sizeof(int32_t)) == 0
        )
