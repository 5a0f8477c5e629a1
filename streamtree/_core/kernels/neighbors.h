/* The rows that are nearest to one, by weighted differences of columns. */

#ifndef STREAMTREE_NEIGHBORS_H
#define STREAMTREE_NEIGHBORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "additive.h"

#if defined(STREAMTREE_VECTORS) && defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    /* rows that are asked */
    STREAMTREE_NEAREST = 24,
    /* rows that are looked at side by side: a block */
    STREAMTREE_LANES = 32,
    /* columns between two looks whether any of them can still be among the nearest */
    STREAMTREE_LOOK = 8,
    STREAMTREE_MOST_FIELDS = 1024
};

/* columns that weigh less than this part of what all do on average are not looked at in all rows */
#define STREAMTREE_LEAST_PART 0.05f

/* A cell: a number, or a hash of the category. */
typedef union {
    float number;
    int32_t kind;
} streamtree_cell;

/* What is looked for, and where: `cells` lie by block, then by field, then by row of the block. */
typedef struct {
    const streamtree_cell *cells;
    int32_t n_fields;
    int32_t n_numbers;          /* the first ones of `fields` */
    const int32_t *fields;      /* in the order in which they are looked at */
    const streamtree_cell *row; /* by field */
    const float *weights;       /* by field */
    float age_weight;           /* of a row for every row since */
    int32_t size;               /* rows that there are */
    int32_t capacity;           /* and that there can be; then they go in turn */
    int32_t next;               /* the place of the next row */
} streamtree_query;

/* The nearest rows, the nearest first. */
typedef struct {
    float distances[STREAMTREE_NEAREST];
    int32_t places[STREAMTREE_NEAREST];
} streamtree_near;

/* A field, in the order in which they are looked at. */
typedef struct {
    int64_t offset;             /* in a block */
    streamtree_cell value;
    float weight;
} streamtree_look;

/* The first cell of a row; that of the next field lies STREAMTREE_LANES on. */
STREAMTREE_INLINE const streamtree_cell *streamtree_cells_of(
    const streamtree_query *of, int32_t place)
{
    return of->cells + place % STREAMTREE_LANES
        + (int64_t) (place / STREAMTREE_LANES) * of->n_fields * STREAMTREE_LANES;
}

#if defined(STREAMTREE_VECTORS)
typedef int32_t streamtree_whole_eight __attribute__((vector_size(32), aligned(4), may_alias));

/* A bit for each of eight that holds. */
STREAMTREE_INLINE int streamtree_bits(streamtree_whole_eight holds)
{
#if defined(__SSE2__)
    __m128 low, high;
    memcpy(&low, &holds, sizeof low);
    memcpy(&high, (const char *) &holds + sizeof low, sizeof high);
    return _mm_movemask_ps(low) | _mm_movemask_ps(high) << 4;
#else
    int bits = 0;
    for (int k = 0; k < 8; k++)
        bits |= (holds[k] & 1) << k;
    return bits;
#endif
}

STREAMTREE_INLINE int streamtree_below(const float *distances, float limit)
{
    return streamtree_bits(*(const streamtree_eight *) distances < limit);
}

/* Add to distances, those of a block of rows, until none of them is below a limit. */
STREAMTREE_INLINE void streamtree_measure(
    const streamtree_look *looks, int32_t n_numbers, int32_t n, const streamtree_cell *block,
    float limit, float *distances)
{
    enum { EIGHTS = STREAMTREE_LANES / 8 };
    streamtree_eight sums[EIGHTS];
    for (int e = 0; e < EIGHTS; e++)
        sums[e] = *(const streamtree_eight *) (distances + 8 * e);
    for (int32_t i = 0; i < n; i++) {
        const streamtree_cell *cells = block + looks[i].offset, value = looks[i].value;
        const float weight = looks[i].weight;
        if (i < n_numbers)
            for (int e = 0; e < EIGHTS; e++)
                sums[e] += weight * (streamtree_eight) (
                    (streamtree_whole_eight) (
                        *(const streamtree_eight *) (cells + 8 * e) - value.number)
                    & 0x7fffffff);
        else
            for (int e = 0; e < EIGHTS; e++)
                sums[e] += (streamtree_eight) (
                    (streamtree_whole_eight) (weight - (streamtree_eight) {0.0f})
                    & (*(const streamtree_whole_eight *) (cells + 8 * e) != value.kind));
        if (i % STREAMTREE_LOOK == STREAMTREE_LOOK - 1) {
            streamtree_whole_eight below = sums[0] < limit;
            for (int e = 1; e < EIGHTS; e++)
                below |= sums[e] < limit;
            if (!streamtree_bits(below))
                break;
        }
    }
    for (int e = 0; e < EIGHTS; e++)
        *(streamtree_eight *) (distances + 8 * e) = sums[e];
}
#else
STREAMTREE_INLINE int streamtree_below(const float *distances, float limit)
{
    int bits = 0;
    for (int k = 0; k < 8; k++)
        bits |= (distances[k] < limit) << k;
    return bits;
}

