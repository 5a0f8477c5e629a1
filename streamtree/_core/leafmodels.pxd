from libc.stdint cimport int32_t, int64_t

from streamtree._core.histograms cimport Leaf
from streamtree._core.types cimport Row

cdef enum:
    MAX_MODELLED = 64   # a leaf with more labels says what its path says


cdef struct Standard:
    # running mean and deviation of what a column listed, for the linear models
    double pivot            # the first value: sums are taken from there
    double sum
    double squares
    double center           # 0 in a column that few rows list
    double factor
    int64_t n
    int64_t birth           # rows seen before its first value
    int64_t refresh_at


cdef int32_t largest(const double* numbers, int32_t n) noexcept nogil
cdef void standardise(Standard* standards, int64_t n_rows, Row row) noexcept nogil
cdef int speaker_of(const Leaf* leaf, int leaf_model) noexcept nogil
cdef bint bayes(const Leaf* leaf, const double* counts, Row row, double* shares) noexcept nogil
cdef bint linear(
    const Leaf* leaf, const Standard* standards, Row row, double* shares
) noexcept nogil
cdef double linear_number(const Leaf* leaf, const Standard* standards, Row row) noexcept nogil
cdef double guarded(double value, const double* all_sums, const double* sums) noexcept nogil
cdef void judge_label(
    Leaf* leaf, int leaf_model, const Standard* standards, double* counts, Row row, int32_t place,
    bint path_is_right, double weight
) noexcept nogil
cdef void judge_number(
    Leaf* leaf, const Standard* standards, const double* all_sums, const double* sums, Row row,
    double target, double path_error, double weight
) noexcept nogil
