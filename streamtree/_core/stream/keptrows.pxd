from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.row cimport Example, Row, View


cdef class KeptRows:
    cdef readonly Py_ssize_t n
    cdef int32_t n_targets      # numbers a row; 0 where examples have labels
    cdef int64_t* starts        # of the rows; n + 1 numbers
    cdef int32_t* columns
    cdef double* values
    cdef int32_t* labels
    cdef double* targets
    cdef double* weights
    cdef Py_ssize_t row_capacity
    cdef Py_ssize_t entry_capacity

    cdef int add(self, const View* view, const Example* example, int32_t n_targets) except -1 nogil
    cdef size_t bytes_with(self, Py_ssize_t n_rows, Py_ssize_t n_more) noexcept nogil
    cdef int _reserve(self, Py_ssize_t n_rows, Py_ssize_t n_entries) except -1 nogil
    cdef void view(self, Py_ssize_t i, View* view) noexcept nogil
    cdef void row(self, Py_ssize_t i, Row* row) noexcept nogil
    cdef Example example(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t longest(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
