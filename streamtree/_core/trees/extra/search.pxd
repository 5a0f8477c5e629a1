"""The search for a split among random ones, over some rows of the window."""

from libc.stdint cimport int32_t, uint64_t

from streamtree._core.stream.window cimport Window


cdef struct Candidate:
    int32_t column          # -1: there is none
    float threshold
    int32_t missing_right
    int32_t unused
    double score            # the sum over both sides of squared weights or sums, per weight


cdef struct Column:
    # a column in the rows that are searched: their values are gathered
    int32_t column
    bint is_category
    float low
    float high
    int32_t n_missing


cdef class SplitSearch:
    cdef Window window
    cdef bint has_numbers
    cdef Candidate best
    cdef const int32_t* slots   # of the rows that are searched
    cdef int32_t n
    cdef double total           # their weight
    cdef double mean            # of their numbers
    cdef bint is_pure           # nothing is to be told apart
    cdef bint is_done           # nothing can be better than the best
    cdef bint is_weighted       # not all weights are 1
    cdef int32_t n_labels
    cdef int32_t* labels        # met in them
    cdef double* weights        # of these labels
    cdef double* right          # of these labels, on the right; 0 between calls
    cdef int32_t* counts        # the same where all weights are 1
    cdef int32_t* places        # by label: its place among those that were met, -1 for none
    cdef float* values          # by row: of the column that is looked at
    cdef float* row_weights     # by row
    cdef int32_t* row_labels    # by row: the place of its label
    cdef double* excess         # by row: weight times number less mean
    cdef int32_t capacity
    cdef int32_t label_capacity

    cdef int begin(self, const int32_t* slots, int32_t n) except -1 nogil
    cdef double width(self) noexcept nogil
    cdef bint consider(self, uint64_t* random, bint is_between_rows) noexcept nogil
    cdef int _reserve(self, int32_t n, int32_t n_labels) except -1 nogil
    cdef void _count_labels(self) noexcept nogil
    cdef void _count_numbers(self) noexcept nogil
    cdef bint _draw(self, uint64_t word, uint64_t* random, Column* column) noexcept nogil
    cdef int32_t _draw_listed(self, int32_t slot, uint64_t word) noexcept nogil
    cdef void _gather_numbers(self, const float* numbers, Column* column) noexcept nogil
    cdef void _gather_category(self, const int32_t* codes, Column* column) noexcept nogil
    cdef void _gather_list(self, Column* column) noexcept nogil
    cdef bint _set_threshold(self, const Column* column, uint64_t word, uint64_t* random,
                             bint is_between_rows, Candidate* out) noexcept nogil
    cdef void _find_range(self, Column* column) noexcept nogil
    cdef void _count_right(self, float threshold, bint missing_right) noexcept nogil
    cdef void _score_labels(self, Candidate* found, int32_t n_missing) noexcept nogil
    cdef void _score_numbers(self, Candidate* found, int32_t n_missing) noexcept nogil
    cdef int32_t divide(self, const Candidate* split, int32_t* left, int32_t* right) noexcept nogil
    cdef void release(self) noexcept nogil
    cdef size_t n_bytes(self) noexcept nogil
