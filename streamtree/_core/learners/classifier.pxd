from libc.stdint cimport int32_t

from streamtree._core.learners.learner cimport Examples, Learner


cdef class Classifier(Learner):
    cdef Examples _numbered(self, list labels, weights, bint may_wait=*)
    cdef object _shares_of(self, x, int32_t* label)
