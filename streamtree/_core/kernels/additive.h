/* Kernels of additive softmax models, in single precision.

   They give the same bits on every machine: lanes are added up in one order, whatever the width of
   the processor's vectors, and there are no calls of the system's exp or log. */

#ifndef STREAMTREE_ADDITIVE_H
#define STREAMTREE_ADDITIVE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clones.h"

#if (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && !defined(STREAMTREE_PLAIN)
#define STREAMTREE_VECTORS
#define STREAMTREE_INLINE static inline __attribute__((always_inline))
typedef float streamtree_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t streamtree_whole_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float streamtree_eight __attribute__((vector_size(32), aligned(4), may_alias));
#else
#define STREAMTREE_INLINE static inline
#endif

/* exp of a number that is not positive, and 0 below exp(-60): nothing that is computed with it
   becomes denormal, which is slow. */
STREAMTREE_INLINE float streamtree_expf(float x)
{
    float factor = x < -60.0f ? 0.0f : 1.0f;
    x = x < -60.0f ? -60.0f : x;
    int32_t whole = (int32_t) (x * 1.44269504f - 0.5f);
    float r = x - (float) whole * 0.693145752f - (float) whole * 1.42860677e-6f;
    float y = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f
              + r * (0.0083333333f + r * 0.0013888889f)))));
    int32_t bits = (whole + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return factor * y * power;
}

/* log of a positive number that is not denormal, by the series of the inverse tanh. */
STREAMTREE_INLINE float streamtree_logf(float x)
{
    int32_t bits, exponent;
    float s, square;
    memcpy(&bits, &x, sizeof bits);
    /* x = 2^exponent * m with m from sqrt(1/2) to sqrt(2) */
    exponent = (bits - 0x3f3504f3) >> 23;
    bits -= exponent * (1 << 23);
    memcpy(&x, &bits, sizeof x);
    s = (x - 1.0f) / (x + 1.0f);
    square = s * s;
    s *= 2.0f + square * (0.66666667f + square * (0.4f + square * (0.28571429f
         + square * 0.22222222f)));
    return (float) exponent * 0.693147181f + s;
}

/* The logarithms of n numbers. */
STREAMTREE_CLONES void streamtree_logs(float *values, int n)
{
    for (int i = 0; i < n; i++)
        values[i] = streamtree_logf(values[i]);
}

#if defined(STREAMTREE_VECTORS)
/* The same of four numbers. */
STREAMTREE_INLINE streamtree_four streamtree_logf_of_four(streamtree_four x)
{
    streamtree_whole_four bits = (streamtree_whole_four) x;
    const streamtree_whole_four exponent = (bits - 0x3f3504f3) >> 23;
    x = (streamtree_four) (bits - (exponent << 23));
    streamtree_four s = (x - 1.0f) / (x + 1.0f);
    const streamtree_four square = s * s;
    s *= 2.0f + square * (0.66666667f + square * (0.4f + square * (0.28571429f
         + square * 0.22222222f)));
    return __builtin_convertvector(exponent, streamtree_four) * 0.693147181f + s;
}
#endif

#if defined(STREAMTREE_VECTORS)
/* sums[b] += values[i] * record i's block b, for 1 to 4 blocks that stay in registers */
STREAMTREE_INLINE void streamtree_add_blocks(
    const float *records, size_t width, const int32_t *slots, const float *values, ptrdiff_t n,
    float *scores, const int n_blocks)
{
    streamtree_eight sums[4];
    for (int b = 0; b < n_blocks; b++)
        sums[b] = *(const streamtree_eight *) (scores + 8 * b);
    for (ptrdiff_t i = 0; i < n; i++) {
        if (slots[i] < 0)
            continue;
        const float *record = records + (size_t) slots[i] * width;
        for (int b = 0; b < n_blocks; b++)
            sums[b] += values[i] * *(const streamtree_eight *) (record + 8 * b);
    }
    for (int b = 0; b < n_blocks; b++)
        *(streamtree_eight *) (scores + 8 * b) = sums[b];
}