STREAMTREE_INLINE void streamtree_measure(
    const streamtree_look *looks, int32_t n_numbers, int32_t n, const streamtree_cell *block,
    float limit, float *distances)
{
    for (int32_t i = 0; i < n; i++) {
        const streamtree_cell *cells = block + looks[i].offset;
        const float value = looks[i].value.number, weight = looks[i].weight;
        const int32_t kind = looks[i].value.kind;
        if (i < n_numbers)
            for (int k = 0; k < STREAMTREE_LANES; k++)
                distances[k] += weight * fabsf(cells[k].number - value);
        else
            for (int k = 0; k < STREAMTREE_LANES; k++)
                distances[k] += cells[k].kind == kind ? 0.0f : weight;
        if (i % STREAMTREE_LOOK == STREAMTREE_LOOK - 1) {
            int is_below = 0;
            for (int k = 0; k < STREAMTREE_LANES; k++)
                is_below |= distances[k] < limit;
            if (!is_below)
                break;
        }
    }
}
#endif

/* Let a row in among the nearest; the farthest one goes. No jump depends on which one it is. */
STREAMTREE_INLINE void streamtree_let_in(streamtree_near *near, float distance, int32_t place)
{
    float distances[STREAMTREE_NEAREST + 1];
    int32_t places[STREAMTREE_NEAREST + 1], rank = 0;
    memcpy(distances + 1, near->distances, sizeof near->distances);
    memcpy(places + 1, near->places, sizeof near->places);
    distances[0] = distance;
    places[0] = place;
    for (int i = 0; i < STREAMTREE_NEAREST; i++)
        rank += near->distances[i] <= distance;
    for (int i = 0; i < STREAMTREE_NEAREST; i++) {
        const float other = i < rank ? distances[i + 1] : distances[i];
        const int32_t at = i < rank ? places[i + 1] : places[i];
        near->distances[i] = i == rank ? distance : other;
        near->places[i] = i == rank ? place : at;
    }
}

/* Find the nearest rows; of rows as near those that come first, block by block from the newest on.
   Returns how many there are. */
STREAMTREE_CLONES int32_t streamtree_nearest(const streamtree_query *of, streamtree_near *near)
{
    const int32_t n_blocks = (of->size + STREAMTREE_LANES - 1) / STREAMTREE_LANES;
    const int32_t last = of->next % STREAMTREE_LANES;
    int32_t b = of->next / STREAMTREE_LANES, n = 0, n_looks = 0, n_numbers = 0;
    float limit = INFINITY, least = 0.0f;
    streamtree_look looks[STREAMTREE_MOST_FIELDS];
    for (int32_t i = 0; i < of->n_fields; i++)
        least += of->weights[of->fields[i]];
    least *= STREAMTREE_LEAST_PART / (float) of->n_fields;
    for (int32_t i = 0; i < of->n_fields; i++) {
        const int32_t f = of->fields[i];
        if (of->weights[f] < least)
            continue;
        looks[n_looks].offset = (int64_t) f * STREAMTREE_LANES;
        looks[n_looks].value = of->row[f];
        looks[n_looks].weight = of->weights[f];
        n_looks++;
        n_numbers += i < of->n_numbers;
    }
    for (int i = 0; i < STREAMTREE_NEAREST; i++) {
        near->distances[i] = INFINITY;
        near->places[i] = -1;
    }
    for (int32_t i = 0; i <= n_blocks; i++, b--) {
        float distances[STREAMTREE_LANES];
        int32_t first = 0, end = STREAMTREE_LANES, age;
        /* where the next row goes into the middle of a block, its first rows are the newest, and
           its others the oldest */
        if (i == 0)
            end = last;
        else if (i == n_blocks)
            first = last;
        if (b < 0)
            b = of->capacity / STREAMTREE_LANES - 1;
        if (b >= n_blocks || first >= end)
            continue;
        age = of->next - b * STREAMTREE_LANES;
        if (age <= 0 || (i == n_blocks && last > 0))
            age += of->capacity;
        for (int32_t k = 0; k < STREAMTREE_LANES; k++)
            distances[k] = of->age_weight * (float) (age - k);
        streamtree_measure(
            looks, n_numbers, n_looks,
            of->cells + (int64_t) b * of->n_fields * STREAMTREE_LANES, limit, distances);
        if (end > of->size - b * STREAMTREE_LANES)
            end = of->size - b * STREAMTREE_LANES;
        for (int32_t eight = 0; eight < end; eight += 8) {
            int bits = streamtree_below(distances + eight, limit);
            for (int32_t k = eight; bits; bits >>= 1, k++)
                if (bits & 1 && distances[k] < limit && k >= first && k < end) {
                    streamtree_let_in(near, distances[k], b * STREAMTREE_LANES + k);
                    limit = near->distances[STREAMTREE_NEAREST - 1];
                }
        }
    }
    while (n < STREAMTREE_NEAREST && near->places[n] >= 0)
        n++;
    return n;
}

