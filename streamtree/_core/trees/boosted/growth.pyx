"""Gradient boosting from the rows of a window (Friedman 2001), with histograms.

Every tree is grown for what the trees before it miss: leaf by leaf, where the loss falls most, by
the best split of all columns (Shi 2007; Ke et al. 2017). Columns are looked at in bins, whose ends
come from a sample of the rows; categories lie in buckets, by a hash that differs from growth to
growth, in the order of what is to be said of them (Fisher 1958). With several labels a tree is
grown for one of them, and its leaves speak of all (Iosipoi and Vakhrushev 2022, with one random
output instead of a random projection).

What is done follows from the rows, the seed and the number of steps, so a state holds no more.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.math cimport isnan, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.additive cimport exp_of, softmax_of
from streamtree._core.kernels.bins cimport (
    ABREAST, BINS, SAMPLED, Aim, Bin, Binned, Labelled, Sum, Sums, add_up, add_up_abreast,
    aim_at_second, between, bin_of, gather, is_any_better, miss, narrow, part, reweigh,
    sort_values, sum_up, take_out,
)
from streamtree._core.kernels.rng cimport below, fraction, next_random
from streamtree._core.splits.bounds cimport BUCKETS, bound_of, bucket_of, lowest
from streamtree._core.store.budget cimport counted, give_back, may_grow
from streamtree._core.stream.window cimport MANY_ROWS, Cell, Window
from streamtree._core.trees.boosted.stages cimport MOST_SAID, Grown, Stages, StageNode

import numpy as np


cdef enum:
    # rows that are looked at in one go
    CHUNK = 512
    # rows below which nothing is grown
    LEAST_ROWS = 50
    # more could not be counted in single precision
    MOST_ROWS = 16777216
    # of a leaf
    LEAST_LEAF = 10
    # columns that a tree looks at, at most
    MOST_CHOSEN = 32
    # It is done within about one part of so many of the rows. From MANY_ROWS on it is half as many
    # parts, and the more rows, the fewer, down to HASTE_OF_MANY.
    HASTE = 16
    HASTE_OF_MANY = 4
    # What work costs, in cells: to add a row to a bin is one, to divide it or to begin with it two.
    # A number that is sorted, or put into its bin; a row that is aimed at, or summed up or moved,
    # of several labels and of others; a column of a leaf, and each of its bins, where splits are
    # looked for; a step.
    SORTED = 32
    BINNED = 16
    AIMED = 6
    SUMMED = 2
    SUMMED_OF_SEVERAL = 16
    MOVED = 1
    MOVED_OF_SEVERAL = 32
    TRIED_COLUMN = 40
    TRIED_BIN = 3
    STEP = 128
    # numbers that are put into bins in one go
    BINNED_CHUNK = 1024
    # What there is to do for a tree: on so many levels, times two, a row is added to bins and
    # divided; and it has so many splits, or one for so many rows.
    TWICE_LEVELS = 7
    SPLITS = 24
    ROWS_OF_SPLIT = 25
    # that are compared at a time
    FEW_BINS = 16
    # hashes of a column's categories that are tried
    SALTS = 32

# of a leaf's weight: what draws what it says to nothing, and more for sets of categories
cdef double STRENGTH = 1.0
cdef double STRENGTH_OF_SETS = 10.0
# a curvature that is less counts as this
cdef float LEAST_CURVATURE = 1e-6
# a score that nobody else's is compared with
cdef float OUT_OF_REACH = -1e30
# categories are ordered by what is to be said of them, drawn to nothing
cdef double SMOOTHING = 10.0


cdef inline int64_t most_leaves(int64_t n) noexcept nogil:
    """How many leaves a tree of n rows has at most."""
    return min(<int64_t> MOST_LEAVES, max(n // LEAST_LEAF, <int64_t> 1))


cdef inline double worth(const Sum* of, double strength) noexcept nogil:
    """By how much the loss falls with a leaf, twice."""
    return of.slope * of.slope / (of.weight + strength)


cdef inline double gain_of(const Sum* left, const Sum* whole, double before, double strength,
                           double best) noexcept nogil:
    """By how much more the loss falls with two leaves than with one, 0 if no more than the best."""
    cdef double slope = whole.slope - left.slope
    cdef double left_weight = left.weight + strength
    # sums in single precision: what is left may be below nothing
    cdef double weight = max(whole.weight - left.weight, 0.0) + strength
    # most are no better, which is seen without a division
    if not left.slope * left.slope * weight + slope * slope * left_weight > (
        (best + before) * left_weight * weight
    ):
        return 0.0
    return left.slope * left.slope / left_weight + slope * slope / weight - before


cdef int32_t count_kinds(uint32_t* kinds, int32_t n, int32_t* rows) noexcept nogil:
    """Say how many rows have each kind, and leave it there once; returns how many there are.

    Where there are many, later ones stay as often as they came, each with one row.
    """
    cdef int32_t i, k, n_kinds = 0
    for i in range(n):
        k = 0
        while k < n_kinds and k < BUCKETS and kinds[k] != kinds[i]:
            k += 1
        if k == n_kinds or k == BUCKETS:
            kinds[n_kinds], rows[n_kinds] = kinds[i], 0
            k = n_kinds
            n_kinds += 1
        rows[k] += 1
    return n_kinds


@cython.final
cdef class BoostedGrowth:
    """The trees that are grown are `shadow`."""

    def __cinit__(self, Window window, bint has_numbers, int32_t n_trees, double rate):
        self.window = window
        self.has_numbers = has_numbers
        self.n_trees, self.rate = n_trees, rate
        self.shadow = Stages()

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept nogil:
        give_back(self.columns)
        give_back(self.cuts)
        give_back(self.bins)
        give_back(self.chosen)
        give_back(self.scores)
        give_back(self.shares)
        give_back(self.labels)
        give_back(self.numbers)
        give_back(self.row_weights)
        give_back(self.aims)
        give_back(self.sample)
        give_back(self.sums)
        give_back(self.missed)
        give_back(self.order)
        give_back(self.right)
        give_back(self.found)
        self.columns = NULL
        self.bins = NULL
        self.cuts = self.scores = self.shares = self.sample = NULL
        self.aims = NULL
        self.sums = self.missed = NULL
        self.numbers = self.row_weights = NULL
        self.order = self.right = self.chosen = self.labels = NULL
        self.found = NULL
        self.is_growing = False
        self.n = self.n_columns = 0

    cdef void drop(self) noexcept nogil:
        """Forget what was grown so far."""
        self._release()
        self.shadow.clear()

    # -------------------------------------------------------------------------------- room

    cdef size_t _bytes_for(self, int64_t n) noexcept nogil:
        """What growing from n rows takes, and what is grown."""
        cdef size_t n_chosen = min(self.n_columns, <int32_t> MOST_CHOSEN)
        cdef size_t n_leaves = most_leaves(n)
        return n * (
            self.n_columns + (self.n_lanes + 2) * sizeof(float) + sizeof(Aim) + 2 * sizeof(int32_t)
        ) + self.n_columns * (sizeof(Column) + BINS * sizeof(float) + sizeof(Binned)) + (
            n_leaves * n_chosen * BINS * sizeof(Bin) + SAMPLED * sizeof(float)
        ) + 3 * self.n_lanes * sizeof(double) + self.n_trees * n_leaves * (
            2 * (sizeof(StageNode) + sizeof(Grown)) + self.n_outputs * sizeof(float)
        ) * 5 // 4

    cdef int start(self, uint64_t seed, size_t most) except -1 nogil:
        """Begin with the last rows of the window, as many as may be looked at in so many bytes."""
        cdef int32_t n = min(self.window.n_rows(), <int32_t> MOST_ROWS), f
        self.drop()
        self._know(self.window.context.n_labels)
        if not self.has_numbers and not 1 < self.n_labels <= MOST_LABELS:
            return 0
        self.n_columns = 0
        for f in range(self.window.n_fields):
            self.n_columns += not self._is_rare(self.window.ranked[f])
        # whether it is short of memory is told to who shares it out
        may_grow(self._bytes_for(n))
        while n >= LEAST_ROWS and self._bytes_for(n) > most:
            n -= n // 8
        if n < LEAST_ROWS or self.n_columns == 0:
            self.n_columns = 0
            return 0
        self.first = self.window.size - n
        self.n, self.seed = n, seed
        self.columns = <Column*> counted(NULL, self.n_columns * sizeof(Column))
        self.n_columns = 0
        for f in range(self.window.n_fields):
            if not self._is_rare(self.window.ranked[f]):
                self.columns[self.n_columns].field = self.window.ranked[f]
                self.n_columns += 1
        return self._take()

    cdef void _know(self, int32_t n_labels) noexcept nogil:
        """What is said is about so many labels."""
        self.n_labels = n_labels
        self.n_outputs = self.n_lanes = 1
        if n_labels > 2:
            self.n_outputs, self.n_lanes = n_labels, (n_labels + 3) // 4 * 4

    cdef bint _is_rare(self, int32_t field) noexcept nogil:
        """Whether too few rows have a column to look at it, a word among others say."""
        cdef int32_t column = self.window.fields[field].column
        return column >= 0 and self.window.context.is_rare(column)

    cdef int _take(self) except -1 nogil:
        """Take room, and begin anew with the first step; the columns are listed."""
        cdef int64_t n = self.n
        cdef int32_t n_chosen = min(self.n_columns, <int32_t> MOST_CHOSEN), f
        cdef Column* column
        self.window_moves = self.window.n_moves
        self.cuts = <float*> counted(NULL, self.n_columns * BINS * sizeof(float))
        self.bins = <uint8_t*> counted(NULL, n * self.n_columns)
        self.chosen = <Binned*> counted(NULL, self.n_columns * sizeof(Binned))
        if self.n_outputs > 1:
            self.shares = <float*> counted(NULL, n * self.n_lanes * sizeof(float))
        else:
            self.scores = <float*> counted(NULL, n * sizeof(float))
        if self.has_numbers:
            self.numbers = <float*> counted(NULL, n * sizeof(float))
        else:
            self.labels = <int32_t*> counted(NULL, n * sizeof(int32_t))
        self.row_weights = <float*> counted(NULL, n * sizeof(float))
        self.aims = <Aim*> counted(NULL, n * sizeof(Aim))
        self.sample = <float*> counted(NULL, SAMPLED * sizeof(float))
        self.sums = <double*> counted(NULL, 2 * self.n_lanes * sizeof(double))
        self.missed = <double*> counted(NULL, self.n_lanes * sizeof(double))
        self.order = <int32_t*> counted(NULL, n * sizeof(int32_t))
        self.right = <int32_t*> counted(NULL, n * sizeof(int32_t))
        self.found = <Bin*> counted(NULL, most_leaves(n) * n_chosen * BINS * sizeof(Bin))
        self.random = self.seed
        self.n_steps = self.credit = self.n_bins = 0
        self.step, self.done = CUTTING, 0
        self.weight = self.mean = self.squares = 0.0
        for f in range(2 * self.n_lanes):
            # of every label one example more
            self.sums[f] = 1.0
        for f in range(self.n_columns):
            column = &self.columns[f]
            column.column = self.window.fields[column.field].column
            # of categories: which one stands for them is seen with the rows
            column.salt, column.n_cuts, column.met = column.column < 0, 0, 0
        self.is_growing = True
        return 0

    cdef bint loses_rows(self) noexcept nogil:
        """Whether rows that it looks at have gone, or changed."""
        return self.window.has_lost(self.first, &self.window_moves)

    # ----------------------------------------------------------------------------- the way

    cdef int64_t pace(self) noexcept nogil:
        """The work for a row of the stream, in cells; that for bins of splits once these are known.
        """
        cdef int64_t n_chosen = min(self.n_columns, <int32_t> MOST_CHOSEN)
        cdef int64_t n_splits = min(self.n // ROWS_OF_SPLIT, <int32_t> SPLITS)
        cdef int64_t of_row = TWICE_LEVELS * (n_chosen + 3) // 2 + AIMED
        cdef int64_t haste = HASTE
        if self.n >= MANY_ROWS:
            haste = max(HASTE // 2 * MANY_ROWS // self.n, <int64_t> HASTE_OF_MANY)
        of_row += SUMMED + MOVED if self.n_outputs == 1 else SUMMED_OF_SEVERAL + MOVED_OF_SEVERAL
        of_row += 2 * n_splits * self._cost_of_splits() // self.n
        return haste * self.window.urgency(self.first + self.n, self.n) * (
            self.n_trees * of_row + BINNED * self.n_columns
        )

    cdef int64_t _cost_of_splits(self) noexcept nogil:
        """What it costs to look for the splits of a leaf, in cells."""
        return TRIED_COLUMN * min(self.n_columns, <int32_t> MOST_CHOSEN) + TRIED_BIN * self.n_bins

    cdef int run(self) except -1 nogil:
        """Do as much as is due for a row of the stream."""
        self.credit += self.pace()
        while self.is_growing and self.credit > 0:
            self.credit -= self._do_step() + STEP
            self.n_steps += 1
        return 0

    cdef int64_t _do_step(self) except -1 nogil:
        """Do the next step; returns what it has cost, in cells."""
        if self.step == CUTTING:
            return self._look()
        if self.step == BINNING:
            return self._bin()
        if self.step == STARTING:
            return self._start()
        if self.step == AIMING:
            return self._aim()
        if self.step == GATHERING:
            return self._gather()
        if self.step == DIVIDING:
            return self._divide()
        if self.step == SUMMING:
            return self._sum()
        return self._move()

    # -------------------------------------------------------------------------------- bins

    cdef int64_t _look(self) noexcept nogil:
        """Look at some rows of a column, which say how it is put into bins."""
        cdef Column* column = &self.columns[self.done]
        cdef const Cell* cell
        cdef int32_t i, row, n = 0
        # of numbers these, of categories what they are hashed by
        cdef float* numbers = self.sample
        cdef uint32_t* kinds = <uint32_t*> self.sample
        for i in range(min(self.n, <int32_t> SAMPLED)):
            row = i if self.n <= SAMPLED else below(next_random(&self.random), self.n)
            cell = &self.window.cells_of(self.window.slot_of(self.first + row))[column.field]
            if column.salt:
                kinds[n] = self.window.context.kind_of(cell.code)
                n += kinds[n] != 0
            elif not isnan(cell.number):
                numbers[n] = cell.number
                n += 1
        if column.salt:
            self._choose_salt(column, kinds, n)
        else:
            self._cut(column, &self.cuts[self.done * BINS], n)
        self.done += 1
        if self.done == self.n_columns:
            self.step, self.done = BINNING, 0
        return SORTED * n

    cdef void _choose_salt(self, Column* column, uint32_t* kinds, int32_t n) noexcept nogil:
        """Take the hash by which fewest rows lie in one bucket with others."""
        cdef int32_t counts[BUCKETS]
        cdef int32_t rows[SAMPLED]
        cdef int32_t i, _trial, bucket
        cdef int64_t crowd, least = -1
        cdef uint8_t salt
        n = count_kinds(kinds, n, rows)
        for _trial in range(SALTS):
            salt = <uint8_t> (1 + below(next_random(&self.random), 255))
            memset(counts, 0, sizeof(counts))
            for i in range(n):
                counts[bucket_of(kinds[i], salt)] += rows[i]
            crowd = 0
            for bucket in range(BUCKETS):
                crowd += <int64_t> counts[bucket] * counts[bucket]
            if least < 0 or crowd < least:
                least, column.salt = crowd, salt

    cdef void _cut(self, Column* column, float* cuts, int32_t n) noexcept nogil:
        """Find where the bins of numbers end: between them, about as many in every bin."""
        cdef int32_t i, n_distinct = 0, since = 0, least
        sort_values(self.sample, n)
        for i in range(1, n):
            n_distinct += self.sample[i] > self.sample[i - 1]
        least = 1 if n_distinct <= BINS - 2 else (n + BINS - 3) // (BINS - 2)
        for i in range(1, n):
            since += 1
            if since >= least and self.sample[i] > self.sample[i - 1]:
                cuts[column.n_cuts] = between(self.sample[i - 1], self.sample[i])
                column.n_cuts += 1
                since = 0
        # above all that is there: what is missing against the rest
        for i in range(column.n_cuts, BINS):
            cuts[i] = FLT_MAX

    cdef int64_t _bin(self) except -1 nogil:
        """Put some rows into bins."""
        cdef int32_t i, f, first = self.done, slot, end = min(
            first + BINNED_CHUNK // self.n_columns + 1, self.n
        )
        cdef Column* column
        cdef const Cell* cells
        cdef float value
        cdef double distance
        cdef uint8_t* bins
        for i in range(first, end):
            slot = self.window.slot_of(self.first + i)
            self.row_weights[i] = self.window.weights[slot]
            if self.has_numbers:
                distance = self.window.targets[slot] - self.mean
                self.weight += self.row_weights[i]
                self.mean += self.row_weights[i] * distance / self.weight
                self.squares += self.row_weights[i] * distance * (
                    self.window.targets[slot] - self.mean
                )
            else:
                self.labels[i] = self.window.labels[slot]
                self.sums[self.labels[i]] += self.row_weights[i]
            cells = self.window.cells_of(slot)
            bins = &self.bins[<Py_ssize_t> i * self.n_columns]
            for f in range(self.n_columns):
                column = &self.columns[f]
                if column.salt:
                    if column.column < 0:
                        column.column = cells[column.field].code
                    bins[f] = <uint8_t> bucket_of(
                        self.window.context.kind_of(cells[column.field].code), column.salt
                    )
                    column.met |= <uint32_t> 1 << bins[f]
                    continue
                value = cells[column.field].number
                bins[f] = <uint8_t> bin_of(value, &self.cuts[f * BINS], column.n_cuts)
        self.done = end
        if end == self.n:
            self._begin_scores()
        return BINNED * (end - first) * self.n_columns

    # -------------------------------------------------------------------------------- trees

    cdef int _begin_scores(self) except -1 nogil:
        """Find what is to be said without any tree; every row was looked at once."""
        cdef int32_t k
        self.shadow.begin(0 if self.has_numbers else self.n_labels, self.n_outputs)
        memset(self.missed, 0, self.n_lanes * sizeof(double))
        self.step, self.done = STARTING, 0
        if self.has_numbers:
            self.shadow.base[0] = self.mean
            self.shadow.unit = sqrt(self.squares / self.weight)
            if not self.shadow.unit > 0.0:
                # there is nothing to be told apart: the mean says it all
                self.shadow.unit = 1.0
                self._release()
                return 0
        elif self.n_outputs == 1:
            self.shadow.base[0] = log(self.sums[1] / self.sums[0])
        else:
            for k in range(self.n_outputs):
                self.shadow.base[k] = log(self.sums[k])
        return 0

    cdef int64_t _start(self) except -1 nogil:
        """Give some rows their first scores, or what these say of several labels."""
        cdef int32_t i, k, n = min(self.n - self.done, <int32_t> CHUNK)
        cdef float shares[MOST_LABELS]
        cdef Labelled labelled = self._labelled()
        for k in range(self.n_lanes if self.n_outputs > 1 else 0):
            shares[k] = <float> self.shadow.base[k] if k < self.n_outputs else OUT_OF_REACH
        if self.n_outputs > 1:
            softmax_of(shares, self.n_lanes, shares)
        for i in range(self.done, self.done + n):
            if self.n_outputs > 1:
                memcpy(self._shares_of(i), shares, self.n_lanes * sizeof(float))
                miss(&labelled, i, self.missed)
            elif self.has_numbers:
                self.scores[i] = 0.0
                self.numbers[i] = <float> (
                    (self.window.targets[self.window.slot_of(self.first + i)] - self.mean)
                    / self.shadow.unit
                )
            else:
                self.scores[i] = <float> self.shadow.base[0]
        self.done += n
        if self.done == self.n:
            self._begin_tree()
        return 2 * n * self.n_outputs

    cdef float* _shares_of(self, int32_t row) noexcept nogil:
        """The probabilities of several labels, and zeros."""
        return &self.shares[<Py_ssize_t> row * self.n_lanes]

    cdef Labelled _labelled(self) noexcept nogil:
        return Labelled(self.shares, self.row_weights, self.labels, self.n_lanes)

    cdef int _begin_tree(self) except -1 nogil:
        """Choose what the next tree is about, and its columns; or end."""
        cdef int32_t f, k, other
        cdef double total = 0.0, drawn
        if self.shadow.n_trees == self.n_trees:
            self._release()
            return 0
        self.shadow.begin_tree()
        self.n_chosen = min(self.n_columns, <int32_t> MOST_CHOSEN)
        for f in range(self.n_columns):
            self.chosen[f].column = f
        for f in range(self.n_chosen if self.n_chosen < self.n_columns else 0):
            other = f + <int32_t> below(next_random(&self.random), self.n_columns - f)
            self.chosen[f], self.chosen[other] = self.chosen[other], self.chosen[f]
        self.n_bins = 0
        for f in range(self.n_chosen):
            self.chosen[f].first = self.n_bins
            self.n_bins += self._bins_in(self.chosen[f].column)
        self.target = 0
        if self.n_outputs > 1:
            for k in range(self.n_outputs):
                total += self.missed[k]
            drawn = total * fraction(next_random(&self.random))
            for k in range(self.n_outputs):
                drawn -= self.missed[k]
                if drawn < 0.0:
                    self.target = k
                    break
        memset(self.missed, 0, self.n_lanes * sizeof(double))
        self.step, self.done = AIMING, 0
        return 0

    cdef int64_t _aim(self) noexcept nogil:
        """What the tree is to say of some rows."""
        cdef int32_t i, end = min(self.done + CHUNK, self.n)
        cdef float weight, share
        if not self.has_numbers and self.n_outputs == 1:
            i = self.done
            aim_at_second(
                &self.scores[i], &self.labels[i], &self.row_weights[i], end - i, LEAST_CURVATURE,
                &self.aims[i],
            )
        for i in range(self.done, end):
            weight = self.row_weights[i]
            self.order[i] = i
            if self.has_numbers:
                self.aims[i] = Aim(weight * (self.numbers[i] - self.scores[i]), weight)
                continue
            if self.n_outputs == 1:
                continue
            share = self._shares_of(i)[self.target]
            self.aims[i] = Aim(
                weight * ((self.labels[i] == self.target) - share),
                weight * max(share * (1 - share), LEAST_CURVATURE),
            )
        i = self.done
        self.done = end
        if end == self.n:
            self.n_open = 1
            self._open(0, self.shadow.roots[self.shadow.n_trees - 1], 0, self.n, 0)
            self.at, self.sibling = 0, -1
            self.step, self.done = GATHERING, 0
        return AIMED * (end - i)

    cdef void _open(self, int32_t leaf, int32_t node, int32_t begin, int32_t end,
                    int32_t room) noexcept nogil:
        self.leaves[leaf].node, self.leaves[leaf].room = node, room
        self.leaves[leaf].begin, self.leaves[leaf].end = begin, end
        self.leaves[leaf].best.gain = 0.0
        self.shadow.grown[node].n_rows = end - begin

    cdef int32_t _bins_in(self, int32_t f) noexcept nogil:
        """How many bins a column has."""
        return BUCKETS if self.columns[f].salt else self.columns[f].n_cuts + 2

    cdef Bin* _bins_of(self, int32_t leaf) noexcept nogil:
        return &self.found[<Py_ssize_t> self.leaves[leaf].room * self.n_bins]

    cdef int64_t _gather(self) except -1 nogil:
        """Look at the bins of some rows of the leaf at hand; after the last, for splits."""
        cdef int64_t cost
        cdef OpenLeaf* leaf = &self.leaves[self.at]
        cdef int32_t n = min(leaf.end - leaf.begin - self.done, <int32_t> CHUNK)
        cdef Bin* found = self._bins_of(self.at)
        if self.done == 0:
            memset(found, 0, self.n_bins * sizeof(Bin))
        gather(
            self.bins, self.n_columns, &self.order[leaf.begin + self.done], n, self.chosen,
            self.n_chosen, self.aims, found,
        )
        self.done += n
        cost = n * (self.n_chosen + 1)
        if leaf.begin + self.done == leaf.end:
            if self.sibling >= 0:
                self._subtract()
                cost += self._find_split(self.sibling)
            cost += self._find_split(self.at)
            self._choose()
        return cost

    cdef void _subtract(self) noexcept nogil:
        """The larger child has the bins of its parent, without those of the smaller one."""
        take_out(self._bins_of(self.sibling), self._bins_of(self.at), self.n_bins)

    cdef int64_t _find_split(self, int32_t leaf) noexcept nogil:
        """Find the best split of a leaf whose rows are gathered; returns what it has cost."""
        cdef const Bin* found = self._bins_of(leaf)
        cdef Split* best = &self.leaves[leaf].best
        cdef int32_t i, j
        cdef Side whole = Side(Sum(0.0, 0.0), 0)
        cdef Sums sums[ABREAST]
        if self.leaves[leaf].end - self.leaves[leaf].begin < 2 * LEAST_LEAF:
            return 0
        for i in range(self._bins_in(self.chosen[0].column)):
            whole.sum.slope += found[i].slope
            whole.sum.weight += found[i].weight
            whole.n += <int32_t> found[i].n
        for j in range(self.n_chosen):
            if j % ABREAST == 0:
                self._add_up(found, j, sums)
            if self.columns[self.chosen[j].column].salt:
                self._try_sets(&found[self.chosen[j].first], j, &whole, best)
            else:
                self._try_thresholds(
                    &found[self.chosen[j].first], j, &whole, &sums[j % ABREAST], best
                )
        return self._cost_of_splits()

    cdef void _add_up(self, const Bin* found, int32_t j, Sums* to) noexcept nogil:
        """Add up the bins of some columns from the j-th on, without what is missing."""
        cdef const Bin* bins[ABREAST]
        cdef const Binned* chosen
        cdef int32_t k, n = 0
        for k in range(ABREAST):
            chosen = &self.chosen[min(j + k, self.n_chosen - 1)]
            bins[k] = &found[chosen.first + 1]
            if not self.columns[chosen.column].salt:
                n = max(n, self.columns[chosen.column].n_cuts + 1)
        add_up_abreast(bins, n, to)

    cdef void _try_thresholds(self, const Bin* found, int32_t j, const Side* whole, Sums* of,
                              Split* best) noexcept nogil:
        """Compare all thresholds of a column; what is missing goes to either side."""
        cdef int32_t i, end, side, n = self.columns[self.chosen[j].column].n_cuts + 1
        cdef double before = worth(&whole.sum, STRENGTH), gain
        cdef float n_left = 0.0
        for side in range(2 if found[0].n else 1):
            if side == 1:
                add_up(&found[1], n, found, of)
            of.first, of.end = 0, n
            # most columns are no better, which is seen without a division, nor a count of rows
            if not is_any_better(of, &whole.sum, STRENGTH, best.gain + before):
                continue
            narrow(&found[1], n, side * found[0].n, (1 - side) * found[0].n, LEAST_LEAF, of)
            end, of.end = of.end, of.first
            while of.end < end:
                of.first, of.end = of.end, min(of.end + <int32_t> FEW_BINS, end)
                if not is_any_better(of, &whole.sum, STRENGTH, best.gain + before):
                    continue
                for i in range(of.first, of.end):
                    gain = gain_of(&of.sums[i], &whole.sum, before, STRENGTH, best.gain)
                    if gain > best.gain:
                        best.gain, best.field, best.place = gain, self.chosen[j].column, i + 1
                        best.missing_right = side == 0
        if found[0].n == 0 and best.gain > 0.0 and best.field == self.chosen[j].column:
            # what no row has goes where most do
            for i in range(1, best.place + 1):
                n_left += found[i].n
            best.missing_right = 2 * n_left < whole.n

    cdef void _try_sets(self, const Bin* found, int32_t j, const Side* whole,
                        Split* best) noexcept nogil:
        """Compare the sets of categories of which less is to be said than of the others."""
        cdef int32_t met_buckets[BUCKETS]
        cdef int32_t buckets[BUCKETS]
        cdef double places[BUCKETS]
        cdef int32_t i, k, rank, bucket, n = 0
        cdef uint32_t left_members = 0, met = 0, rest = self.columns[self.chosen[j].column].met
        cdef double before = worth(&whole.sum, STRENGTH), gain
        cdef Side left = Side(Sum(0.0, 0.0), 0)
        while rest:
            bucket = lowest(rest)
            rest &= rest - 1
            # without a jump that is random: the next one writes over one without rows
            met_buckets[n] = bucket
            met |= <uint32_t> (found[bucket].n > 0) << bucket
            n += found[bucket].n > 0
        for i in range(n):
            bucket = met_buckets[i]
            places[i] = found[bucket].slope / (found[bucket].weight + SMOOTHING)
        for i in range(n):
            rank = 0
            for k in range(i):
                rank += places[k] <= places[i]
            for k in range(i + 1, n):
                rank += places[k] < places[i]
            buckets[rank] = met_buckets[i]
        for i in range(n - 1):
            left.sum.slope += found[buckets[i]].slope
            left.sum.weight += found[buckets[i]].weight
            left.n += <int32_t> found[buckets[i]].n
            left_members |= <uint32_t> 1 << buckets[i]
            if left.n < LEAST_LEAF:
                continue
            if whole.n - left.n < LEAST_LEAF:
                break
            gain = gain_of(&left.sum, &whole.sum, before, STRENGTH_OF_SETS, best.gain)
            if gain > best.gain:
                best.gain, best.field = gain, self.chosen[j].column
                # what no row has goes where most do
                best.members = ~left_members if 2 * left.n < whole.n else met & ~left_members

    cdef int _choose(self) except -1 nogil:
        """Go on with the best split; where there is none, with what leaves are to say."""
        cdef int32_t i
        self.at = self.done = self.n_left = 0
        for i in range(1, self.n_open):
            if self.leaves[i].best.gain > self.leaves[self.at].best.gain:
                self.at = i
        self.step = DIVIDING
        if self.n_open == MOST_LEAVES or not self.leaves[self.at].best.gain > 0.0:
            self.at = 0
            self.step = SUMMING
        return 0

    cdef int64_t _divide(self) except -1 nogil:
        """Divide some rows of a leaf; after the last of them it gets its children."""
        cdef OpenLeaf leaf = self.leaves[self.at]
        cdef int32_t n = min(leaf.end - leaf.begin - self.done, <int32_t> CHUNK)
        cdef int32_t i, n_left, n_right
        cdef int32_t* order = &self.order[leaf.begin]
        cdef const Column* column = &self.columns[leaf.best.field]
        cdef uint64_t right_bins = leaf.best.members
        cdef bint is_left_smaller
        cdef StageNode* node
        if not column.salt:
            right_bins = <uint64_t> -2 << leaf.best.place | leaf.best.missing_right
        self.n_left += part(
            &self.bins[leaf.best.field], self.n_columns, right_bins, &order[self.done], n,
            &order[self.n_left], &self.right[self.done - self.n_left],
        )
        self.done += n
        if leaf.begin + self.done < leaf.end:
            return 2 * n
        n_left, n_right = self.n_left, self.done - self.n_left
        memcpy(&order[n_left], self.right, n_right * sizeof(int32_t))
        i = self.shadow.split(leaf.node)
        node = &self.shadow.nodes[leaf.node]
        node.column, node.salt = column.column, column.salt
        node.missing_right = leaf.best.missing_right
        self.shadow.grown[leaf.node].gain = <float> leaf.best.gain
        if column.salt:
            node.bound, node.missing_right = bound_of(True, 0.0, leaf.best.members), False
        else:
            node.bound = bound_of(
                False, self.cuts[leaf.best.field * BINS + leaf.best.place - 1], 0
            )
        is_left_smaller = 2 * n_left < leaf.end - leaf.begin
        self._open(
            self.at, i, leaf.begin, leaf.begin + n_left,
            self.n_open if is_left_smaller else leaf.room,
        )
        self._open(
            self.n_open, i + 1, leaf.begin + n_left, leaf.end,
            leaf.room if is_left_smaller else self.n_open,
        )
        self.sibling = self.n_open if is_left_smaller else self.at
        self.at = self.at if is_left_smaller else self.n_open
        self.n_open += 1
        self.step, self.done = GATHERING, 0
        if self.n_open == MOST_LEAVES or max(n_left, n_right) < 2 * LEAST_LEAF:
            # neither child is to be split
            self._choose()
        return 2 * n

    # ------------------------------------------------------------------------------- leaves

    cdef int64_t _sum(self) except -1 nogil:
        """Sum over some rows what a leaf is to say; after the last of them it says it."""
        cdef const OpenLeaf* leaf = &self.leaves[self.at]
        cdef int32_t i, k, row, n = min(leaf.end - leaf.begin - self.done, <int32_t> CHUNK)
        cdef int32_t width = self.n_outputs
        cdef int64_t cost = n * (SUMMED if width == 1 else SUMMED_OF_SEVERAL)
        cdef double* sums = self.sums
        cdef double* variances = &self.sums[self.n_lanes]
        cdef double slope, weight
        cdef float* values
        cdef double value
        cdef Labelled labelled = self._labelled()
        if self.done == 0:
            memset(sums, 0, 2 * self.n_lanes * sizeof(double))
        if width > 1:
            sum_up(&labelled, &self.order[leaf.begin + self.done], n, sums)
        else:
            # in local variables, so that no sum waits for memory
            slope, weight = sums[0], variances[0]
            for i in range(n):
                row = self.order[leaf.begin + self.done + i]
                slope += self.aims[row].slope
                weight += self.aims[row].weight
            sums[0], variances[0] = slope, weight
        self.done += n
        if leaf.begin + self.done < leaf.end:
            return cost
        values = self.shadow.add_leaf(leaf.node)
        for k in range(width):
            value = self.rate * sums[k] / (variances[k] + STRENGTH)
            if width > 1:
                # one score of all could be spared
                value *= (width - 1) / <double> width
            values[k] = <float> min(max(value, -MOST_SAID), MOST_SAID)
        self.step, self.done = MOVING, 0
        return cost

    cdef int64_t _move(self) except -1 nogil:
        """Add what a leaf says to the scores of some of its rows."""
        cdef const OpenLeaf* leaf = &self.leaves[self.at]
        cdef int32_t i, k, n = min(leaf.end - leaf.begin - self.done, <int32_t> CHUNK)
        cdef int32_t width = self.n_outputs
        cdef Labelled labelled = self._labelled()
        cdef int64_t cost = n * (MOVED if width == 1 else MOVED_OF_SEVERAL)
        cdef float most = -MOST_SAID
        cdef float factors[MOST_LABELS]
        cdef const float* values = &self.shadow.values[
            <Py_ssize_t> self.shadow.nodes[leaf.node].next * width
        ]
        for k in range(width):
            most = max(most, values[k])
        for k in range(self.n_lanes):
            # shares are what counts, so all of them may be as much smaller
            factors[k] = exp_of(values[k] - most) if k < width else 0.0
        if width > 1:
            reweigh(&labelled, &self.order[leaf.begin + self.done], n, factors, self.missed)
        for i in range(n if width == 1 else 0):
            self.scores[self.order[leaf.begin + self.done + i]] += values[0]
        self.done += n
        if leaf.begin + self.done < leaf.end:
            return cost
        self.done = 0
        self.at += 1
        self.step = SUMMING
        if self.at == self.n_open:
            self._begin_tree()
        return cost

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t f
        return {
            "first": self.first if self.is_growing else 0, "rows": self.n,
            "seed": self.seed if self.is_growing else 0,
            "steps": self.n_steps if self.is_growing else 0,
            "credit": self.credit if self.is_growing else 0,
            "labels": self.n_labels if self.is_growing else 0,
            "fields": np.array([self.columns[f].field for f in range(self.n_columns)], np.int32),
        }

    cdef int take_state(self, dict state) except -1:
        cdef const int32_t[::1] fields = state["fields"]
        cdef int64_t steps = state["steps"]
        cdef int32_t f
        self.drop()
        if state["rows"] == 0:
            return 0
        self.first, self.n, self.seed = state["first"], state["rows"], state["seed"]
        self._know(state["labels"])
        self.n_columns = <int32_t> fields.shape[0]
        self.columns = <Column*> counted(NULL, self.n_columns * sizeof(Column))
        for f in range(self.n_columns):
            self.columns[f].field = fields[f]
        self._take()
        while self.is_growing and self.n_steps < steps:
            self._do_step()
            self.n_steps += 1
        self.credit = state["credit"]
        return 0
