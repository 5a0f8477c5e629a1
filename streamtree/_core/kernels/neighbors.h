/* The rows that are nearest to one, by weighted differences of columns. */

#ifndef STREAMTREE_NEIGHBORS_H
#define STREAMTREE_NEIGHBORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "additive.h"
#include "sets.h"

#if defined(STREAMTREE_VECTORS) && defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    /* rows that are asked */
    STREAMTREE_NEAREST = 24,
    /* rows that are looked at side by side: a block */
    STREAMTREE_LANES = 32,
    /* columns between two looks whether any of them can still be among the nearest, at most */
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

/* The same during the search, behind one that is nearer than any row. */
typedef struct {
    float distances[1 + STREAMTREE_NEAREST];
    int32_t places[1 + STREAMTREE_NEAREST];
} streamtree_ranked;

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

/* A bit for each of a block of distances that is below a limit. */
STREAMTREE_INLINE uint32_t streamtree_below(const float *distances, float limit)
{
    uint32_t bits = 0;
    for (int k = 0; k < STREAMTREE_LANES; k += 8)
        bits |= (uint32_t) streamtree_bits(
            *(const streamtree_eight *) (distances + k) < limit) << k;
    return bits;
}

/* Add to distances, those of a block of rows; 0 where none of them is below a limit, which is
   looked at every few columns: then they are of no use. `first_look` is the number of columns
   before the first look; most blocks are to end there, so it follows how far they come. */
STREAMTREE_INLINE int streamtree_measure(
    const streamtree_look *looks, int32_t n_numbers, int32_t n, const streamtree_cell *block,
    float limit, int32_t *first_look, float *distances)
{
    enum { EIGHTS = STREAMTREE_LANES / 8 };
    const int32_t first = *first_look < n ? *first_look : n;
    streamtree_eight sums[EIGHTS];
    for (int e = 0; e < EIGHTS; e++)
        sums[e] = *(const streamtree_eight *) (distances + 8 * e);
    for (int32_t i = 0, end = first; i < n; end += STREAMTREE_LOOK) {
        end = end < n ? end : n;
        const int32_t end_of_numbers = end < n_numbers ? end : n_numbers;
        streamtree_whole_eight below;
        for (; i < end_of_numbers; i++) {
            const streamtree_cell *cells = block + looks[i].offset;
            const float value = looks[i].value.number, weight = looks[i].weight;
            for (int e = 0; e < EIGHTS; e++)
                sums[e] += weight * (streamtree_eight) (
                    (streamtree_whole_eight) (
                        value - *(const streamtree_eight *) (cells + 8 * e))
                    & 0x7fffffff);
        }
        for (; i < end; i++) {
            const streamtree_cell *cells = block + looks[i].offset;
            const int32_t kind = looks[i].value.kind;
            const streamtree_eight weight = looks[i].weight - (streamtree_eight) {0.0f};
            for (int e = 0; e < EIGHTS; e++)
                sums[e] += (streamtree_eight) (
                    (streamtree_whole_eight) weight
                    & (*(const streamtree_whole_eight *) (cells + 8 * e) != kind));
        }
        below = sums[0] < limit;
        for (int e = 1; e < EIGHTS; e++)
            below |= sums[e] < limit;
        if (!streamtree_bits(below)) {
            if (end == first && first > 1)
                *first_look = first - 1;
            return 0;
        }
        if (end == first)
            *first_look = first + 2 < STREAMTREE_LOOK ? first + 2 : STREAMTREE_LOOK;
    }
    for (int e = 0; e < EIGHTS; e++)
        *(streamtree_eight *) (distances + 8 * e) = sums[e];
    return 1;
}

/* Let a row in among the nearest, of which the farthest one goes; it is nearer than that. No jump
   depends on which one it is. */
STREAMTREE_INLINE void streamtree_let_in(streamtree_ranked *ranked, float distance, int32_t place)
{
    for (int i = STREAMTREE_NEAREST - 8; i >= 0; i -= 8) {
        float *distances = ranked->distances + 1 + i;
        int32_t *places = ranked->places + 1 + i;
        const streamtree_eight here = *(const streamtree_eight *) distances;
        const streamtree_eight before = *(const streamtree_eight *) (distances - 1);
        const streamtree_whole_eight stays = here <= distance, moves = before > distance;
        const streamtree_whole_eight comes = ~(stays | moves);
        const streamtree_eight its_distance = distance - (streamtree_eight) {0.0f};
        *(streamtree_whole_eight *) distances = (stays & (streamtree_whole_eight) here)
            | (moves & (streamtree_whole_eight) before)
            | (comes & (streamtree_whole_eight) its_distance);
        *(streamtree_whole_eight *) places = (stays & *(streamtree_whole_eight *) places)
            | (moves & *(streamtree_whole_eight *) (places - 1)) | (comes & place);
    }
}
#else
STREAMTREE_INLINE uint32_t streamtree_below(const float *distances, float limit)
{
    uint32_t bits = 0;
    for (int k = 0; k < STREAMTREE_LANES; k++)
        bits |= (uint32_t) (distances[k] < limit) << k;
    return bits;
}

