"""Random candidates, and how well they tell labels or numbers apart.

A candidate is a random column with a random threshold, or the category of a random row against all
others. Where values are missing they go to a random side, or are told from all that are there.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free

from streamtree._core.kernels.rng cimport below, fraction, next_random, splitmix64
from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.window cimport Field, Window


cdef float threshold_between(float low, float high, double share) noexcept nogil:
    """From low to below high."""
    cdef float threshold = <float> (low + share * (<double> high - low))
    return threshold if threshold < high else low


@cython.final
cdef class SplitSearch:
    """Scratch of one tree; nothing of it outlives a call but what `begin` has counted."""

    def __cinit__(self, Window window, bint has_numbers):
        self.window = window
        self.has_numbers = has_numbers

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept nogil:
        """Give all memory back."""
        free(self.labels)
        free(self.weights)
        free(self.right)
        free(self.counts)
        free(self.places)
        free(self.values)
        free(self.row_weights)
        free(self.row_labels)
        free(self.excess)
        self.labels = self.counts = self.places = self.row_labels = NULL
        self.weights = self.right = self.excess = NULL
        self.values = self.row_weights = NULL
        self.capacity = self.label_capacity = self.n_labels = 0

    cdef size_t n_bytes(self) noexcept nogil:
        cdef size_t per_row = 2 * sizeof(float) + (
            sizeof(double) if self.has_numbers else sizeof(int32_t)
        )
        return self.capacity * per_row + self.label_capacity * (
            3 * sizeof(int32_t) + 2 * sizeof(double)
        )

    cdef int _reserve(self, int32_t n, int32_t n_labels) except -1 nogil:
        """Make room for n rows of so many labels."""
        cdef int32_t i
        if n > self.capacity:
            n += n // 2 + 16
            self.values = <float*> regrown(self.values, n * sizeof(float))
            self.row_weights = <float*> regrown(self.row_weights, n * sizeof(float))
            if self.has_numbers:
                self.excess = <double*> regrown(self.excess, n * sizeof(double))
            else:
                self.row_labels = <int32_t*> regrown(self.row_labels, n * sizeof(int32_t))
            self.capacity = n
        if n_labels > self.label_capacity:
            n_labels += n_labels // 2 + 8
            self.labels = <int32_t*> regrown(self.labels, n_labels * sizeof(int32_t))
            self.weights = <double*> regrown(self.weights, n_labels * sizeof(double))
            self.right = <double*> regrown(self.right, n_labels * sizeof(double))
            self.counts = <int32_t*> regrown(self.counts, n_labels * sizeof(int32_t))
            self.places = <int32_t*> regrown(self.places, n_labels * sizeof(int32_t))
            for i in range(self.label_capacity, n_labels):
                self.right[i] = 0.0
                self.counts[i] = 0
                self.places[i] = -1
            self.label_capacity = n_labels
        return 0

    cdef double width(self) noexcept nogil:
        """How many columns a row has: fields, and values in lists."""
        cdef int64_t entries
        if self.window.n_listed_columns == 0 or self.window.size == 0:
            return self.window.n_fields
        entries = (
            self.window.ends[self.window.slot_of(self.window.size - 1)]
            - self.window.starts[self.window.slot_of(self.window.first())]
        )
        return self.window.n_fields + <double> entries / (self.window.size - self.window.first())

    # ------------------------------------------------------------------------ what is there

    cdef int begin(self, const int32_t* slots, int32_t n) except -1 nogil:
        """Count the rows that are to be split."""
        cdef int32_t i
        cdef float weight
        self._reserve(n, 0 if self.has_numbers else self.window.context.n_labels)
        self.slots, self.n = slots, n
        self.best.column = -1
        self.best.score = -INFINITY
        self.is_done = self.is_weighted = False
        self.total = 0.0
        for i in range(n):
            weight = self.window.weights[slots[i]]
            self.row_weights[i] = weight
            self.is_weighted |= weight != 1.0
            self.total += weight
        if self.has_numbers:
            self._count_numbers()
        else:
            self._count_labels()
        return 0

    cdef void _count_labels(self) noexcept nogil:
        cdef int32_t i, label, place
        for i in range(self.n_labels):
            self.places[self.labels[i]] = -1
        self.n_labels = 0
        for i in range(self.n):
            label = self.window.labels[self.slots[i]]
            place = self.places[label]
            if place < 0:
                place = self.places[label] = self.n_labels
                self.labels[place] = label
                self.weights[place] = 0.0
                self.n_labels += 1
            self.weights[place] += self.row_weights[i]
            self.row_labels[i] = place
        self.is_pure = self.n_labels < 2

    cdef void _count_numbers(self) noexcept nogil:
        cdef int32_t i
        cdef double number, first = self.window.targets[self.slots[0]]
        cdef double mean = 0.0
        self.is_pure = True
        # from the first number: large ones may have small differences
        for i in range(self.n):
            number = self.window.targets[self.slots[i]] - first
            self.is_pure &= number == 0.0
            self.excess[i] = number
            mean += self.row_weights[i] * number
        mean /= self.total
        self.mean = first + mean
        for i in range(self.n):
            self.excess[i] = self.row_weights[i] * (self.excess[i] - mean)

    # --------------------------------------------------------------------------- candidates

    cdef bint consider(self, uint64_t* random, bint is_between_rows) noexcept nogil:
        """Draw a candidate and compare it with the best; returns whether it splits the rows.

        The threshold lies anywhere between the least and the largest value, or between those of
        two rows.
        """
        cdef Column column
        cdef Candidate found
        cdef uint64_t word = next_random(random)
        if not self._draw(word, random, &column):
            return False
        if not self._set_threshold(&column, word, random, is_between_rows, &found):
            return False
        if self.has_numbers:
            self._score_numbers(&found, column.n_missing)
        else:
            self._score_labels(&found, column.n_missing)
        if found.score > self.best.score:
            self.best = found
        return True

    cdef bint _draw(self, uint64_t word, uint64_t* random, Column* column) noexcept nogil:
        """Choose a column and gather its values."""
        cdef int32_t choice = <int32_t> below(word, <int32_t> (self.width() + 0.5)), slot
        cdef const Field* field
        column.is_category = False
        if choice < self.window.n_fields:
            field = &self.window.fields[self.window.ranked[choice]]
            if field.column >= 0:
                column.column = field.column
                self._gather_numbers(field.numbers, column)
                return True
            # one against rest: that of a random row
            slot = self.slots[below(next_random(random), self.n)]
            column.column = field.codes[slot]
            column.is_category = True
            if column.column < 0:
                return False
            self._gather_category(field.codes, column)
            return True
        word = next_random(random)
        column.column = self._draw_listed(self.slots[below(word, self.n)], word)
        if column.column < 0 or self.window.field_of[column.column] >= 0:
            return False
        self._gather_list(column)
        return True

    cdef int32_t _draw_listed(self, int32_t slot, uint64_t word) noexcept nogil:
        """A random column of the list of a row, in whatever order they lie there; -1 for none."""
        cdef int64_t i, mask = self.window.list_capacity - 1
        cdef int32_t column, found = -1
        cdef uint64_t key, least = 0
        for i in range(self.window.starts[slot], self.window.ends[slot]):
            column = self.window.list_columns[i & mask]
            key = splitmix64(word ^ self.window.context.hashes[column])
            if found < 0 or key < least:
                found, least = column, key
        return found

    cdef void _gather_numbers(self, const float* numbers, Column* column) noexcept nogil:
        cdef int32_t i
        cdef const int32_t* slots = self.slots
        cdef float* values = self.values
        for i in range(self.n):
            values[i] = numbers[slots[i]]
        self._find_range(column)

    cdef void _find_range(self, Column* column) noexcept nogil:
        """The least and the largest of the values; a missing one is neither."""
        cdef int32_t i, k, missing = 0, n = self.n
        cdef float low[4]
        cdef float high[4]
        cdef float value
        cdef const float* values = self.values
        for k in range(4):
            low[k], high[k] = INFINITY, -INFINITY
        # four at a time, which do not wait for each other
        for i in range(0, n - 3, 4):
            for k in range(4):
                value = values[i + k]
                low[k] = value if value < low[k] else low[k]
                high[k] = value if value > high[k] else high[k]
                missing += value != value
        for i in range(n - n % 4, n):
            value = values[i]
            low[0] = value if value < low[0] else low[0]
            high[0] = value if value > high[0] else high[0]
            missing += value != value
        for k in range(1, 4):
            low[0] = min(low[0], low[k])
            high[0] = max(high[0], high[k])
        column.low, column.high, column.n_missing = low[0], high[0], missing

    cdef void _gather_category(self, const int32_t* codes, Column* column) noexcept nogil:
        cdef int32_t i, found = 0, code = column.column
        for i in range(self.n):
            self.values[i] = codes[self.slots[i]] == code
            found += codes[self.slots[i]] == code
        column.low = 1.0 if found == self.n else 0.0
        column.high = 1.0 if found else 0.0
        column.n_missing = 0

    cdef void _gather_list(self, Column* column) noexcept nogil:
        cdef int32_t i
        for i in range(self.n):
            self.values[i] = self.window.list_value(self.slots[i], column.column)
        self._find_range(column)

    cdef bint _set_threshold(self, const Column* column, uint64_t word, uint64_t* random,
                             bint is_between_rows, Candidate* out) noexcept nogil:
        """Draw a threshold and a side for what is missing; False where nothing can be split."""
        cdef float low = column.low, high = column.high
        cdef uint64_t rows
        cdef int32_t way = 0
        out.column = column.column
        out.missing_right = False
        if column.n_missing == self.n:
            return False
        if column.n_missing:
            way = <int32_t> below(next_random(random), 3)
            out.missing_right = way > 0
        if way == 2:
            # what is missing against all that is there
            out.threshold = FLT_MAX
            return True
        if is_between_rows and not column.is_category:
            rows = next_random(random)
            low = self.values[below(rows, self.n)]
            high = self.values[<int32_t> (fraction(rows) * self.n)]
            if low > high:
                low, high = high, low
        if not low < high:
            return False
        out.threshold = threshold_between(low, high, fraction(word))
        if column.is_category:
            out.threshold = 0.5
        return True

    cdef void _count_right(self, float threshold, bint missing_right) noexcept nogil:
        """Write the weights of the labels on the right to `right`, without a jump that is random.
        """
        cdef int32_t i, side, n_right = 0, n_second = 0, n = self.n
        cdef float value
        cdef const float* values = self.values
        cdef const float* weights = self.row_weights
        cdef const int32_t* labels = self.row_labels
        cdef int32_t* counts = self.counts
        cdef double* right = self.right
        if self.is_weighted or missing_right:
            for i in range(n):
                value = values[i]
                side = (value > threshold) | (missing_right & (value != value))
                right[labels[i]] += side * <double> weights[i]
        elif self.n_labels == 2:
            # nor a place in memory that every row waits for
            for i in range(n):
                side = values[i] > threshold
                n_right += side
                n_second += side & labels[i]
            right[0], right[1] = n_right - n_second, n_second
        else:
            for i in range(n):
                counts[labels[i]] += values[i] > threshold
            for i in range(self.n_labels):
                right[i] = counts[i]
                counts[i] = 0

    cdef void _score_labels(self, Candidate* found, int32_t n_missing) noexcept nogil:
        cdef int32_t i
        cdef double weight, right_weight = 0.0, left_weight, right = 0.0, left = 0.0
        self._count_right(found.threshold, n_missing and found.missing_right)
        for i in range(self.n_labels):
            weight = self.right[i]
            self.right[i] = 0.0
            right_weight += weight
            right += weight * weight
            weight = self.weights[i] - weight
            left += weight * weight
        left_weight = self.total - right_weight
        found.score = left / left_weight + right / right_weight
        # both sides pure
        self.is_done = found.score >= self.total
        if n_missing == 0:
            found.missing_right = right_weight > left_weight

    cdef void _score_numbers(self, Candidate* found, int32_t n_missing) noexcept nogil:
        cdef int32_t i, k, side, n = self.n, whole = n - n % 4
        cdef float value, threshold = found.threshold
        cdef bint missing_right = n_missing and found.missing_right
        cdef double right_weight, right, left_weight
        cdef double sums[4]
        cdef double weights[4]
        cdef const float* values = self.values
        cdef const float* row_weights = self.row_weights
        cdef const double* excess = self.excess
        for k in range(4):
            sums[k] = weights[k] = 0.0
        for i in range(0, whole, 4):
            for k in range(4):
                value = values[i + k]
                side = (value > threshold) | (missing_right & (value != value))
                sums[k] += side * excess[i + k]
                weights[k] += side * row_weights[i + k]
        for i in range(whole, n):
            value = values[i]
            side = (value > threshold) | (missing_right & (value != value))
            sums[0] += side * excess[i]
            weights[0] += side * row_weights[i]
        right = (sums[0] + sums[1]) + (sums[2] + sums[3])
        right_weight = (weights[0] + weights[1]) + (weights[2] + weights[3])
        left_weight = self.total - right_weight
        # the sums of both sides are opposite, for they are taken from the mean
        found.score = right * right * (1.0 / left_weight + 1.0 / right_weight)
        # of two rows there is one split
        self.is_done = n == 2
        if n_missing == 0:
            found.missing_right = right_weight > left_weight

    cdef int32_t divide(self, const Candidate* split, int32_t* left,
                        int32_t* right) noexcept nogil:
        """Write the slots of both sides, in their order; returns how many go left.

        `left` may be where the slots of the rows are read.
        """
        cdef int32_t i, slot, n_left = 0, n_right = 0
        cdef float value
        for i in range(self.n):
            slot = self.slots[i]
            value = self.window.value(slot, split.column)
            if value > split.threshold or (split.missing_right and value != value):
                right[n_right] = slot
                n_right += 1
            else:
                left[n_left] = slot
                n_left += 1
        return n_left
