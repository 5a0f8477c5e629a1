"""The first rows of a stream, kept for a while to grow a tree to start from.

Level by level, as for any greedy tree, every node gets the axis-aligned split of the largest gain
in information (classes) or fall in variance (numbers). CO2 (Norouzi et al. 2015) then turns it into
an oblique one by the surrogate of a tree of depth 1, before the next level is grown.
"""

cimport cython
from libc.math cimport fabs, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from streamtree._core.features cimport RowBuffer
from streamtree._core.memory cimport regrown
from streamtree._core.oblique cimport ObliqueTree
from streamtree._core.types cimport Row

import numpy as np

cdef enum:
    FIRST_BUILD = 32        # rows
    GROWTH = 4              # after that, whenever there are so many times as many
    CO2_PASSES = 10
    REPLAYS = 4             # passes of joint training over the rows after each build

# a gain below this share of the weight is rounding
cdef double SMALLEST_GAIN = 1e-9


cdef inline double x_log_x(double x) noexcept nogil:
    return x * log(x) if x > 0.0 else 0.0


@cython.final
cdef class WarmUp:
    """Rows as they were learned, until `n_rows` are there."""

    def __cinit__(self, Py_ssize_t n_rows, bint refines, bint joins):
        self.n_rows = n_rows
        self.refines = refines
        self.joins = joins
        self._scratch = RowBuffer()
        self.due_at = min(FIRST_BUILD, n_rows)

    def __dealloc__(self):
        self._free()

    cdef void _free(self) noexcept nogil:
        free(self.starts)
        free(self.columns)
        free(self.values)
        free(self.labels)
        free(self.targets)
        free(self.weights)
        self.starts = NULL
        self.columns = self.labels = NULL
        self.values = self.targets = self.weights = NULL
        self.n = self.row_capacity = self.entry_capacity = 0

    def memory(self, bint is_moving):
        """Bytes of the rows; while rows are added (`is_moving`), those last known."""
        if not is_moving:
            self._bytes = self.entry_capacity * (sizeof(int32_t) + sizeof(double))
            self._bytes += self.row_capacity * (
                sizeof(int64_t) + sizeof(int32_t) + sizeof(double) * (1 + self.n_targets)
            )
        return self._bytes

    cdef int keep(
        self, Row row, int32_t label, const double* target, int32_t n_targets, double weight
    ) except -1 nogil:
        """Add a row."""
        cdef int64_t end = self.starts[self.n] if self.n else 0
        self.n_targets = n_targets
        self._reserve(self.n + 1, end + row.n)
        self.starts[0] = 0
        if row.n:
            memcpy(&self.columns[end], row.columns, row.n * sizeof(int32_t))
            memcpy(&self.values[end], row.values, row.n * sizeof(double))
        self.labels[self.n] = label
        if n_targets:
            memcpy(
                &self.targets[self.n * n_targets], target, n_targets * sizeof(double)
            )
        self.weights[self.n] = weight
        self.n += 1
        self.starts[self.n] = end + row.n
        return 0

    cdef int _reserve(self, Py_ssize_t n_rows, Py_ssize_t n_entries) except -1 nogil:
        cdef Py_ssize_t size
        if n_rows + 1 > self.row_capacity:
            size = n_rows + n_rows // 2 + FIRST_BUILD
            self.starts = <int64_t*> regrown(self.starts, size * sizeof(int64_t))
            self.labels = <int32_t*> regrown(self.labels, size * sizeof(int32_t))
            self.weights = <double*> regrown(self.weights, size * sizeof(double))
            if self.n_targets:
                self.targets = <double*> regrown(
                    self.targets, size * self.n_targets * sizeof(double)
                )
            self.row_capacity = size
        if n_entries + 1 > self.entry_capacity:
            size = n_entries + n_entries // 2 + 64
            self.columns = <int32_t*> regrown(self.columns, size * sizeof(int32_t))
            self.values = <double*> regrown(self.values, size * sizeof(double))
            self.entry_capacity = size
        return 0

    cdef Row row(self, Py_ssize_t i) noexcept nogil:
        """The i-th row; `_scratch` must have room for it."""
        cdef Row row
        cdef Py_ssize_t j
        row.columns = &self.columns[self.starts[i]]
        row.values = &self.values[self.starts[i]]
        row.n = self.starts[i + 1] - self.starts[i]
        row.slots = self._scratch.slots
        row.parts = &self._scratch.parts
        row.steps = self._scratch.steps
        row.top = -1
        row.is_full = True
        for j in range(row.n):
            row.is_full &= row.columns[j] == j
            row.top = max(row.top, row.columns[j])
        return row

    cdef const double* _target(self, Py_ssize_t i) noexcept nogil:
        return &self.targets[i * self.n_targets] if self.n_targets else NULL

    # ------------------------------------------------------------------------- growing

    cdef int build(self, ObliqueTree tree, list names) except -1:
        """Grow the tree anew from the rows; the last time, let them go.

        `names` are those of the columns: of two equally good splits that of the lesser name is
        taken, for a tree must not depend on the order in which its columns came.
        """
        cdef Py_ssize_t i, _replay
        order = sorted(range(len(names)), key=lambda column: repr(names[column]))
        self._ranks = np.empty(len(names), dtype=np.int32)
        np.asarray(self._ranks)[order] = np.arange(len(names))
        self._grow(tree)
        if self.joins:
            tree.complete()
            for _replay in range(REPLAYS):
                for i in range(self.n):
                    tree.step(
                        self.row(i), self.labels[i], self._target(i), self.weights[i]
                    )
        self._ranks = self._centers = self._units = None
        if self.n >= self.n_rows:
            self.n_rows = 0
            self._free()
        else:
            self.due_at = min(GROWTH * self.due_at, self.n_rows)
        return 0

    cdef int _grow(self, ObliqueTree tree) except -1:
        cdef Py_ssize_t i
        cdef int32_t depth = 0
        cdef int32_t[::1] node_of
        for i in range(self.n):
            self._scratch.reserve(self.starts[i + 1] - self.starts[i])
        tree.plant()
        tree.set_rates()
        self._standardise(tree)
        n_entries = self.starts[self.n]
        columns = np.asarray(<int32_t[:n_entries + 1]> self.columns)[:n_entries]
        values = np.asarray(<double[:n_entries + 1]> self.values)[:n_entries]
        order = np.lexsort((values, columns))
        rows = np.repeat(
            np.arange(self.n, dtype=np.int32),
            np.diff(np.asarray(<int64_t[:self.n + 1]> self.starts)),
        )[order]
        columns, values = columns[order], values[order]
        # the node of every row, -1 for one that ended in a leaf
        places = np.zeros(self.n, dtype=np.int32)
        node_of = places
        while depth < tree.depth and (places >= 0).any():
            nodes = np.unique(places[places >= 0])
            position = np.full(tree.shape.size, -1, dtype=np.int32)
            position[nodes] = np.arange(len(nodes), dtype=np.int32)
            splits = self._axis_splits(tree, node_of, position, len(nodes), rows, columns, values)
            # the rows of every node, in the order in which they came
            order = np.argsort(places, kind="stable").astype(np.int64)
            order = order[np.searchsorted(places[order], 0):]
            bounds = np.searchsorted(places[order], nodes)
            for node, members, column, threshold in zip(
                nodes.tolist(), np.split(order, bounds[1:]), *splits, strict=True
            ):
                if column < 0 or not self._split(tree, node, members, column, threshold, node_of):
                    places[members] = -1
                    self._set_outputs(tree, node, members)
            depth += 1
        for node in np.unique(places[places >= 0]).tolist():
            self._set_outputs(tree, node, np.flatnonzero(places == node))
        return 0

    cdef tuple _axis_splits(
        self, ObliqueTree tree, const int32_t[::1] node_of, const int32_t[::1] position,
        Py_ssize_t n_nodes, const int32_t[::1] rows, const int32_t[::1] columns,
        const double[::1] values
    ):
        """The best column (-1 for none) and threshold of every node.

        The entries come sorted by column and value. An entry that a row lacks is a 0, and all
        the zeros of a column are passed at once.
        """
        cdef Py_ssize_t n_outputs = self._n_outputs(tree)
        all_sums = np.zeros((n_nodes, n_outputs + 1))
        here = np.zeros((n_nodes, n_outputs + 1))
        left = np.zeros((n_nodes, n_outputs + 1))
        cdef double[:, ::1] totals = all_sums, present = here, lefts = left
        last = np.empty(n_nodes)
        best = np.empty(n_nodes)
        column = np.full(n_nodes, -1, dtype=np.int32)
        threshold = np.zeros(n_nodes)
        touched = np.empty(n_nodes, dtype=np.int32)
        cdef double[::1] last_value = last, best_gain = best, best_threshold = threshold
        cdef int32_t[::1] best_column = column, met = touched
        cdef Py_ssize_t start = 0, end, i, j, n_met, node, size = columns.shape[0]
        cdef bint is_past_zero
        with nogil:
            for i in range(self.n):
                if node_of[i] >= 0:
                    self._count(&totals[position[node_of[i]], 0], i, n_outputs)
            for node in range(n_nodes):
                best_gain[node] = self._purity(&totals[node, 0], n_outputs)
            while start < size:
                end = start
                n_met = 0
                while end < size and columns[end] == columns[start]:
                    if node_of[rows[end]] >= 0:
                        node = position[node_of[rows[end]]]
                        if present[node, n_outputs] == 0.0:
                            met[n_met] = <int32_t> node
                            n_met += 1
                        self._count(&present[node, 0], rows[end], n_outputs)
                    end += 1
                is_past_zero = False
                for i in range(start, end + 1):
                    if not is_past_zero and (i == end or values[i] > 0.0):
                        is_past_zero = True
                        for j in range(n_met):
                            node = met[j]
                            if totals[node, n_outputs] <= present[node, n_outputs]:
                                continue
                            self._try(
                                &totals[node, 0], &lefts[node, 0], n_outputs, node,
                                columns[start], last_value, 0.0,
                                best_gain, best_column, best_threshold,
                            )
                            self._pass_zeros(
                                &lefts[node, 0], &totals[node, 0], &present[node, 0], n_outputs
                            )
                            last_value[node] = 0.0
                    if i < end and node_of[rows[i]] >= 0:
                        node = position[node_of[rows[i]]]
                        self._try(
                            &totals[node, 0], &lefts[node, 0], n_outputs, node,
                            columns[start], last_value, values[i],
                            best_gain, best_column, best_threshold,
                        )
                        self._count(&lefts[node, 0], rows[i], n_outputs)
                        last_value[node] = values[i]
                for j in range(n_met):
                    for i in range(n_outputs + 1):
                        lefts[met[j], i] = present[met[j], i] = 0.0
                start = end
        return column.tolist(), threshold.tolist()

    cdef inline Py_ssize_t _n_outputs(self, ObliqueTree tree) noexcept:
        return self.n_targets if self.n_targets else tree.n_outputs

    cdef int _standardise(self, ObliqueTree tree) except -1:
        """Find the means and deviations of the targets: gains must not depend on their units.

        The literal loss is that of raw targets, so there all have one unit, the largest.
        """
        if not self.n_targets:
            return 0
        targets = np.asarray(<double[:self.n * self.n_targets]> self.targets).reshape(self.n, -1)
        weights = np.asarray(<double[:self.n]> self.weights)
        # relative ones do not overflow; and equal targets deviate by exactly 0 from the first
        weights = weights / weights.max()
        centers = np.average(targets - targets[0], axis=0, weights=weights)
        squares = np.square(targets - targets[0] - centers)
        units = np.sqrt(np.average(squares, axis=0, weights=weights))
        if tree.literal:
            units[:] = units.max()
        self._centers, self._units = targets[0] + centers, units
        return 0

    cdef inline double _standard(self, Py_ssize_t row, Py_ssize_t target) noexcept nogil:
        """A target about its mean, in units of its deviation."""
        cdef double unit = self._units[target]
        if unit <= 0.0:
            return 0.0
        return (self.targets[row * self.n_targets + target] - self._centers[target]) / unit

    cdef inline void _count(
        self, double* sums, Py_ssize_t row, Py_ssize_t n_outputs
    ) noexcept nogil:
        """Add a row to the sums of classes or targets, and to the weight behind them."""
        cdef Py_ssize_t i
        cdef double weight = self.weights[row]
        if self.n_targets:
            for i in range(n_outputs):
                sums[i] += weight * self._standard(row, i)
        else:
            sums[self.labels[row]] += weight
        sums[n_outputs] += weight

    cdef void _pass_zeros(
        self, double* left, const double* totals, const double* present, Py_ssize_t n_outputs
    ) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n_outputs + 1):
            left[i] += totals[i] - present[i]

    cdef double _purity(self, const double* sums, Py_ssize_t n_outputs) noexcept nogil:
        """What a split raises: minus the weighted entropy, or the explained sum of squares."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        if sums[n_outputs] <= 0.0:
            return 0.0
        if self.n_targets:
            for i in range(n_outputs):
                total += sums[i] * sums[i]
            return total / sums[n_outputs]
        for i in range(n_outputs):
            total += x_log_x(sums[i])
        return total - x_log_x(sums[n_outputs])

    cdef void _try(
        self, const double* totals, const double* left, Py_ssize_t n_outputs, Py_ssize_t node,
        int32_t column, const double[::1] last_value, double value, double[::1] best_gain,
        int32_t[::1] best_column, double[::1] best_threshold
    ) noexcept nogil:
        """Judge the split between the last value passed and the next one."""
        cdef double gain, right, weight
        cdef double margin = SMALLEST_GAIN * (1.0 + totals[n_outputs])
        cdef Py_ssize_t i
        if left[n_outputs] <= 0.0 or last_value[node] >= value:
            return
        weight = totals[n_outputs] - left[n_outputs]
        if weight <= 0.0:
            return
        gain = self._purity(left, n_outputs)
        if self.n_targets:
            right = 0.0
            for i in range(n_outputs):
                right += (totals[i] - left[i]) * (totals[i] - left[i])
            right /= weight
        else:
            right = -x_log_x(weight)
            for i in range(n_outputs):
                right += x_log_x(totals[i] - left[i])
        gain += right
        # columns that divide the rows alike differ by the rounding of their sums
        if gain > best_gain[node] + margin or (
            gain >= best_gain[node] - margin and best_column[node] >= 0
            and self._ranks[column] < self._ranks[best_column[node]]
        ):
            best_gain[node] = gain
            best_column[node] = column
            best_threshold[node] = 0.5 * (last_value[node] + value)

    cdef bint _split(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold, int32_t[::1] node_of
    ) except -1:
        """Split a leaf and send its rows on; returns False where all would go one way."""
        cdef Py_ssize_t i, n_right
        cdef double plain
        cdef int32_t left, right
        sides = np.empty(members.shape[0], dtype=np.int8)
        cdef signed char[::1] side = sides
        self._set_axis(tree, node, members, column, threshold)
        n_right = self._sides(tree, node, members, side)
        if n_right == 0 or n_right == members.shape[0]:
            tree.set_split(node, -1, 0.0, 0.0)
            return False
        if self.refines:
            plain = self._gain(tree, members, side)
            self._refine(tree, node, members, side)
            n_right = self._sides(tree, node, members, side)
            # the surrogate bounds the loss but may still end in a worse split
            if self._gain(tree, members, side) < plain:
                self._set_axis(tree, node, members, column, threshold)
                self._sides(tree, node, members, side)
        left, right = tree.split(node)
        for i in range(members.shape[0]):
            node_of[members[i]] = right if side[i] else left
        return True

    cdef int _set_axis(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold
    ) except -1:
        """w . x = factor (x_column - threshold), about 1 in size on the rows."""
        cdef double total = 0.0, value
        cdef Py_ssize_t i
        cdef int64_t j
        for i in range(members.shape[0]):
            value = 0.0
            for j in range(self.starts[members[i]], self.starts[members[i] + 1]):
                if self.columns[j] == column:
                    value = self.values[j]
            total += fabs(value - threshold)
        tree.set_split(node, column, threshold, members.shape[0] / total)
        return 0

    cdef Py_ssize_t _sides(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) noexcept:
        cdef Py_ssize_t i, n_right = 0
        for i in range(members.shape[0]):
            side[i] = tree.score(node, self.row(members[i])) > 0.0
            n_right += side[i]
        return n_right

    cdef double _gain(
        self, ObliqueTree tree, const int64_t[::1] members, const signed char[::1] side
    ) except? -1.0:
        cdef Py_ssize_t n_outputs = self._n_outputs(tree), i
        cdef double[:, ::1] sums = np.zeros((2, n_outputs + 1))
        for i in range(members.shape[0]):
            self._count(&sums[side[i], 0], members[i], n_outputs)
        return self._purity(&sums[0, 0], n_outputs) + self._purity(&sums[1, 0], n_outputs)

    cdef int _refine(
        self, ObliqueTree tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) except -1:
        """CO2: SGD on the surrogate (or from fear to hope) of this split and its two leaves."""
        cdef Py_ssize_t n_outputs = self._n_outputs(tree), i, j, _sweep
        cdef double[:, ::1] sums = np.empty((2, n_outputs + 1))
        cdef double[:, ::1] outputs = np.empty((2, n_outputs))
        cdef double score, here, there
        cdef Row row
        cdef bint goes_right
        for _sweep in range(CO2_PASSES):
            sums[:, :] = 0.0
            for i in range(members.shape[0]):
                self._count(&sums[side[i], 0], members[i], n_outputs)
            for i in range(2):
                for j in range(n_outputs):
                    outputs[i, j] = self._output(&sums[i, 0], j, n_outputs)
            for i in range(members.shape[0]):
                row = self.row(members[i])
                score = tree.score(node, row)
                goes_right = score > 0.0
                side[i] = goes_right
                here = self._loss(tree, &outputs[goes_right, 0], members[i], n_outputs)
                there = self._loss(tree, &outputs[not goes_right, 0], members[i], n_outputs)
                if there - 2.0 * fabs(score) > here:
                    tree.push(
                        node, row, self.weights[members[i]] * (tree.fear if tree.hopes else 1.0)
                    )
                elif tree.hopes and there + 2.0 * fabs(score) < here:
                    tree.push(node, row, -self.weights[members[i]])
        return 0

    cdef double _output(
        self, const double* sums, Py_ssize_t i, Py_ssize_t n_outputs
    ) noexcept nogil:
        """ln of a class's share in a leaf that has seen these sums, or the mean of a target."""
        if not self.n_targets:
            return log((sums[i] + 1.0 / n_outputs) / (sums[n_outputs] + 1.0))
        return sums[i] / sums[n_outputs] if sums[n_outputs] > 0.0 else 0.0

    cdef double _loss(
        self, ObliqueTree tree, const double* outputs, Py_ssize_t row, Py_ssize_t n_outputs
    ) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t i
        if not self.n_targets:
            return -outputs[self.labels[row]]
        for i in range(n_outputs):
            total += tree.scaled_square(
                <int32_t> i, (self._standard(row, i) - outputs[i]) * self._units[i]
            )
        return total

    cdef int _set_outputs(
        self, ObliqueTree tree, int32_t leaf, const int64_t[::1] members
    ) except -1:
        cdef Py_ssize_t n_outputs = self._n_outputs(tree), i
        cdef double[::1] sums = np.zeros(n_outputs + 1)
        for i in range(members.shape[0]):
            self._count(&sums[0], members[i], n_outputs)
        if self.n_targets:
            for i in range(n_outputs):
                sums[i] = sums[i] * self._units[i] + sums[n_outputs] * self._centers[i]
        return tree.set_outputs(leaf, &sums[0])

    # -------------------------------------------------------------------------- state

    def snapshot(self):
        """The rows as arrays."""
        n, entries = self.n, self.starts[self.n] if self.n else 0
        if n == 0:
            return {"n_rows": self.n_rows, "due_at": self.due_at, "n": 0}
        return {
            "n_rows": self.n_rows,
            "due_at": self.due_at,
            "n": n,
            "starts": np.asarray(<int64_t[:n + 1]> self.starts).copy(),
            "columns": np.asarray(<int32_t[:entries + 1]> self.columns)[:entries].copy(),
            "values": np.asarray(<double[:entries + 1]> self.values)[:entries].copy(),
            "labels": np.asarray(<int32_t[:n]> self.labels).copy(),
            "targets": (
                np.asarray(<double[:n * self.n_targets]> self.targets).reshape(n, -1).copy()
                if self.n_targets else np.empty((n, 0))
            ),
            "weights": np.asarray(<double[:n]> self.weights).copy(),
        }

    def restore(self, state):
        """Take over what `snapshot` gave."""
        cdef const int64_t[::1] starts
        cdef const int32_t[::1] columns, labels
        cdef const double[::1] values, weights
        cdef const double[:, ::1] targets
        self._free()
        self.n_rows, self.due_at = state["n_rows"], state["due_at"]
        cdef Py_ssize_t n = state["n"]
        if n == 0:
            return
        starts, columns, values = state["starts"], state["columns"], state["values"]
        labels, weights, targets = state["labels"], state["weights"], state["targets"]
        self.n_targets = <int32_t> targets.shape[1]
        self._reserve(n, starts[n])
        memcpy(self.starts, &starts[0], (n + 1) * sizeof(int64_t))
        if columns.shape[0]:
            memcpy(self.columns, &columns[0], columns.shape[0] * sizeof(int32_t))
            memcpy(self.values, &values[0], columns.shape[0] * sizeof(double))
        memcpy(self.labels, &labels[0], n * sizeof(int32_t))
        memcpy(self.weights, &weights[0], n * sizeof(double))
        if self.n_targets:
            memcpy(self.targets, &targets[0, 0], n * self.n_targets * sizeof(double))
        self.n = n
