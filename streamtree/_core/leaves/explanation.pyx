"""What a prediction is made of: a bias, and what every column adds to it.

The bias is the mean of what a tree says where nothing is known of a row. From there trees and
leaves go on step by step. They compute both ends of a step by the code that predicts, and hand the
difference to the columns that it is due to, so that all of it always sums to the prediction. A
forest adds the explanations of its members, each with its weight.
"""

from libc.stdint cimport int32_t

from streamtree._core.kernels.linear cimport Inputs
from streamtree._core.store.tables cimport Table
from streamtree._core.stream.inputs cimport find_inputs
from streamtree._core.stream.row cimport Row, Scratch, View

import numpy as np

# Points at which the slopes of a softmax are taken. What the mean over them misses is spread over
# the columns: of a probability less than 1e-4 at score differences of 10.
cdef int N_POINTS = 128
# Parts below it have sums and ratios that are finite; larger ones are brought within MOST.
cdef double LARGE = 1e100, MOST = 1e300
# Sums of parts above it have ratios that are finite.
cdef double SMALL = 1e-100


cdef class Explanation:
    """The explanation of one output of a row; `columns` adds to `bias` what each column does."""

    def __cinit__(self, int32_t output, Py_ssize_t n_outputs):
        self.output = output
        self.columns = {}
        self.weight = 1.0
        self.room = np.zeros(n_outputs + 1)

    cdef int describe(self, const Row* blank, Scratch* scratch, object owner) except -1:
        """Take the row without values that trees and leaves compare with."""
        self.blank = blank
        self.blank_scratch = scratch
        self._owner = owner
        return 0

    cdef int add_bias(self, double amount) except -1:
        self.bias += self.weight * amount
        return 0

    cdef int add(self, double bias, dict columns, double weight) except -1:
        """Add another explanation, with a weight."""
        self.add_bias(weight * bias)
        weight *= self.weight
        for column, amount in columns.items():
            self._add_part(column, weight * amount)
        return 0

    cdef int _add_part(self, int32_t column, double part) except -1:
        self.columns[column] = self.columns.get(column, 0.0) + part
        return 0

    cdef double total(self):
        """What it all sums to: what is said."""
        return self.bias + sum(self.columns.values())

    cdef int spread(self, object columns, object parts, double difference) except -1:
        """Hand a difference of the prediction to columns, in proportion to their parts in it.

        Where no column has a part it goes to the bias. A single column may come in lists.
        """
        if difference == 0.0:
            return 0
        if len(parts) == 1 and abs(parts[0]) > 0.0:
            return self._add_part(columns[0], self.weight * difference)
        parts = within_range(parts)
        if not parts.any():
            return self.add_bias(difference)
        parts = self.weight * closed(parts, difference)
        for column, part in zip(columns.tolist(), parts.tolist()):
            self._add_part(column, part)
        return 0


cdef object within_range(object parts):
    """Parts whose sums are finite: of huge ones the sizes beside each other."""
    most = np.abs(parts).max(initial=0.0)
    if most < LARGE:
        return parts
    parts = np.clip(np.nan_to_num(parts), -MOST, MOST)
    return parts / max(np.abs(parts).max(), 1e-300)


cdef object pushing(object parts, bint is_up):
    """Of the parts of a score those that moved it up, or down, as shares; maybe none did."""
    parts = within_range(parts)
    parts = np.maximum(parts if is_up else -parts, 0.0)
    parts /= max(parts.max(initial=0.0), 1e-300)
    return parts / max(parts.sum(), 1e-300)


cdef object closed(object parts, double difference):
    """Parts that sum to a difference: scaled if that is enough, else all moved by their sizes."""
    total = parts.sum()
    if abs(total) > SMALL and ((parts >= 0.0).all() or 0.0 < difference / total <= 2.0):
        return parts * (difference / total)
    sizes = np.abs(parts)
    return parts + (difference - total) * (sizes / sizes.sum())


cdef object softmax_parts(object base, object parts, int32_t place):
    """What every row of scores adds to the softmax share of a place: Aumann-Shapley values.

    All scores grow together from the base (n_places,) to the base and the sum of the parts
    (n_rows, n_places); each part is worth its scores times the mean slope on the way.
    """
    steps = (np.arange(N_POINTS) + 0.5) / N_POINTS
    scores = base + steps[:, None] * parts.sum(axis=0)
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    slopes = -shares[:, place, None] * shares
    slopes[:, place] += shares[:, place]
    return parts @ slopes.mean(axis=0)


cdef object columns_of(const View* x):
    """The columns of a view."""
    cdef Py_ssize_t i
    columns = np.empty(x.n, dtype=np.int32)
    cdef int32_t[::1] out = columns
    for i in range(x.n):
        out[i] = x.columns[i]
    return columns


cdef object weighted(const Table* table, Py_ssize_t width, const View* x, Scratch* scratch):
    """The values of a view times their records, of shape (n values, width); 0 for no record."""
    cdef Inputs inputs = find_inputs(table, x, scratch)
    cdef Py_ssize_t i, j, slot
    products = np.zeros((x.n, width))
    cdef double[:, ::1] out = products
    for i in range(x.n):
        slot = i if inputs.slots == NULL else inputs.slots[i]
        for j in range(width if slot >= 0 else 0):
            out[i, j] = inputs.values[i] * table.records[slot * width + j]
    return products
