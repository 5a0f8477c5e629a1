"""The tests of trees that grow from a window: a threshold, or a set of categories."""

from libc.stdint cimport uint32_t

cdef enum:
    BUCKETS = 32        # of categories, and the first for rows that have none


cdef union Bound:
    float threshold     # right above it
    uint32_t members    # right if the bucket of the category is one of these, by bit


cdef inline Bound bound_of(bint is_set, float threshold, uint32_t members) noexcept nogil:
    cdef Bound bound
    if is_set:
        bound.members = members
    else:
        bound.threshold = threshold
    return bound


cdef inline uint32_t bucket_of(uint32_t kind, uint32_t salt) noexcept nogil:
    """Where a category lies, by a hash of it; which others lie there depends on the salt."""
    cdef uint32_t word = (kind ^ salt * <uint32_t> 0x85EBCA77) * <uint32_t> 0x9E3779B1
    return 1 + (word >> 16) % <uint32_t> (BUCKETS - 1) if kind else 0


cdef inline bint is_in_set(uint32_t members, uint32_t kind, uint32_t salt) noexcept nogil:
    """The test of a set of categories."""
    return members >> bucket_of(kind, salt) & 1


cdef inline bint is_above(float value, float threshold, bint missing_right) noexcept nogil:
    """The test of a threshold; NaN is missing."""
    # without a jump that is random
    return (value > threshold) | (missing_right & (value != value))
