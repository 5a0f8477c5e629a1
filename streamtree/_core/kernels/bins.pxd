"""What is in bins.h: sums over the rows of a leaf, by the bins of their columns."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from "bins.h" nogil:
    enum:
        BINS "STREAMTREE_BINS"      # of a column; the first for what is missing
        SAMPLED "STREAMTREE_MOST_SORTED"    # rows that say where the bins of a column end
        ABREAST "STREAMTREE_ABREAST"
    ctypedef struct Bin "streamtree_bin":
        float slope
        float weight
        float n
    ctypedef struct Binned "streamtree_binned":
        int32_t column
        int32_t first
    ctypedef struct Sum "streamtree_sum":
        double slope
        double weight
    ctypedef struct Sums "streamtree_sums":
        Sum* sums
        int32_t first
        int32_t end
    ctypedef struct Aim "streamtree_aim":
        float slope
        float weight
    void sort_values "streamtree_sort_values"(float* values, int32_t n)
    float between "streamtree_between"(float low, float high)
    int32_t bin_of "streamtree_bin_of"(float value, const float* cuts, int32_t n_cuts)
    void gather "streamtree_gather"(
        const uint8_t* bins, int64_t stride, const int32_t* rows, int32_t n,
        const Binned* columns, int32_t n_columns, const Aim* aims, Bin* found)
    void take_out "streamtree_take_out"(Bin* bins, const Bin* others, int32_t n)
    void add_up "streamtree_add_up"(const Bin* bins, int32_t n, const Bin* missing, Sums* to)
    void add_up_abreast "streamtree_add_up_abreast"(
        const Bin* const* bins, int32_t n, Sums* to)
    void narrow "streamtree_narrow"(
        const Bin* bins, int32_t n, float before, float behind, float least, Sums* of)
    bint is_any_better "streamtree_is_any_better"(
        const Sums* of, const Sum* whole, double strength, double worth)
    int32_t part "streamtree_part"(
        const uint8_t* bins, int64_t stride, uint64_t right_bins, const int32_t* rows, int32_t n,
        int32_t* left, int32_t* right)
    void aim_at_second "streamtree_aim_at_second"(
        const float* scores, const int32_t* labels, const float* weights, int32_t n, float least,
        Aim* aims)
    ctypedef struct Labelled "streamtree_labelled":
        float* shares
        const float* weights
        const int32_t* labels
        int32_t n_lanes
    void sum_up "streamtree_sum_up"(
        const Labelled* of, const int32_t* rows, int32_t n, double* slopes)
    void miss "streamtree_miss"(const Labelled* of, int32_t row, double* missed)
    void reweigh "streamtree_reweigh"(
        const Labelled* of, const int32_t* rows, int32_t n, const float* factors, double* missed)
