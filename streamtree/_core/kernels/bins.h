/* What the rows of a leaf say, by the bins of their columns. */

#ifndef STREAMTREE_BINS_H
#define STREAMTREE_BINS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "additive.h"
#include "clones.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    STREAMTREE_BINS = 64,
    /* values that can be sorted */
    STREAMTREE_MOST_SORTED = 512,
    /* columns that are looked at side by side */
    STREAMTREE_ABREAST = 4
};

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

/* Sort n values, at most STREAMTREE_MOST_SORTED, none of which is NaN: by one byte after the other
   of a word that is the larger the larger the value is. */
static inline void streamtree_sort_values(float *values, int32_t n)
{
    uint32_t words[2][STREAMTREE_MOST_SORTED];
    int32_t places[4][256] = {{0}};
    for (int32_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        word ^= -(word >> 31) | 0x80000000u;
        words[0][i] = word;
        for (int k = 0; k < 4; k++)
            places[k][word >> 8 * k & 255]++;
    }
    for (int k = 0; k < 4; k++) {
        const uint32_t *from = words[k % 2];
        uint32_t *to = words[1 - k % 2];
        for (int32_t b = 0, first = 0; b < 256; b++) {
            const int32_t here = places[k][b];
            places[k][b] = first;
            first += here;
        }
        for (int32_t i = 0; i < n; i++)
            to[places[k][from[i] >> 8 * k & 255]++] = from[i];
    }
    for (int32_t i = 0; i < n; i++) {
        const uint32_t word = words[0][i] ^ (((words[0][i] >> 31) - 1) | 0x80000000u);
        memcpy(&values[i], &word, sizeof word);
    }
}

/* A number with `low` on its left, or that one, and `high` on its right. */
static inline float streamtree_between(float low, float high)
{
    const float middle = (float) (low + (high - low) / 2.0);
    return middle < high ? middle : low;
}

/* The bin of a value: one more than there are cuts below it, 0 for what is missing. Of the
   STREAMTREE_BINS cuts those behind the first n are above all; no jump is random. */
static inline int32_t streamtree_bin_of(float value, const float *cuts, int32_t n)
{
    int32_t below = 0;
    for (int32_t half = STREAMTREE_BINS / 2; half > 0; half /= 2)
        below += half & -(int32_t) (value > cuts[below + half - 1]);
    return value == value ? 1 + (below < n ? below : n) : 0;
}

#if defined(STREAMTREE_VECTORS)
typedef streamtree_four streamtree_lanes;
static inline void streamtree_add_to(streamtree_bin *bin, streamtree_lanes one)
{
    *(streamtree_four *) bin += one;
}
#else
typedef streamtree_bin streamtree_lanes;
static inline void streamtree_add_to(streamtree_bin *bin, streamtree_lanes one)
{
    bin->slope += one.slope;
    bin->weight += one.weight;
    bin->n += one.n;
}
#endif

/* Add n rows to the bins of some columns; `bins` has them by row, `stride` columns each. Some rows
   at a time, in their order: where a column lies is looked up once for all of them. */
static inline void streamtree_gather(
    const uint8_t *bins, int64_t stride, const int32_t *rows, int32_t n,
    const streamtree_binned *columns, int32_t n_columns, const streamtree_aim *aims,
    streamtree_bin *found)
{
    for (int32_t first = 0; first < n; first += STREAMTREE_ABREAST) {
        const uint8_t *here[STREAMTREE_ABREAST];
        streamtree_lanes ones[STREAMTREE_ABREAST];
        const int32_t left = n - first;
        for (int32_t k = 0; k < STREAMTREE_ABREAST; k++) {
            const int32_t row = rows[first + (k < left ? k : 0)];
            const streamtree_lanes one = {aims[row].slope, aims[row].weight, 1.0f, 0.0f};
            here[k] = bins + row * stride;
            ones[k] = one;
        }
        if (left < STREAMTREE_ABREAST) {
            for (int32_t k = 0; k < left; k++)
                for (int32_t j = 0; j < n_columns; j++)
                    streamtree_add_to(
                        found + columns[j].first + here[k][columns[j].column], ones[k]);
            break;
        }
        for (int32_t j = 0; j < n_columns; j++) {
            const int64_t column = columns[j].column;
            streamtree_bin *of_column = found + columns[j].first;
            for (int32_t k = 0; k < STREAMTREE_ABREAST; k++)
                streamtree_add_to(of_column + here[k][column], ones[k]);
        }
    }
}