STREAMTREE_INLINE int streamtree_measure(
    const streamtree_look *looks, int32_t n_numbers, int32_t n, const streamtree_cell *block,
    float limit, int32_t *first_look, float *distances)
{
    (void) first_look;
    for (int32_t i = 0; i < n; i++) {
        const streamtree_cell *cells = block + looks[i].offset;
        const float value = looks[i].value.number, weight = looks[i].weight;
        const int32_t kind = looks[i].value.kind;
        if (i < n_numbers)
            for (int k = 0; k < STREAMTREE_LANES; k++)
                distances[k] += weight * fabsf(value - cells[k].number);
        else
            for (int k = 0; k < STREAMTREE_LANES; k++)
                distances[k] += cells[k].kind == kind ? 0.0f : weight;
        if (i % STREAMTREE_LOOK == STREAMTREE_LOOK - 1) {
            int is_below = 0;
            for (int k = 0; k < STREAMTREE_LANES; k++)
                is_below |= distances[k] < limit;
            if (!is_below)
                return 0;
        }
    }
    return 1;
}

STREAMTREE_INLINE void streamtree_let_in(streamtree_ranked *ranked, float distance, int32_t place)
{
    int32_t i = STREAMTREE_NEAREST;
    for (; ranked->distances[i - 1] > distance; i--) {
        ranked->distances[i] = ranked->distances[i - 1];
        ranked->places[i] = ranked->places[i - 1];
    }
    ranked->distances[i] = distance;
    ranked->places[i] = place;
}
#endif

/* Find the nearest rows; of rows as near those that come first, block by block from the newest on.
   Returns how many there are. */
STREAMTREE_CLONES int32_t streamtree_nearest(const streamtree_query *of, streamtree_near *near)
{
    const int32_t n_blocks = (of->size + STREAMTREE_LANES - 1) / STREAMTREE_LANES;
    const int32_t last = of->next % STREAMTREE_LANES;
    int32_t b = of->next / STREAMTREE_LANES, n = 0, n_looks = 0, n_numbers = 0;
    int32_t first_look = STREAMTREE_LOOK;
    float limit = INFINITY, least = 0.0f;
    streamtree_look looks[STREAMTREE_MOST_FIELDS];
    streamtree_ranked ranked;
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
    for (int i = 0; i <= STREAMTREE_NEAREST; i++) {
        ranked.distances[i] = i ? INFINITY : -INFINITY;
        ranked.places[i] = -1;
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
        if (!streamtree_measure(
                looks, n_numbers, n_looks,
                of->cells + (int64_t) b * of->n_fields * STREAMTREE_LANES, limit, &first_look,
                distances))
            continue;
        if (end > of->size - b * STREAMTREE_LANES)
            end = of->size - b * STREAMTREE_LANES;
        for (uint32_t bits = streamtree_below(distances, limit) >> first << first; bits;
             bits &= bits - 1) {
            const int k = streamtree_lowest(bits);
            if (k < end && distances[k] < limit) {
                streamtree_let_in(&ranked, distances[k], b * STREAMTREE_LANES + k);
                limit = ranked.distances[STREAMTREE_NEAREST];
            }
        }
    }
    memcpy(near->distances, ranked.distances + 1, sizeof near->distances);
    memcpy(near->places, ranked.places + 1, sizeof near->places);
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
    enum { NUMBER, ONE, TO_ROW, VECTORS };
    int32_t ages[STREAMTREE_NEAREST];
    float between[STREAMTREE_NEAREST][STREAMTREE_NEAREST];
    double root[STREAMTREE_NEAREST][STREAMTREE_NEAREST];
    double vectors[VECTORS][STREAMTREE_NEAREST] = {{0.0}}, solved[VECTORS][STREAMTREE_NEAREST];
    double product = 0.0, ones = doubt, mean, said;
    for (int32_t i = 0; i < STREAMTREE_NEAREST; i++)
        ages[i] = streamtree_age(of, near->places[i < n ? i : 0]);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
            between[i][j] = of->age_weight * fabsf((float) (ages[i] - ages[j]));
    for (int32_t i = 0; i < of->n_fields; i++)
        streamtree_add_between(of, near, n, of->fields[i], i < of->n_numbers, between);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
            root[i][j] = streamtree_expf(-scale * between[i][j]);
        root[i][i] += noise[i];
        vectors[NUMBER][i] = numbers[i];
        vectors[ONE][i] = 1.0;
        vectors[TO_ROW][i] = streamtree_expf(-scale * near->distances[i]);
    }
    /* Cholesky's root of the covariances, which takes the place of their upper half, and what it
       makes of the vectors: what a row adds to all sums is taken off at once */
    for (int32_t i = 0; i < n; i++) {
        const double diagonal = sqrt(root[i][i]);
        for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
            root[i][j] /= diagonal;
        for (int32_t k = i + 1; k < n; k++) {
            const double factor = root[i][k];
            for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
                root[k][j] -= factor * root[i][j];
        }
        for (int32_t v = 0; v < VECTORS; v++) {
            solved[v][i] = vectors[v][i] / diagonal;
            for (int32_t j = 0; j < STREAMTREE_NEAREST; j++)
                vectors[v][j] -= solved[v][i] * root[i][j];
        }
        product += solved[NUMBER][i] * solved[ONE][i];
        ones += solved[ONE][i] * solved[ONE][i];
    }
    mean = said = product / ones;
    for (int32_t i = 0; i < n; i++)
        said += solved[TO_ROW][i] * (solved[NUMBER][i] - mean * solved[ONE][i]);
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
