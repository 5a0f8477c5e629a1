/* What contexts of a row say: how far what came with them is from what was expected, at two speeds
   of forgetting. */

#ifndef STREAMTREE_EVIDENCE_H
#define STREAMTREE_EVIDENCE_H

#include <math.h>
#include <stdint.h>

#include "additive.h"
#include "sets.h"

/* by speed: what came, and what was expected; of numbers: weights, and what was missing */
enum { STREAMTREE_SPEEDS = 2, STREAMTREE_SUMS = 2 * STREAMTREE_SPEEDS };

/* evidence = log of what came over what was expected, by speed, of all labels that were looked for,
   each of them a bit; weighted it goes into the sums. Priors are added to both. */
STREAMTREE_CLONES void streamtree_say_all(
    const float *counts, uint32_t labels, const float *fading, const float *priors,
    const float *weights, float *evidence, double *sums)
{
    for (; labels; labels &= labels - 1) {
        const int label = streamtree_lowest(labels);
        const float *here = counts + label * STREAMTREE_SUMS;
        float *said = evidence + label * STREAMTREE_SPEEDS;
#if defined(STREAMTREE_VECTORS)
        const streamtree_four logs = streamtree_logf_of_four(
            *(const streamtree_four *) here * *(const streamtree_four *) fading
            + *(const streamtree_four *) priors);
#else
        float logs[STREAMTREE_SUMS];
        for (int s = 0; s < STREAMTREE_SUMS; s++)
            logs[s] = streamtree_logf(here[s] * fading[s] + priors[s]);
#endif
        for (int s = 0; s < STREAMTREE_SPEEDS; s++) {
            said[s] = logs[s] - logs[STREAMTREE_SPEEDS + s];
            sums[label] += weights[s] * said[s];
        }
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
        const int one = streamtree_lowest(labels);
        for (int s = 0; s < STREAMTREE_SPEEDS; s++)
            slopes[s] -= shares[one] * evidence[one * STREAMTREE_SPEEDS + s];
    }
    streamtree_step(slopes, weights, squares, rate, kept, most);
}

/* What was missing on average with a context, by speed, from sums of weights and of what was
   missing times these, as if so many rows more had missed nothing; weighted it goes into what is
   said. */
static inline void streamtree_say_mean(
    const float *sums, const float *fading, const float *priors, const float *weights,
    float *evidence, double *said)
{
    for (int s = 0; s < STREAMTREE_SPEEDS; s++) {
        const int of = STREAMTREE_SPEEDS + s;
        evidence[s] = sums[of] * fading[of] / (sums[s] * fading[s] + priors[s]);
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

/* The parts of sums that are left when a context comes again after so many rows, by speed:
   exp(-age * rates - losses). */
static inline void streamtree_fading(
    uint32_t age, const float *rates, const float *losses, float *fading)
{
    for (int s = 0; s < STREAMTREE_SUMS; s++)
        fading[s] = -(float) age * rates[s] - losses[s];
    streamtree_exp_four(fading, 0.0f, fading);
}

/* Let the sums of labels fade. */
static inline void streamtree_fade(float *counts, uint32_t labels, const float *fading)
{
    for (; labels; labels &= labels - 1) {
        float *here = counts + streamtree_lowest(labels) * STREAMTREE_SUMS;
#if defined(STREAMTREE_VECTORS)
        *(streamtree_four *) here *= *(const streamtree_four *) fading;
#else
        for (int s = 0; s < STREAMTREE_SUMS; s++)
            here[s] *= fading[s];
#endif
    }
}

/* Count a label, and what was expected of those that were looked for. */
static inline void streamtree_count_label(
    float *counts, uint32_t labels, const float *expected, int label, float weight)
{
    for (int s = 0; s < STREAMTREE_SPEEDS; s++)
        counts[label * STREAMTREE_SUMS + s] += weight;
    for (; labels; labels &= labels - 1) {
        const int one = streamtree_lowest(labels);
        for (int s = 0; s < STREAMTREE_SPEEDS; s++)
            counts[one * STREAMTREE_SUMS + STREAMTREE_SPEEDS + s] += weight * expected[one];
    }
}

#endif
