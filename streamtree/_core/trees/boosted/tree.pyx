"""Boosted trees, grown anew from the window: a member of forests."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from streamtree._core.kernels.losses cimport argmax, sigmoid, softmax
from streamtree._core.kernels.rng cimport next_random, splitmix64
from streamtree._core.leaves.explanation cimport Explanation, softmax_parts
from streamtree._core.store.budget cimport bytes_allowed
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport LISTED, TABLE, Example, Prediction, Row, Scratch
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.boosted.growth cimport MOST_LABELS, BoostedGrowth
from streamtree._core.trees.boosted.stages cimport Stages
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.trees.boosted.checks import check_boosted

cdef enum:
    # rows before trees are first grown
    FIRST_GROWTH = 50
    # rows that come before trees are grown anew, by a hundred rows of the window: at first,
    # and when it is full
    FIRST_WAIT = 40
    WAIT = 75


@cython.final
cdef class BoostedTrees(Tree):
    """Says nothing of labels, and the mean of numbers, until trees were grown."""

    def __cinit__(self, *, bint has_numbers, uint64_t seed, int32_t window_length,
                  int32_t n_trees, double rate):
        self.views = LISTED | TABLE
        self.has_window = True
        self.has_numbers = has_numbers
        self.window = Window(window_length)
        self.stages = Stages()
        self.growth = BoostedGrowth(self.window, has_numbers, n_trees, rate)
        self.random = splitmix64(seed)
        self.next_growth = FIRST_GROWTH

    cdef int bind(self, Context context) except -1:
        Tree.bind(self, context)
        self.window.bind(context)
        return 0

    cdef size_t n_bytes(self) noexcept nogil:
        return self.stages.coded_bytes()

    # ------------------------------------------------------------------------ one example

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef double* shares = out.shares if out.shares != NULL else scratch.shares
        if self.stages.n_outputs:
            self.stages.score(row, self.context.features.groups, shares)
        if self.has_numbers:
            if self.stages.n_outputs == 0:
                shares[0] = self.mean
            return
        self._turn(shares)
        out.label = argmax(shares, self.context.n_labels)

    cdef void _turn(self, double* scores) noexcept nogil:
        """Turn scores into the probabilities of all labels."""
        cdef int32_t label, known = self.stages.n_labels, n_labels = self.context.n_labels
        cdef double share
        if self.stages.n_outputs == 1:
            scores[1] = sigmoid(scores[0])
            scores[0] = 1.0 - scores[1]
        elif known:
            softmax(scores, known)
        # of labels that came later it knows nothing
        share = 1.0 / n_labels
        for label in range(known):
            scores[label] *= known * share
        for label in range(known, n_labels):
            scores[label] = share

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        if out != NULL:
            self.predict(row, scratch, out)
        if self.has_numbers and self.stages.n_outputs == 0:
            self.weight += example.weight
            self.mean += example.weight / self.weight * (example.targets[0] - self.mean)
        if self.context.n_labels > MOST_LABELS:
            # what it could say of so many is not worth their memory
            return self._give_up()
        self.window.most = bytes_allowed() // 3
        try:
            self.window.push(row, example)
        finally:
            # also where memory ran out while rows went
            if self.growth.is_growing and self.growth.loses_rows():
                self.growth.drop()
        return self._grow()

    cdef int _give_up(self) except -1 nogil:
        """Say nothing from now on, and keep no rows."""
        if self.window.size or self.stages.n_outputs:
            with gil:
                self._begin_window()
            self.growth.drop()
            self.stages.clear()
        return 0

    cdef int _begin_window(self) except -1:
        cdef Window window = Window(self.window.length)
        window.bind(self.context)
        self.window = self.growth.window = window
        return 0

    cdef int _grow(self) except -1 nogil:
        """Go on with the trees that are to take the place of these, or begin with them."""
        cdef size_t taken, allowed = bytes_allowed()
        cdef bint is_done = False
        try:
            if self.growth.is_growing:
                self.growth.run()
                if not self.growth.is_growing:
                    self.growth.shadow.encode()
                    self.stages.swap(self.growth.shadow)
                    self.growth.drop()
            elif self.window.size >= self.next_growth:
                self.next_growth = self.window.size + self._wait()
                taken = allowed // 3 + self.stages.n_bytes()
                self.growth.start(
                    next_random(&self.random), allowed - taken if taken < allowed else 0
                )
            is_done = True
        finally:
            if not is_done:
                # where memory ran out nothing is half grown
                self.growth.drop()
        return 0

    cdef int64_t _wait(self) noexcept nogil:
        """How many rows come before trees are grown anew."""
        cdef int64_t n = self.window.n_rows(), part = WAIT
        if self.window.first() == 0:
            part = FIRST_WAIT + (WAIT - FIRST_WAIT) * n // self.window.length
        return max(n * part // 100, <int64_t> 1)

    # ------------------------------------------------------------------------ explanation

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """From what is said of rows on average: the tests on the way move scores to what is said.

        A column moves them as the means of the nodes differ that its tests lead to (Saabas 2014).
        """
        cdef int32_t tree, node, child, k, output = out.output, known = self.stages.n_outputs
        cdef double before, said = self.output_below(0, row, scratch, out)
        cdef double[::1] room = out.room
        if output >= max(known, self.stages.n_labels):
            return out.add_bias(said)
        means = np.stack([self.stages.expected(k) for k in range(known)], axis=1)
        roots = [self.stages.roots[tree] for tree in range(self.stages.n_trees)]
        start = means[roots].sum(axis=0)
        for k in range(known):
            start[k] += self.stages.base[k]
            room[k] = start[k]
        if not self.has_numbers:
            self._turn(&room[0])
        before = room[output]
        out.add_bias(before)
        moves = {}
        for node in roots:
            while self.stages.nodes[node].column >= 0:
                column = self.stages.nodes[node].column
                child = self.stages.step_of(node, row, self.context.features.groups)
                moves[column] = moves.get(column, 0.0) + means[child] - means[node]
                node = child
        columns, parts = np.array(list(moves), dtype=np.int32), np.array(list(moves.values()))
        parts = parts.reshape(len(columns), known)
        if known > 1:
            parts = softmax_parts(start, parts, output)
        else:
            # of two labels there is one score, that of the second
            parts = -parts[:, 0] if not self.has_numbers and output == 0 else parts[:, 0]
        return out.spread(columns, parts, said - before)

    @property
    def moved(self):
        """Pairs of a column and by how much a split of it lowered the loss."""
        nodes = self.stages.state()["nodes"]
        return nodes[["column", "gain"]][nodes["column"] >= 0].tolist()

    cdef list path(self, const Row* row, Scratch* scratch):
        """It has no path of its own: every tree has one."""
        return []

    # -------------------------------------------------------------------------------- state

    cdef dict state(self):
        return {
            "window": self.window.state(), "stages": self.stages.state(),
            "growth": self.growth.state(), "random": self.random,
            "next_growth": self.next_growth, "mean": self.mean, "weight": self.weight,
        }

    cdef int take_state(self, dict state) except -1:
        self.window.take_state(state["window"])
        self.stages.take_state(state["stages"])
        self.growth.take_state(state["growth"])
        if not self.growth.is_growing:
            self.growth.drop()
        self.random, self.next_growth = state["random"], state["next_growth"]
        self.mean, self.weight = state["mean"], state["weight"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_boosted(state, self.window.length, n_columns, n_outputs, self.has_numbers)

    @property
    def n_nodes(self):
        """Number of nodes of all trees."""
        return self.stages.n_nodes

    def count_leaves(self):
        """Number of leaves of all trees."""
        return self.stages.n_leaves

    def depths(self):
        """The depth of every node in its tree, as an int32 array of shape (n_nodes,)."""
        return self.stages.depths()
