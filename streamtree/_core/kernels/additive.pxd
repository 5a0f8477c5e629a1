"""What is in additive.h: single precision, by blocks of scores."""

from libc.stdint cimport int32_t

cdef extern from "additive.h" nogil:
    float exp_of "streamtree_expf"(float x)
    void logs "streamtree_logs"(float* values, int n)
    float sum_of_squares "streamtree_squares"(const float* values, Py_ssize_t n)
    void softmax_of "streamtree_softmax"(const float* scores, int n, float* probabilities)
    void logistic "streamtree_logistic"(const float* scores, float* probabilities)
    void judge_experts "streamtree_judge"(
        float* losses, const float* said, float fading, float least, float temperature, int first,
        float* shares)
    void mix_four "streamtree_mix"(
        const float* probabilities, Py_ssize_t apart, const float* shares, int n, float* mixed)
    void count_values "streamtree_count"(
        float* records, size_t width, int place, int apart, const int32_t* slots,
        const float* values, float* logs, Py_ssize_t n, float weight, float scale)
    void add_scores "streamtree_add_scores"(
        const float* records, size_t width, const int32_t* slots, const float* values,
        Py_ssize_t n, float* scores, int n_scores)
    void add_two_scores "streamtree_add_two_scores"(
        const float* records, const int32_t* slots, const float* values, Py_ssize_t n,
        float* scores)
    float add_side "streamtree_add_side"(
        const float* records, const int32_t* slots, const float* values, Py_ssize_t n)
    void train_records "streamtree_train"(
        float* records, size_t width, const int32_t* slots, const float* inputs, float* steps,
        Py_ssize_t n, float square, float offset, float keep, const float* slopes, int n_scores)
    void train_each "streamtree_train_each"(
        float* records, size_t width, int apart, const int32_t* slots, const float* inputs,
        Py_ssize_t n, float rate, float offset, float decay, const float* slopes, int n_scores)