/* Take other rows out of n bins. What rounding leaves in a bin without rows goes, too. */
static inline void streamtree_take_out(
    streamtree_bin *bins, const streamtree_bin *others, int32_t n)
{
#if defined(STREAMTREE_VECTORS)
    const streamtree_four least = {-HUGE_VALF, 0.0f, -HUGE_VALF, -HUGE_VALF};
    for (int32_t i = 0; i < n; i++) {
        const streamtree_four left =
            *(streamtree_four *) &bins[i] - *(const streamtree_four *) &others[i];
        const streamtree_whole_four is_more = left > 0.0f;
        const streamtree_whole_four has_rows = {is_more[2], is_more[2], is_more[2], is_more[2]};
        *(streamtree_whole_four *) &bins[i] =
            (streamtree_whole_four) left & has_rows & (left > least);
    }
#else
    for (int32_t i = 0; i < n; i++) {
        const float left = bins[i].n - others[i].n, is_left = left > 0.0f ? 1.0f : 0.0f;
        const float weight = bins[i].weight - others[i].weight;
        bins[i].slope = is_left * (bins[i].slope - others[i].slope);
        bins[i].weight = is_left * (weight > 0.0f ? weight : 0.0f);
        bins[i].n = left;
    }
#endif
}

/* Of some rows: the sum of what is to be said of them, that of its curvature. */
typedef struct {
    double slope, weight;
} streamtree_sum;

/* Sums over the first bins of a column, up to each; rows may be parted after the bins from `first`
   to before `end`. */
typedef struct {
    streamtree_sum sums[STREAMTREE_BINS];
    int32_t first, end;
} streamtree_sums;

/* Add up n bins, from what is missing on. */
static inline void streamtree_add_up(
    const streamtree_bin *bins, int32_t n, const streamtree_bin *missing, streamtree_sums *to)
{
    streamtree_sum sum = {missing->slope, missing->weight};
    for (int32_t i = 0; i < n; i++) {
        sum.slope += bins[i].slope;
        sum.weight += bins[i].weight;
        to->sums[i] = sum;
    }
}

/* The same without what is missing, of STREAMTREE_ABREAST columns, for every sum waits for the one
   before. n is the largest number of bins: of a column with fewer, sums behind its own mean
   nothing, and there is room for STREAMTREE_BINS from the bin before its first on. */
static inline void streamtree_add_up_abreast(
    const streamtree_bin *const *bins, int32_t n, streamtree_sums *to)
{
#if defined(__SSE2__)
    __m128d sums[STREAMTREE_ABREAST];
    for (int32_t k = 0; k < STREAMTREE_ABREAST; k++)
        sums[k] = _mm_setzero_pd();
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < STREAMTREE_ABREAST; k++) {
            sums[k] = _mm_add_pd(sums[k], _mm_cvtps_pd(_mm_loadu_ps(&bins[k][i].slope)));
            _mm_storeu_pd(&to[k].sums[i].slope, sums[k]);
        }
#else
    const streamtree_bin nothing = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t k = 0; k < STREAMTREE_ABREAST; k++)
        streamtree_add_up(bins[k], n, &nothing, &to[k]);
#endif
}

/* Leave out the bins after which fewer than `least` rows would be on a side; there are `before`
   rows before all n bins, and `behind` them. */
static inline void streamtree_narrow(
    const streamtree_bin *bins, int32_t n, float before, float behind, float least,
    streamtree_sums *of)
{
    for (of->first = 0; of->first < n; of->first++) {
        before += bins[of->first].n;
        if (before >= least)
            break;
    }
    for (of->end = n; of->end > 0 && behind < least; of->end--)
        behind += bins[of->end - 1].n;
}

/* Whether parting rows after one of the bins from `first` to before `end` gains more than it has
   to: what both sides are worth is compared without dividing. `whole` is of all. */
STREAMTREE_CLONES int streamtree_is_any_better(
    const streamtree_sums *of, const streamtree_sum *whole, double strength, double worth)
{
    const streamtree_sum *sums = of->sums;
    const double slope = whole->slope, weight = whole->weight;
    int64_t is_better = 0;
    for (int32_t i = of->first; i < of->end; i++) {
        const double left = sums[i].slope, right = slope - left;
        const double left_weight = sums[i].weight + strength;
        const double rest = weight - sums[i].weight;
        const double right_weight = (rest > 0.0 ? rest : 0.0) + strength;
        is_better |= left * left * right_weight + right * right * left_weight
                     > worth * left_weight * right_weight;
    }
    return is_better != 0;
}

