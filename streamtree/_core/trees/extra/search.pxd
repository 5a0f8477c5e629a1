"""The search for a split among random ones, over some rows of the window."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.nodes cimport Test


cpdef enum:
    # rows that are looked at in one go; of more rows a sample of so many compares candidates
    CHUNK = 512
    # The numbers of all fields are kept while candidates for a node are compared, if there are no
    # more than so many: of few most are drawn again. Trees of 10 columns so take .9 of the time.
    MOST_GATHERED = 32


cdef struct Span:
    # of the values of a column
    float low               # the least and the largest
    float high
    int32_t n_missing       # rows without one


cdef struct Trial:
    # a candidate while it is drawn and compared
    int32_t column
    float threshold
    bint missing_right
    int32_t row             # of a category: the place of the row that it was drawn from,
    int32_t first           # and from which rows are looked at in turn
    uint32_t salt           # of a set of categories, else 0
    uint32_t members
    uint32_t met            # buckets that rows are in
    uint64_t word           # that it is drawn by
    Span span


cdef size_t search_bytes(int64_t n, int64_t n_labels, bint has_numbers,
                         int64_t n_gathered) noexcept nogil


cdef class ExtraSearch:
    cdef Window window
    cdef bint has_numbers
    cdef Test best
    cdef double score           # of the best: over both sides, squared weights or sums, per weight
    cdef Trial trial
    cdef const int32_t* slots   # of the rows that are searched
    cdef int32_t n
    cdef double n_listed        # how many values a row has in lists,
    cdef double width           # with the fields, and that rounded
    cdef int32_t n_columns
    cdef double total           # their weight
    cdef double sum             # of their numbers, from that of the first row
    cdef double mean
    cdef bint is_pure           # nothing is to be told apart
    cdef bint is_done           # nothing can be better than the best
    cdef bint is_weighted       # not all weights are 1
    cdef uint64_t constant      # by bit: of the first 64 fields those found to be the same in all
    cdef int32_t n_labels
    cdef int32_t* labels        # met in them
    cdef double* weights        # of these labels
    cdef double* right          # of these labels, on the right; 0 between candidates
    cdef int32_t* counts        # the same where all weights are 1
    cdef int32_t* places        # by label: its place among those that were met, -1 for none
    cdef float* values          # by row: of the column that is looked at, in one of the next two
    cdef float* buffer
    cdef float* gathered        # by field, of the first ones, then by row
    cdef Span* spans            # of these fields
    cdef int32_t n_gathered     # how many they are
    # By bit: which of them were read since the node was begun. What a window changes in between, it
    # changes in fields whose numbers are all the same, or growing begins anew.
    cdef uint64_t fields_read
    cdef float* row_weights     # by row
    cdef int32_t* row_labels    # by row: the place of its label
    cdef double* excess         # by row: weight times number less mean
    cdef double[4] sums         # of numbers on the right, in four lanes
    cdef double[4] sum_weights
    cdef int32_t n_right        # rows on the right, and those of the second label, of two
    cdef int32_t n_second
    cdef int32_t* sampled       # the slots of a sample
    cdef int32_t capacity       # rows, at most a chunk
    cdef int32_t label_capacity

    cdef int reserve(self, int32_t n, int32_t n_labels, int32_t n_gathered) except -1 nogil
    cdef void begin(self, const int32_t* slots, int32_t n, uint64_t constant) noexcept nogil
    cdef void count(self, int32_t first, int32_t end) noexcept nogil
    cdef void centre(self) noexcept nogil
    cdef void begin_with(self, const int32_t* slots, int32_t n, uint64_t constant) noexcept nogil
    cdef void begin_with_sample(self, uint64_t word) noexcept nogil
    cdef void measure(self) noexcept nogil
    cdef bint consider(self, uint64_t* random, bint is_between_rows) noexcept nogil
    cdef bint _draw(self, uint64_t* random) noexcept nogil
    cdef void _gather(self) noexcept nogil
    cdef void _gather_set(self) noexcept nogil
    cdef bint _set_threshold(self, uint64_t* random, bint is_between_rows) noexcept nogil
    cdef void _narrow(self, float* low, float* high) noexcept nogil
    cdef void _compare(self) noexcept nogil
    cdef bint is_weak(self) noexcept nogil
    cdef int32_t _place_of(self, int32_t label) noexcept nogil
    cdef void _count_labels(self, const int32_t* slots, int32_t n) noexcept nogil
    cdef int32_t _draw_listed(self, int32_t slot, uint64_t word) noexcept nogil
    cdef void _weigh_labels(self) noexcept nogil
    cdef void _weigh_numbers(self) noexcept nogil
    cdef double _score_labels(self, double* right_weight) noexcept nogil
    cdef double _score_numbers(self, double* right_weight) noexcept nogil
    cdef int32_t divide(self, int32_t* slots, int32_t* right, int32_t first, int32_t end,
                        int32_t n_left) noexcept nogil
    cdef void release(self) noexcept nogil
