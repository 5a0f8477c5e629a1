"""An ensemble: a tree whose members are trees, over one look at the row.

Every member is given the same row, learns it, and says in the same call what it would have
predicted; how these are pooled is what one ensemble differs in from another.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.store.memory cimport zeroed
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Tree

import numpy as np


cdef class Ensemble(Tree):
    """The base of all ensembles: a pool implements `pool`, and what it learns itself.

    The first Scratch is the ensemble's: `pooled` has what the members together say, the memo of
    which row. Behind it lie those of the members, one after the other.
    """

    def __cinit__(self, list members, *args, **kwargs):
        cdef Py_ssize_t m, place = 1
        cdef Tree member
        self.members = list(members)
        self.n_members = len(self.members)
        self.trees = <void**> zeroed(self.n_members * sizeof(void*))
        self.places = <Py_ssize_t*> zeroed(self.n_members * sizeof(Py_ssize_t))
        self.views = 0
        for m in range(self.n_members):
            member = self.members[m]
            self.trees[m] = <void*> member
            self.places[m] = place
            place += len(member.scratches())
            self.views |= member.views
            self.is_judged |= member.is_judged
            self.label_bytes += member.label_bytes
            if member.max_labels:
                self.max_labels = min(self.max_labels or member.max_labels, member.max_labels)

    def __dealloc__(self):
        free(self.trees)
        free(self.places)

    cdef Tree member(self, Py_ssize_t m):
        return self.members[m]

    cdef list scratches(self):
        cdef Tree member
        rooms = [(0, 0)]
        for member in self.members:
            rooms += member.scratches()
        return rooms

    cdef int bind(self, Context context) except -1:
        cdef Tree member
        Tree.bind(self, context)
        for member in self.members:
            member.bind(context)
        return 0

    def configure(self):
        """Members keep the settings that they were made with."""

    def refuse_label(self, label):
        """Raise for a label that would be one too many for a member."""
        for m, member in enumerate(self.members):
            if member.max_labels == self.max_labels:
                try:
                    member.refuse_label(label)
                except ValueError as error:
                    raise ValueError(f"member {m} of the forest: {error}") from None

    cdef Py_ssize_t n_outputs(self) noexcept nogil:
        """How many numbers a member says: one a label, or one a target."""
        return self.context.n_labels if self.context.n_labels else self.context.n_targets

    # ----------------------------------------------------------------------------- a row

    cdef void expect(self, int32_t label) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            (<Tree> self.trees[m]).expect(label)

    cdef void approach(self, int32_t label) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            (<Tree> self.trees[m]).approach(label)

    cdef int ask(self, const Row* row, Scratch* scratch) noexcept nogil:
        """Let all members say what a row is, unless it was asked last; and pool that."""
        cdef Py_ssize_t m
        cdef Prediction said
        if scratch.memo_owner == <const void*> self and scratch.memo_serial == row.serial:
            return 0
        for m in range(self.n_members):
            said.label = -1
            said.shares = scratch[self.places[m]].shares
            (<Tree> self.trees[m]).predict(row, &scratch[self.places[m]], &said)
            self.prepare(said.shares)
        self.pool(scratch)
        scratch.memo_owner = <const void*> self
        scratch.memo_serial = row.serial
        return 0

    cdef int teach(self, const Row* row, const Example* example, Scratch* scratch,
                   bint asks) except -1 nogil:
        """Let all members learn; with `asks` they say before what the row would have been."""
        cdef Py_ssize_t m
        cdef Prediction said
        for m in range(self.n_members):
            said.label = -1
            said.shares = scratch[self.places[m]].shares
            (<Tree> self.trees[m]).learn(
                row, example, &scratch[self.places[m]], &said if asks else NULL
            )
            if asks:
                self.prepare(said.shares)
        return 0

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.ask(row, scratch)
        self.answer(scratch, out)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef bint is_asked = (
            scratch.memo_owner == <const void*> self and scratch.memo_serial == row.serial
        )
        scratch.memo_serial = 0
        self.teach(row, example, scratch, out != NULL and not is_asked)
        if out == NULL:
            return 0
        if is_asked:
            self.judge_members(example, scratch)
        else:
            self.pool(scratch)
        self.answer(scratch, out)
        self.judge_pool(example, scratch)
        return 0

    cdef void judge(self, const Example* example, Scratch* scratch) noexcept nogil:
        self.judge_members(example, scratch)
        self.judge_pool(example, scratch)

    cdef void judge_members(self, const Example* example, Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            (<Tree> self.trees[m]).judge(example, &scratch[self.places[m]])

    cdef void prepare(self, double* said) noexcept nogil:
        """Turn what a member says into what is to be pooled."""

    cdef void pool(self, Scratch* scratch) noexcept nogil:
        """Write to `pooled` what the members together say."""

    cdef void judge_pool(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Learn from what the members and the pool said."""

    cdef void answer(self, const Scratch* scratch, Prediction* out) noexcept nogil:
        cdef int32_t label
        if out.shares != NULL:
            memcpy(out.shares, scratch.pooled, self.n_outputs() * sizeof(double))
        out.label = 0
        for label in range(1, self.context.n_labels):
            if scratch.pooled[label] > scratch.pooled[out.label]:
                out.label = label

    # ----------------------------------------------------------------------- explanation

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        """An ensemble has no nodes but those of its members."""
        self.predict(row, scratch, out)

    cdef list ways(self, const Row* row, Scratch* scratch):
        return []

    cdef list opinions(self, const Row* row, Scratch* scratch):
        cdef double[::1] room
        cdef Prediction said
        cdef Py_ssize_t m
        found = []
        for m in range(self.n_members):
            shares = np.zeros(self.n_outputs() + 1)
            room = shares
            said.label = -1
            said.shares = &room[0]
            if self.n_outputs():
                (<Tree> self.trees[m]).predict(row, &scratch[self.places[m]], &said)
            found.append(shares[:self.n_outputs()])
        return found

    cdef double member_weight(self, Py_ssize_t m) noexcept nogil:
        """The share of a member in what is said."""
        return 1.0 / self.n_members

    cdef list member_explanations(self, const Row* row, Scratch* scratch, Explanation out):
        """What every member says, explained on its own."""
        cdef Explanation part
        cdef Py_ssize_t m
        parts = []
        for m in range(self.n_members):
            part = Explanation(out.output, out.room.shape[0] - 1)
            part.describe(out.blank, &out.blank_scratch[self.places[m]], out)
            self.member(m).explain(row, &scratch[self.places[m]], part)
            parts.append(part)
        return parts

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """The explanations of the members, each with its weight."""
        cdef Explanation part
        cdef Py_ssize_t m
        for m, part in enumerate(self.member_explanations(row, scratch, out)):
            out.add(part.bias, part.columns, self.member_weight(m))
        return 0

    # ----------------------------------------------------------------------- the whole of it

    cdef size_t n_bytes(self) noexcept nogil:
        cdef Py_ssize_t m
        cdef size_t total = self.n_members * (sizeof(void*) + sizeof(Py_ssize_t))
        for m in range(self.n_members):
            total += (<Tree> self.trees[m]).n_bytes()
        return total

    cdef dict state(self):
        cdef Tree member
        members = {}
        for m, member in enumerate(self.members):
            members[str(m)] = member.state()
        return {"members": members, **self.own_state()}

    cdef int take_state(self, dict state) except -1:
        cdef Tree member
        for m, member in enumerate(self.members):
            member.take_state(state["members"][str(m)])
        return self.take_own_state(state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state, that of every member too."""
        for m, member in enumerate(self.members):
            member.check_state(state["members"][str(m)], n_columns, n_outputs)

    cdef dict own_state(self):
        """What the pool has learned."""
        return {}

    cdef int take_own_state(self, dict state) except -1:
        return 0

    @property
    def n_nodes(self):
        """Number of nodes of all members."""
        return sum([member.n_nodes for member in self.members])

    def count_leaves(self):
        """Number of leaves of all members."""
        return sum([member.count_leaves() for member in self.members])

    def depths(self):
        """The depths of the nodes of all members, one member after the other."""
        return np.concatenate([member.depths() for member in self.members])


cdef class MeanPool(Ensemble):
    """Members of one kind: the mean of what they say."""

    cdef void pool(self, Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m, i, n = self.n_outputs()
        cdef const double* said
        memset(scratch.pooled, 0, n * sizeof(double))
        for m in range(self.n_members):
            said = scratch[self.places[m]].shares
            for i in range(n):
                scratch.pooled[i] += said[i]
        for i in range(n):
            scratch.pooled[i] /= self.n_members
