/* What the rows of a leaf say, by the bins of their columns. */

#ifndef STREAMTREE_BINS_H
#define STREAMTREE_BINS_H

#include <stdint.h>

#include "clones.h"

enum { STREAMTREE_BINS = 64 };

/* A column that is looked at, and where its bins begin. */
typedef struct {
    int32_t column, first;
} streamtree_binned;

/* Of the rows in a bin: the sum of what is to be said of them, that of its curvature, how many. */
typedef struct {
    float slope, weight, n, unused;
} streamtree_bin;

/* What is to be said of a row, and its curvature. */
typedef struct {
    float slope, weight;
} streamtree_aim;

#if defined(__GNUC__)
typedef float streamtree_bin_lanes __attribute__((vector_size(16), aligned(4), may_alias));
#endif

/* The bin of a value: one more than there are cuts below it, 0 for what is missing. Of the
   STREAMTREE_BINS cuts those behind the first n are above all; no jump is random. */
static inline int32_t streamtree_bin_of(float value, const float *cuts, int32_t n)
{
    int32_t below = 0;
    for (int32_t half = STREAMTREE_BINS / 2; half > 0; half /= 2)
        below += value > cuts[below + half - 1] ? half : 0;
    return value == value ? 1 + (below < n ? below : n) : 0;
}

/* Add n rows to the bins of some columns; `bins` has them by row, `stride` columns each. */
static inline void streamtree_gather(
    const uint8_t *bins, int64_t stride, const int32_t *rows, int32_t n,
    const streamtree_binned *columns, int32_t n_columns, const streamtree_aim *aims,
    streamtree_bin *found)
{
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *row = bins + rows[i] * stride;
        const streamtree_aim aim = aims[rows[i]];
#if defined(__GNUC__)
        const streamtree_bin_lanes one = {aim.slope, aim.weight, 1.0f, 0.0f};
        for (int32_t j = 0; j < n_columns; j++)
            *(streamtree_bin_lanes *) &found[columns[j].first + row[columns[j].column]] += one;
#else
        for (int32_t j = 0; j < n_columns; j++) {
            streamtree_bin *here = &found[columns[j].first + row[columns[j].column]];
            here->slope += aim.slope;
            here->weight += aim.weight;
            here->n += 1.0f;
        }
#endif
    }
}

/* Take other rows out of n bins. What rounding leaves in a bin without rows goes, too. */
static inline void streamtree_take_out(
    streamtree_bin *bins, const streamtree_bin *others, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const float left = bins[i].n - others[i].n, is_left = left > 0.0f ? 1.0f : 0.0f;
        const float weight = bins[i].weight - others[i].weight;
        bins[i].slope = is_left * (bins[i].slope - others[i].slope);
        bins[i].weight = is_left * (weight > 0.0f ? weight : 0.0f);
        bins[i].n = left;
    }
}

/* Sums over the first bins, up to each of at most STREAMTREE_BINS. */
typedef struct {
    double slope[STREAMTREE_BINS], weight[STREAMTREE_BINS];
    float n[STREAMTREE_BINS];
} streamtree_sums;

static inline void streamtree_add_up(
    const streamtree_bin *bins, int32_t n, double slope, double weight, float rows,
    streamtree_sums *sums)
{
    for (int32_t i = 0; i < n; i++) {
        sums->slope[i] = slope += bins[i].slope;
        sums->weight[i] = weight += bins[i].weight;
        sums->n[i] = rows += bins[i].n;
    }
}

/* Whether parting rows after one of the bins from `first` to before `end` gains more than it has
   to: what both sides are worth is compared without dividing. `slope` and `weight` are of all. */
STREAMTREE_CLONES int streamtree_is_any_better(
    const streamtree_sums *sums, int32_t first, int32_t end, double slope, double weight,
    double strength, double worth)
{
    int64_t is_better = 0;
    for (int32_t i = first; i < end; i++) {
        const double left = sums->slope[i], right = slope - left;
        const double left_weight = sums->weight[i] + strength;
        const double rest = weight - sums->weight[i];
        const double right_weight = (rest > 0.0 ? rest : 0.0) + strength;
        is_better |= left * left * right_weight + right * right * left_weight
                     > worth * left_weight * right_weight;
    }
    return is_better != 0;
}

/* The shares of labels, each times its factor, sum to one again. None becomes so small that it
   could not come back, or that computing with it were slow. n is a multiple of 4. */
static inline void streamtree_reweigh(float *shares, const float *factors, int32_t n)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}, scale;
    for (int32_t i = 0; i < n; i += 4)
        for (int32_t j = 0; j < 4; j++) {
            shares[i + j] *= factors[i + j];
            sums[j] += shares[i + j];
        }
    scale = 1.0f / (sums[0] + sums[1] + (sums[2] + sums[3]));
    for (int32_t i = 0; i < n; i++) {
        const float share = shares[i] * scale;
        shares[i] = share > 1e-15f ? share : 1e-15f;
    }
}

/* Add the shares of a row to sums over rows. */
static inline void streamtree_add_shares(
    double *sums, const float *shares, float weight, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        sums[i] += weight * shares[i];
}

/* Add share times what is left to one. */
static inline void streamtree_add_variances(
    double *sums, const float *shares, float weight, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        sums[i] += weight * shares[i] * (1.0f - shares[i]);
}

#endif
