"""Bounded histograms whose bins follow the data, and the leaves that hold them.

A histogram starts with a bin for every value. When it is full, the two neighbours of the least
weight become one bin, that covers their range. A value inside a range is counted there; a value
between ranges opens a bin of its own at the price of such a merger. New ranges and drifting
values are thus taken in at any time, while on a settled stream gaps soon are so narrow that
mergers cost nothing: after n rows a value falls between bins with a chance of about bins / n.

Capacities depend on what is held only, not on how it came about, so that restored statistics take
the same bytes as those that were saved.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memmove, memset

from streamtree._core.store.budget cimport (
    counted, counted_room, counted_zeros, give_back, may_take_rare, shrunk,
)
from streamtree._core.store.pool cimport room_for
from streamtree._core.store.tables cimport map_bytes, map_put, table_free

import numpy as np

cpdef enum:
    MOST_BINS = 65536   # of a histogram, whatever a parameter says


# ------------------------------------------------------------------------------ histograms


cdef size_t histogram_bytes(int32_t capacity, int32_t width) noexcept nogil:
    return <size_t> capacity * (2 + width) * sizeof(double)


cdef int reshape(Histogram* histogram, int32_t capacity, int32_t old_width,
                 int32_t width) except -1 nogil:
    """Give a histogram room for `capacity` bins of `width` sums; one block holds them all."""
    cdef double* block
    cdef int32_t i
    if capacity == 0:
        return 0
    block = <double*> counted_zeros(histogram_bytes(capacity, width))
    if histogram.n_bins:
        memcpy(block, histogram.low, histogram.n_bins * sizeof(double))
        memcpy(block + capacity, histogram.high, histogram.n_bins * sizeof(double))
        for i in range(histogram.n_bins):
            memcpy(&block[2 * capacity + <size_t> i * width],
                   &histogram.sums[<size_t> i * old_width], old_width * sizeof(double))
    give_back(histogram.low)
    histogram.low = block
    histogram.high = block + capacity
    histogram.sums = block + 2 * <size_t> capacity
    histogram.capacity = capacity
    return 0


cdef void narrow(Histogram* histogram, int32_t width, int32_t old_width) noexcept nogil:
    """Give bins back the width that they had, where they are."""
    cdef int32_t i
    for i in range(1, histogram.n_bins):
        memmove(&histogram.sums[<size_t> i * old_width], &histogram.sums[<size_t> i * width],
                old_width * sizeof(double))


cdef double bin_weight(const Statistics* leaf, const double* sums) noexcept nogil:
    cdef double weight = sums[0]
    cdef int32_t i
    if leaf.labels != NULL:
        for i in range(1, leaf.n_sums):
            weight += sums[i]
    return weight


cdef enum:
    MAKES_ROOM = 8      # of so many values between two bins one gets a bin of its own


cdef void merge_lightest(const Statistics* leaf, Histogram* histogram) noexcept nogil:
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


cdef void give_room_back(Statistics* leaf, Histogram* histogram) noexcept nogil:
    """Have no room for twice the bins: a copy has none. Unlike `reshape` this takes no memory."""
    cdef int32_t n = histogram.n_bins, width = leaf.width
    if histogram.capacity != 2 * n:
        return
    memmove(&histogram.low[n], histogram.high, n * sizeof(double))
    memmove(&histogram.low[2 * n], histogram.sums, <size_t> n * width * sizeof(double))
    histogram.low = <double*> shrunk(histogram.low, histogram_bytes(n, width))
    histogram.high, histogram.sums = &histogram.low[n], &histogram.low[2 * n]
    histogram.capacity = n
    leaf.bytes -= histogram_bytes(n, width)


cdef int32_t bin_of(Statistics* leaf, Histogram* histogram, double value,
                    int32_t max_bins) except -1 nogil:
    """The bin of a value, a new one if it lies between the others."""
    cdef int32_t place = first_reaching(histogram.high, histogram.n_bins, value)
    cdef int32_t after, width = leaf.width
    cdef size_t taken
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
            give_room_back(leaf, histogram)
            return place
    if histogram.n_bins == histogram.capacity:
        taken = histogram_bytes(histogram.capacity, width)
        reshape(histogram, 2 * histogram.capacity, width, width)
        leaf.bytes += histogram_bytes(histogram.capacity, width) - taken
    after = histogram.n_bins - place
    memmove(&histogram.low[place + 1], &histogram.low[place], after * sizeof(double))
    memmove(&histogram.high[place + 1], &histogram.high[place], after * sizeof(double))
    memmove(&histogram.sums[<size_t> (place + 1) * width], &histogram.sums[<size_t> place * width],
            <size_t> after * width * sizeof(double))
    histogram.low[place] = histogram.high[place] = value
    memset(&histogram.sums[<size_t> place * width], 0, width * sizeof(double))
    histogram.n_bins += 1
    return place


# ------------------------------------------------------------------------------ statistics


cdef Statistics* new_statistics(bint of_labels) except NULL nogil:
    """Statistics of nothing yet; of labels, or of numbers."""
    cdef Statistics* leaf = <Statistics*> counted_zeros(sizeof(Statistics))
    cdef bint is_done = False
    leaf.width = 2
    leaf.bytes = sizeof(Statistics) + 4 * sizeof(double)
    try:
        leaf.totals = <double*> counted_zeros(4 * sizeof(double))
        if of_labels:
            leaf.labels = <int32_t*> counted_zeros(2 * sizeof(int32_t))
            leaf.bytes += 2 * sizeof(int32_t)
        else:
            leaf.n_sums = 2
        is_done = True
    finally:
        if not is_done:
            free_statistics(leaf)
    leaf.before = leaf.totals + 2
    return leaf


cdef void free_statistics(Statistics* leaf) noexcept nogil:
    cdef int32_t i
    if leaf == NULL:
        return
    for i in range(leaf.n):
        give_back(leaf.histograms[i].low)
    give_back(leaf.histograms)
    table_free(&leaf.by_column)
    table_free(&leaf.by_label)
    give_back(leaf.labels)
    give_back(leaf.totals)
    give_back(leaf)


cdef int widen(Statistics* leaf, int32_t width) except -1 nogil:
    """Room for more labels in every bin, or, on an error, in none."""
    cdef int32_t i, n_wide = 0
    cdef Histogram* histogram
    cdef double* totals = NULL
    leaf.labels = <int32_t*> counted(leaf.labels, width * sizeof(int32_t))
    try:
        for i in range(leaf.n):
            histogram = &leaf.histograms[i]
            reshape(histogram, histogram.capacity, leaf.width, width)
            n_wide += 1
        totals = <double*> counted_zeros(2 * width * sizeof(double))
    finally:
        if totals == NULL:
            for i in range(n_wide):
                narrow(&leaf.histograms[i], width, leaf.width)
    for i in range(leaf.n):
        leaf.bytes += (
            histogram_bytes(leaf.histograms[i].capacity, width)
            - histogram_bytes(leaf.histograms[i].capacity, leaf.width)
        )
    memcpy(totals, leaf.totals, leaf.width * sizeof(double))
    memcpy(totals + width, leaf.before, leaf.width * sizeof(double))
    give_back(leaf.totals)
    leaf.totals = totals
    leaf.before = totals + width
    leaf.bytes += (width - leaf.width) * (2 * sizeof(double) + sizeof(int32_t))
    leaf.width = width
    return 0


cdef int32_t place_of_label(Statistics* leaf, int32_t label) except -1 nogil:
    """Which sum of every bin counts a label; a new one for a label that is new to the leaf."""
    cdef int32_t place
    cdef size_t taken
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
    taken = map_bytes(&leaf.by_label)
    map_put(&leaf.by_label, label, place)
    leaf.bytes += map_bytes(&leaf.by_label) - taken
    leaf.labels[place] = label
    leaf.n_sums += 1
    return place


cdef Histogram* new_histogram(Statistics* leaf, int32_t column) except NULL nogil:
    """The histogram of a column that has none."""
    cdef Histogram* found
    cdef int32_t capacity, place = leaf.n
    cdef size_t taken
    if leaf.n == leaf.capacity:
        capacity = room_for(leaf.n + 1)
        leaf.histograms = <Histogram*> counted(leaf.histograms, capacity * sizeof(Histogram))
        leaf.bytes += (capacity - leaf.capacity) * sizeof(Histogram)
        leaf.capacity = capacity
    found = &leaf.histograms[leaf.n]
    memset(found, 0, sizeof(Histogram))
    found.column = column
    reshape(found, 1, leaf.width, leaf.width)
    taken = map_bytes(&leaf.by_column)
    try:
        map_put(&leaf.by_column, column, leaf.n)
        leaf.n += 1
    finally:
        if leaf.n == place:
            give_back(found.low)
    leaf.bytes += map_bytes(&leaf.by_column) - taken + histogram_bytes(1, leaf.width)
    return found


@cython.final
cdef class LeafStatistics:
    """The statistics of the leaves of a tree, each under the number of its node."""

    def __cinit__(self, bint of_labels, int32_t max_bins):
        self.of_labels = of_labels
        self.max_bins = max_bins

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            free_statistics(self.nodes[node])
        give_back(self.nodes)

    cdef int reserve(self, int32_t n) except -1 nogil:
        """Make room for the statistics of so many nodes."""
        self.nodes = <Statistics**> counted_room(
            self.nodes, &self.capacity, n, sizeof(Statistics*)
        )
        return 0

    cdef Statistics* open(self, int32_t node) except NULL nogil:
        """Let a node begin to collect, from nothing."""
        self.close(node)
        self.nodes[node] = new_statistics(self.of_labels)
        return self.nodes[node]

    cdef void begin_anew(self, int32_t node) noexcept nogil:
        """Let a node that only counted begin to collect: what it counted came before."""
        cdef Statistics* leaf = self.nodes[node]
        cdef int32_t i
        for i in range(leaf.n_sums):
            leaf.before[i] += leaf.totals[i]
            leaf.totals[i] = 0.0
        leaf.squares_before += leaf.target_squares
        leaf.weight = leaf.weight_squares = leaf.target_squares = 0.0
        leaf.rows = leaf.looks = 0

    cdef void close(self, int32_t node) noexcept nogil:
        if self.nodes[node] != NULL:
            free_statistics(self.nodes[node])
            self.nodes[node] = NULL

    cdef int32_t place(self, int32_t node, int32_t label) except -1 nogil:
        """Which of a node's sums counts a label, a new one if there is none."""
        return place_of_label(self.nodes[node], label)

    cdef int count(self, int32_t node, const View* row, const Example* example,
                   bint collects) except -1 nogil:
        """Count a row; into histograms only if the node `collects` them."""
        cdef Statistics* leaf = self.nodes[node]
        cdef Histogram* histogram
        cdef double* sums
        cdef double weight = example.weight, weighted = 0.0
        cdef int32_t place = 0, i
        cdef Py_ssize_t position
        if self.of_labels:
            place = place_of_label(leaf, example.label)
        else:
            weighted = weight * example.targets[0]
            leaf.totals[1] += weighted
            leaf.target_squares += weighted * example.targets[0]
        leaf.totals[place] += weight
        leaf.rows += 1
        leaf.weight += weight
        leaf.weight_squares += weight * weight
        for position in range(row.n if collects else 0):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram == NULL:
                # what is rare is not to take the place of other leaves
                if self.context.is_rare(row.columns[position]) and not may_take_rare():
                    continue
                histogram = new_histogram(leaf, row.columns[position])
            i = bin_of(leaf, histogram, row.values[position], self.max_bins)
            sums = &histogram.sums[<size_t> i * leaf.width]
            histogram.rows += 1
            sums[place] += weight
            if not self.of_labels:
                sums[1] += weighted
        return 0

    # --------------------------------------------------------------------------- state

    cdef list state(self):
        """A dict for every node that has statistics."""
        cdef int32_t node
        parts = []
        for node in range(self.capacity):
            if self.nodes[node] != NULL:
                parts.append({"node": node, **exported(self.nodes[node])})
        return parts

    cdef int take_state(self, list state) except -1:
        """Take over what `state` gave; there is room for all nodes."""
        cdef Statistics* leaf
        for part in state:
            leaf = self.open(part["node"])
            import_statistics(leaf, part)
        return 0


