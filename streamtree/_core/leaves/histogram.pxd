from libc.stdint cimport int32_t

from streamtree._core.kernels.linear cimport Inputs
from streamtree._core.kernels.moments cimport Moments
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.splits.histograms cimport LeafStatistics
from streamtree._core.splits.scoretest cimport Residuals
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.row cimport Example, Row, Scratch, View


cdef enum:
    MAX_MODELLED = 64       # a leaf with more labels has no model


cpdef enum LeafModel:
    # how a leaf predicts: by the path to it, by naive Bayes, by its linear model, or by the one of
    # them that was right most often
    PATH = 0
    BAYES = 1
    LINEAR = 2
    ADAPTIVE = 3


cdef struct LinearModel:
    # of one leaf: an output for every label of its statistics, or one for numbers
    double* records         # of the bias, then of the columns; see kernels/linear
    int32_t* columns        # in order of arrival
    Table by_column         # their places in it
    int32_t n               # columns
    int32_t capacity
    int32_t width           # room for outputs
    int32_t n_plain         # how many of the first columns are 0, 1, 2, ...
    double[3] scores        # of PATH, BAYES and LINEAR: how well each would have predicted


cdef class HistogramLeaves(LeafModels):
    cdef readonly int kind
    cdef readonly bint of_labels
    cdef bint has_linear
    cdef bint is_owner              # of the statistics, which a tree may share
    cdef LeafStatistics statistics
    cdef LinearModel** models       # by node; NULL where there is none
    cdef int32_t capacity
    cdef Moments targets            # of all rows learned
    cdef float[MAX_MODELLED] last   # what the linear model predicted for the row learned last
    cdef Residuals residual         # the same as it is asked for

    cdef int share(self, LeafStatistics statistics) except -1
    cdef int add_model(self, int32_t node) except -1 nogil
    cdef int32_t width_for(self, int32_t node) noexcept nogil
    cdef int resize(self, LinearModel* model, int32_t capacity, int32_t width) except -1 nogil
    cdef int carry_over(self, int32_t node, int32_t child) except -1 nogil
    cdef int copy_weights(self, int32_t node, int32_t child) except -1 nogil
    cdef int locate(self, LinearModel* model, const View* view, int32_t* slots) except -1 nogil
    cdef bint bayes(self, int32_t node, const View* row, double* shares) noexcept nogil
    cdef bint linear(self, int32_t node, Inputs* x, double* outputs) noexcept nogil
    cdef tuple scores(self, int32_t node, const Row* row, Scratch* scratch, int who)
    cdef double guarded(self, int32_t node, double value) noexcept nogil
    cdef int learn_label(self, int32_t node, const Row* row, const Example* example,
                         Inputs* x) except -1 nogil
    cdef int learn_number(self, int32_t node, const Example* example, Inputs* x) except -1 nogil
