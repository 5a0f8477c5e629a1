"""An extremely randomised tree from the rows of a window (Geurts, Ernst & Wehenkel 2006).

At every node the best of some random candidates, until nothing is left to be told apart. The nodes
that are still to be split lie on a stack. A step looks at no more than a chunk of the rows of one
node, so that no row of the stream has to wait for all rows of the window; candidates for more rows
than that are compared by a sample of them.
"""

cimport cython
from libc.math cimport INFINITY, ceil, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.rng cimport next_random
from streamtree._core.splits.bounds cimport bound_of
from streamtree._core.store.budget cimport counted, give_back, spacious
from streamtree._core.store.links cimport ROOT
from streamtree._core.stream.window cimport MANY_ROWS, Window
from streamtree._core.trees.extra.nodes cimport MOST_KEPT, ExtraNodes, Test
from streamtree._core.trees.extra.search cimport CHUNK, MOST_GATHERED, ExtraSearch, search_bytes

import numpy as np

# of the bytes that a tree may take, those that it may be grown to; splits in between take others
cdef double GROWN_SHARE = 0.75

cdef enum:
    # Candidates of a node by the root of the number of columns; numbers gain by more. Members of an
    # ensemble have one part of so many: a tree alone loses .005 of accuracy and of R2 by that, the
    # mean of many trees nothing.
    CANDIDATES = 8
    CANDIDATES_OF_NUMBERS = 12
    PARTS_OF_MEMBERS = 2
    # Near the root members are to differ: of numbers, a node with so many rows that its candidates
    # are compared by a sample has one part of so many (ten trees, the mean of 7 sets +.003).
    PARTS_OF_SAMPLES = 3
    # Of labels, candidates are looked for up to so many while the best leaves nearly all of the
    # impurity, as good ones do where labels are many: ten trees of poker_train25k .532 -> .539, the
    # mean of 17 sets +.0005. Forests of all families gain nothing (39 sets, -.0000 to -.0002).
    CANDIDATES_OF_WEAK = 24
    # A value in a list counts as so many columns: few rows have one in the same column. A tree
    # alone gains .003 to .007 of accuracy on words and intents by that, many trees less.
    LISTED_COLUMNS = 4
    LISTED_COLUMNS_OF_MEMBERS = 1
    # draws that split nothing are not counted, up to so many times as many
    DRAWS = 4
    # a tree is done at the latest when so many times all rows were looked at for all candidates
    MOST_LEVELS = 40
    # what a row that is counted costs, in cells, and one that goes to a side
    COUNT = 4
    DIVIDE = 3
    # In which part of the rows of the window a tree is grown, at the latest: what is grown late is
    # out of date (covtype .803 with 12, .810 with 20). In an ensemble a row takes longer anyway;
    # alone, the rows that come while it grows would take too many times as long as others.
    HASTE = 5
    HASTE_OF_MEMBERS = 20
    # rows below which no tree is worth growing
    LEAST_ROWS = 8
    # of many rows it is no faster at first
    HASTE_OF_MANY = 10
    # rows that are split, where there is room
    LEAST_SPLIT = 2


