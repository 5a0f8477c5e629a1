"""The first rows of a stream, kept for a while to grow a tree to start from.

Level by level, as for any greedy tree, every node gets the axis-aligned split of the largest gain
in information (classes) or fall in variance (numbers). CO2 (Norouzi et al. 2015) then turns it into
an oblique one by the surrogate of a tree of depth 1, before the next level is grown.
"""

cimport cython
from libc.math cimport fabs, log
from libc.stdint cimport int32_t, int64_t

from streamtree._core.splits.greedy cimport GreedySearch
from streamtree._core.stream.buffers cimport RowBuffer
from streamtree._core.store.budget cimport has_room
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport Example, View, value_of
from streamtree._core.trees.oblique.nodes cimport split_score
from streamtree._core.trees.oblique.steps cimport ObliqueSteps

import numpy as np

cdef enum:
    FIRST_BUILD = 32        # rows
    GROWTH = 4              # after that, whenever there are so many times as many
    CO2_PASSES = 10
    REPLAYS = 4             # passes of joint training over the rows after each build


cdef list grouped(const int32_t[::1] places, Py_ssize_t n_nodes):
    """(node, its rows in the order in which they came) for all nodes that have rows."""
    cdef Py_ssize_t i
    cdef int64_t[::1] ends = np.zeros(n_nodes + 1, dtype=np.int64)
    rows = np.empty(places.shape[0], dtype=np.int64)
    cdef int64_t[::1] view = rows
    for i in range(places.shape[0]):
        ends[places[i] + 1] += 1
    # rows of no node come first
    for i in range(n_nodes):
        ends[i + 1] += ends[i]
    starts = np.asarray(ends).tolist()
    for i in range(places.shape[0]):
        if places[i] >= 0:
            view[ends[places[i]]] = i
            ends[places[i]] += 1
    groups = []
    for i in range(n_nodes):
        if starts[i + 1] > starts[i]:
            groups.append((i, rows[starts[i]:starts[i + 1]]))
    return groups


