"""What an open leaf knows: per column a bounded histogram of the values met, with sums per bin."""

from libc.stdint cimport int32_t, int64_t, uint32_t


cdef struct IntMap:
    # open addressing over pairs (key, value); a key of -1 is a free place
    int32_t* pairs
    int32_t places          # a power of two, 0 while empty
    int32_t n


cdef struct Histogram:
    # bin i holds the values in [low[i], high[i]]; bins are disjoint and ascend
    double* low
    double* high
    double* sums            # `width` sums a bin
    double* model           # of the linear model: `width` weights, then their squared gradients
    int64_t rows            # rows that listed the column
    int32_t column
    int32_t n_bins
    int32_t capacity
    int32_t unused


cpdef enum LeafModel:
    # who speaks for a leaf: the path to it, naive Bayes, its linear model, or the best of them
    PATH = 0
    BAYES = 1
    LINEAR = 2
    ADAPTIVE = 3


cdef struct Leaf:
    Histogram* histograms   # in order of arrival
    IntMap by_column
    IntMap by_label
    int32_t* labels         # the label of every sum; NULL for numbers, whose sums are w and w y
    double* totals          # the sums over all rows
    double* offsets         # of the linear model: `width` of them, then their squared gradients
    int64_t rows
    size_t bytes            # of the leaf and all that it points to
    int32_t n
    int32_t capacity
    int32_t n_sums          # labels met, or 2
    int32_t width           # room for sums
    double weight
    double weight_squares
    double target_squares   # sum of w y^2
    double[3] scores        # how well the first three models did, asked before learning
    double next_look        # the weight at which the leaf next asks whether to split
    int64_t looks


cdef inline int32_t map_find(const IntMap* table, int32_t key) noexcept nogil:
    """The value of a key, -1 if there is none."""
    cdef uint32_t mask, place
    if table.places == 0:
        return -1
    mask = <uint32_t> table.places - 1
    place = (<uint32_t> key * 2654435769u >> 7) & mask
    while table.pairs[2 * place] >= 0:
        if table.pairs[2 * place] == key:
            return table.pairs[2 * place + 1]
        place = (place + 1) & mask
    return -1


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


cdef inline Histogram* find_histogram(const Leaf* leaf, int32_t column,
                                      Py_ssize_t hint) noexcept nogil:
    """The histogram of a column, NULL if there is none; `hint` is where it may be."""
    cdef int32_t place
    if hint < leaf.n and leaf.histograms[hint].column == column:
        return &leaf.histograms[hint]
    place = map_find(&leaf.by_column, column)
    return NULL if place < 0 else &leaf.histograms[place]


cdef int map_insert(IntMap* table, int32_t key, int32_t value) except -1 nogil
cdef size_t map_bytes(const IntMap* table) noexcept nogil

cdef Leaf* new_leaf(bint of_labels) except NULL nogil
cdef void free_leaf(Leaf* leaf) noexcept nogil
cdef int32_t place_of_label(Leaf* leaf, int32_t label) except -1 nogil
cdef Histogram* histogram_of(Leaf* leaf, int32_t column, Py_ssize_t hint) except NULL nogil
cdef int32_t bin_of(Leaf* leaf, Histogram* histogram, double value,
                    int32_t max_bins) except -1 nogil


cdef int inherit(Leaf* child, const Leaf* parent, const double* counts) except -1 nogil


cdef class LeafExport:
    cdef readonly list parts
    cdef int add(self, int32_t node, const Leaf* leaf) except -1

cdef Leaf* import_leaf(state) except NULL
