from libc.stdint cimport int32_t

from streamtree._core.histograms cimport Leaf
from streamtree._core.predicates cimport Look, Split
from streamtree._core.predictionnodes cimport PredictionNodes
from streamtree._core.types cimport Row


cdef class PredictionTree(PredictionNodes):
    cdef int leaf_model
    cdef bint has_linear            # the leaves train linear models
    cdef bint is_confident
    cdef double delta
    cdef double grace_period
    cdef int32_t max_bins
    cdef size_t max_size

    cdef bint has_room(self, int32_t nodes) noexcept nogil
    cdef int open(self, int32_t node, const Leaf* origin) except -1 nogil
    cdef void close(self, int32_t node) noexcept nogil
    cdef double promise(self, int32_t node) noexcept nogil
    cdef int32_t least_promising(self) noexcept nogil
    cdef void keep_within_bounds(self) noexcept nogil
    cdef int reopen(self, int32_t node) except -1 nogil
    cdef int learn(self, Row row, int32_t label, double target, double weight) except -1 nogil
    cdef int learn_leaf(self, int32_t node, Row row, int32_t label, double target, double weight,
                        int32_t said, double said_number) except -1 nogil
    cdef int reconsider(self, int32_t node) except -1 nogil
    cdef bint look(self, int32_t node) except -1 nogil
    cdef bint apply(self, Look* look, int32_t node, Split* split) except -1 nogil
    cdef bint answers(self, int32_t node, Row row, double* shares) noexcept nogil
    cdef int32_t label_of(self, Row row) noexcept nogil
    cdef void probabilities_of(self, Row row, double* out, int32_t n) noexcept nogil
    cdef double number_of(self, Row row) noexcept nogil
