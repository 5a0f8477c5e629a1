/* What the rows of a leaf say, by the bins of their columns. */

#ifndef STREAMTREE_BINS_H
#define STREAMTREE_BINS_H

#include <stdint.h>

enum { STREAMTREE_BINS = 64 };

/* Of the rows in a bin: the sum of what is to be said of them, that of its curvature, how many. */
typedef struct {
    float slope, weight, n, unused;
} streamtree_bin;

#if defined(__GNUC__)
typedef float streamtree_bin_lanes __attribute__((vector_size(16), aligned(4), may_alias));
#endif

/* Add n rows to the bins of some columns; `bins` has them by row, `stride` columns each. */
static inline void streamtree_gather(
    const uint8_t *bins, int64_t stride, const int32_t *rows, int32_t n, const int32_t *columns,
    int32_t n_columns, const float *slopes, const float *weights, streamtree_bin *found)
{
    for (int32_t i = 0; i < n; i++) {
        const uint8_t *row = bins + rows[i] * stride;
        const float slope = slopes[rows[i]], weight = weights[rows[i]];
#if defined(__GNUC__)
        const streamtree_bin_lanes one = {slope, weight, 1.0f, 0.0f};
        for (int32_t j = 0; j < n_columns; j++)
            *(streamtree_bin_lanes *) &found[j * STREAMTREE_BINS + row[columns[j]]] += one;
#else
        for (int32_t j = 0; j < n_columns; j++) {
            streamtree_bin *here = &found[j * STREAMTREE_BINS + row[columns[j]]];
            here->slope += slope;
            here->weight += weight;
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

#endif
