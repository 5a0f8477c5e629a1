"""The best axis-aligned split of every node of a level, found in one pass over sorted values.

The gain is that in information where rows have labels, the fall in the sum of squares, in units of
the targets' variances, where they have numbers. A value that a row does not list is 0.
"""

cimport cython
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint32_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.keptrows cimport KeptRows

import numpy as np

# a gain below this share of the weight is rounding
cdef double SMALLEST_GAIN = 1e-9

cdef AxisSplit _blank
SPLIT = np.asarray(<AxisSplit[:1]> &_blank).dtype


@cython.final
cdef class GreedySearch:
    """Of rows with labels below `n_classes`, or with targets.

    Of two equally good splits that is taken whose column has the lesser hash of its name, for a
    tree must not depend on the order in which its columns came. With `has_one_unit` all targets
    are measured in the largest of their deviations.

    It is made in the middle of an example: no Python code may run, in which a signal might end it.
    So it calls methods and ufuncs of numpy, which are compiled, and none of its functions.
    """

    def __cinit__(
        self, KeptRows rows, Py_ssize_t n_classes, Context context, bint has_one_unit
    ):
        self.rows = rows
        self.n_outputs = rows.n_targets if rows.n_targets else n_classes
        self._context = context
        if rows.n_targets:
            self._standardise(has_one_unit)
        else:
            self._take_logs()
        self._sort()

    cdef int _take_logs(self) except -1:
        """Find what `_term` says of whole numbers."""
        cdef Py_ssize_t i
        self._terms = np.zeros(self.rows.n + 1)
        for i in range(1, self.rows.n + 1):
            self._terms[i] = i * log(<double> i)
        return 0

    cdef int _standardise(self, bint has_one_unit) except -1:
        """Find the means and deviations of the targets: gains must not depend on their units."""
        cdef Py_ssize_t n = self.rows.n
        targets = np.asarray(<double[:n * self.n_outputs]> self.rows.targets).reshape(n, -1)
        weights = np.asarray(<double[:n]> self.rows.weights)
        # relative ones do not overflow; and equal targets deviate by exactly 0 from the first
        weights = weights / np.maximum.reduce(weights)
        total = np.add.reduce(weights)
        weights = weights.reshape(n, 1)
        centers = np.add.reduce((targets - targets[0]) * weights, axis=0) / total
        squares = np.square(targets - targets[0] - centers)
        units = np.sqrt(np.add.reduce(squares * weights, axis=0) / total)
        if has_one_unit:
            units[:] = np.maximum.reduce(units)
        self.centers, self.units = targets[0] + centers, units
        return 0

    cdef int _sort(self) except -1:
        cdef Py_ssize_t n = self.rows.n, n_entries = self.rows.starts[n]
        columns = np.asarray(<int32_t[:n_entries + 1]> self.rows.columns)[:n_entries]
        values = np.asarray(<double[:n_entries + 1]> self.rows.values)[:n_entries]
        order = values.argsort(kind="stable")
        by_value = columns[order]
        if np.maximum.reduce(columns, initial=0) < 1 << 16:
            # of numbers of two bytes numpy sorts by digits
            by_value = by_value.astype(np.uint16)
        order = order[by_value.argsort(kind="stable")]
        starts = np.asarray(<int64_t[:n + 1]> self.rows.starts)
        self._rows = np.arange(n, dtype=np.int32).repeat(starts[1:] - starts[:n])[order]
        self._columns, self._values = columns[order], values[order]
        return 0

    # ------------------------------------------------------------------- sums of rows

    cdef inline double standard(self, Py_ssize_t row, Py_ssize_t target) noexcept nogil:
        """A target about its mean, in units of its deviation."""
        cdef double unit = self.units[target]
        if unit <= 0.0:
            return 0.0
        return (self.rows.targets[row * self.n_outputs + target] - self.centers[target]) / unit

    cdef inline void count(self, double* sums, Py_ssize_t row) noexcept nogil:
        """Add a row to the sums of classes or targets, and last to the weight behind them."""
        cdef Py_ssize_t i
        cdef double weight = self.rows.weights[row]
        if self.rows.n_targets:
            for i in range(self.n_outputs):
                sums[i] += weight * self.standard(row, i)
        else:
            sums[self.rows.labels[row]] += weight
        sums[self.n_outputs] += weight

    cdef double purity(self, const double* sums) noexcept nogil:
        """What a split raises: minus the weighted entropy, or the explained sum of squares."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        if sums[self.n_outputs] <= 0.0:
            return 0.0
        if self.rows.n_targets:
            for i in range(self.n_outputs):
                total += sums[i] * sums[i]
            return total / sums[self.n_outputs]
        for i in range(self.n_outputs):
            total += self._term(sums[i])
        return total - self._term(sums[self.n_outputs])

    cdef inline double _term(self, double x) noexcept nogil:
        """x log x, looked up where x is whole, as it is without weights."""
        cdef Py_ssize_t whole
        if not x > 0.0:
            return 0.0
        if x < self._terms.shape[0]:
            whole = <Py_ssize_t> x
            if whole == x:
                return self._terms[whole]
        return x * log(x)

    cdef double _purity_of_parts(self, int32_t node) noexcept nogil:
        """The purity of what was passed of a node and of what was not."""
        cdef const double* totals = &self._totals[node, 0]
        cdef const double* left = &self._left[node, 0]
        cdef const AxisSplit* best = &self._best[node]
        cdef double weight = left[self.n_outputs], rest = totals[self.n_outputs] - weight
        cdef double total = 0.0
        cdef Py_ssize_t i
        if self.rows.n_targets:
            for i in range(self.n_outputs):
                total += (totals[i] - left[i]) * (totals[i] - left[i])
            return self.purity(left) + total / rest
        return (best.left_terms - self._term(weight)) + (best.rest_terms - self._term(rest))

    cdef double purity_of_sides(
        self, const int64_t[::1] members, const signed char[::1] side
    ) except? -1.0:
        """The purity of some rows that are divided into two sides, 0 and 1."""
        cdef Py_ssize_t i
        cdef double[:, ::1] sums = np.zeros((2, self.n_outputs + 1))
        for i in range(members.shape[0]):
            self.count(&sums[side[i], 0], members[i])
        return self.purity(&sums[0, 0]) + self.purity(&sums[1, 0])

    # ------------------------------------------------------------------------- search

    cdef object best_splits(self, const int32_t[::1] node_of, Py_ssize_t n_nodes):
        """The best split of every node, as a record array; a node that none improves has column -1.

        `node_of` has the node of every row, below `n_nodes`; -1 for a row that is left out.
        """
        cdef Py_ssize_t start = 0, size = self._columns.shape[0], i
        self._totals = np.zeros((n_nodes, self.n_outputs + 1))
        self._present = np.zeros((n_nodes, self.n_outputs + 1))
        self._left = np.zeros((n_nodes, self.n_outputs + 1))
        self._met = np.empty(n_nodes, dtype=np.int32)
        best = np.zeros(n_nodes, dtype=SPLIT)
        best["column"] = -1
        self._best = best
        with nogil:
            for i in range(self.rows.n):
                if node_of[i] >= 0:
                    self.count(&self._totals[node_of[i], 0], i)
            for i in range(n_nodes):
                self._best[i].gain = self.purity(&self._totals[i, 0])
                self._sum_terms(i)
            while start < size:
                start = self._search_column(node_of, start)
        return best

    cdef Py_ssize_t _search_column(
        self, const int32_t[::1] node_of, Py_ssize_t start
    ) noexcept nogil:
        """Try all thresholds of the column that begins at an entry; returns its end."""
        cdef int32_t column = self._columns[start], node
        cdef Py_ssize_t end = start, i, j, n_met
        cdef bint is_past_zero = False
        while end < self._columns.shape[0] and self._columns[end] == column:
            end += 1
        n_met = self._meet(node_of, start, end)
        for i in range(start, end + 1):
            if not is_past_zero and (i == end or self._values[i] > 0.0):
                is_past_zero = True
                self._pass_zeros(column, n_met)
            if i < end and node_of[self._rows[i]] >= 0:
                node = node_of[self._rows[i]]
                self._try(node, column, self._values[i])
                self._pass(node, self._rows[i])
                self._best[node].last_value = self._values[i]
        for j in range(n_met):
            for i in range(self.n_outputs + 1):
                self._left[self._met[j], i] = self._present[self._met[j], i] = 0.0
            self._sum_terms(self._met[j])
        return end

    cdef void _sum_terms(self, int32_t node) noexcept nogil:
        """Of labels, what the gain is made of: on the left, and of the rest."""
        cdef AxisSplit* best = &self._best[node]
        cdef Py_ssize_t i
        best.left_terms = best.rest_terms = 0.0
        for i in range(0 if self.rows.n_targets else self.n_outputs):
            best.left_terms += self._term(self._left[node, i])
            best.rest_terms += self._term(self._totals[node, i] - self._left[node, i])

    cdef inline void _pass(self, int32_t node, Py_ssize_t row) noexcept nogil:
        """Move a row of a node to the left."""
        cdef AxisSplit* best = &self._best[node]
        cdef int32_t label
        cdef double* left
        cdef double whole
        if self.rows.n_targets:
            self.count(&self._left[node, 0], row)
            return
        label = self.rows.labels[row]
        left, whole = &self._left[node, label], self._totals[node, label]
        best.left_terms -= self._term(left[0])
        best.rest_terms -= self._term(whole - left[0])
        self.count(&self._left[node, 0], row)
        best.left_terms += self._term(left[0])
        best.rest_terms += self._term(whole - left[0])

    cdef Py_ssize_t _meet(
        self, const int32_t[::1] node_of, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil:
        """Sum up the rows that have a column; returns how many nodes they are in."""
        cdef Py_ssize_t i, n_met = 0
        cdef int32_t node
        for i in range(start, end):
            node = node_of[self._rows[i]]
            if node < 0:
                continue
            if self._present[node, self.n_outputs] == 0.0:
                self._met[n_met] = node
                n_met += 1
            self.count(&self._present[node, 0], self._rows[i])
        return n_met

    cdef void _pass_zeros(self, int32_t column, Py_ssize_t n_met) noexcept nogil:
        """Pass the rows that do not have the column."""
        cdef Py_ssize_t i, j
        cdef int32_t node
        for j in range(n_met):
            node = self._met[j]
            if self._totals[node, self.n_outputs] <= self._present[node, self.n_outputs]:
                continue
            self._try(node, column, 0.0)
            for i in range(self.n_outputs + 1):
                self._left[node, i] += self._totals[node, i] - self._present[node, i]
            self._sum_terms(node)
            self._best[node].last_value = 0.0

    cdef void _try(self, int32_t node, int32_t column, double value) noexcept nogil:
        """Judge the split between the last value passed and the next one."""
        cdef const double* totals = &self._totals[node, 0]
        cdef const double* left = &self._left[node, 0]
        cdef const uint32_t* hashes = self._context.features.hashes
        cdef AxisSplit* best = &self._best[node]
        cdef double margin = SMALLEST_GAIN * (1.0 + totals[self.n_outputs])
        cdef double gain
        if left[self.n_outputs] <= 0.0 or best.last_value >= value:
            return
        if totals[self.n_outputs] - left[self.n_outputs] <= 0.0:
            return
        gain = self._purity_of_parts(node)
        # columns that divide the rows alike differ by the rounding of their sums
        if gain > best.gain + margin or (
            gain >= best.gain - margin and best.column >= 0
            and hashes[column] < hashes[best.column]
        ):
            best.gain = gain
            best.column = column
            best.threshold = 0.5 * (best.last_value + value)
