from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.moments cimport Moments
from streamtree._core.stream.row cimport Example


cdef class Strength:
    cdef double value
    cdef bint is_learned
    cdef double log             # of the value that is learned
    cdef double curvature       # of the squared errors by it: a fading sum
    cdef double errors          # the fading mean of their squares
    cdef Moments targets        # of numbers
    cdef int64_t rows           # of which it was learned

    cdef int configure(self, object value) except -1
    cdef void learn(self, const Example* example, const double* said, const double* slopes,
                    int32_t n_labels) noexcept nogil
    cdef dict state(self)
    cdef int take_state(self, dict state) except -1