@cython.final
cdef class Growth:
    """The tree that is grown is `shadow`; what came meanwhile is for its owner to replay."""

    def __cinit__(self, Window window, bint has_numbers, bint is_member):
        self.window = window
        self.is_member = is_member
        self.haste = HASTE_OF_MEMBERS if is_member else HASTE
        self.listed_columns = LISTED_COLUMNS_OF_MEMBERS if is_member else LISTED_COLUMNS
        self.shadow = ExtraNodes(has_numbers)
        self.search = ExtraSearch(window, has_numbers)
        self.at.node = -1

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept nogil:
        give_back(self.slots)
        give_back(self.right)
        give_back(self.stack)
        self.slots = self.right = NULL
        self.stack = NULL
        self.n = self.n_stack = self.stack_capacity = 0
        self.n_open = 0
        self.at.node = -1
        self.is_begun = False

    cdef int drop(self) except -1 nogil:
        """Forget the shadow."""
        self._release()
        self.search.release()
        self.phase = IDLE
        return self.shadow.clear()

    # ----------------------------------------------------------------------------- growing

    cdef int start(self, uint64_t random, size_t most_scratch) except -1 nogil:
        """Begin with the last rows of the window, as many as may be looked at in so many bytes."""
        cdef int32_t n = self.window.n_rows(), n_labels = self.window.context.n_labels
        cdef int32_t n_gathered = self.window.n_fields
        if n_gathered > MOST_GATHERED or self._scratch(n, n_labels, n_gathered) > most_scratch:
            n_gathered = 0
        while n >= LEAST_ROWS and self._scratch(n, n_labels, n_gathered) > most_scratch:
            n -= n // 8
        self.drop()
        if n < LEAST_ROWS:
            return 0
        self._reserve(n, n_labels, n_gathered)
        self.end = self.next_row = self.window.size
        self.first = self.end - n
        self.window_moves = self.window.n_moves
        self.random = random
        self.credit = self.spent = 0
        self._push(ROOT, 0, n, 0)
        self.n_open = n
        self.phase = GROWING
        return 0

    cdef int _pace(self) noexcept nogil:
        """In about which part of its rows it is done."""
        cdef int haste = self.haste if self.n < MANY_ROWS else min(self.haste, <int> HASTE_OF_MANY)
        return haste * self.window.urgency(self.end, self.n)

    cdef size_t _scratch(self, int32_t n, int32_t n_labels, int32_t n_gathered) noexcept nogil:
        """What it takes for so many rows, besides the nodes and the stack of those to be grown."""
        return n * 2 * sizeof(int32_t) + search_bytes(
            n, n_labels, self.search.has_numbers, n_gathered
        )

    cdef int _reserve(self, int32_t n, int32_t n_labels, int32_t n_gathered) except -1 nogil:
        """Make room for so many rows, of so many labels, and to keep the values of some fields."""
        self.slots = <int32_t*> counted(NULL, n * sizeof(int32_t))
        self.n = n
        self.right = <int32_t*> counted(NULL, n * sizeof(int32_t))
        return self.search.reserve(n, 0 if self.search.has_numbers else n_labels, n_gathered)

    cdef int64_t limit(self) noexcept nogil:
        """After how many cells all nodes that are left become leaves."""
        cdef int64_t n_wanted = self.n_wanted
        if self._looks_on():
            n_wanted = max(n_wanted, <int64_t> CANDIDATES_OF_WEAK)
        return MOST_LEVELS * 2 * n_wanted * self.n

    cdef bint _looks_on(self) noexcept nogil:
        """Whether more candidates are compared where the best is weak."""
        return self.is_member and not self.search.has_numbers

    cdef bint loses_rows(self) noexcept nogil:
        """Whether rows that it is still to look at have gone, or changed."""
        return self.window.has_lost(
            self.first if self.phase == GROWING else self.next_row, &self.window_moves
        )

    cdef int run(self, int64_t spent_elsewhere) except -1 nogil:
        """Do as much as is due for a row, less what was spent on it elsewhere."""
        cdef int64_t cost
        cdef int factor = CANDIDATES_OF_NUMBERS if self.search.has_numbers else CANDIDATES
        if self.is_member:
            factor //= PARTS_OF_MEMBERS
        # fields and lists change from row to row
        self.search.measure()
        self.n_wanted = <int32_t> ceil(factor * sqrt(
            self.window.n_fields + self.listed_columns * self.search.n_listed
        ))
        # the rows that are left when the limit is reached are looked at once more
        self.credit += self._pace() * (MOST_LEVELS * 2 * self.n_wanted + 8) - spent_elsewhere
        while self.at.node >= 0 or self.n_stack:
            if self.at.node < 0:
                self._open()
            if not self.is_begun:
                self._resume()
            if self.stage == CHOOSING and not self._choose():
                return 0
            cost = self._next_cost()
            # a large step waits until there is enough for it: no row pays for two
            if self.credit < cost + STEP:
                return 0
            self._step()
            self.spent += cost
            self.credit -= cost + STEP
        self._measure()
        self._release()
        self.search.release()
        self.phase = REPLAYING
        return 0

    cdef void _measure(self) noexcept nogil:
        """See what the tree has taken: with twice as many rows in a node, half as much.

        Where there was no room at all, only all of the rows were enough.
        """
        cdef double taken = self.shadow.n_bytes(), room = self.shadow.limit * GROWN_SHARE
        cdef double least = min(self.appetite * self.n / max(room, 1.0), <double> self.n)
        self.appetite = max(least, LEAST_SPLIT) * taken / self.n

    cdef bint _is_decided(self) noexcept nogil:
        """Whether enough candidates of the node at hand were compared."""
        cdef int32_t wanted = self.n_wanted
        if self.search.is_done:
            return True
        if self.is_member and self.search.has_numbers and self.at.end - self.at.begin > CHUNK:
            wanted = wanted // PARTS_OF_SAMPLES + 1
        if self.n_tried < wanted and self.n_drawn < DRAWS * self.n_wanted:
            return False
        return (
            self.n_tried >= CANDIDATES_OF_WEAK or self.n_drawn >= DRAWS * CANDIDATES_OF_WEAK
            or not self._looks_on() or not self.search.is_weak()
        )

    cdef int32_t _chunk(self) noexcept nogil:
        """The rows of the next step."""
        return min(self.at.end - self.at.begin - self.done, <int32_t> CHUNK)

    cdef bint _choose(self) noexcept nogil:
        """Compare candidates of the node at hand; returns whether enough were, or for now no more
        are to be."""
        cdef int64_t cost = 2 * self.search.n
        while not self._is_decided():
            if self.credit < cost + STEP:
                return False
            self.n_drawn += 1
            self.n_tried += self.search.consider(&self.random, False)
            self.spent += cost
            self.credit -= cost + STEP
        return True

    cdef int64_t _next_cost(self) noexcept nogil:
        """The cells that the next step looks at; in CHOOSING the choice is made."""
        if self.stage == COUNTING:
            return COUNT * self._chunk()
        if self.stage == SAMPLING:
            return COUNT * CHUNK
        if self.stage == DIVIDING:
            return DIVIDE * self._chunk()
        return DIVIDE * self._chunk() if self.search.best.column >= 0 else 0

    cdef int _step(self) except -1 nogil:
        """Do some more of what is due for the node at hand."""
        if self.stage == COUNTING:
            return self._count()
        if self.stage == SAMPLING:
            self._prepare()
            return 0
        if self.stage == DIVIDING:
            return self._divide()
        if self.search.best.column < 0:
            return self._close()
        self.stage, self.n_left = DIVIDING, 0
        return self._divide()

    cdef int _count(self) except -1 nogil:
        """Count some rows of the node at hand; after the last of them it is known what it says."""
        cdef int32_t i, slot, end = self.done + self._chunk()
        if self.at.node == ROOT:
            slot = self.window.slot_of(self.first + self.done)
            for i in range(self.done, end):
                self.slots[i] = slot
                slot = slot + 1 if slot + 1 < self.window.capacity else 0
        self.search.count(self.done, end)
        self.done = end
        if end < self.search.n:
            return 0
        self.done = 0
        if self.search.has_numbers:
            self.shadow.nodes[self.at.node].weight = <float> self.search.total
            self.shadow.means[self.at.node] = self.search.mean
        else:
            self.shadow.set_labels(
                self.at.node, self.search.labels, self.search.weights, self.search.n_labels
            )
        if self._is_leaf():
            return self._close()
        if self.search.n > CHUNK:
            self.stage, self.word = SAMPLING, next_random(&self.random)
        else:
            self._prepare()
        return 0

    cdef void _prepare(self) noexcept nogil:
        """Let the search compare candidates, by a sample where there are many rows."""
        self.stage = CHOOSING
        if self.search.n > CHUNK:
            self.search.begin_with_sample(self.word)
        else:
            self.search.centre()

    cdef int _divide(self) except -1 nogil:
        """Divide some rows of the node at hand; after the last of them it gets its children."""
        cdef int32_t end = self.done + self._chunk(), middle
        cdef Pending at = self.at
        # a sample says nothing of all rows
        cdef uint64_t constant = (
            at.constant if at.end - at.begin > CHUNK else self.search.constant
        )
        self.n_left = self.search.divide(
            &self.slots[at.begin], self.right, self.done, end, self.n_left
        )
        self.done = end
        if at.begin + end < at.end:
            return 0
        if self.n_left == 0 or self.n_left == end:
            # only a state that nobody saved has a candidate that divides nothing
            memcpy(&self.slots[at.begin + self.n_left], self.right,
                   (end - self.n_left) * sizeof(int32_t))
            return self._close()
        middle = at.begin + self.n_left
        memcpy(&self.slots[middle], self.right, (at.end - middle) * sizeof(int32_t))
        end = self.shadow.split(at.node, self.search.best)
        self._push(end + 1, middle, at.end, constant)
        self._push(end, at.begin, middle, constant)
        self.at.node = -1
        return 0

    cdef void _open(self) noexcept nogil:
        """Take the next node."""
        self.n_stack -= 1
        self.at = self.stack[self.n_stack]
        self.n_tried = self.n_drawn = self.done = 0
        self.stage = COUNTING
        self.is_begun = True
        self.search.begin(
            &self.slots[self.at.begin], self.at.end - self.at.begin, self.at.constant
        )

    cdef int _resume(self) except -1 nogil:
        """Look at the rows of the node at hand again: a state has only what came of it."""
        cdef Test best = self.search.best
        cdef double score = self.search.score
        cdef int32_t n = self.at.end - self.at.begin, first = 0
        self.is_begun = True
        self.search.begin(&self.slots[self.at.begin], n, self.at.constant)
        if self.stage == COUNTING:
            n = self.done
        while first < n:
            self.search.count(first, min(n, first + <int32_t> CHUNK))
            first += CHUNK
        if self.stage == CHOOSING:
            self._prepare()
        elif self.stage == DIVIDING:
            # behind those that went left lie those that went right
            memcpy(
                self.right, &self.slots[self.at.begin + self.n_left],
                (self.done - self.n_left) * sizeof(int32_t),
            )
        self.search.best, self.search.score = best, score
        if best.column >= 0:
            self.search.is_done = self.search.n == 2 if self.search.has_numbers else (
                score >= self.search.total
            )
        return 0

    cdef bint _is_leaf(self) noexcept nogil:
        """Whether the node at hand, which was counted, is not to be split."""
        return (
            self.search.is_pure or self.search.n < LEAST_SPLIT or self.spent > self.limit()
            or not self._has_room()
        )

    cdef bint _has_room(self) noexcept nogil:
        """Whether there is room for the children of the node at hand.

        Where there is not for all that may come, it is for nodes with many rows: how many follows
        from what the tree before took.
        """
        cdef double room = self.shadow.limit * GROWN_SHARE - self.shadow.n_bytes()
        if room >= <double> self.shadow.split_bytes() * self.n_open:
            return True
        return self.shadow.may_split() and self.search.n * room >= self.appetite * self.n_open

    cdef int _close(self) except -1 nogil:
        """Make the node at hand a leaf, with its last rows."""
        cdef int32_t i
        cdef int64_t row
        for i in range(max(self.at.begin, self.at.end - MOST_KEPT), self.at.end):
            row = self._row_of(self.slots[i])
            self.shadow.keep(self.at.node, <uint32_t> row)
        self.n_open -= self.at.end - self.at.begin
        self.at.node = -1
        return 0

    cdef int64_t _row_of(self, int32_t slot) noexcept nogil:
        """The row of a slot, among those that the tree grows from."""
        cdef int64_t capacity = self.window.capacity
        return self.first + (slot - self.first % capacity + capacity) % capacity

    cdef int _push(self, int32_t node, int32_t begin, int32_t end,
                   uint64_t constant) except -1 nogil:
        if self.n_stack == self.stack_capacity:
            self._reserve_stack(<int32_t> spacious(self.n_stack + 16))
        self.stack[self.n_stack] = Pending(node, begin, end, constant)
        self.n_stack += 1
        return 0

    cdef int _reserve_stack(self, int32_t capacity) except -1 nogil:
        self.stack = <Pending*> counted(self.stack, capacity * sizeof(Pending))
        self.stack_capacity = capacity
        return 0

    # ------------------------------------------------------------------------------- state

    cdef GrowthRecord _record(self) noexcept nogil:
        cdef const Test* best = &self.search.best
        cdef GrowthRecord record
        memset(&record, 0, sizeof(GrowthRecord))
        record.first, record.end, record.next_row = self.first, self.end, self.next_row
        record.credit, record.spent, record.random = self.credit, self.spent, self.random
        record.appetite, record.phase = self.appetite, self.phase
        record.n_labels, record.stack_capacity = self.search.label_capacity, self.stack_capacity
        record.n_gathered = self.search.n_gathered
        record.node, record.column = self.at.node, -1
        if self.at.node < 0:
            return record
        record.node_begin, record.node_end = self.at.begin, self.at.end
        record.n_tried, record.n_drawn = self.n_tried, self.n_drawn
        record.stage, record.done = self.stage, self.done
        if self.stage == DIVIDING:
            record.n_left = self.n_left
        if best.column >= 0:
            record.column, record.score = best.column, self.search.score
            record.missing_right, record.salt = best.missing_right, best.salt
            if best.salt:
                record.members = best.bound.members
            else:
                record.threshold = best.bound.threshold
        if self.stage != COUNTING and self.at.end - self.at.begin > CHUNK:
            record.word = self.word
        return record

    cdef dict state(self):
        cdef GrowthRecord record = self._record()
        cdef GrowthRecord[::1] view = <GrowthRecord[:1]> &record
        cdef int32_t i, filled = self.n
        rows = np.arange(self.n, dtype=np.int32)
        cdef int32_t[::1] numbers = rows
        if self.shadow.size == 1 and (self.at.node < 0 or self.stage == COUNTING):
            # the slots are written as the rows of the root are counted, in this order
            filled = 0
        for i in range(filled):
            numbers[i] = <int32_t> (self._row_of(self.slots[i]) - self.first)
        if self.at.node >= 0 and self.stage == DIVIDING and self.is_begun:
            for i in range(self.done - self.n_left):
                numbers[self.at.begin + self.n_left + i] = <int32_t> (
                    self._row_of(self.right[i]) - self.first
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
        self.phase, self.appetite = record.phase, record.appetite
        self.window_moves = self.window.n_moves
        self.shadow.take_state(state["shadow"])
        self.n = <int32_t> rows.shape[0]
        if self.n:
            self._reserve(self.n, record.n_labels, <int32_t> record.n_gathered)
        for i in range(self.n):
            self.slots[i] = self.window.slot_of(self.first + rows[i])
        if record.stack_capacity:
            self._reserve_stack(record.stack_capacity)
        for i in range(<int32_t> stack.shape[0]):
            self._push(stack[i, 0], stack[i, 1], stack[i, 2], 0)
            self.n_open += stack[i, 2] - stack[i, 1]
        self.at = Pending(record.node, record.node_begin, record.node_end, 0)
        self.n_open += record.node_end - record.node_begin
        self.n_tried, self.n_drawn = record.n_tried, record.n_drawn
        self.stage, self.done, self.n_left = record.stage, record.done, record.n_left
        self.word = record.word
        self.search.best = Test(
            record.column, bound_of(record.salt != 0, record.threshold, record.members),
            <uint8_t> record.missing_right, <uint8_t> record.salt,
        )
        self.search.score = record.score if record.column >= 0 else -INFINITY
        return 0
