"""A randomised tree: grown anew from the window, extended in between, shrunk along the way."""

cimport cython
from libc.math cimport ceil, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from streamtree._core.kernels.losses cimport argmax
from streamtree._core.kernels.rng cimport next_random, splitmix64
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.splits.bounds cimport is_above, is_in_set
from streamtree._core.store.budget cimport bytes_allowed
from streamtree._core.store.links cimport ROOT
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport (
    LISTED, TABLE, Example, Prediction, Row, Scratch, remember, remembers,
)
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.growth cimport GROWING, IDLE, STEP, Growth
from streamtree._core.trees.extra.nodes cimport MOST_KEPT, ExtraNode, ExtraNodes, goes_right
from streamtree._core.trees.extra.search cimport ExtraSearch
from streamtree._core.trees.extra.strength cimport Strength
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.stream.checks import check_window
from streamtree._core.trees.extra.checks import check_strength, check_tree

cdef enum:
    # rows before a tree is first grown, at the earliest
    FIRST_GROWTH = 40
    # A tree is grown anew when so many quarters of the rows of the window have come. Members of an
    # ensemble wait longer over a full window: over 39 streams forests are as accurate with 3, in a
    # fifth less of the trees' time, and lose .0004 with 4; a tree alone loses .002 with 3.
    WAIT = 2
    WAIT_OF_MEMBERS = 3
    # a leaf searches for a split when it has kept so many rows, after some more if it found none
    LABELLED_ROWS = 6
    NUMBERED_ROWS = 10
    ROWS_BETWEEN = 4
    # it then has so many candidates by the root of the number of columns, and at most
    CANDIDATES = 12
    MOST_CANDIDATES = 96
    # rows that are replayed for every one that is learned; a search for a split counts as some
    REPLAYED = 8
    SEARCH = 3
    # Of ten parts of the memory, those that the window of a tree alone may take. Numbers gain more
    # by rows; nodes that count labels are larger.
    WINDOW_OF = 10
    WINDOW_PARTS = 5
    WINDOW_PARTS_OF_NUMBERS = 6
    # of every label: growing needs a place for each, within its part
    LABEL_BYTES = 32


