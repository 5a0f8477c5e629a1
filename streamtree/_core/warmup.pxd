from libc.stdint cimport int32_t, int64_t

from streamtree._core.features cimport RowBuffer
from streamtree._core.oblique cimport ObliqueTree
from streamtree._core.types cimport Row


cdef class WarmUp:
    cdef bint refines           # CO2 after every axis-aligned split
    cdef bint joins             # fill the tree up, and train all splits jointly on the rows
    cdef Py_ssize_t n_rows      # how many rows to keep; 0 when the warm-up is over
    cdef Py_ssize_t n
    cdef Py_ssize_t due_at      # the number of rows at which the tree is next grown anew
    cdef int32_t n_targets
    cdef int64_t* starts        # of the rows; n + 1 numbers
    cdef int32_t* columns
    cdef double* values
    cdef int32_t* labels
    cdef double* targets
    cdef double* weights
    cdef Py_ssize_t row_capacity
    cdef Py_ssize_t entry_capacity
    cdef size_t _bytes
    cdef RowBuffer _scratch
    cdef int32_t[::1] _ranks    # of the columns, by name
    cdef double[::1] _centers   # mean and deviation of every target
    cdef double[::1] _units

    cdef int keep(
        self, Row row, int32_t label, const double* target, int32_t n_targets, double weight
    ) except -1 nogil
    cdef int build(self, ObliqueTree tree, list names) except -1
    cdef Row row(self, Py_ssize_t i) noexcept nogil

    cdef void _free(self) noexcept nogil
    cdef int _reserve(self, Py_ssize_t n_rows, Py_ssize_t n_entries) except -1 nogil
    cdef const double* _target(self, Py_ssize_t i) noexcept nogil
    cdef int _grow(self, ObliqueTree tree) except -1
    cdef tuple _axis_splits(
        self, ObliqueTree tree, const int32_t[::1] node_of, const int32_t[::1] position,
        Py_ssize_t n_nodes, const int32_t[::1] rows, const int32_t[::1] columns,
        const double[::1] values
    )
    cdef Py_ssize_t _n_outputs(self, ObliqueTree tree) noexcept
    cdef int _standardise(self, ObliqueTree tree) except -1
    cdef double _standard(self, Py_ssize_t row, Py_ssize_t target) noexcept nogil
    cdef void _count(self, double* sums, Py_ssize_t row, Py_ssize_t n_outputs) noexcept nogil
    cdef void _pass_zeros(
        self, double* left, const double* totals, const double* present, Py_ssize_t n_outputs
    ) noexcept nogil
    cdef double _purity(self, const double* sums, Py_ssize_t n_outputs) noexcept nogil
    cdef void _try(
        self, const double* totals, const double* left, Py_ssize_t n_outputs, Py_ssize_t node,
        int32_t column, const double[::1] last_value, double value, double[::1] best_gain,
        int32_t[::1] best_column, double[::1] best_threshold
    ) noexcept nogil
    cdef bint _split(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold, int32_t[::1] node_of
    ) except -1
    cdef int _set_axis(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold
    ) except -1
    cdef Py_ssize_t _sides(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) noexcept
    cdef double _gain(
        self, ObliqueTree tree, const int64_t[::1] members, const signed char[::1] side
    ) except? -1.0
    cdef int _refine(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) except -1
    cdef double _output(
        self, const double* sums, Py_ssize_t i, Py_ssize_t n_outputs
    ) noexcept nogil
    cdef double _loss(
        self, ObliqueTree tree, const double* outputs, Py_ssize_t row, Py_ssize_t n_outputs
    ) noexcept nogil
    cdef int _set_outputs(
        self, ObliqueTree tree, int32_t leaf, const int64_t[::1] members
    ) except -1
