/* Of some numbers: the least and the largest, of which some may be missing; where one stands; how
   many are above a threshold, by label. */

#ifndef STREAMTREE_RANGES_H
#define STREAMTREE_RANGES_H

#include <math.h>
#include <stdint.h>

#include "clones.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Compilers leave it at one number after the other, for what is missing has no order. Returns how
   many are missing; where all are, the least is infinite. */
static inline int32_t streamtree_range(const float *values, int32_t n, float *low, float *high) {
    float least = INFINITY, largest = -INFINITY;
    int32_t i = 0, missing = 0;
#if defined(__SSE2__)
    float lows[4], highs[4];
    int32_t counts[4], k;
    __m128 four_low = _mm_set1_ps(INFINITY), four_high = _mm_set1_ps(-INFINITY);
    __m128i four_missing = _mm_setzero_si128();
    for (; i + 4 <= n; i += 4) {
        __m128 four = _mm_loadu_ps(values + i);
        /* the second operand where either is NaN */
        four_low = _mm_min_ps(four, four_low);
        four_high = _mm_max_ps(four, four_high);
        four_missing = _mm_sub_epi32(four_missing, _mm_castps_si128(_mm_cmpunord_ps(four, four)));
    }
    _mm_storeu_ps(lows, four_low);
    _mm_storeu_ps(highs, four_high);
    _mm_storeu_si128((__m128i *) counts, four_missing);
    for (k = 0; k < 4; k++) {
        least = lows[k] < least ? lows[k] : least;
        largest = highs[k] > largest ? highs[k] : largest;
        missing += counts[k];
    }
#endif
    for (; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        largest = values[i] > largest ? values[i] : largest;
        missing += values[i] != values[i];
    }
    *low = least;
    *high = largest;
    return missing;
}

/* The first place of a key among n, n if it is not there. */
static inline int64_t streamtree_place(const int32_t *keys, int64_t n, int32_t key) {
    int64_t i = 0;
#if defined(__SSE2__)
    __m128i wanted = _mm_set1_epi32(key);
    for (; i + 8 <= n; i += 8) {
        __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *) (keys + i)), wanted);
        __m128i high = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *) (keys + i + 4)), wanted);
        if (_mm_movemask_epi8(_mm_or_si128(low, high)))
            break;
    }
#endif
    while (i < n && keys[i] != key)
        i++;
    return i;
}

/* Of the rows of each label, how many have a value above a threshold. One label after the other, so
   that no row waits for the one before it: of few labels that takes half of the time and less. */
STREAMTREE_CLONES void streamtree_count_above(
    const float *values, float threshold, const int32_t *labels, int32_t n, int32_t n_labels,
    int32_t *counts)
{
    for (int32_t label = 0; label < n_labels; label++) {
        int32_t count = 0;
        for (int32_t i = 0; i < n; i++)
            count += (labels[i] == label) & (values[i] > threshold);
        counts[label] = count;
    }
}

#endif
