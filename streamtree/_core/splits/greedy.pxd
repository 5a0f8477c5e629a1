"""The greedy search for axis-aligned splits over kept rows."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.keptrows cimport KeptRows


cdef struct AxisSplit:
    # of a node: how far the column at hand was passed, and the best split so far
    double last_value
    double gain
    double threshold
    double left_terms   # of labels, sums of n log n: of the rows that were passed, and of the rest
    double rest_terms
    int32_t column      # -1 for none
    int32_t unused


cdef class GreedySearch:
    cdef KeptRows rows
    cdef readonly Py_ssize_t n_outputs  # classes or targets
    cdef readonly double[::1] centers   # mean and deviation of every target
    cdef readonly double[::1] units
    cdef Context _context
    # the values of all rows, by column and then by size
    cdef int32_t[::1] _rows
    cdef int32_t[::1] _columns
    cdef double[::1] _values
    # by node: sums of all of its rows, of those that have the column at hand, of those passed
    cdef double[:, ::1] _totals
    cdef double[:, ::1] _present
    cdef double[:, ::1] _left
    cdef AxisSplit[::1] _best
    cdef double[::1] _terms             # n log n
    cdef int32_t[::1] _met              # the nodes that have the column at hand

    cdef double standard(self, Py_ssize_t row, Py_ssize_t target) noexcept nogil
    cdef void count(self, double* sums, Py_ssize_t row) noexcept nogil
    cdef double purity(self, const double* sums) noexcept nogil
    cdef double purity_of_sides(
        self, const int64_t[::1] members, const signed char[::1] side
    ) except? -1.0
    cdef object best_splits(self, const int32_t[::1] node_of, Py_ssize_t n_nodes)

    cdef int _standardise(self, bint has_one_unit) except -1
    cdef int _take_logs(self) except -1
    cdef int _sort(self) except -1
    cdef double _term(self, double x) noexcept nogil
    cdef double _purity_of_parts(self, int32_t node) noexcept nogil
    cdef void _sum_terms(self, int32_t node) noexcept nogil
    cdef void _pass(self, int32_t node, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t _search_column(
        self, const int32_t[::1] node_of, Py_ssize_t start
    ) noexcept nogil
    cdef Py_ssize_t _meet(
        self, const int32_t[::1] node_of, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil
    cdef void _pass_zeros(self, int32_t column, Py_ssize_t n_met) noexcept nogil
    cdef void _try(self, int32_t node, int32_t column, double value) noexcept nogil
