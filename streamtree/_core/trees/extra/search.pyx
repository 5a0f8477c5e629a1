"""Random candidates, and how well they tell labels or numbers apart.

A candidate is a random column with a random threshold, or the category of a random row against all
others. Where values are missing they go to a random side, or are told from all that are there.
"""

cimport cython
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.kernels.rng cimport below, fraction, next_random
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
        free(self.values)
        self.labels = NULL
        self.weights = self.right = NULL
        self.values = NULL
        self.capacity = self.label_capacity = 0

    cdef size_t n_bytes(self) noexcept nogil:
        return self.capacity * sizeof(float) + self.label_capacity * (
            sizeof(int32_t) + 2 * sizeof(double)
        )

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
        cdef int32_t size
        if n > self.capacity:
            self.capacity = n + n // 2 + 16
            self.values = <float*> regrown(self.values, self.capacity * sizeof(float))
        size = self.window.context.n_labels
        if size > self.label_capacity:
            size += size // 2 + 8
            self.labels = <int32_t*> regrown(self.labels, size * sizeof(int32_t))
            self.weights = <double*> regrown(self.weights, size * sizeof(double))
            self.right = <double*> regrown(self.right, size * sizeof(double))
            memset(self.weights, 0, size * sizeof(double))
            memset(self.right, 0, size * sizeof(double))
            self.label_capacity = size
            self.n_labels = 0
        self.slots, self.n = slots, n
        self.best.column = -1
        self.best.score = -INFINITY
        self.is_done = False
        if self.has_numbers:
            self._count_numbers()
        else:
            self._count_labels()
        return 0

    cdef void _count_labels(self) noexcept nogil:
        cdef int32_t i, label
        cdef double weight
        for i in range(self.n_labels):
            self.weights[self.labels[i]] = 0.0
        self.n_labels = 0
        self.total = 0.0
        for i in range(self.n):
            label = self.window.labels[self.slots[i]]
            weight = self.window.weights[self.slots[i]]
            if self.weights[label] == 0.0:
                self.labels[self.n_labels] = label
                self.n_labels += 1
            self.weights[label] += weight
            self.total += weight
        self.is_pure = self.n_labels < 2

    cdef void _count_numbers(self) noexcept nogil:
        cdef int32_t i
        cdef double number, weight, first = 0.0
        self.total = self.mean = 0.0
        self.is_pure = True
        for i in range(self.n):
            number = self.window.targets[self.slots[i]]
            weight = self.window.weights[self.slots[i]]
            if i == 0:
                first = number
            self.is_pure &= number == first
            self.total += weight
            self.mean += weight * (number - self.mean) / self.total

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
        cdef int64_t length, entry
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
        slot = self.slots[below(word, self.n)]
        length = self.window.ends[slot] - self.window.starts[slot]
        if length == 0:
            return False
        entry = self.window.starts[slot] + <int64_t> (fraction(word) * length)
        column.column = self.window.list_columns[entry & (self.window.list_capacity - 1)]
        if self.window.field_of[column.column] >= 0:
            return False
        self._gather_list(column)
        return True

    cdef void _gather_numbers(self, const float* numbers, Column* column) noexcept nogil:
        cdef int32_t i, n_missing = 0
        cdef float value, low = INFINITY, high = -INFINITY
        cdef const int32_t* slots = self.slots
        cdef float* values = self.values
        for i in range(self.n):
            value = numbers[slots[i]]
            values[i] = value
            # a missing one is neither
            low = value if value < low else low
            high = value if value > high else high
            n_missing += value != value
        column.low, column.high, column.n_missing = low, high, n_missing

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
        cdef float value, low = INFINITY, high = -INFINITY
        for i in range(self.n):
            value = self.window.list_value(self.slots[i], column.column)
            self.values[i] = value
            low = value if value < low else low
            high = value if value > high else high
        column.low, column.high, column.n_missing = low, high, 0

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

    cdef void _score_labels(self, Candidate* found, int32_t n_missing) noexcept nogil:
        cdef int32_t i, label, side
        cdef float value, threshold = found.threshold
        cdef bint missing_right = n_missing and found.missing_right
        cdef double weight, right_weight = 0.0, left_weight, right = 0.0, left = 0.0
        for i in range(self.n):
            value = self.values[i]
            side = value > threshold or (missing_right and value != value)
            self.right[self.window.labels[self.slots[i]]] += (
                side * <double> self.window.weights[self.slots[i]]
            )
        for i in range(self.n_labels):
            label = self.labels[i]
            weight = self.right[label]
            self.right[label] = 0.0
            right_weight += weight
            right += weight * weight
            weight = self.weights[label] - weight
            left += weight * weight
        left_weight = self.total - right_weight
        found.score = left / left_weight + right / right_weight
        # both sides pure
        self.is_done = found.score >= self.total
        if n_missing == 0:
            found.missing_right = right_weight > left_weight

    cdef void _score_numbers(self, Candidate* found, int32_t n_missing) noexcept nogil:
        cdef int32_t i, slot, side
        cdef float value, threshold = found.threshold
        cdef bint missing_right = n_missing and found.missing_right
        cdef double weight, right_weight = 0.0, right = 0.0, left_weight
        for i in range(self.n):
            value = self.values[i]
            slot = self.slots[i]
            side = value > threshold or (missing_right and value != value)
            weight = side * <double> self.window.weights[slot]
            right_weight += weight
            right += weight * (self.window.targets[slot] - self.mean)
        left_weight = self.total - right_weight
        # the sums of both sides are opposite, for they are taken from the mean
        found.score = right * right * (1.0 / left_weight + 1.0 / right_weight)
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
