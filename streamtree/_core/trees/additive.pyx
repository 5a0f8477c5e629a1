"""An additive model of numbers by least squares: a member of forests.

What is said is the sum of a piecewise linear function of every column, of its standardised value:
a linear part, and knots. Categories have a part each. Products of parts are summed up, so that
slopes of squared error and penalty are known of all rows at once. After every row, each weight of
its parts moves to where both are least, given the others (coordinate descent): they only let that
fall, so that nothing can run away, whatever the values are.
"""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from streamtree._core.kernels.linear cimport limited
from streamtree._core.kernels.moments cimport Moments, moments_add, moments_variance
from streamtree._core.kernels.pooling cimport MOST_REPEATS
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport counted_zeros, give_back, has_room
from streamtree._core.store.tables cimport Table, map_find, map_put, table_free
from streamtree._core.stream.encoding cimport KNOTS
from streamtree._core.stream.row cimport ENCODED, Example, Prediction, Row, Scratch
from streamtree._core.stream.scales cimport OUTLIER
from streamtree._core.trees.tree cimport OneLeaf

import numpy as np

from streamtree._core.trees.checks import check_additive

cdef enum:
    # parts that have a weight
    MOST_PARTS = 128
    FIRST_PARTS = 16
    # rows before there are knots
    BEFORE_KNOTS = 30
    # rows after which all rows so far count a half
    HALF_LIFE = 8192
    # weights of the penalties, as sums of squares of a part
    LINEAR_PENALTY = 1
    KNOT_PENALTY = 5


cdef struct Found:
    # the parts of a row that have a weight
    int32_t n
    int32_t[MOST_PARTS] places
    double[MOST_PARTS] values


cdef size_t block_bytes(int32_t capacity) noexcept nogil:
    """What the numbers of so many parts take."""
    return <size_t> capacity * (capacity + 2) * sizeof(double)


