"""Which columns trees without nodes look at: those that are mostly there, in one order."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Row


cdef struct Candidate:
    # a column of numbers, or a feature with categories
    uint64_t rank       # by a hash of its name; the first ones are taken
    uint32_t name
    int32_t column      # of numbers, or the first of the feature's categories
    int32_t group       # the feature with categories, else -1
    bint is_exact       # numbers are the same or others, as categories are


cdef Candidate candidate(Context context, int32_t column) noexcept nogil
cdef int32_t list_candidates(Context context, Candidate* found, int32_t most) noexcept nogil
cdef int32_t column_in(const Row* row, Context context, int32_t column,
                       int32_t group) noexcept nogil