STREAMTREE_INLINE void streamtree_step_blocks(
    float *records, size_t width, const int32_t *slots, const float *steps, ptrdiff_t n,
    const float *slopes, const int n_blocks)
{
    streamtree_eight slope[4];
    for (int b = 0; b < n_blocks; b++)
        slope[b] = *(const streamtree_eight *) (slopes + 8 * b);
    for (ptrdiff_t i = 0; i < n; i++) {
        float *record = records + (size_t) slots[i] * width;
        for (int b = 0; b < n_blocks; b++)
            *(streamtree_eight *) (record + 8 * b) -= steps[i] * slope[b];
    }
}

#define STREAMTREE_BY_BLOCKS(kernel, records, scores)                                        \
    int block = 0;                                                                           \
    for (; block + 4 <= n_scores / 8; block += 4)                                            \
        kernel(records + 8 * block, width, slots, values, n, scores + 8 * block, 4);         \
    switch (n_scores / 8 - block) {                                                          \
    case 3: kernel(records + 8 * block, width, slots, values, n, scores + 8 * block, 3); break; \
    case 2: kernel(records + 8 * block, width, slots, values, n, scores + 8 * block, 2); break; \
    case 1: kernel(records + 8 * block, width, slots, values, n, scores + 8 * block, 1);     \
    }
#endif

/* scores[s] += sum of values[i] * records[slots[i]][s], for a multiple of 8 scores; a slot of -1
   adds nothing */
STREAMTREE_CLONES void streamtree_add_scores(
    const float *records, size_t width, const int32_t *slots, const float *values, ptrdiff_t n,
    float *scores, int n_scores)
{
#if defined(STREAMTREE_VECTORS)
    STREAMTREE_BY_BLOCKS(streamtree_add_blocks, records, scores)
#else
    for (ptrdiff_t i = 0; i < n; i++)
        for (int s = 0; s < n_scores && slots[i] >= 0; s++)
            scores[s] += values[i] * records[(size_t) slots[i] * width + s];
#endif
}

/* The same for the two scores of records of four numbers. Four sums side by side, so that none
   has to wait for another. */
static inline void streamtree_add_two_scores(
    const float *records, const int32_t *slots, const float *values, ptrdiff_t n, float *scores)
{
#if defined(STREAMTREE_VECTORS)
    typedef streamtree_four four;
    four sums[4] = {{0.0f}, {0.0f}, {0.0f}, {0.0f}};
    ptrdiff_t i = 0;
    /* the third and the fourth number of a record are added up and not looked at */
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            if (slots[i + lane] >= 0)
                sums[lane] += values[i + lane]
                              * *(const four *) (records + (size_t) slots[i + lane] * 4);
    for (int lane = 0; i + lane < n; lane++)
        if (slots[i + lane] >= 0)
            sums[lane] += values[i + lane]
                          * *(const four *) (records + (size_t) slots[i + lane] * 4);
#else
    float sums[4][2] = {{0.0f}};
    for (ptrdiff_t i = 0; i < n; i++)
        for (int s = 0; s < 2 && slots[i] >= 0; s++)
            sums[i % 4][s] += values[i] * records[(size_t) slots[i] * 4 + s];
#endif
    for (int s = 0; s < 2; s++)
        scores[s] += (sums[0][s] + sums[1][s]) + (sums[2][s] + sums[3][s]);
}

/* The sum of values[i] * the first of the two numbers of record i; a slot of -1 adds nothing. */
static inline float streamtree_add_side(
    const float *records, const int32_t *slots, const float *values, ptrdiff_t n)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            if (slots[i + lane] >= 0)
                sums[lane] += values[i + lane] * records[(size_t) slots[i + lane] * 2];
    for (int lane = 0; i + lane < n; lane++)
        if (slots[i + lane] >= 0)
            sums[lane] += values[i + lane] * records[(size_t) slots[i + lane] * 2];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* One AdaGrad step of n records, whose number behind their n_scores weights is the decaying sum of
   squared gradients, to which `offset` is added. `steps` is scratch. */
