from libc.stdint cimport int32_t

from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.splits.histograms cimport LeafStatistics
from streamtree._core.splits.predicates cimport Split, PredicateSearch
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport Example, Row, Scratch
from streamtree._core.stream.signals cimport SignalWatch
from streamtree._core.trees.prediction.nodes cimport PredictionNodes


cdef class PredictionTree(PredictionNodes):
    cdef readonly LeafModels leaves     # None: leaves predict by their paths
    cdef LeafStatistics statistics      # of open leaves, and of null branches that have models
    cdef bint models_null_branches
    cdef bint is_confident
    cdef double delta
    cdef double grace_period

    cdef int open(self, int32_t node) except -1 nogil
    cdef void close(self, int32_t node) noexcept nogil
    cdef void cut(self, int32_t node, int32_t size) noexcept nogil
    cdef double promise(self, int32_t node) noexcept nogil
    cdef int32_t least_promising(self) noexcept nogil
    cdef int keep_within_bounds(self) except -1 nogil
    cdef int reopen(self, int32_t node) except -1 nogil
    cdef int32_t descend(self, const Row* row, const Example* example) except -1 nogil
    cdef int learn_leaf(self, int32_t node, const Row* row, const Example* example,
                        Scratch* scratch) except -1 nogil
    cdef int develop(self, int32_t node) except -1 nogil
    cdef int reconsider(self, int32_t node) except -1 nogil
    cdef bint differs(self, int32_t node) noexcept nogil
    cdef bint look(self, int32_t node) except -1 nogil
    cdef bint choose_branches(self, PredicateSearch* search, Split* split) noexcept nogil
    cdef int add_branches(self, PredicateSearch* search, int32_t node, Split* split) except -1 nogil
    cdef int begin_branch(self, PredicateSearch* search, int32_t child) except -1 nogil
    cdef int pass_on(self, int32_t node, int32_t child) except -1 nogil
    cdef int collect(self, KeptRows rows, int32_t first, SignalWatch* watch) except -1 nogil
