"""An extremely randomised tree from the rows of a window (Geurts, Ernst & Wehenkel 2006).

At every node the best of some random candidates, until nothing is left to be told apart. The nodes
that are still to be split lie on a stack, and a step looks at no more than the rows of one node.
"""

cimport cython
from libc.math cimport INFINITY, ceil, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.window cimport Window
from streamtree._core.trees.extra.nodes cimport MOST_KEPT, ROOT, ExtraNodes
from streamtree._core.trees.extra.search cimport Candidate, SplitSearch

import numpy as np

from streamtree._core.store.state import check_counts, require
from streamtree._core.trees.extra.nodes import check_nodes

cdef enum:
    # candidates of a node by the root of the number of columns; numbers gain by more
    CANDIDATES = 4
    CANDIDATES_OF_NUMBERS = 6
    # draws that split nothing are not counted, up to so many times as many
    DRAWS = 4
    # a tree is done at the latest when so many times all rows were looked at for all candidates
    MOST_LEVELS = 40
    # and when the number of rows has grown by a part of so many: what is grown late is out of date
    # (covtype .803 with 4, .810 with 12; elevators .747, .763)
    PARTS = 12
    # what a step costs besides the rows that it looks at, in cells
    STEP = 16


cdef struct GrowthRecord:
    int64_t first
    int64_t end
    int64_t next_row
    int64_t credit
    int64_t spent
    uint64_t random
    double score        # of the best candidate
    int32_t phase
    int32_t node
    int32_t node_begin
    int32_t node_end
    int32_t n_tried
    int32_t n_drawn
    int32_t column
    float threshold
    int32_t missing_right
    int32_t unused