STREAMTREE_CLONES void streamtree_train(
    float *records, size_t width, const int32_t *slots, const float *inputs, float *steps,
    ptrdiff_t n, float square, float offset, float decay, const float *slopes, int n_scores)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        float *sum = records + (size_t) slots[i] * width + n_scores;
        *sum = steps[i] = decay * *sum + square * inputs[i] * inputs[i];
    }
    /* roots and quotients alone, so that the compiler takes several at once */
    for (ptrdiff_t i = 0; i < n; i++)
        steps[i] = inputs[i] / sqrtf(steps[i] + offset);
    const float *values = steps;
    if (n_scores == 2) {
#if defined(STREAMTREE_VECTORS)
        /* nothing is taken off the sum behind the two weights, nor off what is behind that */
        const streamtree_four slope = {slopes[0], slopes[1], 0.0f, 0.0f};
        for (ptrdiff_t i = 0; i < n; i++)
            *(streamtree_four *) (records + (size_t) slots[i] * 4) -= values[i] * slope;
#else
        for (ptrdiff_t i = 0; i < n; i++)
            for (int s = 0; s < 2; s++)
                records[(size_t) slots[i] * 4 + s] -= values[i] * slopes[s];
#endif
        return;
    }
#if defined(STREAMTREE_VECTORS)
    STREAMTREE_BY_BLOCKS(streamtree_step_blocks, records, slopes)
#else
    for (ptrdiff_t i = 0; i < n; i++)
        for (int s = 0; s < n_scores; s++)
            records[(size_t) slots[i] * width + s] -= values[i] * slopes[s];
#endif
}

/* One AdaGrad step of n records with a sum of squared gradients for every weight, `apart` numbers
   behind it, of which the share `decay` survives; `offset` is added to it. A slot of -1 has no
   record. */
STREAMTREE_CLONES void streamtree_train_each(
    float *records, size_t width, int apart, const int32_t *slots, const float *inputs,
    ptrdiff_t n, float rate, float offset, float decay, const float *slopes, int n_scores)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        if (slots[i] < 0)
            continue;
        float *weights = records + (size_t) slots[i] * width;
        float *squares = weights + apart;
        const float input = inputs[i];
        for (int s = 0; s < n_scores; s++) {
            const float gradient = slopes[s] * input;
            const float sum = decay * squares[s] + gradient * gradient;
            squares[s] = sum;
            weights[s] -= rate * gradient / sqrtf(sum + offset);
        }
    }
}

/* Count n values of one class, whose count is `apart` numbers behind its log in every record, and
   make the logs anew. `logs` is scratch. */
static inline void streamtree_count(
    float *records, size_t width, int place, int apart, const int32_t *slots, const float *values,
    float *logs, ptrdiff_t n, float weight, float scale)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        float *count = records + (size_t) slots[i] * width + apart + place;
        *count += weight * values[i];
        logs[i] = 1.0f + scale * *count;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        logs[i] = streamtree_logf(logs[i]);
    for (ptrdiff_t i = 0; i < n; i++)
        records[(size_t) slots[i] * width + place] = logs[i];
}

#if defined(STREAMTREE_VECTORS)
/* out = streamtree_expf(in - shift), of four numbers */
STREAMTREE_INLINE void streamtree_exp_four(const float *in, float shift, float *out)
{
    typedef streamtree_four four;
    typedef streamtree_whole_four whole_four;
    four x = *(const four *) in - shift;
    const whole_four is_small = x < -60.0f;
    x = (four) ((whole_four) x & ~is_small);
    const whole_four whole = __builtin_convertvector(x * 1.44269504f - 0.5f, whole_four);
    const four n = __builtin_convertvector(whole, four);
    const four r = x - n * 0.693145752f - n * 1.42860677e-6f;
    const four y = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f
                   + r * (0.0083333333f + r * 0.0013888889f)))));
    const whole_four bits = (whole + 127) << 23;
    *(four *) out = (four) ((whole_four) (y * (four) bits) & ~is_small);
}

STREAMTREE_INLINE streamtree_four streamtree_larger(streamtree_four a, streamtree_four b)
{
    const streamtree_whole_four is_larger = a > b;
    return (streamtree_four) (((streamtree_whole_four) a & is_larger)
                              | ((streamtree_whole_four) b & ~is_larger));
}
#else
static inline void streamtree_exp_four(const float *in, float shift, float *out)
{
    for (int lane = 0; lane < 4; lane++)
        out[lane] = streamtree_expf(in[lane] - shift);
}
#endif