/* Part n rows by the bins of a column that go right, `bins` has those of the column by row. Rows
   on the left are moved forward, the others go to `right`; returns how many stay. */
static inline int32_t streamtree_part(
    const uint8_t *bins, int64_t stride, uint64_t right_bins, const int32_t *rows, int32_t n,
    int32_t *left, int32_t *right)
{
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++) {
        /* without a jump that is random: it is written to both, and stays in one */
        const int32_t row = rows[i];
        right[i - n_left] = row;
        left[n_left] = row;
        n_left += ~(right_bins >> bins[row * stride]) & 1;
    }
    return n_left;
}

/* What is to be said of n rows of two labels, by their scores. A curvature that is less than
   `least` counts as that. */
static inline void streamtree_aim_at_second(
    const float *scores, const int32_t *labels, const float *weights, int32_t n, float least,
    streamtree_aim *aims)
{
    for (int32_t i = 0; i < n; i++) {
        const float small = streamtree_expf(-fabsf(scores[i]));
        const float share = (float) ((scores[i] >= 0.0f ? 1.0f : small) / (1.0 + small));
        const double curvature = share * (1.0 - share);
        aims[i].slope = weights[i] * ((float) (labels[i] == 1) - share);
        aims[i].weight = (float) (weights[i] * (curvature > least ? curvature : least));
    }
}

/* Rows of several labels: by row what is said of them, `n_lanes` shares each, a multiple of 4. */
typedef struct {
    float *shares;
    const float *weights;
    const int32_t *labels;
    int32_t n_lanes;
} streamtree_labelled;

/* Add to the sums of a leaf what is to be said of n of its rows, and behind it the curvature. */
STREAMTREE_CLONES void streamtree_sum_up(
    const streamtree_labelled *of, const int32_t *rows, int32_t n, double *slopes)
{
    double *curvatures = slopes + of->n_lanes;
    for (int32_t i = 0; i < n; i++) {
        const float *shares = of->shares + (int64_t) rows[i] * of->n_lanes;
        const float weight = of->weights[rows[i]];
        for (int32_t k = 0; k < of->n_lanes; k++) {
            const float part = weight * shares[k];
            slopes[k] -= part;
            curvatures[k] += part * (1.0f - shares[k]);
        }
        slopes[of->labels[rows[i]]] += weight;
    }
}

/* Add to sums over rows how wrong is what is said of a row. */
static inline void streamtree_miss(
    const streamtree_labelled *of, int32_t row, double *missed)
{
    const float *shares = of->shares + (int64_t) row * of->n_lanes;
    const float weight = of->weights[row];
    const int32_t label = of->labels[row];
    for (int32_t k = 0; k < of->n_lanes; k++)
        missed[k] += weight * shares[k];
    /* the share of the label was counted in place of the rest */
    missed[label] += weight * (1.0 - 2.0 * shares[label]);
}

/* The shares of n rows, each times the factor of its label, sum to one again; see how wrong they
   are then. None becomes so small that it could not come back, or that computing with it were
   slow. */
STREAMTREE_CLONES void streamtree_reweigh(
    const streamtree_labelled *of, const int32_t *rows, int32_t n, const float *factors,
    double *missed)
{
    for (int32_t i = 0; i < n; i++) {
        float *shares = of->shares + (int64_t) rows[i] * of->n_lanes;
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}, scale;
#if defined(STREAMTREE_VECTORS)
        streamtree_four four = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int32_t k = 0; k < of->n_lanes; k += 4) {
            *(streamtree_four *) &shares[k] *= *(const streamtree_four *) &factors[k];
            four += *(streamtree_four *) &shares[k];
        }
        memcpy(sums, &four, sizeof sums);
#else
        for (int32_t k = 0; k < of->n_lanes; k++) {
            shares[k] *= factors[k];
            sums[k % 4] += shares[k];
        }
#endif
        scale = 1.0f / (sums[0] + sums[1] + (sums[2] + sums[3]));
        for (int32_t k = 0; k < of->n_lanes; k++) {
            const float share = shares[k] * scale;
            shares[k] = share > 1e-15f ? share : 1e-15f;
        }
        streamtree_miss(of, rows[i], missed);
    }
}

#endif