@cython.final
cdef class WarmUp:
    """Rows as they were learned, until `n_rows` are there."""

    def __cinit__(self, Py_ssize_t n_rows, bint refines, bint joins):
        self.n_rows = n_rows
        self.refines = refines
        self.joins = joins
        self.rows = KeptRows()
        self._room = RowBuffer()
        self.due_at = min(FIRST_BUILD, n_rows)

    cdef int keep(self, const View* x, const Example* example, int32_t n_targets) except -1 nogil:
        """Keep a row, if there is room; else the warm-up ends with the rows that are there."""
        if self.rows.n == self.n_rows:
            # they wait for memory to grow the tree
            return 0
        # beside what is there: an array that grows may be there twice
        if has_room(self.rows.bytes_with(self.rows.n + 1, x.n)):
            return self.rows.add(x, example, n_targets)
        self.n_rows = self.due_at = self.rows.n
        return 0

    cdef bint is_due(self) noexcept nogil:
        """Whether the tree is to be grown."""
        return self.n_rows > 0 and self.rows.n >= self.due_at

    cdef int build(self, ObliqueSteps tree) except -1:
        """Grow the tree anew from the rows; the last time, let them go.

        No Python code runs meanwhile, in which a signal might leave half a tree. Where memory runs
        out there is none: it is grown with the next row.
        """
        try:
            self._build(tree)
        except BaseException:
            tree.plant()
            raise
        finally:
            self._search = None
        if self.rows.n >= self.n_rows:
            self.n_rows = 0
            self.rows.clear()
            self._room = RowBuffer()
        else:
            self.due_at = min(GROWTH * self.due_at, self.n_rows)
        return 0

    cdef int _build(self, ObliqueSteps tree) except -1:
        self._room.reserve(self.rows.longest() + 1)
        self._scratch.slots = self._room.columns
        self._scratch.steps = self._room.values
        # the paper's loss is that of raw targets, so there all have one unit
        self._search = GreedySearch(
            self.rows, tree.n_outputs, tree.context, tree.is_paper
        )
        self._grow(tree)
        if self.joins:
            tree.complete()
            self._replay(tree)
        return 0

    cdef void _read(self, Py_ssize_t row, KeptStep* kept) noexcept nogil:
        """Make a kept row one that the tree may look at; its parts point to each other."""
        self.rows.view(row, &kept.x)
        kept.example = self.rows.example(row)
        kept.step.x = &kept.x
        kept.step.example = &kept.example
        kept.step.scratch = &self._scratch

    cdef int _replay(self, ObliqueSteps tree) except -1:
        """Train all splits jointly on the rows, which count once in the end."""
        cdef Py_ssize_t i, _pass
        cdef KeptStep kept
        for _pass in range(REPLAYS):
            for i in range(self.rows.n):
                self._read(i, &kept)
                tree.step(&kept.step, tree.begin(&kept.step))
        tree.count_anew()
        for i in range(self.rows.n):
            self._read(i, &kept)
            tree.count_in(tree.begin(&kept.step), &kept.example)
        return 0

    # ------------------------------------------------------------------------- growing

    cdef int _grow(self, ObliqueSteps tree) except -1:
        cdef int32_t depth = 0
        tree.plant()
        tree.set_rates()
        # the node of every row, -1 for one that ended in a leaf
        places = np.zeros(self.rows.n, dtype=np.int32)
        groups = grouped(places, tree.shape.size)
        while depth < tree.depth and groups:
            self._grow_level(tree, places, groups)
            groups = grouped(places, tree.shape.size)
            depth += 1
        for node, members in groups:
            self._set_outputs(tree, node, members)
        return 0

    cdef int _grow_level(self, ObliqueSteps tree, int32_t[::1] places, list groups) except -1:
        """Split the nodes in which rows are; `places` follows the rows."""
        cdef Py_ssize_t i, position
        cdef int32_t[::1] node_of = np.empty(places.shape[0], dtype=np.int32)
        cdef const int64_t[::1] members
        node_of[:] = -1
        for position in range(len(groups)):
            members = groups[position][1]
            for i in range(members.shape[0]):
                node_of[members[i]] = <int32_t> position
        splits = self._search.best_splits(node_of, len(groups))
        for (node, members), column, threshold in zip(
            groups, splits["column"].tolist(), splits["threshold"].tolist(), strict=True
        ):
            if column < 0 or not self._split(tree, node, members, column, threshold, places):
                for i in range(members.shape[0]):
                    places[members[i]] = -1
                self._set_outputs(tree, node, members)
        return 0

    cdef bint _split(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold, int32_t[::1] node_of
    ) except -1:
        """Split a leaf and send its rows on; returns False where all would go one way."""
        cdef Py_ssize_t i, n_right
        cdef double plain
        cdef int32_t left, right
        cdef signed char[::1] side = np.empty(members.shape[0], dtype=np.int8)
        self._set_axis(tree, node, members, column, threshold)
        n_right = self._sides(tree, node, members, side)
        if n_right == 0 or n_right == members.shape[0]:
            tree.set_split(node, -1, 0.0, 0.0)
            return False
        if self.refines:
            plain = self._search.purity_of_sides(members, side)
            self._refine(tree, node, members, side)
            self._sides(tree, node, members, side)
            # the surrogate bounds the loss but may still end in a worse split
            if self._search.purity_of_sides(members, side) < plain:
                self._set_axis(tree, node, members, column, threshold)
                self._sides(tree, node, members, side)
        left, right = tree.split(node)
        for i in range(members.shape[0]):
            node_of[members[i]] = right if side[i] else left
        return True

    cdef int _set_axis(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, int32_t column,
        double threshold
    ) except -1:
        """w . x = factor (x_column - threshold), about 1 in size on the rows."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        cdef KeptStep kept
        for i in range(members.shape[0]):
            self._read(members[i], &kept)
            total += fabs(value_of(&kept.x, column, 0.0) - threshold)
        return tree.set_split(node, column, threshold, members.shape[0] / total)

    cdef Py_ssize_t _sides(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) noexcept:
        """Find the side of every row; returns how many go right."""
        cdef Py_ssize_t i, n_right = 0
        cdef KeptStep kept
        for i in range(members.shape[0]):
            self._read(members[i], &kept)
            side[i] = split_score(&tree.nodes[node], &kept.x, &self._scratch) > 0.0
            n_right += side[i]
        return n_right

    # ----------------------------------------------------------------------------- CO2

    cdef int _refine(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members, signed char[::1] side
    ) except -1:
        """CO2: SGD on the surrogate (or from fear to hope) of this split and its two leaves."""
        cdef Py_ssize_t n_outputs = self._search.n_outputs, i, j, _pass
        cdef double[:, ::1] sums = np.empty((2, n_outputs + 1))
        cdef double[:, ::1] outputs = np.empty((2, n_outputs))
        for _pass in range(CO2_PASSES):
            sums[:, :] = 0.0
            for i in range(members.shape[0]):
                self._search.count(&sums[side[i], 0], members[i])
            for i in range(2):
                for j in range(n_outputs):
                    outputs[i, j] = self._output(&sums[i, 0], j)
            self._refine_once(tree, node, members, side, outputs)
        return 0

    cdef int _refine_once(
        self, ObliqueSteps tree, int32_t node, const int64_t[::1] members,
        signed char[::1] side, double[:, ::1] outputs
    ) except -1:
        """One pass over the rows of a split whose leaves say `outputs`."""
        cdef double score, here, there, away = tree.fear if tree.hopes else 1.0
        cdef Py_ssize_t i
        cdef KeptStep kept
        cdef bint goes_right
        for i in range(members.shape[0]):
            self._read(members[i], &kept)
            score = split_score(&tree.nodes[node], &kept.x, &self._scratch)
            goes_right = score > 0.0
            side[i] = goes_right
            here = self._loss(tree, &outputs[goes_right, 0], members[i])
            there = self._loss(tree, &outputs[not goes_right, 0], members[i])
            if there - 2.0 * fabs(score) > here:
                tree.push(node, &kept.step, kept.example.weight * away)
            elif tree.hopes and there + 2.0 * fabs(score) < here:
                tree.push(node, &kept.step, -kept.example.weight)
        return 0

    cdef double _output(self, const double* sums, Py_ssize_t i) noexcept nogil:
        """ln of a class's share in a leaf that has seen these sums, or the mean of a target."""
        cdef Py_ssize_t n = self._search.n_outputs
        if not self.rows.n_targets:
            return log((sums[i] + 1.0 / n) / (sums[n] + 1.0))
        return sums[i] / sums[n] if sums[n] > 0.0 else 0.0

    cdef double _loss(
        self, ObliqueSteps tree, const double* outputs, Py_ssize_t row
    ) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t i
        if not self.rows.n_targets:
            return -outputs[self.rows.labels[row]]
        for i in range(self._search.n_outputs):
            total += tree.scaled_square(
                <int32_t> i,
                (self._search.standard(row, i) - outputs[i]) * self._search.units[i],
            )
        return total

    cdef int _set_outputs(
        self, ObliqueSteps tree, int32_t leaf, const int64_t[::1] members
    ) except -1:
        cdef Py_ssize_t n_outputs = self._search.n_outputs, i
        cdef double[::1] sums = np.zeros(n_outputs + 1)
        for i in range(members.shape[0]):
            self._search.count(&sums[0], members[i])
        if self.rows.n_targets:
            for i in range(n_outputs):
                sums[i] = (
                    sums[i] * self._search.units[i] + sums[n_outputs] * self._search.centers[i]
                )
        return tree.set_outputs(leaf, &sums[0])

    # -------------------------------------------------------------------------- state

    cdef dict state(self):
        return {"n_rows": self.n_rows, "due_at": self.due_at, "rows": self.rows.state()}

    cdef int take_state(self, dict state) except -1:
        self.n_rows, self.due_at = state["n_rows"], state["due_at"]
        return self.rows.take_state(state["rows"])