cdef dict exported(const Statistics* leaf):
    """The statistics of a leaf as plain arrays, columns in order."""
    cdef int32_t i, width = leaf.n_sums
    cdef const Histogram* histogram
    columns = np.empty((leaf.n, 3), dtype=np.int64)
    cdef int64_t[:, ::1] columns_view = columns
    for i in range(leaf.n):
        histogram = &leaf.histograms[i]
        columns_view[i, 0] = histogram.column
        columns_view[i, 1] = histogram.n_bins
        columns_view[i, 2] = histogram.rows
    order = np.argsort(columns[:, 0])
    n_bins = columns[:, 1].sum()
    ranges, sums = np.empty((n_bins, 2)), np.empty((n_bins, width))
    cdef double[:, ::1] ranges_view = ranges, sums_view = sums
    cdef Py_ssize_t place = 0, j, k
    for i in order:
        histogram = &leaf.histograms[i]
        for j in range(histogram.n_bins):
            ranges_view[place, 0] = histogram.low[j]
            ranges_view[place, 1] = histogram.high[j]
            for k in range(width):
                sums_view[place, k] = histogram.sums[j * leaf.width + k]
            place += 1
    labels = None
    if leaf.labels != NULL:
        labels = np.array([leaf.labels[i] for i in range(width)], dtype=np.int32)
    totals = [[leaf.totals[i] for i in range(width)], [leaf.before[i] for i in range(width)]]
    return {
        "columns": columns[order], "ranges": ranges, "sums": sums, "labels": labels,
        "totals": np.array(totals, dtype=np.float64),
        "numbers": np.array([
            leaf.weight, leaf.weight_squares, leaf.target_squares, leaf.squares_before,
            leaf.next_look,
        ]),
        "rows": leaf.rows, "looks": leaf.looks,
    }