@cython.final
cdef class AdditiveMeans(OneLeaf):
    """Says the mean of the targets until it has learned something, and nothing beyond them."""

    cdef Table map              # from keys of parts to their places
    cdef int32_t[MOST_PARTS] keys
    cdef int32_t n              # parts that have a weight
    cdef int32_t capacity
    cdef double* weights        # by place; in the same block:
    cdef double* slopes         # of the squared errors, halved, downwards
    cdef double* products       # sums of part times part, in lines of `capacity`
    cdef Moments targets
    cdef double low             # the least target, and the largest
    cdef double high
    cdef int64_t rows           # learned

    def __cinit__(self):
        self.views = ENCODED

    def __dealloc__(self):
        table_free(&self.map)
        give_back(self.weights)

    # --------------------------------------------------------------------------- the parts

    cdef int _reserve(self, int32_t capacity) except -1 nogil:
        cdef double* block = <double*> counted_zeros(block_bytes(capacity))
        cdef int32_t i
        for i in range(self.n):
            block[i], block[capacity + i] = self.weights[i], self.slopes[i]
            memcpy(
                &block[(i + 2) * capacity], &self.products[i * self.capacity],
                self.n * sizeof(double),
            )
        give_back(self.weights)
        self.weights, self.slopes, self.products = block, &block[capacity], &block[2 * capacity]
        self.capacity = capacity
        return 0

    cdef int32_t _take(self, int32_t key) except -2 nogil:
        """A place for a part that has none; -1 where there is no room."""
        cdef int32_t capacity = max(2 * self.capacity, <int32_t> FIRST_PARTS)
        if self.n == self.capacity:
            # what the map takes besides is little
            if self.n == MOST_PARTS or not has_room(block_bytes(capacity)):
                return -1
            self._reserve(capacity)
        map_put(&self.map, key, self.n)
        self.keys[self.n] = key
        self.n += 1
        return self.n - 1

    cdef int _find(self, const Row* row, bint takes, Found* found) except -1 nogil:
        """Find the parts of a row; with `takes` those that are new get a place."""
        cdef Py_ssize_t i
        cdef int32_t key, place
        cdef bint is_linear
        found.n = 0
        for i in range(row.encoded.n):
            is_linear = i < row.encoded.n_linear
            key = 2 * row.encoded.keys[i] + (not is_linear)
            place = map_find(&self.map, key) if self.n else -1
            if place < 0 and takes and (is_linear or self.rows >= BEFORE_KNOTS):
                place = self._take(key)
            if place >= 0:
                found.places[found.n] = place
                found.values[found.n] = row.encoded.values[i]
                if is_linear and row.encoded.presence[i] > 0.0:
                    # it has one value only: that it is there is what counts
                    found.values[found.n] = 1.0
                found.n += 1
        return 0

    # ------------------------------------------------------------------------- one example

    cdef double _said(self, const Found* found) noexcept nogil:
        """The sum of the parts, in deviations of the targets from their mean."""
        cdef double total = 0.0
        cdef int32_t i
        for i in range(found.n):
            total += self.weights[found.places[i]] * found.values[i]
        return limited(total)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef Found found
        self._find(row, False, &found)
        out.shares[0] = self._number(self._said(&found))

    cdef double _number(self, double said) noexcept nogil:
        """A sum of parts as a number within the targets."""
        said = self.targets.mean + said * sqrt(moments_variance(&self.targets))
        return min(max(said, self.low), self.high)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef double target = example.targets[0], said, deviation
        cdef Found found
        # parts that are new have no weight yet
        self._find(row, True, &found)
        said = self._said(&found)
        if out != NULL:
            out.shares[0] = self._number(said)
        self.low = min(self.low, target) if self.rows else target
        self.high = max(self.high, target) if self.rows else target
        moments_add(&self.targets, target, example.weight)
        self.rows += 1
        if self.rows % HALF_LIFE == 0:
            self._fade()
        deviation = sqrt(moments_variance(&self.targets))
        if deviation > 0.0:
            target = (target - self.targets.mean) / deviation
            target = min(max(target, <double> -OUTLIER), <double> OUTLIER)
            self._add(&found, target - said, min(example.weight, <double> MOST_REPEATS))
            self._descend(&found)
        return 0

    cdef void _fade(self) noexcept nogil:
        cdef int32_t i
        for i in range((self.capacity + 1) * self.capacity):
            self.slopes[i] *= 0.5

    cdef void _add(self, const Found* found, double error, double weight) noexcept nogil:
        """Let a row into the sums."""
        cdef double part
        cdef double* line
        cdef int32_t i, k
        for i in range(found.n):
            part = weight * found.values[i]
            line = &self.products[found.places[i] * self.capacity]
            self.slopes[found.places[i]] += part * error
            for k in range(found.n):
                line[found.places[k]] += part * found.values[k]

    cdef void _descend(self, const Found* found) noexcept nogil:
        """Move the weights of a row's parts, one after the other."""
        cdef double penalty, move
        cdef const double* line
        cdef double* slopes = self.slopes
        cdef int32_t i, k, place, n = self.n
        for i in range(found.n):
            place = found.places[i]
            line = &self.products[place * self.capacity]
            penalty = KNOT_PENALTY if self.keys[place] & 1 else LINEAR_PENALTY
            move = (slopes[place] - penalty * self.weights[place]) / (line[place] + penalty)
            self.weights[place] += move
            for k in range(n):
                slopes[k] -= move * line[k]

    # ------------------------------------------------------------------------- explanation

    cdef int32_t _column(self, int32_t place) noexcept nogil:
        """The column of a part, -1 for the bias."""
        cdef int32_t key = self.keys[place] // 2
        return key // KNOTS if self.keys[place] & 1 else key - 1

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        cdef double before = self.output_below(0, out.blank, out.blank_scratch, out)
        cdef double said = self.output_below(0, row, scratch, out)
        cdef Found found
        cdef int32_t i
        self._find(row, False, &found)
        parts = {}
        for i in range(found.n):
            column = self._column(found.places[i])
            if column >= 0:
                part = self.weights[found.places[i]] * found.values[i]
                parts[column] = parts.get(column, 0.0) + part
        out.add_bias(before)
        columns = np.array(list(parts), dtype=np.int32)
        return out.spread(columns, np.array(list(parts.values())), said - before)

    @property
    def moved(self):
        """Pairs of a column and how far a part of it moves what is said."""
        cdef int32_t i
        return [
            (self._column(i), fabs(self.weights[i]) * sqrt(self.products[i * self.capacity + i]))
            for i in range(self.n) if self._column(i) >= 0
        ]

    # ------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef int32_t i, n = self.n
        numbers = np.zeros((n + 2, n))
        cdef double[:, ::1] lines = numbers
        # weights, slopes and products lie in lines
        for i in range(n + 2 if n else 0):
            memcpy(&lines[i, 0], &self.weights[i * self.capacity], n * sizeof(double))
        return {
            "keys": np.array([self.keys[i] for i in range(n)], dtype=np.int32),
            "weights": numbers[0].copy(), "slopes": numbers[1].copy(),
            "products": numbers[2:].copy(),
            "targets": self.targets, "range": np.array([self.low, self.high]), "rows": self.rows,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const int32_t[::1] keys = state["keys"]
        cdef const double[:, ::1] lines = np.vstack(
            [state["weights"], state["slopes"], state["products"]]
        )
        cdef int32_t i, capacity = FIRST_PARTS, n = <int32_t> keys.shape[0]
        if n:
            while capacity < n:
                capacity *= 2
            self._reserve(capacity)
        for i in range(n + 2 if n else 0):
            memcpy(&self.weights[i * capacity], &lines[i, 0], n * sizeof(double))
        for i in range(n):
            self.keys[i] = keys[i]
            map_put(&self.map, keys[i], i)
        self.n = n
        self.targets, self.rows = state["targets"], state["rows"]
        self.low, self.high = state["range"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_additive(state, n_columns, MOST_PARTS, KNOTS)
