from libc.stdint cimport int32_t, uint64_t

from streamtree._core.readings cimport Reading, RowReader
from streamtree._core.types cimport Row


cpdef enum:
    CANDIDATES = 16
    BUCKETS = 16


cdef struct Candidate:
    # a threshold, and what the rows above it have shown
    int32_t column
    float threshold
    float weight
    float sums[BUCKETS]
    float squares[BUCKETS]


cdef struct Search:
    # the hunt of one leaf for its split; a round tries CANDIDATES thresholds
    float rows                  # weight seen in this round
    float watched               # of them, the weight of those that count
    float next_look
    int32_t looks               # since the leaf is one
    int32_t n                   # candidates of the round
    float sums[BUCKETS]         # of all rows of the round
    float squares[BUCKETS]
    Candidate candidates[CANDIDATES]


cdef class SplitFinder:
    cdef RowReader reader
    cdef uint64_t seed
    cdef double grace_period
    cdef double delta

    cdef void watch(self, Search* search, int32_t leaf, const Reading* reading, const float* p,
                    int32_t n_classes, int32_t place, double weight) noexcept nogil
    cdef void begin_round(self, Search* search, int32_t leaf, const Row* row) noexcept nogil
    cdef float patience(self) noexcept nogil
    cdef const Candidate* found(self, Search* search) noexcept nogil


cdef object floats(const float* values, Py_ssize_t n)
cdef dict exported_search(const Search* search)
cdef int import_search(Search* search, dict state) except -1
