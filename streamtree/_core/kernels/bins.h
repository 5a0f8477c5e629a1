/* What the rows of a leaf say, by the bins of their columns. */

#ifndef STREAMTREE_BINS_H
#define STREAMTREE_BINS_H

#include <stdint.h>

enum { STREAMTREE_BINS = 64 };

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

/* Add n rows to the bins of some columns; `bins` has them by row, `stride` columns each. */
static inline void streamtree_gather(
    const uint8_t *bins, int64_t stride, const int32_t *rows, int32_t n, const int32_t *columns,
    int32_t n_columns, const streamtree_aim *aims, streamtree_bin *found)
{
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *row = bins + rows[i] * stride;
        const streamtree_aim aim = aims[rows[i]];
#if defined(__GNUC__)
        const streamtree_bin_lanes one = {aim.slope, aim.weight, 1.0f, 0.0f};
        for (int32_t j = 0; j < n_columns; j++)
            *(streamtree_bin_lanes *) &found[j * STREAMTREE_BINS + row[columns[j]]] += one;
#else
        for (int32_t j = 0; j < n_columns; j++) {
            streamtree_bin *here = &found[j * STREAMTREE_BINS + row[columns[j]]];
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
