from streamtree._core.learners.learner cimport Examples, Learner


cdef class Classifier(Learner):
    cdef Examples _numbered(self, list labels, weights, bint may_wait=*)
