"""Additive softmax models of one node: kernels on tables of single-precision weights.

A row is read in parts. Every value has a linear weight; the value of a column that varies has two
more, those of the knots around it, so that what a column says may be any piecewise linear
function of its value. Part 0 is the bias.

A record holds the weights of a part: for every learning rate one number a class (`stride` of
them, or one for two classes), and behind them the sum of squared gradients, which all share. A
class that the model has not met has the bias UNMET, and so a probability of zero.
"""

from libc.stdint cimport int32_t

from streamtree._core.tables cimport Table
from streamtree._core.types cimport Parts


cdef extern from "math.h":
    float fabsf(float x) noexcept nogil
    float logf(float x) noexcept nogil
    float sqrtf(float x) noexcept nogil


cpdef enum:
    RATES = 2           # models side by side, one for each learning rate
    KNOTS = 8           # of a column
    MOST_CLASSES = 256
    BLOCK = 8           # scores at a time: their number is 2 or a multiple of this


cdef struct LeafModel:
    Table linear        # column + 1, 0 for the bias -> record
    Table knots         # KNOTS * column + knot -> record
    int32_t stride      # 1: up to two classes and one score; else classes, a multiple of 4


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* exp of a number that is not positive, to single precision: without branches, so that loops
       over it vectorise, and alike on all machines */
    static inline float streamtree_expf(float x) {
        x = x < -87.0f ? -87.0f : x;
        int32_t whole = (int32_t) (x * 1.44269504f - 0.5f);
        float r = x - (float) whole * 0.693145752f - (float) whole * 1.42860677e-6f;
        float y = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f
                  + r * (0.0083333333f + r * 0.0013888889f)))));
        int32_t bits = (whole + 127) << 23;
        float power;
        memcpy(&power, &bits, sizeof power);
        return y * power;
    }

    /* weights -= step * slopes, eight at once; they may overlap for all that a compiler knows */
    static inline void streamtree_step_block(float *weights, float step, const float *slopes) {
    #if defined(__GNUC__)
        typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
        quad *w = (quad *) weights;
        const quad *s = (const quad *) slopes;
        quad low = w[0] - step * s[0], high = w[1] - step * s[1];
        w[0] = low;
        w[1] = high;
    #else
        for (int i = 0; i < 8; i++)
            weights[i] -= step * slopes[i];
    #endif
    }
    """
    float expf "streamtree_expf"(float x) noexcept nogil
    void step_block "streamtree_step_block"(
        float* weights, float step, const float* slopes
    ) noexcept nogil


cdef inline int record_width(int32_t stride) noexcept nogil:
    """The width of a record as a table counts it, in pairs of single-precision numbers."""
    return (RATES * stride + 2) // 2


cdef inline void add_scores(
    const Table* table, int32_t stride, const int32_t* slots, const float* values, Py_ssize_t n,
    float* scores
) noexcept nogil:
    """Add to RATES * stride scores what n parts say; a slot of -1 says nothing."""
    cdef int n_scores = RATES * stride, width = 2 * record_width(stride)
    cdef const float* records = <const float*> table.records
    cdef const float* record
    cdef const float* second
    cdef float slow0 = 0.0, fast0 = 0.0, slow1 = 0.0, fast1 = 0.0, value
    cdef float sums[BLOCK]
    cdef Py_ssize_t i = 0
    cdef int s, block = 0
    if table.capacity == 0:
        return
    if stride == 1:
        # two lanes, so that one sum need not wait for the other
        while i + 2 <= n:
            record = &records[<size_t> max(slots[i], 0) * width]
            second = &records[<size_t> max(slots[i + 1], 0) * width]
            value = values[i] if slots[i] >= 0 else 0.0
            slow0 += value * record[0]
            fast0 += value * record[1]
            value = values[i + 1] if slots[i + 1] >= 0 else 0.0
            slow1 += value * second[0]
            fast1 += value * second[1]
            i += 2
        if i < n and slots[i] >= 0:
            record = &records[<size_t> slots[i] * width]
            slow0 += values[i] * record[0]
            fast0 += values[i] * record[1]
        scores[0] += slow0 + slow1
        scores[1] += fast0 + fast1
        return
    while block < n_scores:
        # sums that stay in registers
        for s in range(BLOCK):
            sums[s] = scores[block + s]
        for i in range(n):
            if slots[i] >= 0:
                record = &records[<size_t> slots[i] * width + block]
                value = values[i]
                for s in range(BLOCK):
                    sums[s] += value * record[s]
        for s in range(BLOCK):
            scores[block + s] = sums[s]
        block += BLOCK


cdef inline void train_records(
    Table* table, int32_t stride, const int32_t* slots, const float* values, float* steps,
    Py_ssize_t n, float square, float keep, const float* slopes
) noexcept nogil:
    """One AdaGrad step of fading memory; `slopes` are those of the scores, times their rates.

    `square` is the squared gradient of the scores, which is shared: then a part takes one root
    instead of one for every class.
    """
    cdef int n_scores = RATES * stride, width = 2 * record_width(stride)
    cdef float* records = <float*> table.records
    cdef float* record
    cdef Py_ssize_t i
    cdef int block = 0
    for i in range(n):
        record = &records[<size_t> slots[i] * width + n_scores]
        record[0] = keep * record[0] + square * values[i] * values[i]
        steps[i] = record[0]
    # roots and quotients alone, so that the compiler takes several at once
    for i in range(n):
        steps[i] = values[i] / <float> sqrtf(steps[i] + <float> 1e-30)
    if stride == 1:
        for i in range(n):
            record = &records[<size_t> slots[i] * width]
            record[0] -= steps[i] * slopes[0]
            record[1] -= steps[i] * slopes[1]
        return
    while block < n_scores:
        for i in range(n):
            step_block(&records[<size_t> slots[i] * width + block], steps[i], &slopes[block])
        block += BLOCK


cdef void find_parts(
    const LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n, int32_t* slots
) noexcept nogil
cdef int make_parts(
    LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n, int32_t n_columns,
    int32_t* slots
) except -1 nogil
cdef void respond(
    const LeafModel* model, const Parts* parts, Py_ssize_t n_linear, Py_ssize_t n,
    const int32_t* slots, int32_t n_classes, float* out
) noexcept nogil
cdef bint has_met(const LeafModel* model, int32_t place) noexcept nogil
cdef int meet(LeafModel* model, int32_t place, int32_t n_classes, int32_t n_columns) except -1 nogil
cdef int clone_model(LeafModel* model, const LeafModel* source) except -1 nogil
cdef void free_model(LeafModel* model) noexcept nogil
cdef size_t model_bytes(const LeafModel* model) noexcept nogil
