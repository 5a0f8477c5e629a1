from libc.stdint cimport int32_t, uint64_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Row


cpdef enum:
    CANDIDATES = 32
    BUCKETS = 16
    PAIRS = BUCKETS * (BUCKETS - 1) // 2


cdef struct Candidate:
    # a threshold, and what the rows above it have shown
    int32_t column
    float threshold
    float weight
    float sums[BUCKETS]
    float squares[BUCKETS]


cdef struct SplitSearch:
    # the search of one leaf for its split; a round tries thresholds of up to CANDIDATES columns
    float rows                  # weight seen in this round
    float watched               # of them, the weight of those that count
    float next_look
    int32_t looks               # since the leaf is one
    int32_t n                   # candidates of the round; 0: the next row begins one
    float sums[BUCKETS]         # of all rows of the round
    float squares[BUCKETS]
    float products[PAIRS]       # of every two buckets: (1, 0), (2, 0), (2, 1), ...
    Candidate* candidates       # NULL where there are none


cdef struct Residuals:
    # what the model of one leaf said of the row learned last, for a search to explain its errors
    const float* p          # the probabilities of its classes, by place
    int32_t n               # how many classes it knows; 0: nothing to explain
    int32_t place           # of the class that it was
    Py_ssize_t n_parts      # of the encoded row, that the model reads


cdef class SplitFinder:
    cdef Context context
    cdef uint64_t seed
    cdef double grace_period
    cdef double delta

    cdef int watch(self, SplitSearch* search, int32_t leaf, const Row* row,
                   const Residuals* residuals, double weight) except -1 nogil
    cdef int begin_round(self, SplitSearch* search, int32_t leaf, const Row* row) except -1 nogil
    cdef float patience(self) noexcept nogil
    cdef bint found(self, SplitSearch* search, Candidate* best) noexcept nogil


cdef void free_search(SplitSearch* search) noexcept nogil
cdef size_t most_search_bytes(int32_t n_columns) noexcept nogil
cdef dict exported_search(const SplitSearch* search)
cdef int import_search(SplitSearch* search, dict state) except -1