@cython.final
cdef class ExtraTree(Tree):
    """With a window of its own it lets the rows in, and learns the strength of shrinking.

    Where window and strength are given, their owner does so.
    """

    def __cinit__(self, *, bint has_numbers, uint64_t seed, strength, int32_t window_length=0,
                  double stagger=0.0, Window window=None, is_member=None):
        self.views = LISTED | TABLE
        self.has_window = True
        self.has_numbers = has_numbers
        self.owns_window = window is None
        self.strength = Strength(strength) if self.owns_window else strength
        self.window = Window(window_length) if window is None else window
        self.nodes = ExtraNodes(has_numbers)
        if is_member is None:
            is_member = not self.owns_window
        self.wait = WAIT_OF_MEMBERS if is_member else WAIT
        self.growth = Growth(self.window, has_numbers, is_member)
        self.search = ExtraSearch(self.window, has_numbers)
        self.may_begin = True
        self.label_bytes = LABEL_BYTES
        self.random = splitmix64(seed)
        self.next_growth = <int64_t> (FIRST_GROWTH * (1.0 + 0.9 * stagger))

    def configure(self, *, strength):
        """Set how strongly estimates are drawn to those of the node above; None: it is learned."""
        self.strength.configure(strength)

    cdef int bind(self, Context context) except -1:
        Tree.bind(self, context)
        if self.owns_window:
            self.window.bind(context)
        self.search.reserve(MOST_KEPT, MOST_KEPT, 0)
        self.nodes.clear()
        self.growth.drop()
        return 0

    cdef void allow(self, size_t most, bint may_begin) noexcept nogil:
        """Set how many bytes nodes may take, and whether it may begin to grow.

        While it grows it takes as much again, and `bytes_of_scratch(most)`.
        """
        self.nodes.limit = self.growth.shadow.limit = most
        self.may_begin = may_begin

    cdef bint is_due(self) noexcept nogil:
        """Whether it is to be grown anew."""
        return self.growth.phase == IDLE and self.window.size >= self.next_growth

    # ------------------------------------------------------------------------- one example

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return self.nodes.descend(ROOT, row, self.context.features.groups)

    cdef int32_t _leaf_of(self, const Row* row, Scratch* scratch) noexcept nogil:
        """As `leaf`, remembered until the tree learns."""
        if not remembers(scratch, <const void*> self, row):
            remember(scratch, <const void*> self, row)
            scratch.memo_node = self.nodes.descend(ROOT, row, self.context.features.groups)
        return scratch.memo_node

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        # for an ensemble that learns the strength
        cdef bint is_judged = self.strength.is_learned and not self.owns_window
        self._answer(
            self._leaf_of(row, scratch), scratch, scratch.pooled if is_judged else NULL, out
        )

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        node = self.nodes.descend(node, row, self.context.features.groups)
        self._answer(node, scratch, NULL, out)

    cdef void _answer(self, int32_t node, Scratch* scratch, double* slopes,
                      Prediction* out) noexcept nogil:
        """What a leaf says, and its slopes unless NULL."""
        cdef double* said = out.shares if out.shares != NULL else scratch.shares
        self._say(node, said, slopes)
        if not self.has_numbers:
            out.label = argmax(said, self.context.n_labels)

    cdef void _say(self, int32_t node, double* said, double* slopes) noexcept nogil:
        """What a node says, and its slopes by the logarithm of the strength, unless NULL."""
        if self.has_numbers:
            said[0] = self.nodes.mean(node, self.strength.value, slopes)
        else:
            self.nodes.shares(node, self.strength, self.context.n_labels, said, slopes)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t node = self._leaf_of(row, scratch)
        cdef double* said = scratch.shares
        cdef double* slopes = scratch.pooled if self.strength.is_learned else NULL
        try:
            if self.owns_window:
                self.window.most = bytes_allowed() // WINDOW_OF * (
                    WINDOW_PARTS_OF_NUMBERS if self.has_numbers else WINDOW_PARTS
                )
                self.window.push(row, example)
        finally:
            # also where memory ran out while rows went
            self.drop_lost()
        if self.owns_window:
            self.allow(bytes_of_each(left_of(bytes_allowed(), self.window.n_bytes()), 1, 1), True)
        if out != NULL:
            self._answer(node, scratch, slopes, out)
            said = out.shares if out.shares != NULL else said
        elif self.owns_window and self.strength.is_learned:
            self._say(node, said, slopes)
        if self.owns_window and self.strength.is_learned:
            self.strength.learn(example, said, slopes, self.context.n_labels)
        scratch.memo_serial = 0
        return self._grow(self._count(self.nodes, node, self.window.size - 1))

    cdef int64_t _count(self, ExtraNodes nodes, int32_t leaf, int64_t row) except -1 nogil:
        """Count a row of the window in its leaf and the nodes above; the leaf may split.

        Returns what `_extend` does.
        """
        cdef int32_t slot = self.window.slot_of(row), node = leaf
        cdef float weight = self.window.weights[slot]
        while node >= 0:
            if self.has_numbers:
                nodes.add_number(node, self.window.targets[slot], weight)
            else:
                nodes.add_label(node, self.window.labels[slot], weight)
            node = nodes.nodes[node].parent
        nodes.keep(leaf, <uint32_t> row)
        return self._extend(nodes, leaf)

    # ---------------------------------------------------------------------------- splitting

    cdef int64_t _extend(self, ExtraNodes nodes, int32_t leaf) except -1 nogil:
        """Split a leaf by the rows that it has kept, if it is time.

        Returns what the search for a split has cost, in cells as growing does; 0 for none.
        """
        cdef ExtraNode* here = &nodes.nodes[leaf]
        cdef int32_t slots[MOST_KEPT]
        cdef int32_t i, n = 0
        cdef int64_t row, cost = 0
        here.since += here.since < 255
        if not self.has_numbers and here.n_labels < 2:
            return 0
        if here.since < ROWS_BETWEEN or here.n_kept < (
            NUMBERED_ROWS if self.has_numbers else LABELLED_ROWS
        ) or not nodes.may_split():
            return 0
        here.since = 0
        for i in range(here.n_kept):
            row = self.window.row_of(nodes.kept_of(leaf)[i])
            if row >= 0:
                slots[n] = self.window.slot_of(row)
                n += 1
        if n < 2:
            return 0
        self.search.begin_with(slots, n, 0)
        self.search.measure()
        if self.search.is_pure:
            return 0
        for _ in range(min(
            MOST_CANDIDATES, <int32_t> ceil(CANDIDATES * sqrt(self.search.width))
        )):
            if self.search.is_done:
                break
            self.search.consider(&self.random, self.has_numbers)
            cost += 2 * n + STEP
        if self.search.best.column >= 0:
            self._split(nodes, leaf, slots)
        return cost

    cdef int _split(self, ExtraNodes nodes, int32_t leaf, int32_t* slots) except -1 nogil:
        """Split a leaf by the best candidate; its children begin with the rows that were kept."""
        cdef int32_t right[MOST_KEPT]
        cdef int32_t i, n = self.search.n, child
        cdef int32_t n_left = self.search.divide(slots, right, 0, n, 0)
        child = nodes.split(leaf, self.search.best)
        for i in range(n_left):
            self._begin_with(nodes, child, slots[i])
        for i in range(n - n_left):
            self._begin_with(nodes, child + 1, right[i])
        return 0

    cdef int _begin_with(self, ExtraNodes nodes, int32_t leaf, int32_t slot) except -1 nogil:
        """Count a row that was kept in a new leaf."""
        cdef int64_t newest = self.window.size - 1, capacity = self.window.capacity
        cdef int64_t row = newest - (newest - slot) % capacity
        cdef float weight = self.window.weights[slot]
        if self.has_numbers:
            nodes.add_number(leaf, self.window.targets[slot], weight)
        else:
            nodes.add_label(leaf, self.window.labels[slot], weight)
        return nodes.keep(leaf, <uint32_t> row)

    # ------------------------------------------------------------------------------ growing

    cdef int _grow(self, int64_t spent) except -1 nogil:
        """Go on with the tree that is to take the place of this one, or begin with it.

        `spent` was for the row at hand, which gets less done of it: few rows pay for both.
        """
        cdef bint is_done = False
        try:
            if self.growth.phase == GROWING:
                self.growth.run(spent)
            elif self.growth.phase != IDLE:
                self._replay()
            elif self.may_begin and self.is_due():
                self.next_growth = self.window.size + max(
                    self.window.n_rows() * self._quarters() // 4, 1
                )
                self.growth.start(next_random(&self.random), bytes_of_scratch(self.nodes.limit))
            is_done = True
        finally:
            if not is_done:
                # where memory ran out nothing is half grown
                self.growth.drop()
        return 0

    cdef int _quarters(self) noexcept nogil:
        """How many quarters of the rows of the window are to come before it is grown anew."""
        return self.wait if self.window.size >= self.window.length else WAIT

    cdef int drop_lost(self) except -1 nogil:
        """Do not go on with a tree whose rows have gone."""
        if self.growth.phase != IDLE and self.growth.loses_rows():
            self.growth.drop()
        return 0

    cdef int _replay(self) except -1 nogil:
        """Let the new tree learn some of the rows that came while it was grown."""
        cdef int64_t row
        cdef int32_t node, effort = 0
        while effort < REPLAYED:
            row = self.growth.next_row
            if row == self.window.size:
                self.nodes.swap(self.growth.shadow)
                return self.growth.drop()
            node = self._descend_in_window(self.growth.shadow, self.window.slot_of(row))
            effort += 1 + SEARCH * (self._count(self.growth.shadow, node, row) > 0)
            self.growth.next_row += 1
        return 0

    cdef int32_t _descend_in_window(self, ExtraNodes nodes, int32_t slot) noexcept nogil:
        """The leaf of a row of the window."""
        cdef int32_t node = ROOT
        cdef const ExtraNode* here = &nodes.nodes[ROOT]
        while here.left >= 0:
            node = here.left + (
                is_in_set(here.bound.members, self.window.kind(slot, here.column), here.salt)
                if here.salt else is_above(
                    self.window.value(slot, here.column), here.bound.threshold, here.missing_right
                )
            )
            here = &nodes.nodes[node]
        return node

    # ----------------------------------------------------------------------- looking into it

    def said(self, int32_t node):
        """What a node says: the probabilities of all labels, or a number."""
        cdef double[::1] said
        if not 0 <= node < self.nodes.size:
            raise IndexError("no such node")
        out = np.zeros(self.context.n_labels + 1)
        said = out
        self._say(node, &said[0], NULL)
        return said[0] if self.has_numbers else out[:self.context.n_labels]

    def members(self, int32_t node):
        """The columns of the categories in the set of a node, and whether rows without any are."""
        if not 0 <= node < self.nodes.size or self.nodes.nodes[node].salt == 0:
            raise IndexError("no such set")
        cdef const ExtraNode* here = &self.nodes.nodes[node]
        cdef const int32_t* groups = self.context.features.groups
        cdef int32_t column
        found = [
            column for column in range(self.context.n_columns)
            if groups[column] >= 0 and groups[column] == groups[here.column]
            and is_in_set(here.bound.members, self.context.kind_of(column), here.salt)
        ]
        return found, is_in_set(here.bound.members, 0, here.salt)

    @property
    def shrinkage(self):
        """How strongly estimates are drawn to those of the node above now."""
        return self.strength.value

    @property
    def n_nodes(self):
        """Number of nodes, leaves included."""
        return self.nodes.size

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        return self.nodes.depths()

    cdef list path(self, const Row* row, Scratch* scratch):
        cdef int32_t node = ROOT
        cdef bint side
        cdef const ExtraNode* here = &self.nodes.nodes[ROOT]
        nodes = []
        while here.left >= 0:
            side = goes_right(here, row, self.context.features.groups)
            nodes.append((node, side - 0.5 if here.salt else (
                <double> row.table[here.column] - here.bound.threshold
            )))
            node = here.left + side
            here = &self.nodes.nodes[node]
        return [*nodes, (node, None)]

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        return [self.nodes.nodes[node].column], [1.0]

    cdef list means(self, list path, Explanation out):
        """Inner nodes have counts of their own."""
        if self.has_numbers:
            return [self.said(node) for node in path]
        return [float(self.said(node)[out.output]) for node in path]

    cdef list sample(self, const Row* row, Scratch* scratch, Py_ssize_t least):
        """Of the lowest node on the way of the row that has enough of them."""
        cdef int32_t node = self.nodes.descend(ROOT, row, self.context.features.groups)
        found = self._kept_below(node)
        while len(found) < least and self.nodes.nodes[node].parent >= 0:
            node = self.nodes.nodes[node].parent
            found = self._kept_below(node)
        return found

    cdef list _kept_below(self, int32_t node):
        """(number, weight) of the kept rows of all leaves below a node."""
        cdef int32_t i, slot
        cdef int64_t row
        cdef const ExtraNode* here
        found, waiting = [], [node]
        while waiting:
            node = waiting.pop()
            here = &self.nodes.nodes[node]
            if here.left >= 0:
                waiting += [here.left, here.left + 1]
            for i in range(here.n_kept):
                row = self.window.row_of(self.nodes.kept_of(node)[i])
                if row >= 0:
                    slot = self.window.slot_of(row)
                    found.append((self.window.targets[slot], self.window.weights[slot]))
        return found

    # -------------------------------------------------------------------------------- state

    cdef dict outline(self):
        return {"grown": self.nodes.state()}

    cdef dict state(self):
        state = {
            **self.outline(),
            "growth": self.growth.state(),
            "random": self.random,
            "next_growth": self.next_growth,
        }
        if self.owns_window:
            state |= {"window": self.window.state(), "strength": self.strength.state()}
        return state

    cdef int take_state(self, dict state) except -1:
        if self.owns_window:
            self.window.take_state(state["window"])
            self.strength.take_state(state["strength"])
        self.nodes.take_state(state["grown"])
        self.growth.take_state(state["growth"])
        self.random = state["random"]
        self.next_growth = state["next_growth"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        n_targets = n_outputs if self.has_numbers else 0
        check_window(state["window"], self.window.length, n_columns, n_outputs, n_targets)
        check_strength(state["strength"])
        self.check_state_over(state["window"], state, n_outputs)

    def check_state_over(self, dict window, dict state, Py_ssize_t n_outputs):
        """The same over a window whose state was checked, and may be that of other trees, too."""
        check_tree(window, state, 0 if self.has_numbers else n_outputs, self.has_numbers)