/* How many rows ago the row of a place came; the last one came one row ago. */
STREAMTREE_INLINE int32_t streamtree_age(const streamtree_query *of, int32_t place)
{
    return of->next - place + (of->next > place ? 0 : of->capacity);
}

/* Add to distances of every one of the nearest rows from every other, by one field. */
STREAMTREE_INLINE void streamtree_add_between(
    const streamtree_query *of, const streamtree_near *near, int32_t n, int32_t f, int is_number,
    float (*between)[STREAMTREE_NEAREST])
{
    const float weight = of->weights[f];
    streamtree_cell cells[STREAMTREE_NEAREST];
    for (int32_t i = 0; i < STREAMTREE_NEAREST; i++)
        cells[i] = streamtree_cells_of(of, near->places[i < n ? i : 0])[
            (int64_t) f * STREAMTREE_LANES];
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
            if (is_number)
                between[i][j] += weight * fabsf(cells[i].number - cells[j].number);
            else
                between[i][j] += cells[i].kind == cells[j].kind ? 0.0f : weight;
}

/* Kriging: the mean of numbers near a row that errs least where they vary together the more the
   nearer they are, by exp(-scale distance), and each by itself by `noise` besides. Their own mean
   is drawn to 0 as if there were `doubt` numbers that are 0. `numbers` and `noise` are by rank. */
STREAMTREE_CLONES double streamtree_krige(
    const streamtree_query *of, const streamtree_near *near, int32_t n, const double *numbers,
    const double *noise, float scale, double doubt)
{
    int32_t ages[STREAMTREE_NEAREST];
    float between[STREAMTREE_NEAREST][STREAMTREE_NEAREST];
    double root[STREAMTREE_NEAREST][STREAMTREE_NEAREST], to_row[STREAMTREE_NEAREST];
    double of_numbers[STREAMTREE_NEAREST], of_ones[STREAMTREE_NEAREST];
    double product = 0.0, ones = doubt, mean, said;
    for (int32_t i = 0; i < STREAMTREE_NEAREST; i++)
        ages[i] = streamtree_age(of, near->places[i < n ? i : 0]);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
            between[i][j] = of->age_weight * fabsf((float) (ages[i] - ages[j]));
    for (int32_t i = 0; i < of->n_fields; i++)
        streamtree_add_between(of, near, n, of->fields[i], i < of->n_numbers, between);
    for (int32_t i = 0; i < n; i++) {
        /* Cholesky's root of the covariances, row by row, and what it makes of the vectors */
        double number = numbers[i], one = 1.0;
        double distant = streamtree_expf(-scale * near->distances[i]);
        for (int32_t j = 0; j <= i; j++) {
            double sum = streamtree_expf(-scale * between[i][j]) + (i == j ? noise[i] : 0.0);
            for (int32_t k = 0; k < j; k++)
                sum -= root[i][k] * root[j][k];
            root[i][j] = i == j ? sqrt(sum) : sum / root[j][j];
        }
        for (int32_t k = 0; k < i; k++) {
            number -= root[i][k] * of_numbers[k];
            one -= root[i][k] * of_ones[k];
            distant -= root[i][k] * to_row[k];
        }
        of_numbers[i] = number / root[i][i];
        of_ones[i] = one / root[i][i];
        to_row[i] = distant / root[i][i];
        product += of_numbers[i] * of_ones[i];
        ones += of_ones[i] * of_ones[i];
    }
    mean = said = product / ones;
    for (int32_t i = 0; i < n; i++)
        said += to_row[i] * (of_numbers[i] - mean * of_ones[i]);
    return said;
}

/* Add to slopes, by field, how far a row is away, times a share. */
STREAMTREE_INLINE void streamtree_add_apart(
    const streamtree_query *of, int32_t place, float share, float *slopes)
{
    const streamtree_cell *cells = streamtree_cells_of(of, place);
    for (int32_t i = 0; i < of->n_fields; i++) {
        const int32_t f = of->fields[i];
        const streamtree_cell cell = cells[(int64_t) f * STREAMTREE_LANES];
        if (i < of->n_numbers)
            slopes[f] += share * fabsf(cell.number - of->row[f].number);
        else
            slopes[f] += cell.kind == of->row[f].kind ? 0.0f : share;
    }
}

#endif
