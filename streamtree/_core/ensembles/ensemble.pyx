"""An ensemble: a tree whose members are trees, over one look at the row.

Every member is given the same row, learns it, and says in the same call what it would have
predicted; how these are pooled is what one ensemble differs in from another.

Ensembles nest. What there is to do for a row is one flat list, of the trees that are no ensembles
themselves: so a batch may share it out among threads. What comes before and after is done in turn.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport argmax
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport Budget, Ledger, begin_counting, end_counting
from streamtree._core.store.memory cimport zeroed
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.crew cimport Crew, now
from streamtree._core.stream.row cimport (
    Example, Prediction, Row, Scratch, remember, remembers,
)
from streamtree._core.trees.tree cimport Corrector, Tree

import numpy as np

cdef enum:
    # In one row of so many threads look how long parts take, of which about so many count. After so
    # many rows the parts are put in another order.
    TIMED_PART = 8
    TIMED_ROWS = 2
    ORDERED_ROWS = 16
    # a part that takes more than one part of so many of the time takes long
    LONG_PARTS = 10
    # a light member has one part of so many of the memory
    PARTS_OF_LIGHT = 64

ctypedef int (*Quiet)(Ensemble, const Lesson*, int32_t) noexcept nogil


cdef int teach_part(Ensemble self, const Lesson* lesson, int32_t i) except -1 nogil:
    """Let a part learn a row; what it takes is counted in its own ledger.

    One that corrects others is only asked: it learns when these have been heard.
    """
    cdef const Part* part = &self.parts[i]
    cdef Scratch* scratch = &lesson.scratch[part.place]
    cdef Ledger* before
    cdef Prediction said
    if (<Tree> part.tree).rests:
        return 0
    said.label = -1
    said.shares = scratch.shares
    if part.corrects:
        if lesson.asks:
            (<Tree> part.tree).predict(lesson.row, scratch, &said)
        return 0
    before = begin_counting(<Budget> part.ledger)
    try:
        (<Tree> part.tree).learn(
            lesson.row, lesson.example, scratch, &said if lesson.asks else NULL
        )
    finally:
        end_counting(before)
    if lesson.asks:
        (<Ensemble> part.owner).prepare(said.shares)
    return 0


@cython.final
cdef class Lessons(Crew):
    """Threads that share the parts of an ensemble."""

    cdef int32_t* order         # by job: which part it is
    cdef int32_t* sorted        # parts, those that take longest first
    cdef double* times          # by part: about how long a row takes, in seconds
    cdef int64_t n_given
    # of the row at hand, side by side: a helper that comes fetches them together
    cdef Lesson lesson
    cdef void* ensemble
    cdef bint is_timed          # whether its times are taken
    # Of the row before: what its pool is to learn of what it and its members said, by place. The
    # caller writes the last field while helpers read those above.
    cdef Example judged
    cdef double target
    cdef Scratch* said
    cdef double* room
    cdef Py_ssize_t n_outputs   # that there is room for
    cdef void* pool             # NULL: nothing

    def __cinit__(self, int32_t n_jobs, int32_t n_threads, Py_ssize_t n_places):
        cdef int32_t i
        self.order = <int32_t*> zeroed(n_jobs * sizeof(int32_t))
        self.sorted = <int32_t*> zeroed(n_jobs * sizeof(int32_t))
        self.times = <double*> zeroed(n_jobs * sizeof(double))
        self.said = <Scratch*> zeroed(n_places * sizeof(Scratch))
        for i in range(n_jobs):
            self.order[i] = self.sorted[i] = i

    def __dealloc__(self):
        free(self.order)
        free(self.sorted)
        free(self.times)
        free(self.said)
        free(self.room)

    cdef int work(self, int32_t job, int32_t thread) noexcept nogil:
        cdef int32_t i = self.order[job]
        cdef double begin = now() if self.is_timed else 0.0
        cdef int done = (<Quiet> teach_part)(<Ensemble> self.ensemble, &self.lesson, i)
        if self.is_timed:
            self.times[i] += (now() - begin - self.times[i]) / TIMED_ROWS
        return done

    cdef bint put_off(self, Ensemble pool, const Example* example,
                      const Scratch* scratch) noexcept nogil:
        """Keep what was said of a row until the next turn; False if there is no memory for it."""
        cdef Py_ssize_t m, n = pool.n_outputs()
        cdef double* place
        if n > self.n_outputs:
            place = <double*> realloc(self.room, (pool.n_members + 1) * n * sizeof(double))
            if place == NULL:
                return False
            self.room, self.n_outputs = place, n
        self.judged, self.said.pooled = example[0], self.room
        if example.targets != NULL:
            self.target = example.targets[0]
            self.judged.targets = &self.target
        memcpy(self.said.pooled, scratch.pooled, n * sizeof(double))
        for m in range(pool.n_members):
            place = self.said[pool.places[m]].shares = &self.room[(m + 1) * n]
            memcpy(place, scratch[pool.places[m]].shares, n * sizeof(double))
        self.pool = <void*> pool
        if pool.put_off_by == NULL:
            pool.put_off_by = <void*> self
        return True

    cdef void work_aside(self) noexcept nogil:
        cdef void* pool = self.pool
        if pool != NULL:
            self.pool = NULL
            (<Ensemble> pool).learn_pooling(&self.judged, self.said)

    cdef int give(self, Ensemble ensemble, const Lesson* lesson) except -1 nogil:
        self.ensemble, self.lesson = <void*> ensemble, lesson[0]
        self.n_given += 1
        self.is_timed = self.n_given % TIMED_PART == 0
        if self.n_given % ORDERED_ROWS == 0:
            self._put_in_order()
        return self.run()

    cdef void _put_in_order(self) noexcept nogil:
        """Lay parts that take long to the ends, where threads begin, the longest first: nobody is
        to wait for one in the end. It is for a helper, the caller has something else to do first.
        The others stay where they are, in the cache of a thread."""
        cdef int32_t i, k, first = 0, end = self.n_jobs
        cdef double left = 0.0, least = 0.0
        for i in range(self.n_jobs):
            least += self.times[i] / LONG_PARTS
        for i in range(1, self.n_jobs):
            k = i
            while k and self.times[self.sorted[k - 1]] < self.times[self.sorted[k]]:
                self.sorted[k - 1], self.sorted[k] = self.sorted[k], self.sorted[k - 1]
                k -= 1
        for k in range(self.n_jobs):
            i = self.sorted[k]
            if self.times[i] < least:
                break
            if left < 0.0:
                left += self.times[i]
                self.order[first] = i
                first += 1
            else:
                left -= self.times[i]
                end -= 1
                self.order[end] = i
        for i in range(self.n_jobs):
            if self.times[i] < least:
                self.order[first] = i
                first += 1


@cython.final
cdef class Exchange:
    """What the members of an ensemble say where they are spread over processes.

    What members here say of a row, as it goes into the pool, is written down; what those elsewhere
    said is read. All processes answer the same rows in the same order.
    """

    def __cinit__(self, list here):
        self.here = here
        self.begin(np.zeros((0, 0, len(here))))

    def begin(self, double[:, :, ::1] rows not None):
        """The rows that come next, an array of shape (n_rows, n_outputs, n_members)."""
        if rows.shape[2] != len(self.here):
            raise ValueError(f"there are {len(self.here)} members, got {rows.shape[2]}")
        self.rows = rows
        self.n_rows = 0


cdef class Ensemble(Tree):
    """The base of all ensembles: a pool implements `pool`, and what it learns itself.

    The first Scratch is the ensemble's: `pooled` has what the members together say, the memo of
    which row. Behind it lie those of the members, one after the other.
    """

    def __cinit__(self, list members, *args, Exchange exchange=None, **kwargs):
        cdef Py_ssize_t m, place = 1
        cdef Tree member
        self.members = list(members)
        self.n_members = len(self.members)
        self.trees = <void**> zeroed(self.n_members * sizeof(void*))
        self.places = <Py_ssize_t*> zeroed(self.n_members * sizeof(Py_ssize_t))
        self.is_pool = <bint*> zeroed(self.n_members * sizeof(bint))
        self.is_here = <bint*> zeroed(self.n_members * sizeof(bint))
        self.exchange = exchange
        self.budgets = [Budget() for _ in self.members]
        self.ledgers = <void**> zeroed(self.n_members * sizeof(void*))
        self.views = 0
        self.corrector = -1
        for m in range(self.n_members):
            member = self.members[m]
            self.trees[m] = <void*> member
            self.ledgers[m] = <void*> self.budgets[m]
            self.places[m] = place
            self.is_pool[m] = isinstance(member, Ensemble)
            self.is_here[m] = exchange is None or exchange.here[m]
            if isinstance(member, Corrector):
                self.corrector = m
            self.has_correctors |= m == self.corrector or (
                self.is_pool[m] and (<Ensemble> member).has_correctors
            )
            place += len(member.scratches())
            self.views |= member.views
            self.is_judged |= member.is_judged
            self.looks_ahead |= member.looks_ahead
            self.has_window |= member.has_window
            if member.max_labels:
                self.max_labels = min(self.max_labels or member.max_labels, member.max_labels)
        self._list_parts()

    def __dealloc__(self):
        free(self.trees)
        free(self.places)
        free(self.ledgers)
        free(self.is_pool)
        free(self.is_here)
        free(self.parts)

    cdef int _list_parts(self) except -1:
        """List the trees of all members that are here, those of pools in the middle.

        Threads begin at both ends, and the trees of a pool are small: nobody waits long in the end.
        """
        cdef Py_ssize_t m, i, n = 0
        cdef Ensemble pool
        here = [m for m in range(self.n_members) if self.is_here[m]]
        alone = [m for m in here if not self.is_pool[m]]
        pools = [m for m in here if self.is_pool[m]]
        half = len(alone) // 2
        for m in pools:
            n += (<Ensemble> self.trees[m]).n_parts
        self.parts = <Part*> zeroed((n + len(alone)) * sizeof(Part))
        for m in alone[:half] + pools + alone[half:]:
            if not self.is_pool[m]:
                self.parts[self.n_parts] = Part(
                    self.trees[m], self.ledgers[m], <void*> self, self.places[m],
                    m == self.corrector,
                )
                self.n_parts += 1
                continue
            pool = self.members[m]
            for i in range(pool.n_parts):
                self.parts[self.n_parts] = pool.parts[i]
                self.parts[self.n_parts].place += self.places[m]
                self.n_parts += 1
        return 0

    cdef Tree member(self, Py_ssize_t m):
        return self.members[m]

    cdef bint is_passed(self, Py_ssize_t m) noexcept nogil:
        """Whether rows pass a member by: it is elsewhere, or it rests."""
        return not self.is_here[m]

    cdef void rest(self, bint rests) noexcept nogil:
        cdef Py_ssize_t m
        self.rests = rests
        for m in range(self.n_members):
            (<Tree> self.trees[m]).rest(rests or self.is_passed(m))

    cdef void catch_up(self) noexcept nogil:
        cdef Py_ssize_t m
        if self.put_off_by != NULL:
            (<Lessons> self.put_off_by).work_aside()
            self.put_off_by = NULL
        for m in range(self.n_members if self.has_correctors else 0):
            (<Tree> self.trees[m]).catch_up()

    cdef int let_wait(self) except -1 nogil:
        cdef Py_ssize_t m
        cdef Ledger* before
        for m in range(self.n_members):
            before = begin_counting(<Budget> self.ledgers[m])
            try:
                (<Tree> self.trees[m]).let_wait()
            finally:
                end_counting(before)
        return 0

    cdef bint needs_all_rows(self) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            if (<Tree> self.trees[m]).needs_all_rows():
                return True
        return False

    cdef list scratches(self):
        cdef Tree member
        rooms = [(0, 0, 0)]
        for member in self.members:
            rooms += member.scratches()
        return rooms

    cdef int bind(self, Context context) except -1:
        cdef Tree member
        cdef Budget ledger
        cdef Ledger* before
        Tree.bind(self, context)
        for member, ledger in zip(self.members, self.budgets):
            before = begin_counting(ledger)
            try:
                member.bind(context)
            finally:
                end_counting(before)
        return 0

    cdef list first_shares(self):
        """The share of every member in what all may take, at first.

        Light members have little; half of the rest is for pools.
        """
        cdef Py_ssize_t m
        light = [m for m in range(self.n_members) if self.member(m).is_light]
        if len(light) == self.n_members:
            return [1.0 / self.n_members] * self.n_members
        pools = [m for m in range(self.n_members) if self.is_pool[m]]
        others = [m for m in range(self.n_members) if m not in pools and m not in light]
        little = min(1.0 / <double> PARTS_OF_LIGHT, 0.25 / max(len(light), 1))
        shares = dict.fromkeys(light, little)
        half = (1.0 - len(light) * little) / (bool(pools) + bool(others))
        for group in (pools, others):
            shares |= dict.fromkeys(group, half / max(len(group), 1))
        return [shares[m] for m in range(self.n_members)]

    cdef list shares(self):
        """The share of every member now."""
        return self.first_shares()

    cdef int bound(self, object bytes) except -1:
        cdef Tree member
        self.label_bytes = 0
        for member, ledger, share, first_share in zip(
            self.members, self.budgets, self.shares(), self.first_shares()
        ):
            part = None if bytes is None else int(share * bytes)
            ledger.limit(part)
            member.bound(part)
            # Labels go to all members: there is room for as many as all of them have room for. That
            # is not to change as shares do.
            self.label_bytes = max(self.label_bytes, <size_t> (member.label_bytes / first_share))
        return 0

    cdef Crew crew(self, int32_t n_threads):
        if self.n_parts < 2:
            return None
        return Lessons(self.n_parts, n_threads, self.places[self.n_members - 1] + 1)

    def refuse_label(self, label):
        """Raise for a label that would be one too many for a member."""
        for m, member in enumerate(self.members):
            if member.max_labels == self.max_labels:
                name = self.names[m] if self.names else m
                try:
                    member.refuse_label(label)
                except ValueError as error:
                    raise ValueError(f"member {name!r} of the forest: {error}") from None

    cdef Py_ssize_t n_outputs(self) noexcept nogil:
        """How many numbers a member says: one a label, or one a target."""
        return self.context.n_labels if self.context.n_labels else self.context.n_targets

    # ----------------------------------------------------------------------------- a row

    cdef void expect(self, int32_t label) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members if self.looks_ahead else 0):
            if self.is_here[m]:
                (<Tree> self.trees[m]).expect(label)

    cdef void approach(self, int32_t label) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members if self.looks_ahead else 0):
            if self.is_here[m]:
                (<Tree> self.trees[m]).approach(label)

    cdef int ask(self, const Row* row, Scratch* scratch) noexcept nogil:
        """Let all members say what a row is, unless it was asked last; and pool that."""
        cdef Py_ssize_t m
        cdef Prediction said
        if remembers(scratch, <const void*> self, row):
            return 0
        if self.put_off_by != NULL:
            self.catch_up()
        for m in range(self.n_members):
            if self.is_passed(m):
                continue
            said.label = -1
            said.shares = scratch[self.places[m]].shares
            (<Tree> self.trees[m]).predict(row, &scratch[self.places[m]], &said)
            if m != self.corrector:
                self.prepare(said.shares)
        self.pool_all(scratch)
        remember(scratch, <const void*> self, row)
        return 0

    cdef int begin(self, const Row* row, const Example* example, Scratch* scratch,
                   bint is_shared) except -1 nogil:
        """What is to be done before any part learns a row; `is_shared` tells that threads will."""
        cdef Py_ssize_t m
        cdef Ledger* before
        cdef Scratch* place
        scratch.memo_serial = 0
        for m in range(self.n_members):
            if self.is_pool[m] and not self.is_passed(m):
                before = begin_counting(<Budget> self.ledgers[m])
                try:
                    place = &scratch[self.places[m]]
                    (<Ensemble> self.trees[m]).begin(row, example, place, is_shared)
                finally:
                    end_counting(before)
        return 0

    cdef bint is_helped(self, const Scratch* scratch) noexcept nogil:
        """Whether threads share its parts: a tree that took its place amid a batch may have others.
        """
        return scratch.crew != NULL and (<Lessons> scratch.crew).n_jobs == self.n_parts

    cdef int teach(self, const Lesson* lesson) except -1 nogil:
        """Let all parts learn."""
        cdef int32_t i
        if self.is_helped(lesson.scratch):
            return (<Lessons> lesson.scratch.crew).give(self, lesson)
        for i in range(self.n_parts):
            teach_part(self, lesson, i)
        return 0

    cdef void end(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Pool what the parts have said."""
        cdef Py_ssize_t m
        cdef Scratch* place
        cdef Prediction said
        for m in range(self.n_members):
            if self.is_pool[m] and not self.is_passed(m):
                place = &scratch[self.places[m]]
                said.shares = place.shares
                (<Ensemble> self.trees[m]).end(example, place)
                (<Ensemble> self.trees[m]).answer(place, &said)
                (<Ensemble> self.trees[m]).judge_pool(example, place)
                self.prepare(said.shares)
        self.pool_all(scratch)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.ask(row, scratch)
        self.answer(scratch, out)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef bint is_asked = remembers(scratch, <const void*> self, row)
        cdef Lesson lesson = Lesson(row, example, scratch, out != NULL and not is_asked)
        self.begin(row, example, scratch, scratch.crew != NULL)
        self.teach(&lesson)
        if out != NULL:
            if is_asked:
                self.judge_members(example, scratch)
            else:
                self.end(example, scratch)
            self.answer(scratch, out)
            self.judge_pool(example, scratch)
        return self.correct(row, example, scratch)

    cdef int correct(self, const Row* row, const Example* example,
                     Scratch* scratch) except -1 nogil:
        """Let those learn a row that correct others, those of members among them.

        What they may put off a thread does when it asks them next.
        """
        cdef Py_ssize_t m
        cdef Ledger* before
        cdef bint is_pool
        for m in range(self.n_members if self.has_correctors else 0):
            is_pool = self.is_pool[m] and (<Ensemble> self.trees[m]).has_correctors
            if not (is_pool or m == self.corrector) or self.is_passed(m):
                continue
            before = begin_counting(<Budget> self.ledgers[m])
            try:
                if is_pool:
                    (<Ensemble> self.trees[m]).correct(row, example, &scratch[self.places[m]])
                else:
                    (<Tree> self.trees[m]).learn(row, example, &scratch[self.places[m]], NULL)
                    if scratch.crew == NULL:
                        (<Tree> self.trees[m]).catch_up()
            finally:
                end_counting(before)
        return 0

    cdef void judge(self, const Example* example, Scratch* scratch) noexcept nogil:
        self.judge_members(example, scratch)
        self.judge_pool(example, scratch)

    cdef void judge_members(self, const Example* example, Scratch* scratch) noexcept nogil:
        cdef Py_ssize_t m
        for m in range(self.n_members):
            if not self.is_passed(m):
                (<Tree> self.trees[m]).judge(example, &scratch[self.places[m]])

    cdef void prepare(self, double* said) noexcept nogil:
        """Turn what a member says into what is to be pooled."""

    cdef void pool_all(self, Scratch* scratch) noexcept nogil:
        """Pool what the members have said, those elsewhere among them."""
        self.pool(scratch)

    cdef void pool(self, Scratch* scratch) noexcept nogil:
        """Write to `pooled` what the members together say."""

    cdef void judge_pool(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Learn from what the members and the pool said; with threads, while these learn the next
        row, if it may wait so long."""
        self.tell(scratch.pooled, scratch)
        if (
            not self.is_helped(scratch) or not self.may_put_off()
            or not (<Lessons> scratch.crew).put_off(self, example, scratch)
        ):
            self.learn_pooling(example, scratch)

    cdef void tell(self, const double* pooled, Scratch* scratch) noexcept nogil:
        """Tell who corrects the others what all have said of the row at hand; NULL: nothing."""

    cdef bint may_put_off(self) noexcept nogil:
        """Whether `learn_pooling` of this row changes nothing before the next one is pooled."""
        return False

    cdef void learn_pooling(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Learn how to pool from what `scratch` says that the members and the pool said."""

    cdef void answer(self, const Scratch* scratch, Prediction* out) noexcept nogil:
        if out.shares != NULL:
            memcpy(out.shares, scratch.pooled, self.n_outputs() * sizeof(double))
        out.label = argmax(scratch.pooled, self.context.n_labels)

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
        """The mean of the members' explanations."""
        cdef Explanation part
        for part in self.member_explanations(row, scratch, out):
            out.add(part.bias, part.columns, 1.0 / self.n_members)
        return 0

    # ----------------------------------------------------------------------- the whole of it

    cdef size_t n_bytes(self) noexcept nogil:
        cdef Py_ssize_t m
        cdef size_t total = self.n_parts * sizeof(Part) + self.n_members * (
            2 * sizeof(void*) + sizeof(Py_ssize_t) + 2 * sizeof(bint)
        )
        for m in range(self.n_members):
            total += (<Budget> self.ledgers[m]).used() + (<Tree> self.trees[m]).n_bytes()
        return total

    cdef size_t learned_bytes(self) noexcept nogil:
        cdef Py_ssize_t m
        cdef size_t total = 0
        for m in range(self.n_members):
            total += (<Budget> self.ledgers[m]).used() + (<Tree> self.trees[m]).learned_bytes()
        return total

    cdef dict state(self):
        cdef Tree member
        members = {}
        for m, member in enumerate(self.members):
            if self.is_here[m]:
                members[str(m)] = member.state()
        return {"members": members, **self.own_state()}

    cdef int take_state(self, dict state) except -1:
        cdef Tree member
        cdef Budget ledger
        cdef Ledger* before
        for m, (member, ledger) in enumerate(zip(self.members, self.budgets)):
            if not self.is_here[m]:
                continue
            before = begin_counting(ledger)
            try:
                member.take_state(state["members"][str(m)])
            finally:
                end_counting(before)
        return self.take_own_state(state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state, that of every member too."""
        for m, member in enumerate(self.members):
            if self.is_here[m]:
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
