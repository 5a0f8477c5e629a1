/* Sets of categories: in which bucket each lies, by a hash, and which buckets are in a set. */

#ifndef STREAMTREE_SETS_H
#define STREAMTREE_SETS_H

#include <stdint.h>

#include "clones.h"

/* the first is for rows that have no category */
enum { STREAMTREE_BUCKETS = 32 };

/* Of a row: by what its category is known, then the bucket, then whether that is in a set, as the
   bits of 1.0f or 0.0f. */
#if defined(__GNUC__)
typedef uint32_t streamtree_mark __attribute__((may_alias));
#else
typedef uint32_t streamtree_mark;
#endif

/* The place of the lowest bit; there is one. */
static inline int streamtree_lowest(uint32_t bits)
{
#if defined(__GNUC__)
    return __builtin_ctz(bits);
#else
    int place = 0;
    for (; !(bits & 1); bits >>= 1)
        place++;
    return place;
#endif
}

/* Where a category lies, by a hash of it; which others lie there depends on the salt. */
static inline uint32_t streamtree_bucket_of(uint32_t kind, uint32_t salt)
{
    const uint32_t word = (kind ^ salt * 0x85EBCA77u) * 0x9E3779B1u;
    return (1 + (word >> 16) % (STREAMTREE_BUCKETS - 1)) & -(uint32_t) (kind != 0);
}

/* Put the bucket of each row in the place of its category; returns all buckets, by bit. */
STREAMTREE_CLONES uint32_t streamtree_find_buckets(
    streamtree_mark *marks, int32_t n, uint32_t salt)
{
    uint32_t met = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t bucket = streamtree_bucket_of(marks[i], salt);
        marks[i] = bucket;
        met |= (uint32_t) 1 << bucket;
    }
    return met;
}

/* Put 1 in the place of a bucket that is a member, and 0 in that of another one. */
STREAMTREE_CLONES void streamtree_find_members(
    streamtree_mark *marks, int32_t n, uint32_t members)
{
    for (int32_t i = 0; i < n; i++)
        marks[i] = (members >> marks[i] & 1) * 0x3F800000u;
}

#endif