cdef int import_statistics(Statistics* leaf, dict state) except -1:
    """Fill new statistics with what `exported` made of others."""
    cdef Histogram* histogram
    cdef const int64_t[:, ::1] columns = state["columns"]
    cdef const double[:, ::1] ranges = state["ranges"]
    cdef const double[:, ::1] sums = state["sums"]
    cdef const double[:, ::1] totals = state["totals"]
    cdef Py_ssize_t row, j, k, place = 0
    cdef int32_t position
    if state["labels"] is not None:
        for label in state["labels"].tolist():
            place_of_label(leaf, label)
    for k in range(totals.shape[1]):
        leaf.totals[k] = totals[0, k]
        leaf.before[k] = totals[1, k]
    for row in range(columns.shape[0]):
        histogram = new_histogram(leaf, <int32_t> columns[row, 0])
        histogram.rows = columns[row, 2]
        for j in range(place, place + columns[row, 1]):
            position = bin_of(leaf, histogram, ranges[j, 0], MOST_BINS)
            histogram.high[position] = ranges[j, 1]
            for k in range(sums.shape[1]):
                histogram.sums[position * leaf.width + k] = sums[j, k]
        place += columns[row, 1]
    (leaf.weight, leaf.weight_squares, leaf.target_squares, leaf.squares_before,
     leaf.next_look) = state["numbers"].tolist()
    leaf.rows = state["rows"]
    leaf.looks = state["looks"]
    return 0
