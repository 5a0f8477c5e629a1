"""Learners: an Intake and a Tree, and the one loop over rows.

Dicts, arrays and sparse matrices, one row or many, learning alone or with what would have been
predicted before: all of it ends in `look`, so that a batch equals a loop bit for bit.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport HUGE_VAL
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport (
    Budget, Ledger, begin_counting, count_for_nobody, end_counting,
)
from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.crew cimport Crew, Post, add
from streamtree._core.stream.features cimport SETTLED_ROWS
from streamtree._core.stream.intake cimport DictRows, Intake, Workspace
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport LISTED, Example, Prediction
from streamtree._core.stream.signals cimport SignalWatch, heed_signals, new_watch
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.learners.checks import check_course
from streamtree._core.store.checks import check_counts, check_same_kind, require
from streamtree._core.stream.checks import check_intake

# sums of weights this large, and their squares, stay finite; batches know it, too
cdef double MOST_WEIGHT = 1e100
MAX_WEIGHT = MOST_WEIGHT

cdef enum:
    # of the bound on all memory: one part of so many for names, and one for labels
    NAMES_PART = 4
    LABELS_PART = 8
    # of a batch of fewer rows, other threads are not worth the time that it takes to start them
    FEW_ROWS = 64
    # rows that a thread predicts at a time
    BLOCK = 64
    # Which of two trees errs less is looked at every so many rows. For so many it has to be the
    # same one before the other goes.
    JUDGED_ROWS = 128
    MOST_CHALLENGE_ROWS = 2048
    # of more labels a tree is not followed: to ask for the shares of all takes too long
    MOST_FOLLOWED = 256

# so much less, for them to change places
cdef double CLEARLY = 0.9


cdef double float_of(object value, object name) except? -1.0:
    """What is no float as one; infinity if it is too large."""
    try:
        return value
    except OverflowError:
        return HUGE_VAL
    except TypeError:
        raise TypeError(f"{name} must be a number, got {type(value).__name__}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


cdef double as_weight(object w) except -1.0:
    """The weight of an example as a number."""
    cdef double number = <double> w if type(w) is float else float_of(w, "w")
    if not 0.0 <= number <= MOST_WEIGHT:
        raise ValueError(f"w must be from 0 to {MAX_WEIGHT:g}, got {number!r}")
    return number


@cython.final
cdef class Examples:
    """The labels or targets of the rows of a batch, and their weights."""

    def __cinit__(self, labels, targets, weights):
        self.labels = labels
        self.targets = targets
        self.weights = weights

    cdef Example of(self, Py_ssize_t i) noexcept nogil:
        cdef Example example
        example.label = -1
        example.targets = NULL
        example.weight = 1.0
        if self.labels is not None:
            example.label = self.labels[i]
        if self.targets is not None:
            example.targets = &self.targets[i, 0]
        if self.weights is not None:
            example.weight = self.weights[i]
        return example


@cython.final
cdef class Predictions(Crew):
    """Threads that predict the rows of a batch, a block at a time, each with room of its own."""

    cdef Learner learner
    cdef list readers
    cdef list workspaces
    cdef int32_t[::1] labels
    cdef double[:, ::1] shares
    cdef Py_ssize_t n_rows
    cdef SignalWatch watch      # of the thread that calls
    cdef Post n_begun           # blocks

    def __cinit__(self, int32_t n_jobs, int32_t n_threads, Learner learner, list readers,
                  list names, labels, shares):
        cdef RowSource reader
        cdef Intake intake = learner.intake
        columns = intake.known_columns(names)
        for reader in readers:
            reader.bind(intake.scaler, columns)
            self.n_rows = reader.n_rows
        self.learner, self.labels, self.shares = learner, labels, shares
        self.readers, self.workspaces = readers, [intake.workspace() for _ in readers]
        self.watch = new_watch()

    cdef int work(self, int32_t job, int32_t thread) noexcept nogil:
        return (<Quiet> predict_blocks)(self, job, thread)


cdef int predict_blocks(Predictions self, int32_t job, int32_t thread) except -1 with gil:
    """Predict blocks of rows until none is left, or something has failed."""
    cdef Learner learner = self.learner
    cdef RowSource source = self.readers[job]
    cdef Workspace workspace = self.workspaces[job]
    cdef Py_ssize_t i, first
    cdef Prediction said
    said.label = -1
    said.shares = NULL
    with nogil:
        while not self.has_failed():
            first = <Py_ssize_t> add(&self.n_begun.word, 1) * BLOCK
            if first >= self.n_rows:
                break
            for i in range(first, min(first + BLOCK, self.n_rows)):
                if thread == 0:
                    heed_signals(&self.watch)
                learner.intake.take(source, i, False, workspace)
                learner.intake.make(workspace)
                if self.shares is not None:
                    said.shares = &self.shares[i, 0]
                learner.answer(workspace, &said)
                if self.labels is not None:
                    self.labels[i] = said.label
    return 0


ctypedef int (*Quiet)(Predictions, int32_t, int32_t) noexcept nogil


cdef class Learner:
    """What learners of labels and of numbers share.

    `max_bytes` bounds all that was learned; None: nothing does. A part of it is for names, another
    for labels if there are any, the rest for the tree. So whether there is room for a name does not
    depend on how large the tree is when its batch begins.

    `n_jobs` threads, that of the call among them, learn or predict the rows of a batch of arrays.
    What comes of it are the very bits of one thread. Only ensembles have something to share out
    when they learn; rows to predict are shared out whatever the tree.

    `nominal` are the names of columns whose numbers are categories. `make_tree()`, unless None,
    makes other trees. With `restarts`, which needs it, one learns beside a tree that may be
    outdated for a while, with half of the memory for each. It takes its place where it errs less,
    and the other way round.
    """

    # of the class: amid `__cinit__` the methods of a subclass are not there yet
    has_labels = False

    def __cinit__(self, Tree tree, *, max_bytes=None, frozenset nominal=frozenset(),
                  int32_t n_jobs=1, make_tree=None, bint restarts=False, **kwargs):
        cdef Ledger* before
        self.tree = tree
        self.restarts = restarts
        self._make_tree = make_tree
        self.budget = Budget()
        self._max_bytes = max_bytes
        self.n_jobs = n_jobs
        self._nominal = nominal
        before = begin_counting(self.budget)
        try:
            self._bind(Intake(tree.views, tree.scratches(), nominal))
        finally:
            end_counting(before)

    def __dealloc__(self):
        free(self.said)

    cdef int _bind(self, Intake intake) except -1:
        self.intake = intake
        self._set_bound()
        return self.tree.bind(intake.context)

    cdef object _tree_bytes(self):
        """What the tree may take; None: there is no bound."""
        cdef object most = self._max_bytes
        if most is None:
            return None
        return most - self.intake.features.most - self._bytes_for_labels()

    cdef object _bytes_for_labels(self):
        """What labels may take, where there is a bound."""
        return self._max_bytes // LABELS_PART if self.has_labels else 0

    cdef int _set_bound(self) except -1:
        cdef object most = self._max_bytes, names, labels, left
        if most is None:
            self.intake.bound_names(None)
            self.intake.bound_labels(None, None, None)
            return self._bound_trees()
        names, labels = most // NAMES_PART, self._bytes_for_labels()
        self.intake.bound_names(names)
        self._bound_trees()
        # in the tree, labels may take half; how many there may be does not depend on what is lent
        left = most - names - labels
        return self.intake.bound_labels(
            labels, left // 2 // max(self.tree.label_bytes, 1), self.tree.labels_at_once(left)
        )

    cdef bint _count(self, Workspace workspace, bint zeros_implied) except -1 nogil:
        """Let a row into the scales; returns whether its views are others now."""
        cdef bint changes = self.intake.count(workspace, zeros_implied)
        if self.intake.scaler.rows == SETTLED_ROWS:
            self.tree.catch_up()
            with gil:
                self._set_bound()
        return changes

    cdef int _bound_trees(self) except -1:
        cdef object left = self._tree_bytes()
        if left is not None and self.challenger is not None:
            left //= 2
        self.budget.limit(left)
        self.tree.bound(left)
        if self.challenger is not None:
            self.aside_budget.limit(left)
            self.challenger.bound(left)
        return 0

    cdef int begin_learning(self) except -1:
        """Call with the GIL held; what is learned until `end_learning` counts as the model's."""
        self.intake.lock.begin_learning()
        self._before = begin_counting(self.budget)
        return 0

    cdef void end_learning(self) noexcept:
        end_counting(self._before)
        self.intake.lock.end_learning()

    cdef int take_back(self) except -1:
        """After an error: forget the columns and the label that the tree has not met."""
        self.intake.forget_columns(self.intake.scaler.n_born)
        if self.intake.labels.size > self.intake.context.n_labels:
            self.intake.labels.undo()
        return 0

    @property
    def features(self):
        """The index of the features."""
        return self.intake.features

    @property
    def n_bytes(self):
        """All that was learned takes, with names, labels, and room for the row at hand."""
        # while another call learns, memory moves about: then the size last known is the answer
        if not self.intake.lock.is_learning:
            self._bytes = self.budget.used() + self.tree.n_bytes() + self.intake.n_bytes()
            self._bytes += self.n_said * sizeof(double)
            if self.challenger is not None:
                self._bytes += self.aside_budget.used() + self.challenger.n_bytes()
                self._bytes += self.aside.n_bytes()
        return self._bytes

    @property
    def learned_bytes(self):
        """What the trees take: that depends on what was learned alone, not on how rows came."""
        cdef size_t total = self.budget.used() + self.tree.learned_bytes()
        if self.challenger is not None:
            total += self.aside_budget.used() + self.challenger.learned_bytes()
        return total

    # ----------------------------------------------------------------------------- a row

    cdef int look(self, Workspace workspace, const Example* example, bint zeros_implied,
                  Prediction* out) except -1 nogil:
        """Learn the row that was read; write to `out`, unless NULL, what it was predicted to be.

        What is learned may look different from what was to be predicted: columns may be new, or
        their scales others once the row was counted, and the label may be new. Only then are
        there two walks through the tree, where somebody asks or it is judged. Followed it is by
        what it says of the row as it learns it, whoever asks.
        """
        cdef bint is_new = example.label >= self.intake.context.n_labels
        cdef bint is_there = self.intake.is_made(workspace)
        cdef bint is_followed, asks, changes
        cdef Prediction said
        if example.label < 0 and example.targets == NULL:
            return self.look_only(workspace, zeros_implied, out)
        is_followed = self._is_followed()
        said.label = -1
        said.shares = NULL if out == NULL else out.shares
        asks = out != NULL or self.tree.is_judged
        # it is told of one row
        self.tree.is_outdated = False
        if is_new:
            self.tree.catch_up()
            workspace.reserve_answers(example.label + 1)
        if asks and self.intake.has_news(workspace):
            self.intake.make_known(workspace)
            self.foretell_before(self.intake.spare, example, &said)
            asks = False
        if asks:
            self.intake.make(workspace)
            is_there = True
        elif not is_there:
            workspace.raw.swap(workspace.incoming)
        changes = self._count(workspace, zeros_implied)
        if asks and (changes or is_new):
            self.foretell_before(workspace, example, &said)
            asks = False
        if out != NULL and not asks:
            # what was said is not to be overwritten
            out.label, said.shares = said.label, NULL
        self.intake.make_counted(workspace, is_there and not changes)
        if is_new:
            self.intake.context.n_labels = example.label + 1
        if is_followed and not is_new:
            self._make_said()
            if said.shares == NULL:
                said.shares = self.said
            self.tree.learn(&workspace.row, example, workspace.scratch, &said)
            self.tree.follow(example, said.shares)
        else:
            self.tree.learn(&workspace.row, example, workspace.scratch, &said if asks else NULL)
        if out != NULL and asks:
            out.label = said.label
        if self.challenger is not None:
            return self._challenge(workspace, example, is_new, is_followed)
        if self.tree.is_outdated and self.restarts:
            with gil:
                self._begin_challenge()
        return 0

    @cython.final
    cdef bint _is_followed(self) noexcept nogil:
        """Whether to follow how the tree errs, which does not do so itself: from the second row on.
        """
        return (
            self.restarts and not self.tree.is_judged and self.intake.scaler.rows > 0
            and self.intake.context.n_labels <= MOST_FOLLOWED
        )

    @cython.final
    cdef int _make_said(self) except -1 nogil:
        """Make room for what a tree says of the labels or targets."""
        cdef int64_t n = self.n_outputs()
        if n > self.n_said:
            self.said = <double*> regrown(self.said, n * sizeof(double))
            self.n_said = n
        return 0

    cdef int _begin_challenge(self) except -1:
        """Let a new tree learn beside this one, if there is room for both."""
        cdef object most = self._tree_bytes()
        if most is not None and 2 * self.learned_bytes > most:
            return 0
        self.challenge_rows = 0
        self._make_challenger(None if most is None else most // 2)
        return self._bound_trees()

    cdef int _make_challenger(self, object bytes) except -1:
        cdef Tree tree = self._new_tree()
        cdef Workspace aside = self.intake.workspace()
        cdef Budget budget = Budget()
        cdef Ledger* before
        budget.limit(bytes)
        tree.bound(bytes)
        before = begin_counting(budget)
        try:
            tree.bind(self.intake.context)
        finally:
            end_counting(before)
        self.challenger, self.aside, self.aside_budget = tree, aside, budget
        return 0

    cdef int _challenge(self, Workspace workspace, const Example* example, bint is_new,
                        bint is_followed) except -1 nogil:
        """Let the challenger learn the row that the tree has learned."""
        cdef Prediction said
        cdef Ledger* before
        cdef bint is_done = False
        if not (is_followed or self.tree.is_judged):
            # there are too many labels by now to tell which one errs less
            with gil:
                return self._end_challenge()
        said.label = -1
        said.shares = self.said if is_followed else NULL
        before = begin_counting(self.aside_budget)
        try:
            self.aside.fit(workspace)
            self.challenger.learn(
                &workspace.row, example, self.aside.scratch, NULL if is_new else &said
            )
            is_done = True
        finally:
            end_counting(before)
            # where memory ran out the tree goes on alone
            if not is_done:
                with gil:
                    self._end_challenge()
        if is_followed and not is_new:
            self.challenger.follow(example, said.shares)
        self.challenge_rows += 1
        if self.challenge_rows % JUDGED_ROWS == 0:
            with gil:
                self._judge_challenge()
        return 0

    cdef int _judge_challenge(self) except -1:
        """Let the tree that errs less of late answer, and in the end be the only one.

        Where rows tell nothing for a while, one that is less sure of what it says is no better.
        """
        self.tree.catch_up()
        if self.challenger.course.capped < CLEARLY * self.tree.course.capped:
            self.tree, self.challenger = self.challenger, self.tree
            self.budget, self.aside_budget = self.aside_budget, self.budget
            # until learning ends
            begin_counting(self.budget)
            self.challenge_rows = 0
            self.aside.forget_answers()
            self._forget_answers()
        elif self.challenge_rows >= MOST_CHALLENGE_ROWS:
            self._end_challenge()
        return 0

    cdef int _end_challenge(self) except -1:
        self.challenger = self.aside = self.aside_budget = None
        return self._bound_trees()

    cdef int look_only(self, Workspace workspace, bint zeros_implied,
                       Prediction* out) except -1 nogil:
        """As `look`, of a row whose label has to come again: it counts for the scales only."""
        cdef bint is_there = self.intake.is_made(workspace)
        cdef Ledger* before
        if out != NULL and self.intake.has_news(workspace):
            self.intake.make_known(workspace)
            self.foretell(self.intake.spare, out)
            out = NULL
        if out != NULL:
            self.intake.make(workspace)
            self.foretell(workspace, out)
            is_there = True
        elif not is_there:
            workspace.raw.swap(workspace.incoming)
        if self._count(workspace, zeros_implied):
            is_there = False
        self.intake.make_counted(workspace, is_there)
        self.tree.let_wait()
        if self.challenger is not None:
            before = begin_counting(self.aside_budget)
            try:
                self.challenger.let_wait()
            finally:
                end_counting(before)
        return 0

    cdef void foretell_before(self, Workspace workspace, const Example* example,
                              Prediction* out) noexcept nogil:
        """Predict a row in a walk of its own, before it is learned."""
        self.foretell(workspace, out)
        # nobody could have known a label that is new
        if self.tree.is_judged and example.label < self.intake.context.n_labels:
            self.tree.judge(example, workspace.scratch)

    cdef int learn(self, Workspace workspace, const Example* example, bint zeros_implied,
                   Prediction* out) except -1 nogil:
        """As `look`; what is written to `out` is the answer of the learner."""
        self.look(workspace, example, zeros_implied, out)
        if out != NULL:
            self.settle(out)
        return 0

    cdef int foretell(self, Workspace workspace, Prediction* out) noexcept nogil:
        """What the tree says of the row whose views were made."""
        self.tree.predict(&workspace.row, workspace.scratch, out)
        return 0

    cdef int answer(self, Workspace workspace, Prediction* out) noexcept nogil:
        """What the learner says of it."""
        self.foretell(workspace, out)
        self.settle(out)
        return 0

    cdef void settle(self, Prediction* out) noexcept nogil:
        """Turn what the tree says into what the learner says."""

    cdef int settle_explanation(self, Explanation out) except -1:
        """Add what the learner does to what its tree says; the explanation of that comes next."""
        return 0

    @cython.final
    cdef Py_ssize_t n_outputs(self) noexcept nogil:
        """How many shares or numbers make up a prediction."""
        return self.intake.context.n_targets or self.intake.context.n_labels

    # ------------------------------------------------------------------------- many rows

    cdef int begin_batch(self) except -1:
        """Begin to learn rows; errors say from here on how many were learned."""
        try:
            self.begin_learning()
        except BaseException as error:
            error.rows_learned = 0
            raise
        self.rows_learned = 0
        return 0

    cdef int learn_rows(self, RowSource source, Examples examples, int32_t[::1] labels,
                        double[:, ::1] shares) except -1:
        """The one loop over rows to learn, without the GIL where the rows allow it.

        Before every row its prediction is written to `labels` or `shares`, if they are not None.
        A row of weight 0 is predicted only. Where an error or a signal ends the loop,
        `rows_learned` says how many rows are behind the model; of the others nothing stays.
        """
        cdef Workspace own = self.intake.room()
        cdef Py_ssize_t i, last = source.n_rows - 1
        cdef Example example, following
        cdef Prediction said
        cdef Prediction* out = NULL
        cdef SignalWatch watch = new_watch()
        said.label = -1
        said.shares = NULL
        cdef Crew crew = None
        if labels is not None or shares is not None:
            out = &said
        if self.n_jobs > 1 and source.n_rows >= FEW_ROWS:
            crew = self.tree.crew(self.n_jobs)
        try:
            if crew is not None:
                crew.start()
                own.scratch.crew = <void*> crew
            if source.n_rows:
                following = examples.of(0)
            with nogil:
                for i in range(source.n_rows):
                    heed_signals(&watch)
                    example, following = following, examples.of(min(i + 1, last))
                    if following.label >= 0:
                        self.tree.expect(following.label)
                    if example.label >= 0:
                        self.tree.approach(example.label)
                    self.intake.take(source, i, example.weight > 0.0, own)
                    if shares is not None:
                        said.shares = &shares[i, 0]
                    self.learn_row(own, &example, source.is_sparse, out)
                    if labels is not None:
                        labels[i] = said.label
                    self.rows_learned = i + 1
        finally:
            own.scratch.crew = NULL
            self.tree.catch_up()
            if crew is not None:
                with nogil:
                    crew.stop()
        return 0

    cdef int end_batch(self, RowSource source) except -1:
        """What is done after the last row that was learned, and after errors as well."""
        try:
            if source is not None:
                self.intake.end_batch(source)
        finally:
            self.intake.drop_rooms()
            self.end_learning()
        return 0

    cdef int learn_row(self, Workspace own, const Example* example, bint zeros_implied,
                       Prediction* out) except -1 nogil:
        """Learn the row of a batch that was read, or only predict it if it has no weight."""
        if example.weight > 0.0:
            return self.learn(own, example, zeros_implied, out)
        if out != NULL and self.intake.has_news(own):
            self.intake.make_known(own)
            return self.answer(self.intake.spare, out)
        if out != NULL:
            self.intake.make(own)
            return self.answer(own, out)
        return 0

    cdef int predict_rows(self, RowSource source, list names, int32_t[::1] labels,
                          double[:, ::1] shares) except -1:
        """The one loop over rows to predict, while nothing is learned."""
        cdef Py_ssize_t n_threads = 1
        cdef Predictions crew
        if source.n_rows >= FEW_ROWS:
            n_threads = min(self.n_jobs, (source.n_rows + BLOCK - 1) // BLOCK)
        readers = [source]
        while len(readers) < n_threads and (reader := source.reader()) is not None:
            readers.append(reader)
        crew = Predictions(len(readers), len(readers), self, readers, names, labels, shares)
        try:
            crew.start()
            with nogil:
                crew.run()
        finally:
            with nogil:
                crew.stop()
        return 0

    def _known(self, rows):
        """Rows to predict: a RowSource, or dicts."""
        return rows if isinstance(rows, RowSource) else DictRows(self.intake, rows)

    def _new(self, rows, list names, list first_rows):
        """Rows to learn, after a look at all of them; their columns are made if they are known."""
        cdef RowSource source
        if isinstance(rows, RowSource):
            source = rows
            try:
                source.bind(self.intake.scaler, self.intake.learned_columns(names, first_rows))
            except BaseException:
                # the columns may be there
                self.intake.forget_columns(self.intake.scaler.n_born)
                raise
            return source
        self.intake.features.check_rows(True)
        try:
            for x in rows:
                PyErr_CheckSignals()
                self.intake.read_new(x)
        finally:
            self.intake.features.check_rows(False)
        return DictRows(self.intake, rows)

    def leaves_many(self, rows, list names):
        """The number of the node in which every row ends, as an int32 array."""
        cdef RowSource source = self._known(rows)
        cdef Workspace workspace = self.intake.workspace()
        cdef Py_ssize_t i
        leaves = np.empty(source.n_rows, dtype=np.int32)
        cdef int32_t[::1] view = leaves
        cdef SignalWatch watch = new_watch()
        with self.intake.lock.reading():
            source.bind(self.intake.scaler, self.intake.known_columns(names))
            with nogil:
                for i in range(source.n_rows):
                    heed_signals(&watch)
                    self.intake.take(source, i, False, workspace)
                    self.intake.make(workspace)
                    view[i] = self.tree.leaf(&workspace.row, workspace.scratch)
        return leaves

    cdef int begin_growing(self) except -1:
        """Begin to grow the tree, of a model that has not learned."""
        self.begin_learning()
        if self.intake.scaler.rows:
            self.end_learning()
            raise RuntimeError("grow() needs a model that has not learned anything yet")
        return 0

    cdef int forget(self) except -1:
        """Be as before any row, with a new tree."""
        self.intake.forget()
        self._set_bound()
        return self.replace_tree(self._new_tree())

    cdef Tree _new_tree(self):
        """A tree that begins amid learning, with as little memory of its own as the first one had.
        """
        cdef Tree tree
        cdef Ledger* before = count_for_nobody()
        try:
            tree = self._make_tree()
        finally:
            end_counting(before)
        if self._settings:
            tree.configure(**self._settings)
        return tree

    cdef int start_again(self) except -1:
        """Learn with a new tree from now on."""
        return self.replace_tree(self._new_tree())

    cdef int replace_tree(self, Tree tree) except -1:
        """Learn with another tree from now on."""
        # what threads have put off is about the tree that goes
        self.tree.catch_up()
        self._end_challenge()
        tree.bound(self._tree_bytes())
        tree.bind(self.intake.context)
        self.tree = tree
        self._forget_answers()
        return 0

    cdef int _forget_answers(self) except -1:
        """What was said of the row at hand would be said otherwise now."""
        cdef Workspace workspace
        for workspace in (self.intake.own, self.intake.spare):
            if workspace is not None:
                workspace.forget_answers()
        return 0

    cdef int grow_rows(self, rows, list names, list first_rows, Examples examples) except -1:
        """Let all rows into the scales, then keep them as these have them, and grow the tree."""
        cdef Workspace own = self.intake.room()
        cdef RowSource source
        cdef KeptRows kept = KeptRows()
        cdef Py_ssize_t i
        cdef Example example
        cdef int32_t n_targets = self.intake.context.n_targets
        cdef SignalWatch watch = new_watch()
        source = self._new(rows, names, first_rows)
        for i in range(source.n_rows):
            heed_signals(&watch)
            example = examples.of(i)
            self.intake.take(source, i, True, own)
            own.raw.swap(own.incoming)
            self._count(own, source.is_sparse)
            self.intake.make_counted(own, False)
            self.intake.context.n_labels = max(self.intake.context.n_labels, example.label + 1)
        for i in range(source.n_rows):
            heed_signals(&watch)
            example = examples.of(i)
            # read again: of which columns a sparse row lists zeros the scales have only told now
            self.intake.take(source, i, False, own)
            self.intake.make(own)
            kept.add(
                &own.row.listed if self.tree.views & LISTED else &own.row.standard, &example,
                n_targets,
            )
        self.tree.grow(kept)
        return self.intake.end_batch(source)

    # --------------------------------------------------------------------------- one row

    cdef int learn_dict(self, x, y, w) except -1:
        raise NotImplementedError

    cdef object predict_dict(self, x):
        raise NotImplementedError

    def learn_one(self, x, y, w):
        """Learn one dict; every error is raised before anything changes."""
        self.learn_dict(x, y, w)

    def predict_one(self, x):
        """What is said of one dict."""
        return self.predict_dict(x)

    # ---------------------------------------------------------------------- the whole tree

    def configure(self, *, max_bytes=None, bint restarts=False, **settings):
        """Set what may change while the tree learns, between two calls."""
        self.intake.lock.begin_learning()
        try:
            self.tree.configure(**settings)
            # what is tried out was made with the settings before
            self._end_challenge()
            self._settings = settings
            self.restarts = restarts
            self._forget_answers()
            self._max_bytes = max_bytes
            self._set_bound()
        finally:
            self.intake.lock.end_learning()

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        with self.intake.lock.reading():
            return self.tree.depths()

    def measure(self, name, *arguments):
        """What a method of the tree says that looks at its nodes: they move while it learns."""
        with self.intake.lock.reading():
            return getattr(self.tree, name)(*arguments)

    cdef object examine_row(self, x, Examples examples):
        """What a step on an example would go by, for tests."""
        cdef Workspace workspace
        cdef Example example = examples.of(0)
        self.begin_learning()
        try:
            workspace = self.intake.read_known(x)
            return self.tree.examine(&workspace.row, &example, workspace.scratch)
        finally:
            self.end_learning()

    def snapshot(self, *, bint is_outline=False):
        """The whole state as arrays, numbers and lists; the same history gives the same one.

        An outline has of the tree only what its `outline` says.
        """
        with self.intake.lock.reading():
            challenge = {} if self.challenger is None or is_outline else {
                "challenge": {
                    "tree": self.challenger.state(), "course": self.challenger.course,
                    "rows": self.challenge_rows,
                },
            }
            return {
                **self._own_state(),
                **challenge,
                "course": self.tree.course,
                "features": list(self.intake.features.names),
                "scaler": self.intake.scaler.snapshot(),
                "tree": self.tree.outline() if is_outline else self.tree.state(),
            }

    def _own_state(self):
        raise NotImplementedError

    def _take_own_state(self, state):
        raise NotImplementedError

    def restore(self, state):
        """Take over what `snapshot` gave; the learner must be new, with the same parameters."""
        cdef Ledger* before = begin_counting(self.budget)
        try:
            self._bind(Intake(
                self.tree.views, self.tree.scratches(), self._nominal, state["features"],
                state.get("labels"),
            ))
            # what was learned has had room
            self.budget.limit(None)
            self.tree.bound(None)
            self.intake.scaler.restore(state["scaler"])
            self._take_own_state(state)
            self.tree.take_state(state["tree"])
            self.tree.course = state["course"]
            if "challenge" in state:
                self._make_challenger(None)
                begin_counting(self.aside_budget)
                self.challenger.take_state(state["challenge"]["tree"])
                self.challenger.course = state["challenge"]["course"]
                self.challenge_rows = state["challenge"]["rows"]
        finally:
            end_counting(before)
            self._set_bound()

    def check_state(self, state):
        """Raise StateError unless `restore` can trust a state, which may be anybody's."""
        like = self.snapshot()
        like.pop("challenge", None)
        check_same_kind(state, like)
        check_intake(state)
        check_course(state["course"])
        n_outputs = self._check_outputs(state)
        self.tree.check_state(state["tree"], len(state["features"]), n_outputs)
        if "challenge" in state:
            self._check_challenge(state["challenge"], len(state["features"]), n_outputs)

    def _check_challenge(self, challenge, n_columns, n_outputs):
        """The same of a tree that learns beside the other."""
        cdef Tree tree
        require(self.restarts, "a challenger")
        tree = self._new_tree()
        tree.bind(Intake(tree.views, tree.scratches(), self._nominal).context)
        like = {"tree": tree.state(), "course": tree.course, "rows": 0}
        check_same_kind(challenge, like, "state/challenge")
        check_course(challenge["course"])
        tree.check_state(challenge["tree"], n_columns, n_outputs)
        check_counts(challenge["rows"])
        require(challenge["rows"] < MOST_CHALLENGE_ROWS, "rows of a challenger")

    def _check_outputs(self, state):
        """Check what is said of labels or targets; returns how many there are."""
        raise NotImplementedError