/* Turn a multiple of 4 scores into probabilities. */
static inline void streamtree_softmax(const float *scores, int n, float *probabilities)
{
    float largest[4], total[4], most, scale;
#if defined(STREAMTREE_VECTORS)
    typedef streamtree_four four;
    const four *in = (const four *) scores;
    four *out = (four *) probabilities;
    four lanes = in[0], sums = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 1; k < n / 4; k++)
        lanes = streamtree_larger(in[k], lanes);
    memcpy(largest, &lanes, sizeof largest);
#else
    for (int lane = 0; lane < 4; lane++)
        largest[lane] = scores[lane];
    for (int k = 4; k < n; k++)
        largest[k % 4] = scores[k] > largest[k % 4] ? scores[k] : largest[k % 4];
#endif
    most = largest[0];
    for (int lane = 1; lane < 4; lane++)
        most = largest[lane] > most ? largest[lane] : most;
#if defined(STREAMTREE_VECTORS)
    for (int k = 0; k < n / 4; k++) {
        streamtree_exp_four(scores + 4 * k, most, probabilities + 4 * k);
        sums += out[k];
    }
    memcpy(total, &sums, sizeof total);
#else
    memset(total, 0, sizeof total);
    for (int k = 0; k < n; k++) {
        probabilities[k] = streamtree_expf(scores[k] - most);
        total[k % 4] += probabilities[k];
    }
#endif
    scale = 1.0f / ((total[0] + total[1]) + (total[2] + total[3]));
#if defined(STREAMTREE_VECTORS)
    for (int k = 0; k < n / 4; k++)
        out[k] *= scale;
#else
    for (int k = 0; k < n; k++)
        probabilities[k] *= scale;
#endif
}

/* The probability of the second of two classes, from the difference of their scores, four times. */
static inline void streamtree_logistic(const float *scores, float *probabilities)
{
    float small[4];
    for (int lane = 0; lane < 4; lane++)
        small[lane] = -fabsf(scores[lane]);
    streamtree_exp_four(small, 0.0f, small);
    for (int lane = 0; lane < 4; lane++)
        probabilities[lane] = (scores[lane] < 0.0f ? small[lane] : 1.0f) / (1.0f + small[lane]);
}

/* Count the probabilities that four experts gave to the class that it was, and weigh them by their
   losses anew: those before `first` have no share. */
static inline void streamtree_judge(
    float *losses, const float *given, float decay, float least, float temperature, int first,
    float *shares)
{
    float smallest = HUGE_VALF, total;
    for (int expert = first; expert < 4; expert++) {
        float p = given[expert] > least ? given[expert] : least;
        losses[expert] = decay * losses[expert] - streamtree_logf(p);
    }
    for (int expert = first; expert < 4; expert++)
        smallest = losses[expert] < smallest ? losses[expert] : smallest;
    for (int expert = 0; expert < 4; expert++)
        shares[expert] = expert < first ? -HUGE_VALF : temperature * (smallest - losses[expert]);
    streamtree_exp_four(shares, 0.0f, shares);
    total = (shares[0] + shares[1]) + (shares[2] + shares[3]);
    for (int expert = 0; expert < 4; expert++)
        shares[expert] /= total;
}

/* mixed[k] = sum of shares[e] * probabilities[e * apart + k] over four experts */
static inline void streamtree_mix(
    const float *probabilities, ptrdiff_t apart, const float *shares, int n, float *mixed)
{
    for (int k = 0; k < n; k++) {
        const float *p = probabilities + k;
        mixed[k] = (shares[0] * p[0] + shares[1] * p[apart])
                   + (shares[2] * p[2 * apart] + shares[3] * p[3 * apart]);
    }
}

/* Sum of squares of n numbers. */
static inline float streamtree_squares(const float *values, ptrdiff_t n)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += values[i + lane] * values[i + lane];
    for (int lane = 0; i + lane < n; lane++)
        sums[lane] += values[i + lane] * values[i + lane];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#endif
