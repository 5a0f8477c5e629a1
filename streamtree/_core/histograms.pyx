"""Bounded histograms whose bins follow the data, and the leaves that hold them.

A histogram starts with a bin for every value. When it is full, the two neighbours of the least
weight become one bin, that covers their range. A value inside a range is counted there; a value
between ranges opens a bin of its own at the price of such a merger. New ranges and drifting
values are thus taken in at any time, while on a settled stream gaps soon are so narrow that
mergers cost nothing: after n rows a value falls between bins with a chance of about bins / n.

Capacities depend on what is held only, not on how it came about, so that a restored leaf takes
the same bytes as the one that was saved.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset

from streamtree._core.memory cimport regrown

import numpy as np


# how much weight a leaf gives to what its parent's answers were worth
cdef double INHERITED_WEIGHT = 50.0


cdef void* zeroed(size_t size) except NULL nogil:
    cdef void* block = calloc(1, size)
    if block == NULL:
        with gil:
            raise MemoryError("streamtree: the model found no memory to grow")
    return block


cdef int32_t roomy(int32_t n) noexcept nogil:
    """The capacity for n things: the next power of two, at least 2."""
    cdef int32_t capacity = 2
    while capacity < n:
        capacity *= 2
    return capacity


cdef size_t map_bytes(const IntMap* table) noexcept nogil:
    return <size_t> table.places * 2 * sizeof(int32_t)


cdef int map_insert(IntMap* table, int32_t key, int32_t value) except -1 nogil:
    """Add a key that is not there."""
    cdef IntMap larger
    cdef uint32_t mask, place
    cdef int32_t i
    if 4 * (table.n + 1) > 3 * table.places:
        larger.places = max(4, 2 * table.places)
        larger.n = 0
        larger.pairs = <int32_t*> regrown(NULL, map_bytes(&larger))
        memset(larger.pairs, 0xFF, map_bytes(&larger))
        for i in range(table.places):
            if table.pairs[2 * i] >= 0:
                map_insert(&larger, table.pairs[2 * i], table.pairs[2 * i + 1])
        free(table.pairs)
        table[0] = larger
    mask = <uint32_t> table.places - 1
    place = (<uint32_t> key * 2654435769u >> 7) & mask
    while table.pairs[2 * place] >= 0:
        place = (place + 1) & mask
    table.pairs[2 * place] = key
    table.pairs[2 * place + 1] = value
    table.n += 1
    return 0


# ------------------------------------------------------------------------------ histograms


cdef size_t histogram_bytes(int32_t capacity, int32_t width) noexcept nogil:
    return (<size_t> capacity * (2 + width) + 2 * width) * sizeof(double)


cdef int reshape(Histogram* histogram, int32_t capacity, int32_t old_width,
                 int32_t width) except -1 nogil:
    """Give a histogram room for `capacity` bins of `width` sums; one block holds them all."""
    cdef double* block = <double*> zeroed(histogram_bytes(capacity, width))
    cdef double* high = block + capacity
    cdef double* sums = high + capacity
    cdef double* model = sums + <size_t> capacity * width
    cdef int32_t i
    if histogram.low != NULL:
        memcpy(model, histogram.model, old_width * sizeof(double))
        memcpy(model + width, histogram.model + old_width, old_width * sizeof(double))
    if histogram.n_bins:
        memcpy(block, histogram.low, histogram.n_bins * sizeof(double))
        memcpy(high, histogram.high, histogram.n_bins * sizeof(double))
        for i in range(histogram.n_bins):
            memcpy(&sums[<size_t> i * width], &histogram.sums[<size_t> i * old_width],
                   old_width * sizeof(double))
    free(histogram.low)
    histogram.low = block
    histogram.high = high
    histogram.sums = sums
    histogram.model = model
    histogram.capacity = capacity
    return 0


cdef double bin_weight(const Leaf* leaf, const double* sums) noexcept nogil:
    cdef double weight = sums[0]
    cdef int32_t i
    if leaf.labels != NULL:
        for i in range(1, leaf.n_sums):
            weight += sums[i]
    return weight


cdef enum:
    MAKES_ROOM = 8      # of so many values between two bins one gets a bin of its own


cdef void merge_lightest(const Leaf* leaf, Histogram* histogram) noexcept nogil:
    """Make one bin of the two neighbours that weigh least together."""
    cdef int32_t i, best = 0, width = leaf.width
    cdef double last, weight, lightest = 0.0
    cdef double* sums
    last = bin_weight(leaf, histogram.sums)
    for i in range(1, histogram.n_bins):
        weight = bin_weight(leaf, &histogram.sums[<size_t> i * width])
        if i == 1 or last + weight < lightest:
            lightest = last + weight
            best = i - 1
        last = weight
    sums = &histogram.sums[<size_t> best * width]
    for i in range(leaf.n_sums):
        sums[i] += sums[i + width]
    histogram.high[best] = histogram.high[best + 1]
    histogram.n_bins -= 1
    i = histogram.n_bins - best - 1
    memmove(&histogram.low[best + 1], &histogram.low[best + 2], i * sizeof(double))
    memmove(&histogram.high[best + 1], &histogram.high[best + 2], i * sizeof(double))
    memmove(sums + width, sums + 2 * width, <size_t> i * width * sizeof(double))


cdef int32_t bin_of(Leaf* leaf, Histogram* histogram, double value,
                    int32_t max_bins) except -1 nogil:
    """The bin of a value, a new one if it lies between the others."""
    cdef int32_t place = first_reaching(histogram.high, histogram.n_bins, value)
    cdef int32_t after, width = leaf.width
    if place < histogram.n_bins and histogram.low[place] <= value:
        return place
    if histogram.n_bins >= max_bins:
        # To make room for a bin of its own costs a look at all bins; most values that fall
        # between two widen the nearer one instead.
        if histogram.rows % MAKES_ROOM and 0 < place < histogram.n_bins:
            if value - histogram.high[place - 1] < histogram.low[place] - value:
                place -= 1
                histogram.high[place] = value
            else:
                histogram.low[place] = value
            return place
        merge_lightest(leaf, histogram)
        place = first_reaching(histogram.high, histogram.n_bins, value)
        if place < histogram.n_bins and histogram.low[place] <= value:
            return place
    if histogram.n_bins == histogram.capacity:
        leaf.bytes -= histogram_bytes(histogram.capacity, width)
        reshape(histogram, max(1, 2 * histogram.capacity), width, width)
        leaf.bytes += histogram_bytes(histogram.capacity, width)
    after = histogram.n_bins - place
    memmove(&histogram.low[place + 1], &histogram.low[place], after * sizeof(double))
    memmove(&histogram.high[place + 1], &histogram.high[place], after * sizeof(double))
    memmove(&histogram.sums[<size_t> (place + 1) * width], &histogram.sums[<size_t> place * width],
            <size_t> after * width * sizeof(double))
    histogram.low[place] = histogram.high[place] = value
    memset(&histogram.sums[<size_t> place * width], 0, width * sizeof(double))
    histogram.n_bins += 1
    return place


# ---------------------------------------------------------------------------------- leaves


cdef Leaf* new_leaf(bint of_labels) except NULL nogil:
    """A leaf that has seen nothing; of labels, or of numbers."""
    cdef Leaf* leaf = <Leaf*> zeroed(sizeof(Leaf))
    leaf.width = 2
    leaf.bytes = sizeof(Leaf) + 6 * sizeof(double)
    leaf.totals = <double*> zeroed(2 * sizeof(double))
    leaf.offsets = <double*> zeroed(4 * sizeof(double))
    if of_labels:
        leaf.labels = <int32_t*> zeroed(2 * sizeof(int32_t))
        leaf.bytes += 2 * sizeof(int32_t)
    else:
        leaf.n_sums = 2
    return leaf


cdef void free_leaf(Leaf* leaf) noexcept nogil:
    cdef int32_t i
    if leaf == NULL:
        return
    for i in range(leaf.n):
        free(leaf.histograms[i].low)
    free(leaf.histograms)
    free(leaf.by_column.pairs)
    free(leaf.by_label.pairs)
    free(leaf.labels)
    free(leaf.totals)
    free(leaf.offsets)
    free(leaf)


cdef int widen(Leaf* leaf, int32_t width) except -1 nogil:
    """Room for more labels in every bin."""
    cdef int32_t i
    cdef double* offsets
    for i in range(leaf.n):
        leaf.bytes -= histogram_bytes(leaf.histograms[i].capacity, leaf.width)
        reshape(&leaf.histograms[i], leaf.histograms[i].capacity, leaf.width, width)
        leaf.bytes += histogram_bytes(leaf.histograms[i].capacity, width)
    leaf.totals = <double*> regrown(leaf.totals, width * sizeof(double))
    memset(&leaf.totals[leaf.width], 0, (width - leaf.width) * sizeof(double))
    leaf.labels = <int32_t*> regrown(leaf.labels, width * sizeof(int32_t))
    offsets = <double*> zeroed(2 * width * sizeof(double))
    memcpy(offsets, leaf.offsets, leaf.width * sizeof(double))
    memcpy(offsets + width, leaf.offsets + leaf.width, leaf.width * sizeof(double))
    free(leaf.offsets)
    leaf.offsets = offsets
    leaf.bytes += (width - leaf.width) * (3 * sizeof(double) + sizeof(int32_t))
    leaf.width = width
    return 0


cdef int32_t place_of_label(Leaf* leaf, int32_t label) except -1 nogil:
    """Which sum of every bin counts a label; a new one for a label that is new to the leaf."""
    cdef int32_t place
    if leaf.n_sums > 0 and leaf.labels[0] == label:
        return 0
    if leaf.n_sums > 1 and leaf.labels[1] == label:
        return 1
    place = map_find(&leaf.by_label, label)
    if place >= 0:
        return place
    place = leaf.n_sums
    if place == leaf.width:
        widen(leaf, 2 * leaf.width)
    leaf.bytes -= map_bytes(&leaf.by_label)
    map_insert(&leaf.by_label, label, place)
    leaf.bytes += map_bytes(&leaf.by_label)
    leaf.labels[place] = label
    leaf.n_sums += 1
    return place


cdef Histogram* histogram_of(Leaf* leaf, int32_t column, Py_ssize_t hint) except NULL nogil:
    """The histogram of a column, a new one if there is none."""
    cdef Histogram* found = find_histogram(leaf, column, hint)
    cdef int32_t capacity
    if found != NULL:
        return found
    if leaf.n == leaf.capacity:
        capacity = roomy(leaf.n + 1)
        leaf.histograms = <Histogram*> regrown(leaf.histograms, capacity * sizeof(Histogram))
        leaf.bytes += (capacity - leaf.capacity) * sizeof(Histogram)
        leaf.capacity = capacity
    leaf.bytes -= map_bytes(&leaf.by_column)
    map_insert(&leaf.by_column, column, leaf.n)
    leaf.bytes += map_bytes(&leaf.by_column)
    found = &leaf.histograms[leaf.n]
    memset(found, 0, sizeof(Histogram))
    found.column = column
    reshape(found, 0, leaf.width, leaf.width)
    leaf.bytes += histogram_bytes(0, leaf.width)
    leaf.n += 1
    return found


cdef int inherit(Leaf* child, const Leaf* parent, const double* counts) except -1 nogil:
    """Start a leaf with the linear model of the one it came from, for the labels it has."""
    cdef int32_t i, j, place, width
    cdef const Histogram* source
    cdef Histogram* target
    for i in range(3):
        child.scores[i] = INHERITED_WEIGHT * parent.scores[i] / max(parent.weight, 1.0)
    # its bins are empty, so that naive Bayes has to prove itself anew
    child.scores[<int> BAYES] = 0.0
    for i in range(parent.n_sums):
        if parent.labels != NULL:
            if counts[parent.labels[i]] <= 0.0:
                continue
            place = place_of_label(child, parent.labels[i])
        else:
            place = i
        child.offsets[place] = parent.offsets[i]
        child.offsets[child.width + place] = parent.offsets[parent.width + i]
    width = child.width
    for j in range(parent.n):
        source = &parent.histograms[j]
        target = histogram_of(child, source.column, j)
        for i in range(parent.n_sums):
            place = i if parent.labels == NULL else place_found(child, parent.labels[i])
            if place >= 0:
                target.model[place] = source.model[i]
                target.model[width + place] = source.model[parent.width + i]
    return 0


cdef int32_t place_found(const Leaf* leaf, int32_t label) noexcept nogil:
    return map_find(&leaf.by_label, label)


# ----------------------------------------------------------------------------------- state


cdef class LeafExport:
    """The leaves of a tree as plain arrays, columns in order."""

    def __cinit__(self):
        self.parts = []

    cdef int add(self, int32_t node, const Leaf* leaf) except -1:
        cdef int32_t i, k, width = leaf.n_sums
        cdef const Histogram* histogram
        order = sorted(range(leaf.n), key=lambda i: leaf.histograms[i].column)
        n_bins = sum(leaf.histograms[i].n_bins for i in range(leaf.n))
        columns = np.empty((leaf.n, 3), dtype=np.int64)
        ranges = np.empty((n_bins, 2))
        sums = np.empty((n_bins, width))
        # by column, the offsets last
        model = np.empty((leaf.n + 1, width, 2))
        cdef double[:, :, ::1] model_view = model
        cdef int64_t[:, ::1] columns_view = columns
        cdef double[:, ::1] ranges_view = ranges, sums_view = sums
        cdef Py_ssize_t place = 0, row = 0, j
        for i in order:
            histogram = &leaf.histograms[i]
            columns_view[row, 0] = histogram.column
            columns_view[row, 1] = histogram.n_bins
            columns_view[row, 2] = histogram.rows
            row += 1
            for j in range(histogram.n_bins):
                ranges_view[place + j, 0] = histogram.low[j]
                ranges_view[place + j, 1] = histogram.high[j]
                for k in range(width):
                    sums_view[place + j, k] = histogram.sums[j * leaf.width + k]
            place += histogram.n_bins
            for k in range(width):
                model_view[row - 1, k, 0] = histogram.model[k]
                model_view[row - 1, k, 1] = histogram.model[leaf.width + k]
        for k in range(width):
            model_view[leaf.n, k, 0] = leaf.offsets[k]
            model_view[leaf.n, k, 1] = leaf.offsets[leaf.width + k]
        labels = None
        if leaf.labels != NULL:
            labels = np.array([leaf.labels[i] for i in range(width)], dtype=np.int32)
        self.parts.append({
            "node": node,
            "columns": columns,
            "ranges": ranges,
            "sums": sums,
            "model": model,
            "labels": labels,
            "totals": np.array([leaf.totals[i] for i in range(width)]),
            "numbers": np.array([
                leaf.weight, leaf.weight_squares, leaf.target_squares, leaf.scores[0],
                leaf.scores[1], leaf.scores[2], leaf.next_look,
            ]),
            "rows": leaf.rows,
            "looks": leaf.looks,
        })
        return 0


cdef Leaf* import_leaf(state) except NULL:
    """A leaf from what `LeafExport` made of it."""
    cdef Leaf* leaf = new_leaf(state["labels"] is not None)
    cdef Histogram* histogram
    cdef const int64_t[:, ::1] columns = state["columns"]
    cdef const double[:, ::1] ranges = state["ranges"]
    cdef const double[:, ::1] sums = state["sums"]
    cdef const double[:, :, ::1] model = state["model"]
    cdef const double[::1] totals = state["totals"]
    cdef const double[::1] numbers = state["numbers"]
    cdef Py_ssize_t row, j, k, place = 0
    cdef int32_t position
    if state["labels"] is not None:
        for label in state["labels"].tolist():
            place_of_label(leaf, label)
    for k in range(totals.shape[0]):
        leaf.totals[k] = totals[k]
    for row in range(columns.shape[0]):
        histogram = histogram_of(leaf, <int32_t> columns[row, 0], row)
        histogram.rows = columns[row, 2]
        for k in range(totals.shape[0]):
            histogram.model[k] = model[row, k, 0]
            histogram.model[leaf.width + k] = model[row, k, 1]
        for j in range(place, place + columns[row, 1]):
            position = bin_of(leaf, histogram, ranges[j, 0], 0x7FFFFFFF)
            histogram.high[position] = ranges[j, 1]
            for k in range(sums.shape[1]):
                histogram.sums[position * leaf.width + k] = sums[j, k]
        place += columns[row, 1]
    leaf.weight, leaf.weight_squares, leaf.target_squares = numbers[0], numbers[1], numbers[2]
    leaf.scores[0], leaf.scores[1], leaf.scores[2] = numbers[3], numbers[4], numbers[5]
    leaf.next_look = numbers[6]
    for k in range(totals.shape[0]):
        leaf.offsets[k] = model[columns.shape[0], k, 0]
        leaf.offsets[leaf.width + k] = model[columns.shape[0], k, 1]
    leaf.rows = state["rows"]
    leaf.looks = state["looks"]
    return leaf
