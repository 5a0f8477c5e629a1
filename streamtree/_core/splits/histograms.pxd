"""What open leaves know: per column a bounded histogram of the values met, with sums per bin."""

from libc.stdint cimport int32_t, int64_t

from streamtree._core.store.tables cimport Table, map_find
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, View


cdef struct Histogram:
    # bin i holds the values in [low[i], high[i]]; bins are disjoint and ascend
    double* low
    double* high
    double* sums            # as many sums a bin as the statistics have room for
    int64_t rows            # rows that listed the column
    int32_t column
    int32_t n_bins
    int32_t capacity


cdef struct Statistics:
    # of one leaf, since it began to collect
    Histogram* histograms   # in order of arrival
    Table by_column         # the place of a column's histogram
    Table by_label          # the place of a label's sum
    int32_t* labels         # the label of every sum; NULL for numbers, whose sums are w and w y
    double* totals          # the sums over all rows
    double* before          # the sums over what the leaf had from its parent
    int64_t rows
    int64_t looks
    size_t bytes            # of the statistics and all that they point to
    int32_t n
    int32_t capacity
    int32_t n_sums          # labels met, or 2
    int32_t width           # room for sums
    double weight
    double weight_squares
    double target_squares   # sum of w y^2
    double squares_before   # the same of `before`
    double next_look        # the weight at which the leaf next asks whether to split


cdef inline int32_t first_reaching(const double* high, int32_t n, double value) noexcept nogil:
    """The first bin whose high end is at least `value`, n if there is none."""
    cdef int32_t start = 0, half
    while n > 0:
        half = n >> 1
        # written so that it compiles to moves: the way a value takes is hard to predict
        if high[start + half] < value:
            start += half + 1
            n -= half + 1
        else:
            n = half
    return start


cdef inline int32_t find_bin(const Histogram* histogram, double value) noexcept nogil:
    """The bin that holds a value, -1 if it lies between bins."""
    cdef int32_t place = first_reaching(histogram.high, histogram.n_bins, value)
    if place < histogram.n_bins and histogram.low[place] <= value:
        return place
    return -1


cdef inline Histogram* find_histogram(const Statistics* leaf, int32_t column,
                                      Py_ssize_t hint) noexcept nogil:
    """The histogram of a column, NULL if there is none; `hint` is where it may be."""
    cdef int32_t place
    if hint < leaf.n and leaf.histograms[hint].column == column:
        return &leaf.histograms[hint]
    place = map_find(&leaf.by_column, column)
    return NULL if place < 0 else &leaf.histograms[place]


cdef double bin_weight(const Statistics* leaf, const double* sums) noexcept nogil


cdef class LeafStatistics:
    cdef Statistics** nodes     # by node; NULL where nothing is collected
    cdef int32_t capacity
    cdef bint of_labels
    cdef int32_t max_bins
    cdef Context context

    cdef int reserve(self, int32_t n) except -1 nogil
    cdef Statistics* open(self, int32_t node) except NULL nogil
    cdef void begin_anew(self, int32_t node) noexcept nogil
    cdef void close(self, int32_t node) noexcept nogil
    cdef int32_t place(self, int32_t node, int32_t label) except -1 nogil
    cdef int count(self, int32_t node, const View* row, const Example* example,
                   bint collects) except -1 nogil
    cdef list state(self)
    cdef int take_state(self, list state) except -1
