"""Randomised trees over one window of recent rows."""

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from streamtree._core.ensembles.ensemble cimport Ensemble, MeanPool
from streamtree._core.store.budget cimport bytes_allowed
from streamtree._core.store.links cimport ROOT
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Row, Scratch, remember, remembers
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.growth cimport IDLE
from streamtree._core.trees.extra.nodes cimport ExtraNode, descend_together
from streamtree._core.trees.extra.strength cimport Strength
from streamtree._core.trees.extra.tree cimport ExtraTree, bytes_of_each, left_of

from streamtree._core.stream.checks import check_window
from streamtree._core.trees.extra.checks import check_strength


cdef enum:
    # one of so many trees may grow at a time; where trees may take fewer bytes for every row of the
    # window than most need, more of them for nodes is worth more than trees that are grown sooner
    GROWING_PARTS = 3
    FEW_GROWING_PARTS = 10
    BYTES_A_ROW = 64
    # trees that a row is followed down at a time
    SIDE_BY_SIDE = 16


def extra_trees(list seeds, *, int32_t window_length, bint has_numbers, strength):
    """Trees over one new window: compiled, for they may be wanted amid a row.

    They are due to grow at different times, two at a time: threads begin at both ends of the list,
    so that neither waits for the other.
    """
    cdef Py_ssize_t i, n = len(seeds)
    window, shared = Window(window_length), Strength(strength)
    return ExtraTrees([
        ExtraTree(
            has_numbers=has_numbers, seed=seeds[i], strength=shared,
            stagger=2.0 * min(i, n - 1 - i) / n, window=window,
        ) for i in range(n)
    ], window=window, strength=shared, has_numbers=has_numbers)


@cython.final
cdef class ExtraTrees(MeanPool):
    """The mean of trees that grow from the window; it lets every row in once.

    How strongly their estimates are shrunk is learned for the mean, see Strength.
    The trees share alike in what the window leaves of the bound on memory. Some of them may grow at
    a time; the others wait for them, so that there need not be room for all to grow at once.
    """

    cdef Window window
    cdef Strength strength
    cdef bint has_numbers
    cdef size_t each            # bytes that a tree may take, as they were told last
    cdef int64_t next_growth    # rows of the window when one of them is due to grow

    def __cinit__(self, list members, *, Window window, Strength strength, bint has_numbers):
        self.window, self.strength = window, strength
        self.is_judged = strength.is_learned
        self.has_numbers = has_numbers

    cdef int bind(self, Context context) except -1:
        self.window.bind(context)
        self.next_growth = 0
        return Ensemble.bind(self, context)

    cdef void _descend(self, const Row* row, Scratch* scratch) noexcept nogil:
        """Find the leaves of a row in all trees, some side by side, unless they are known."""
        cdef const ExtraNode* nodes[SIDE_BY_SIDE]
        cdef int32_t leaves[SIDE_BY_SIDE]
        cdef Py_ssize_t first = 0, i, n
        cdef Scratch* place
        if self.n_members and remembers(&scratch[self.places[0]], self.trees[0], row):
            return
        while first < self.n_members:
            n = min(self.n_members - first, <Py_ssize_t> SIDE_BY_SIDE)
            for i in range(n):
                nodes[i] = (<ExtraTree> self.trees[first + i]).nodes.nodes
                leaves[i] = ROOT
            descend_together(nodes, leaves, n, row, self.context.features.groups)
            for i in range(n):
                place = &scratch[self.places[first + i]]
                remember(place, self.trees[first + i], row)
                place.memo_node = leaves[i]
            first += n

    cdef int ask(self, const Row* row, Scratch* scratch) noexcept nogil:
        self._descend(row, scratch)
        return Ensemble.ask(self, row, scratch)

    cdef int begin(self, const Row* row, const Example* example, Scratch* scratch,
                   bint is_shared) except -1 nogil:
        cdef Py_ssize_t m
        cdef bint is_done = False
        self.window.most = bytes_allowed() // 2
        try:
            self.window.push(row, example)
            is_done = True
        finally:
            # where memory ran out while rows went
            for m in range(0 if is_done else self.n_members):
                (<ExtraTree> self.trees[m]).drop_lost()
        if not is_shared:
            self._descend(row, scratch)
        self._share()
        return Ensemble.begin(self, row, example, scratch, is_shared)

    cdef size_t _window_bytes(self) noexcept nogil:
        """What the window takes, or will before the trees of now are grown anew."""
        cdef size_t now = self.window.n_bytes()
        if self.window.n_rows() >= self.window.length:
            return now
        return max(now, min(now // 4 * 7, bytes_allowed() // 2))

    cdef void _share(self) noexcept nogil:
        """Tell all members what they may take, and those that are due to grow who may begin.

        No member is looked at without need: threads would wait for each other's memory.
        """
        cdef Py_ssize_t m, n = max(self.n_members, 1), n_growing = 0
        cdef Py_ssize_t most_growing = (n + GROWING_PARTS - 1) // GROWING_PARTS
        cdef bint may_begin
        cdef size_t left = left_of(bytes_allowed(), self._window_bytes())
        cdef size_t each = bytes_of_each(left, n, most_growing)
        if each < <size_t> self.window.n_rows() * BYTES_A_ROW:
            most_growing = (n + FEW_GROWING_PARTS - 1) // FEW_GROWING_PARTS
            each = bytes_of_each(left, n, most_growing)
        if each == self.each and self.window.size < self.next_growth:
            return
        self.each, self.next_growth = each, INT64_MAX
        for m in range(self.n_members):
            n_growing += (<ExtraTree> self.trees[m]).growth.phase != IDLE
        for m in range(self.n_members):
            may_begin = n_growing < most_growing and (<ExtraTree> self.trees[m]).is_due()
            n_growing += may_begin
            (<ExtraTree> self.trees[m]).allow(each, may_begin)
            # one that begins now is to be told so no more with the next row
            self.next_growth = min(self.next_growth, (<ExtraTree> self.trees[m]).next_growth)

    cdef void learn_pooling(self, const Example* example, Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m, i, n = self.n_outputs()
        cdef double* slopes
        if not self.strength.is_learned or self.n_members == 0:
            return
        # Of the mean: nobody asks for those of the first tree again. So this is not to be put off,
        # see `may_put_off`.
        slopes = scratch[self.places[0]].pooled
        for i in range(n):
            for m in range(1, self.n_members):
                slopes[i] += scratch[self.places[m]].pooled[i]
            slopes[i] /= self.n_members
        self.strength.learn(example, scratch.pooled, slopes, self.context.n_labels)

    @property
    def shrinkage(self):
        """How strongly estimates are drawn to those of the node above now."""
        return self.strength.value

    cdef dict own_state(self):
        return {"window": self.window.state(), "strength": self.strength.state()}

    cdef int take_state(self, dict state) except -1:
        # its rows are what the members' states are about
        self.window.take_state(state["window"])
        self.strength.take_state(state["strength"])
        self.next_growth = 0
        return Ensemble.take_state(self, state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        n_targets = n_outputs if self.has_numbers else 0
        check_window(state["window"], self.window.length, n_columns, n_outputs, n_targets)
        check_strength(state["strength"])
        for m, member in enumerate(self.members):
            member.check_state_over(state["window"], state["members"][str(m)], n_outputs)
