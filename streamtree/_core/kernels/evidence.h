/* What the labels that a context came with say of a row, at four speeds of forgetting. */

#ifndef STREAMTREE_EVIDENCE_H
#define STREAMTREE_EVIDENCE_H

#include <math.h>
#include <stdint.h>

#include "additive.h"

enum { STREAMTREE_SPEEDS = 4 };

#if defined(STREAMTREE_VECTORS)
#define STREAMTREE_FIRST_LABEL(labels) __builtin_ctz(labels)
#else
STREAMTREE_INLINE int STREAMTREE_FIRST_LABEL(uint32_t labels)
{
    int label = 0;
    for (; !(labels & 1); labels >>= 1)
        label++;
    return label;
}
#endif

/* evidence = log(1 + counts * scales) by speed; weighted it goes into the sums. */
STREAMTREE_INLINE void streamtree_say(
    const float *counts, const float *fading, const float *scales, const float *weights,
    float *evidence, float *sums)
{
#if defined(STREAMTREE_VECTORS)
    const streamtree_four s = streamtree_logf_of_four(
        1.0f + *(const streamtree_four *) counts * *(const streamtree_four *) fading
        * *(const streamtree_four *) scales);
    *(streamtree_four *) evidence = s;
    *(streamtree_four *) sums += *(const streamtree_four *) weights * s;
#else
    for (int i = 0; i < STREAMTREE_SPEEDS; i++) {
        evidence[i] = streamtree_logf(1.0f + counts[i] * fading[i] * scales[i]);
        sums[i] += weights[i] * evidence[i];
    }
#endif
}

/* The evidence of all labels that a context came with, each of them a bit. */
static inline void streamtree_say_all(
    const float *counts, uint32_t labels, const float *fading, const float *scales,
    const float *weights, float *evidence, float *sums)
{
    for (; labels; labels &= labels - 1) {
        const int at = STREAMTREE_FIRST_LABEL(labels) * STREAMTREE_SPEEDS;
        streamtree_say(counts + at, fading, scales + at, weights, evidence + at, sums + at);
    }
}

/* A step of AdaGrad whose squares fade, by speed; no weight becomes larger than `most`. */
STREAMTREE_INLINE void streamtree_step(
    const float *slopes, float *weights, float *squares, float rate, float kept, float most)
{
    for (int s = 0; s < STREAMTREE_SPEEDS; s++) {
        squares[s] = kept * squares[s] + slopes[s] * slopes[s];
        const float weight = weights[s] + rate * slopes[s] / sqrtf(squares[s] + 0.1f);
        weights[s] = weight > most ? most : weight < -most ? -most : weight;
    }
}

/* Move the weights of a context along the gradient of the log likelihood, by AdaGrad whose squares
   fade: what a label has more of evidence than labels have on average, by their shares. */
static inline void streamtree_move_weights(
    const float *evidence, uint32_t labels, const float *shares, int label, float *weights,
    float *squares, float rate, float kept, float most)
{
    float slopes[STREAMTREE_SPEEDS] = {0.0f};
    if (labels >> label & 1)
        for (int s = 0; s < STREAMTREE_SPEEDS; s++)
            slopes[s] = evidence[label * STREAMTREE_SPEEDS + s];
    for (; labels; labels &= labels - 1) {
        const int one = STREAMTREE_FIRST_LABEL(labels);
        for (int s = 0; s < STREAMTREE_SPEEDS; s++)
            slopes[s] -= shares[one] * evidence[one * STREAMTREE_SPEEDS + s];
    }
    streamtree_step(slopes, weights, squares, rate, kept, most);
}

/* The means of what came with a context, by speed, from sums of weights and of weighted numbers, as
   if one row more had been 0; weighted they go into what is said. */
static inline void streamtree_say_mean(
    const float *sums, const float *fading, const float *weights, float *evidence, double *said)
{
    for (int s = 0; s < STREAMTREE_SPEEDS; s++) {
        const float *of = sums + STREAMTREE_SPEEDS;
        evidence[s] = of[s] * fading[s] / (sums[s] * fading[s] + 1.0f);
        *said += weights[s] * evidence[s];
    }
}

/* Move the weights of a context along the gradient of the squared error. */
static inline void streamtree_move_means(
    const float *evidence, float error, float *weights, float *squares, float rate, float kept,
    float most)
{
    float slopes[STREAMTREE_SPEEDS];
    for (int s = 0; s < STREAMTREE_SPEEDS; s++)
        slopes[s] = error * evidence[s];
    streamtree_step(slopes, weights, squares, rate, kept, most);
}

/* The parts of counts that are left after so many rows, by speed: exp(-age * rates). */
static inline void streamtree_fading(uint32_t age, const float *rates, float *fading)
{
#if defined(STREAMTREE_VECTORS)
    *(streamtree_four *) fading = streamtree_expf_of_four(
        -(float) age * *(const streamtree_four *) rates);
#else
    for (int s = 0; s < STREAMTREE_SPEEDS; s++)
        fading[s] = streamtree_expf(-(float) age * rates[s]);
#endif
}

/* Let the counts of labels fade. */
static inline void streamtree_fade(float *counts, uint32_t labels, const float *fading)
{
    for (; labels; labels &= labels - 1) {
        float *here = counts + STREAMTREE_FIRST_LABEL(labels) * STREAMTREE_SPEEDS;
        for (int s = 0; s < STREAMTREE_SPEEDS; s++)
            here[s] *= fading[s];
    }
}

#endif