@cython.final
cdef class Growth:
    """The tree that is grown is `shadow`; what came meanwhile is for its owner to replay."""

    def __cinit__(self, Window window, bint has_numbers):
        self.window = window
        self.shadow = ExtraNodes(has_numbers)
        self.search = SplitSearch(window, has_numbers)
        self.at.node = -1

    def __dealloc__(self):
        free(self.slots)
        free(self.spare)
        free(self.stack)

    cdef size_t n_bytes(self) noexcept nogil:
        return (
            self.shadow.n_bytes() + self.search.n_bytes()
            + 2 * self.n * sizeof(int32_t) + self.stack_capacity * sizeof(Pending)
        )

    cdef void _release(self) noexcept nogil:
        free(self.slots)
        free(self.spare)
        free(self.stack)
        self.slots = self.spare = NULL
        self.stack = NULL
        self.n = self.n_stack = self.stack_capacity = 0
        self.at.node = -1
        self.is_begun = False
        self.search.release()

    cdef void drop(self) noexcept nogil:
        """Forget the shadow."""
        self._release()
        self.shadow.clear()
        self.phase = IDLE

    # ----------------------------------------------------------------------------- growing

    cdef int start(self, uint64_t random) except -1 nogil:
        """Begin with all rows of the window."""
        cdef int32_t i, n = self.window.n_rows()
        self.drop()
        self.slots = <int32_t*> regrown(NULL, n * sizeof(int32_t))
        self.spare = <int32_t*> regrown(NULL, n * sizeof(int32_t))
        self.n = n
        self.end = self.next_row = self.window.size
        self.first = self.end - n
        for i in range(n):
            self.slots[i] = self.window.slot_of(self.first + i)
        self.random = random
        self.credit = self.spent = 0
        self._push(ROOT, 0, n)
        self.phase = GROWING
        return 0

    cdef int32_t n_candidates(self) noexcept nogil:
        """How many candidates of a node are compared."""
        cdef int factor = CANDIDATES_OF_NUMBERS if self.search.has_numbers else CANDIDATES
        return <int32_t> ceil(factor * sqrt(self.search.width()))

    cdef int64_t limit(self) noexcept nogil:
        """After how many cells all nodes that are left become leaves."""
        return <int64_t> MOST_LEVELS * 2 * self.n_candidates() * self.n

    cdef int run(self) except -1 nogil:
        """Do as much as is due for a row."""
        cdef int64_t cost
        if self.window.first() > self.first:
            # its rows have gone: it was not to happen
            self.drop()
        # the rows that are left when the limit is reached are looked at once more
        self.credit += PARTS * (self.limit() // max(self.n, 1) + 8)
        while self.phase == GROWING:
            if self.at.node < 0 and self.n_stack == 0:
                self._release()
                self.phase = REPLAYING
                return 0
            cost = self._next_cost()
            # a large step waits until there is enough for it: no row pays for two
            if self.credit < cost + STEP:
                return 0
            self._step()
            self.spent += cost
            self.credit -= cost + STEP
        return 0

    cdef bint _is_decided(self) noexcept nogil:
        """Whether enough candidates of the node at hand were compared."""
        return (
            self.search.is_done or self.n_tried >= self.n_wanted
            or self.n_drawn >= DRAWS * self.n_wanted
        )

    cdef int64_t _next_cost(self) except -1 nogil:
        """The cells that the next step looks at."""
        if self.at.node < 0:
            return self.stack[self.n_stack - 1].end - self.stack[self.n_stack - 1].begin
        if not self.is_begun:
            self._resume()
        if not self._is_decided():
            return 2 * self.search.n
        return self.search.n if self.search.best.column >= 0 else 0

    cdef int _step(self) except -1 nogil:
        """Open a node, try a candidate, or split the node."""
        if self.at.node < 0:
            return self._open()
        if self._is_decided():
            return self._end_node()
        self.n_tried += self.search.consider(&self.random, False)
        self.n_drawn += 1
        return 0

    cdef int _open(self) except -1 nogil:
        """Count the rows of the next node."""
        self.n_stack -= 1
        self.at = self.stack[self.n_stack]
        self.n_tried = self.n_drawn = 0
        self._begin()
        self._count()
        if self.search.is_pure or self.search.n < 2 or self.spent > self.limit():
            self._close()
        return 0

    cdef int _resume(self) except -1 nogil:
        """Count the rows of the node at hand again, of which a state has the best candidate only.
        """
        cdef Candidate best = self.search.best
        self._begin()
        self.search.best = best
        if best.column >= 0:
            self.search.is_done = (
                self.search.n == 2 if self.search.has_numbers
                else best.score >= self.search.total
            )
        return 0

    cdef int _begin(self) except -1 nogil:
        """Let the search count the rows of the node at hand."""
        self.search.begin(&self.slots[self.at.begin], self.at.end - self.at.begin)
        self.n_wanted = self.n_candidates()
        self.is_begun = True
        return 0

    cdef int _count(self) except -1 nogil:
        """Write down what was counted in the node at hand."""
        cdef int32_t i
        if self.search.has_numbers:
            self.shadow.nodes[self.at.node].weight = <float> self.search.total
            self.shadow.means[self.at.node] = self.search.mean
            return 0
        for i in range(self.search.n_labels):
            self.shadow.add_label(
                self.at.node, self.search.labels[i], <float> self.search.weights[i]
            )
        return 0

    cdef int _close(self) except -1 nogil:
        """Make the node at hand a leaf, with its last rows."""
        cdef int32_t i
        cdef int64_t row
        for i in range(max(self.at.begin, self.at.end - MOST_KEPT), self.at.end):
            row = self._row_of(self.slots[i])
            self.shadow.keep(self.at.node, <uint32_t> row)
        self.at.node = -1
        return 0

    cdef int _end_node(self) except -1 nogil:
        """Split the node at hand by the best candidate, if there is one."""
        cdef const Candidate* best = &self.search.best
        cdef Pending at = self.at
        cdef int32_t left, middle, n_left, n = at.end - at.begin
        if best.column < 0:
            return self._close()
        n_left = self.search.divide(best, &self.slots[at.begin], self.spare)
        middle = at.begin + n_left
        memcpy(&self.slots[middle], self.spare, (n - n_left) * sizeof(int32_t))
        left = self.shadow.split(at.node, best.column, best.threshold, best.missing_right)
        self._push(left + 1, middle, at.end)
        self._push(left, at.begin, middle)
        self.at.node = -1
        return 0

    cdef int64_t _row_of(self, int32_t slot) noexcept nogil:
        """The row of a slot, among those that the tree grows from."""
        cdef int64_t capacity = self.window.capacity
        return self.first + (slot - self.first % capacity + capacity) % capacity

    cdef int _push(self, int32_t node, int32_t begin, int32_t end) except -1 nogil:
        if self.n_stack == self.stack_capacity:
            self.stack_capacity += self.stack_capacity // 2 + 16
            self.stack = <Pending*> regrown(self.stack, self.stack_capacity * sizeof(Pending))
        self.stack[self.n_stack] = Pending(node, begin, end)
        self.n_stack += 1
        return 0

    # ------------------------------------------------------------------------------- state

    cdef dict state(self):
        cdef GrowthRecord record
        cdef GrowthRecord[::1] view = <GrowthRecord[:1]> &record
        cdef const Candidate* best = &self.search.best
        cdef bint is_open = self.at.node >= 0 and best.column >= 0
        cdef int32_t i
        record = GrowthRecord(
            self.first, self.end, self.next_row, self.credit, self.spent, self.random,
            best.score if is_open else 0.0, self.phase, self.at.node, 0, 0, 0, 0,
            best.column if is_open else -1, best.threshold if is_open else 0.0,
            best.missing_right if is_open else 0, 0,
        )
        if self.at.node >= 0:
            record.node_begin, record.node_end = self.at.begin, self.at.end
            record.n_tried, record.n_drawn = self.n_tried, self.n_drawn
        rows = np.array(
            [self._row_of(self.slots[i]) - self.first for i in range(self.n)], dtype=np.int32
        )
        stack = np.array(
            [(self.stack[i].node, self.stack[i].begin, self.stack[i].end)
             for i in range(self.n_stack)], dtype=np.int32,
        ).reshape(self.n_stack, 3)
        return {
            "record": np.asarray(view).copy(), "rows": rows, "stack": stack,
            "shadow": self.shadow.state(),
        }

    cdef int take_state(self, dict state) except -1:
        cdef const GrowthRecord[::1] records = state["record"]
        cdef const GrowthRecord* record = &records[0]
        cdef const int32_t[::1] rows = state["rows"]
        cdef const int32_t[:, ::1] stack = state["stack"]
        cdef int32_t i
        self.drop()
        self.first, self.end, self.next_row = record.first, record.end, record.next_row
        self.credit, self.spent, self.random = record.credit, record.spent, record.random
        self.phase = record.phase
        self.shadow.take_state(state["shadow"])
        self.n = <int32_t> rows.shape[0]
        if self.n:
            self.slots = <int32_t*> regrown(NULL, self.n * sizeof(int32_t))
            self.spare = <int32_t*> regrown(NULL, self.n * sizeof(int32_t))
        for i in range(self.n):
            self.slots[i] = self.window.slot_of(self.first + rows[i])
        for i in range(<int32_t> stack.shape[0]):
            self._push(stack[i, 0], stack[i, 1], stack[i, 2])
        self.at = Pending(record.node, record.node_begin, record.node_end)
        self.n_tried, self.n_drawn = record.n_tried, record.n_drawn
        self.search.best.column = record.column
        self.search.best.threshold = record.threshold
        self.search.best.missing_right = record.missing_right
        self.search.best.score = record.score if record.column >= 0 else -INFINITY
        return 0


def check_growth(state, n_columns, n_labels, has_numbers, size, n_rows):
    """Raise StateError unless `Growth.take_state` can trust a state.

    The window has seen `size` rows, and has the last `n_rows`.
    """
    require(len(state["record"]) == 1, "the growth of a tree")
    record, rows, stack = state["record"][0], state["rows"], state["stack"]
    phase, node = int(record["phase"]), int(record["node"])
    require(phase in (IDLE, GROWING, REPLAYING), "the phase of growth")
    check_nodes(state["shadow"], n_columns, n_labels, has_numbers, "the growing tree")
    nodes = state["shadow"]["nodes"]
    first, end, next_row = (int(record[name]) for name in ("first", "end", "next_row"))
    require(0 <= first <= end <= next_row <= size, "the rows of a growing tree")
    require(int(record["spent"]) >= 0, "the cells of a growing tree")
    require(abs(int(record["credit"])) < 2**62, "the cells of a growing tree")
    require(stack.shape[1:] == (3,), "the stack of a growing tree")
    column = int(record["column"])
    require(-1 <= column < n_columns, "a candidate")
    require(np.isfinite(record["threshold"]) and np.isfinite(record["score"]), "a candidate")
    require(record["missing_right"] in (0, 1), "a candidate")
    if phase != GROWING:
        require(len(rows) == len(stack) == 0 and node == -1, "a tree that does not grow")
        require(phase == IDLE or next_row >= size - n_rows, "the rows of a growing tree")
        require(phase != IDLE or len(nodes) == 1, "a tree that does not grow")
        return
    require(0 < len(rows) == end - first and first >= size - n_rows, "rows of a growing tree")
    require(np.array_equal(np.sort(rows), np.arange(len(rows))), "the rows of a growing tree")
    spans = [tuple(map(int, span)) for span in stack]
    if node >= 0:
        spans.append((node, int(record["node_begin"]), int(record["node_end"])))
        check_counts(int(record["n_tried"]), int(record["n_drawn"]))
    for number, begin, stop in spans:
        require(0 <= number < len(nodes) and nodes["left"][number] < 0, "a node to be grown")
        require(0 <= begin < stop <= len(rows), "the rows of a node")
        require(nodes["n_kept"][number] == 0, "the rows of a node")
    require(len({number for number, _, _ in spans}) == len(spans), "a node to be grown twice")
