"""The tests of trees that grow from a window: a threshold, or a set of categories."""

from libc.stdint cimport int32_t, uint32_t

cdef extern from "../kernels/sets.h" nogil:
    enum:
        BUCKETS "STREAMTREE_BUCKETS"
    ctypedef uint32_t Mark "streamtree_mark"
    uint32_t bucket_of "streamtree_bucket_of"(uint32_t kind, uint32_t salt)
    uint32_t find_buckets "streamtree_find_buckets"(Mark* marks, int32_t n, uint32_t salt)
    int lowest "streamtree_lowest"(uint32_t bits)
    void find_members "streamtree_find_members"(Mark* marks, int32_t n, uint32_t members)


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


cdef inline bint is_in_set(uint32_t members, uint32_t kind, uint32_t salt) noexcept nogil:
    """The test of a set of categories."""
    return members >> bucket_of(kind, salt) & 1


cdef inline bint is_above(float value, float threshold, bint missing_right) noexcept nogil:
    """The test of a threshold; NaN is missing."""
    # without a jump that is random
    return (value > threshold) | (missing_right & (value != value))
