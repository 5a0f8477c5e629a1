"""Learners: an Intake and a Tree, and the one loop over rows.

Dicts, arrays and sparse matrices, one row or many, learning alone or with what would have been
predicted before: all of it ends in `look`, so that a batch equals a loop bit for bit.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport HUGE_VAL
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.shrinkage cimport Shrinkage, admit, is_to_judge, judge, shrunken
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.store.budget cimport (
    Budget, Ledger, begin_counting, count_for_nobody, end_counting,
)
from streamtree._core.stream.crew cimport Crew, Post, add
from streamtree._core.stream.intake cimport DictRows, Intake, Workspace, as_dict
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.labels cimport is_plain
from streamtree._core.stream.row cimport LISTED, Example, Prediction, View
from streamtree._core.stream.scales cimport (
    GROSS, LEAST_TRUSTED, TRUSTED_COUNT, ColumnScale, count_number, is_far_out, n_shown,
    within_reach,
)
from streamtree._core.stream.signals cimport SignalWatch, heed_signals, new_watch
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.trees.tree cimport Tree

from decimal import Decimal
from numbers import Real

import numpy as np

from streamtree._core.learners.checks import check_regressor
from streamtree._core.store.checks import check_same_kind
from streamtree._core.stream.checks import check_intake
from streamtree._core.stream.scaling import SCALE


# sums of weights and targets this large, and their squares, stay finite; batches know them, too
cdef double MOST_WEIGHT = 1e100, MOST_TARGET = 1e100
MAX_WEIGHT, MAX_TARGET = MOST_WEIGHT, MOST_TARGET

# A target so many deviations out among the first ones spoils a tree. To start again costs those few
# rows; what such a target has left in the step sizes of a soft tree costs for thousands.
cdef double SPOILS = 7.0

cdef enum:
    # of the bound on all memory: one part of so many for names, and one for labels
    NAMES_PART = 4
    LABELS_PART = 8
    # of a batch of fewer rows, other threads are not worth the time that it takes to start them
    FEW_ROWS = 64
    # rows that a thread predicts at a time
    BLOCK = 64


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


cdef Tree new_tree(make_tree):
    """A tree that begins amid learning, with as little memory of its own as the first one had."""
    cdef Ledger* before = count_for_nobody()
    try:
        return make_tree()
    finally:
        end_counting(before)


cdef class Learner:
    """What learners of labels and of numbers share.

    `max_bytes` bounds all that was learned; None: nothing does. A part of it is for names, another
    for labels if there are any, the rest for the tree. So whether there is room for a name does not
    depend on how large the tree is when its batch begins.

    `n_jobs` threads, that of the call among them, learn or predict the rows of a batch of arrays.
    What comes of it are the very bits of one thread. Only ensembles have something to share out
    when they learn; rows to predict are shared out whatever the tree.

    `nominal` are the names of columns whose numbers are categories.
    """

    def __cinit__(self, Tree tree, *, max_bytes=None, frozenset nominal=frozenset(),
                  int32_t n_jobs=1, **kwargs):
        cdef Ledger* before
        self.tree = tree
        self.budget = Budget()
        self._max_bytes = max_bytes
        self.n_jobs = n_jobs
        self._nominal = nominal
        before = begin_counting(self.budget)
        try:
            self._bind(Intake(tree.views, tree.scratches(), nominal))
        finally:
            end_counting(before)

    cdef int _bind(self, Intake intake) except -1:
        self.intake = intake
        self._set_bound()
        return self.tree.bind(intake.context)

    cdef object _tree_bytes(self):
        """What the tree may take; None: there is no bound."""
        cdef object most = self._max_bytes
        return None if most is None else most - most // NAMES_PART - self._bytes_for_labels()

    cdef object _bytes_for_labels(self):
        """What labels may take, where there is a bound."""
        return self._max_bytes // LABELS_PART if isinstance(self, Classifier) else 0

    cdef int _set_bound(self) except -1:
        cdef object most = self._max_bytes, left = self._tree_bytes()
        self.budget.limit(left)
        self.tree.bound(left)
        if most is None:
            return self.intake.bound(None, None, None, None)
        # in the tree, labels may take half
        self.intake.bound(
            most // NAMES_PART, self._bytes_for_labels(),
            left // 2 // max(self.tree.label_bytes, 1), self.tree.labels_at_once(left),
        )
        return 0

    cdef int begin_learning(self) except -1:
        """Call with the GIL held; what is learned until `end_learning` counts as the model's."""
        self.intake.lock.begin_learning()
        self._before = begin_counting(self.budget)
        return 0

    cdef void end_learning(self) noexcept:
        end_counting(self._before)
        # a batch that failed may have brought names of rows that were not learned
        self.intake.context.n_columns = self.intake.scaler.size
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
        return self._bytes

    @property
    def learned_bytes(self):
        """What the tree takes: that depends on what was learned alone, not on how rows came."""
        return self.budget.used() + self.tree.learned_bytes()

    # ----------------------------------------------------------------------------- a row

    cdef int look(self, Workspace workspace, const Example* example, bint zeros_implied,
                  Prediction* out) except -1 nogil:
        """Learn the row that was read; write to `out`, unless NULL, what it was predicted to be.

        What is learned may look different from what was to be predicted: columns may be new, or
        their scales others once the row was counted, and the label may be new. Only then are
        there two walks through the tree.
        """
        cdef bint is_new = example.label >= self.intake.context.n_labels
        cdef bint is_there = self.intake.is_made(workspace)
        cdef Prediction unasked
        if example.label < 0 and example.targets == NULL:
            return self.look_only(workspace, zeros_implied, out)
        if is_new:
            self.tree.catch_up()
            workspace.reserve_answers(example.label + 1)
        if out == NULL and self.tree.is_judged:
            unasked.shares = NULL
            out = &unasked
        if out != NULL and self.intake.has_news(workspace):
            self.intake.make_known(workspace)
            self.foretell_before(self.intake.spare, example, out)
            out = NULL
        if out != NULL:
            self.intake.make(workspace)
            is_there = True
        elif not is_there:
            workspace.raw.swap(workspace.incoming)
        if self.intake.count(workspace, zeros_implied):
            if out != NULL:
                self.foretell_before(workspace, example, out)
                out = NULL
            is_there = False
        if is_new:
            if out != NULL:
                self.foretell_before(workspace, example, out)
                out = NULL
        self.intake.make_counted(workspace, is_there)
        if is_new:
            self.intake.context.n_labels = example.label + 1
        return self.tree.learn(&workspace.row, example, workspace.scratch, out)

    cdef int look_only(self, Workspace workspace, bint zeros_implied,
                       Prediction* out) except -1 nogil:
        """As `look`, of a row whose label has to come again: it counts for the scales only."""
        cdef bint is_there = self.intake.is_made(workspace)
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
        if self.intake.count(workspace, zeros_implied):
            is_there = False
        self.intake.make_counted(workspace, is_there)
        return self.tree.let_wait()

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
        return self.look(workspace, example, zeros_implied, out)

    cdef int foretell(self, Workspace workspace, Prediction* out) noexcept nogil:
        """What the tree says of the row whose views were made."""
        self.tree.predict(&workspace.row, workspace.scratch, out)
        return 0

    cdef int answer(self, Workspace workspace, Prediction* out) noexcept nogil:
        """What the learner says of it."""
        return self.foretell(workspace, out)

    cdef void settle(self, Prediction* out) noexcept nogil:
        """Turn what the tree says into what the learner says."""

    cdef int settle_explanation(self, Explanation out) except -1:
        """Add what the learner does to what its tree says; the explanation of that comes next."""
        return 0

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
        cdef Workspace own = self.intake.own
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
            self.intake.release_own()
        return 0

    cdef int end_batch(self, RowSource source) except -1:
        """What is done after the last row that was learned, and after errors as well."""
        try:
            if source is not None:
                self.intake.end_batch(source, self.rows_learned)
        finally:
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
        """The one loop over rows to predict, between `begin_predicting` and its end."""
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

    cdef int forget(self, Tree tree) except -1:
        """Be as before any row, with a new tree."""
        self.intake.forget()
        self.replace_tree(tree)
        return 0

    cdef int replace_tree(self, Tree tree) except -1:
        """Learn with another tree from now on."""
        # what threads have put off is about the tree that goes
        self.tree.catch_up()
        tree.bound(self._tree_bytes())
        tree.bind(self.intake.context)
        self.tree = tree
        self._forget_answers()
        return 0

    cdef int _forget_answers(self) except -1:
        """What was said of the row at hand would be said otherwise now."""
        self.intake.own.forget_answers()
        if self.intake.spare is not None:
            self.intake.spare.forget_answers()
        return 0

    cdef int grow_rows(self, rows, list names, list first_rows, Examples examples) except -1:
        """Keep all rows, so that the scales are those of the whole set, and grow the tree."""
        cdef Workspace own = self.intake.own
        cdef RowSource source
        cdef KeptRows raw = KeptRows(), kept = KeptRows()
        cdef Py_ssize_t i
        cdef Example example
        cdef View view
        cdef int32_t n_targets = self.intake.context.n_targets
        cdef SignalWatch watch = new_watch()
        source = self._new(rows, names, first_rows)
        for i in range(source.n_rows):
            heed_signals(&watch)
            example = examples.of(i)
            self.intake.take(source, i, True, own)
            own.raw.swap(own.incoming)
            self.intake.count(own, source.is_sparse)
            self.intake.make_counted(own, False)
            self.intake.context.n_labels = max(self.intake.context.n_labels, example.label + 1)
            view = own.raw.view(own.raw.n)
            raw.add(&view, &example, n_targets)
        for i in range(raw.n):
            heed_signals(&watch)
            example = raw.example(i)
            raw.view(i, &view)
            own.incoming.take(&view)
            self.intake.make(own)
            kept.add(
                &own.row.listed if self.tree.views & LISTED else &own.row.standard, &example,
                n_targets,
            )
        self.tree.grow(kept)
        return self.intake.end_batch(source, source.n_rows)

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

    def configure(self, *, max_bytes=None, **settings):
        """Set what may change while the tree learns, between two calls."""
        self.intake.lock.begin_learning()
        try:
            self.tree.configure(**settings)
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
        self.intake.lock.begin_predicting()
        try:
            return {
                **self._own_state(),
                "features": list(self.intake.features.names),
                "scaler": self.intake.scaler.snapshot(),
                "tree": self.tree.outline() if is_outline else self.tree.state(),
            }
        finally:
            self.intake.lock.end_predicting()

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
        finally:
            end_counting(before)
            self._set_bound()

    def check_state(self, state):
        """Raise StateError unless `restore` can trust a state, which may be anybody's."""
        check_same_kind(state, self.snapshot())
        check_intake(state)
        self.tree.check_state(state["tree"], len(state["features"]), self._check_outputs(state))

    def _check_outputs(self, state):
        """Check what is said of labels or targets; returns how many there are."""
        raise NotImplementedError


cdef class Classifier(Learner):
    """A learner of class labels."""

    @property
    def labels(self):
        """The index of the labels."""
        return self.intake.labels

    cdef int foretell(self, Workspace workspace, Prediction* out) noexcept nogil:
        out.label = -1
        if self.intake.context.n_labels:
            self.tree.predict(&workspace.row, workspace.scratch, out)
        return 0

    def check_labels(self, labels):
        """Raise if normalized labels would be more than the tree can tell apart."""
        if not self.tree.max_labels:
            return
        known = set(self.intake.labels.labels)
        for label in labels:
            known.add(label)
            if len(known) > self.tree.max_labels:
                self.tree.refuse_label(label)

    cdef int learn_dict(self, x, y, w) except -1:
        """Learn one dict; every error is raised before anything changes."""
        cdef Intake intake = self.intake
        cdef Example example
        self.begin_learning()
        try:
            if not is_plain(y):
                y = intake.labels.normalized(y)
            if self.tree.max_labels:
                self.check_labels((y,))
            example.weight = as_weight(w)
            intake.read_new(x)
            if example.weight == 0.0:
                return 0
            intake.labels.begin()
            example.label = intake.labels.add(y, True)
            example.targets = NULL
            if example.label >= 0:
                self.tree.expect(example.label)
            if intake.has_new_names():
                intake.commit(intake.own.incoming)
            if example.label >= 0:
                self.tree.approach(example.label)
            return self.learn(intake.own, &example, False, NULL)
        except BaseException:
            self.take_back()
            raise
        finally:
            self.end_learning()

    cdef Examples _numbered(self, list labels, weights, bint may_wait=True):
        """Number the labels of a batch; one that is new and has no weight is not learned."""
        cdef Py_ssize_t i
        numbers = np.empty(len(labels), dtype=np.int32)
        cdef int32_t[::1] view = numbers
        for i in range(view.shape[0]):
            if weights is None or weights[i] > 0.0:
                view[i] = self.intake.labels.add(labels[i], may_wait)
            else:
                view[i] = self.intake.labels.find(labels[i])
        return Examples(numbers, None, weights)

    def learn_many(self, rows, list names, list first_rows, list labels, weights, says=None):
        """Learn the rows of a RowSource, or dicts; every error is raised before anything changes.

        `labels` are normalized, one a row; `weights` an array, or None for 1 each; `first_rows`
        counts rows with weight. `says` is None, "labels" or "shares": then it returns what was
        predicted of every row just before it was learned, as an int32 array, -1 before any
        learning, or as a float64 array of shape (n_rows, n_labels).
        """
        cdef Examples examples
        cdef RowSource source = None
        numbers = shares = None
        self.begin_batch()
        try:
            self.intake.labels.begin()
            if self.tree.max_labels:
                self.check_labels(
                    labels if weights is None else
                    [label for label, w in zip(labels, weights) if w > 0.0]
                )
            examples = self._numbered(labels, weights)
            source = self._new(rows, names, first_rows)
            if says == "labels":
                numbers = np.empty(source.n_rows, dtype=np.int32)
            elif says == "shares":
                shares = np.zeros((source.n_rows, self.intake.labels.size))
            self.learn_rows(
                source, examples, numbers, shares if shares is not None and shares.size else None
            )
        except BaseException as error:
            # those that no row has been learned of yet
            self.intake.labels.undo()
            self._numbered(
                labels[:self.rows_learned],
                weights if weights is None else weights[:self.rows_learned],
            )
            if self.intake.labels.size < self.intake.context.n_labels:
                # the row at which memory ran out: the tree has met its label
                self._numbered(labels[self.rows_learned:self.rows_learned + 1], None)
            error.rows_learned = self.rows_learned
            raise
        finally:
            self.end_batch(source)
        return numbers if says == "labels" else shares

    def grow(self, rows, list names, list first_rows, list labels, weights, make_tree):
        """Grow the tree from a whole data set: a RowSource, or dicts."""
        self.begin_growing()
        try:
            self.check_labels(labels)
            try:
                self.intake.labels.begin()
                self.grow_rows(rows, names, first_rows, self._numbered(labels, weights, False))
            except BaseException:
                self.intake.labels.undo()
                self.forget(new_tree(make_tree))
                raise
        finally:
            self.end_learning()

    cdef object predict_dict(self, x):
        """The most likely label, None before any learning."""
        cdef Workspace workspace
        cdef Prediction said
        said.shares = NULL
        self.intake.lock.begin_predicting()
        try:
            workspace = self.intake.read_known(x)
            self.answer(workspace, &said)
        finally:
            self.intake.lock.end_predicting()
        return None if said.label < 0 else self.intake.labels.labels[said.label]

    def predict_proba_one(self, x):
        """Label -> probability for every label ever learned."""
        cdef Workspace workspace
        cdef Prediction said
        cdef double[::1] shares
        self.intake.lock.begin_predicting()
        try:
            # with room for one at least, so that there is an address
            out = np.zeros(self.intake.labels.size + 1)
            shares = out
            said.shares = &shares[0]
            workspace = self.intake.read_known(x)
            self.answer(workspace, &said)
        finally:
            self.intake.lock.end_predicting()
        return dict(zip(self.intake.labels.labels, out.tolist()))

    def predict_topk_one(self, x, Py_ssize_t count):
        """The `count` most likely (label, probability) pairs; at a tie the label learned first."""
        cdef Workspace workspace
        self.intake.lock.begin_predicting()
        try:
            workspace = self.intake.read_known(x)
            top = []
            if self.intake.labels.size:
                top = self.tree.top_shares(&workspace.row, workspace.scratch, count)
        finally:
            self.intake.lock.end_predicting()
        if top is not None:
            return [(self.intake.labels.labels[label], share) for label, share in top]
        shares = self.predict_proba_one(x)
        return sorted(shares.items(), key=lambda item: -item[1])[:count]

    def predict_many(self, rows, list names, says="labels"):
        """The class number of every row, -1 before any learning, or the probabilities of all."""
        cdef RowSource source = self._known(rows)
        self.intake.lock.begin_predicting()
        try:
            if says == "labels":
                numbers = np.empty(source.n_rows, dtype=np.int32)
                self.predict_rows(source, names, numbers, None)
                return numbers
            shares = np.zeros((source.n_rows, self.intake.labels.size))
            self.predict_rows(source, names, None, shares if shares.size else None)
            return shares
        finally:
            self.intake.lock.end_predicting()

    def examine(self, x, y):
        """What a step on an example would go by, for tests."""
        label = self.intake.labels.labels.index(y)
        return self.examine_row(x, Examples(np.array([label], dtype=np.int32), None, None))

    def _own_state(self):
        return self.intake.labels.state()

    def _take_own_state(self, state):
        self.intake.labels.take_state(state)

    def _check_outputs(self, state):
        return len(state["labels"])


cdef double as_target(object y, object name) except? -1.0:
    """A target as a finite number; `name` is what to call it in an error."""
    cdef double number
    if type(y) is not float and (
        not isinstance(y, (Real, np.bool_, Decimal)) or isinstance(y, np.timedelta64)
    ):
        raise TypeError(f"{name} must be a number, got {type(y).__name__}")
    number = <double> y if type(y) is float else float_of(y, name)
    if not -MOST_TARGET <= number <= MOST_TARGET:
        raise ValueError(f"{name} must be from {-MAX_TARGET:g} to {MAX_TARGET:g}, got {number!r}")
    return number


cdef Shrinkage _blank
memset(&_blank, 0, sizeof(Shrinkage))
SHRINKAGE = np.asarray(<Shrinkage[:1]> &_blank).dtype


cdef class Regressor(Learner):
    """A learner of one number per example, or of several, that go by names.

    `targets` is None for a single number; else the names, empty until the first example or
    batch fixes them. With `shrinks` the tree is followed only as far as that has paid.

    Unless `is_robust` is False a target far out is learned as one at the edge. One of the first few
    may prove to have been far out later: then `make_tree()`, unless None, makes a tree that starts
    again.
    """

    def __cinit__(self, Tree tree, *, bint several=False, bint shrinks=True, bint is_robust=True,
                  make_tree=None, **kwargs):
        self.targets = [] if several else None
        self.shrinks = shrinks
        self.is_robust = is_robust
        self._make_tree = make_tree
        self._settings = {}
        self.make_room(0 if several else 1)

    cdef int make_room(self, int32_t n_targets) except -1:
        self._learned = np.zeros((n_targets, 2))
        self._within = np.zeros(n_targets)
        self._set_scales(np.zeros(n_targets, dtype=SCALE))
        self._target = np.zeros(n_targets)
        self._predicted = np.zeros(n_targets)
        self._shrinkage = np.zeros(n_targets, dtype=SHRINKAGE)
        self.intake.context.n_targets = n_targets
        return 0

    cdef int _set_scales(self, scales) except -1:
        self._scales = scales
        if self.is_robust and len(scales):
            self.intake.context.target_scales = &self._scales[0]
        return 0

    def configure(self, *, max_bytes=None, shrinks=None, **settings):
        """Set what may change while the tree learns; None: `shrinks` stays as it is."""
        Learner.configure(self, max_bytes=max_bytes, **settings)
        self._settings = settings
        if shrinks is not None:
            self.shrinks = shrinks

    cdef int learn(self, Workspace workspace, const Example* example, bint zeros_implied,
                   Prediction* out) except -1 nogil:
        cdef Example within = example[0]
        cdef bint is_spoiled = False
        if self.is_robust:
            is_spoiled = self._bound(example.targets)
            within.targets = &self._within[0]
        self._learn_within(workspace, &within, zeros_implied, out)
        if is_spoiled and self._make_tree is not None:
            with gil:
                self._start_again()
        return 0

    cdef bint _bound(self, const double* targets) noexcept nogil:
        """Count targets into their scales, write to `_within` what is to be learned.

        Returns whether something that was learned before there was a scale is far out by it.
        """
        cdef ColumnScale* scale
        cdef double value, reach
        cdef int32_t i
        cdef bint is_spoiled = False
        for i in range(self.intake.context.n_targets):
            scale = &self._scales[i]
            value = targets[i]
            if n_shown(scale) >= LEAST_TRUSTED:
                value = within_reach(scale, value)
            self._within[i] = value
            count_number(scale, targets[i])
            if scale.n_units or scale.counted > TRUSTED_COUNT:
                continue
            if scale.counted == 1:
                self._learned[i, 0] = self._learned[i, 1] = value
            self._learned[i, 0] = min(self._learned[i, 0], value)
            self._learned[i, 1] = max(self._learned[i, 1], value)
            reach = SPOILS if scale.counted == TRUSTED_COUNT else GROSS
            is_spoiled |= is_far_out(scale, self._learned[i, 0], reach)
            is_spoiled |= is_far_out(scale, self._learned[i, 1], reach)
        return is_spoiled

    cdef int _start_again(self) except -1:
        """Learn with another tree from now on."""
        cdef int32_t i
        cdef Tree tree = new_tree(self._make_tree)
        shrinkage = np.zeros(self.intake.context.n_targets, dtype=SHRINKAGE)
        if self._settings:
            tree.configure(**self._settings)
        self.replace_tree(tree)
        self._shrinkage = shrinkage
        for i in range(self.intake.context.n_targets):
            self._learned[i, 0] = self._learned[i, 1] = self._scales[i].center
        return 0

    cdef int _learn_within(self, Workspace workspace, const Example* example, bint zeros_implied,
                           Prediction* out) except -1 nogil:
        cdef int32_t i
        cdef Prediction said
        cdef Shrinkage* state
        if not self.shrinks:
            return self.look(workspace, example, zeros_implied, out)
        said.label = -1
        said.shares = out.shares if out != NULL else &self._predicted[0]
        if out == NULL and not is_to_judge(&self._shrinkage[0]):
            self.look(workspace, example, zeros_implied, NULL)
        else:
            self.look(workspace, example, zeros_implied, &said)
        for i in range(self.intake.context.n_targets):
            state = &self._shrinkage[i]
            self._judge(state, &said.shares[i], example.targets[i], example.weight, out != NULL)
        return 0

    cdef void _judge(self, Shrinkage* state, double* said, double target, double weight,
                     bint answers) noexcept nogil:
        """See how far a prediction could be trusted; turn it into an answer if one is wanted."""
        cdef double predicted = said[0]
        if answers:
            said[0] = shrunken(state, predicted)
        if is_to_judge(state):
            judge(state, predicted, target, weight)
        admit(state, target, weight)

    cdef int answer(self, Workspace workspace, Prediction* out) noexcept nogil:
        self.tree.predict(&workspace.row, workspace.scratch, out)
        self.settle(out)
        return 0

    cdef void settle(self, Prediction* out) noexcept nogil:
        cdef int32_t i
        for i in range(self.intake.context.n_targets if self.shrinks else 0):
            out.shares[i] = shrunken(&self._shrinkage[i], out.shares[i])

    cdef int settle_explanation(self, Explanation out) except -1:
        cdef const Shrinkage* state = &self._shrinkage[out.output]
        if self.shrinks:
            out.add_bias(state.share * state.mean)
            out.weight *= 1.0 - state.share
        return 0

    cdef int name_targets(self, list names) except -1:
        """Fix the names of several targets."""
        self.make_room(<int32_t> len(names))
        self.targets = names
        return 0

    def check_names(self, names):
        """Raise unless the names are those of the targets, in any order."""
        if not names:
            raise ValueError("y must have at least one target")
        if self.targets and set(names) != set(self.targets):
            raise ValueError(f"y must have the targets {self.targets!r}, got {list(names)!r}")

    cdef list check_target(self, object y):
        """Read y into `_target`; raises before anything changes.

        Returns the names of the targets, None for a single one. y may be another dict later: the
        code of a value might change it.
        """
        cdef Py_ssize_t i
        if self.targets is None:
            self._target[0] = as_target(y, "y")
            return None
        y = as_dict(y, "y must be a dict of targets")
        names = list(y)
        self.check_names(names)
        names = self.targets or names
        values = [as_target(y[name], f"target {name!r}") for name in names]
        if self.targets:
            for i in range(self._target.shape[0]):
                self._target[i] = values[i]
        else:
            self._target = np.array(values, dtype=np.float64)
        return names

    cdef int learn_dict(self, x, y, w) except -1:
        """Learn one dict; every error is raised before anything changes."""
        cdef Intake intake = self.intake
        cdef double[::1] target
        cdef Example example
        self.begin_learning()
        try:
            names = self.check_target(y)
            example.weight = as_weight(w)
            intake.read_new(x)
            if example.weight == 0.0:
                return 0
            intake.commit(intake.own.incoming)
            target = self._target
            if self.targets is not None and not self.targets:
                self.name_targets(names)
            example.label = -1
            example.targets = &target[0]
            return self.learn(intake.own, &example, False, NULL)
        except BaseException:
            self.take_back()
            raise
        finally:
            self.end_learning()

    def learn_many(self, rows, list names, list first_rows, targets, y, weights, says=None):
        """Learn the rows of a RowSource, or dicts; every error is raised before anything changes.

        `y` has the shape (n_rows, n_targets), its columns those of the list `targets` (None for
        a single target); `weights` an array, or None for 1 each; `first_rows` counts rows with
        weight. With `says` it returns what was predicted of every row just before it was learned,
        as a float64 array of shape (n_rows, n_targets).
        """
        cdef RowSource source = None
        predicted = None
        self.begin_batch()
        try:
            if targets is not None:
                self.check_names(targets)
                if self.targets:
                    # by hash: numpy numbers compare with tuples value by value
                    places = {name: i for i, name in enumerate(targets)}
                    y = np.ascontiguousarray(y[:, [places[name] for name in self.targets]])
            source = self._new(rows, names, first_rows)
            if source.n_rows == 0:
                return np.empty((0, self.intake.context.n_targets))
            if targets is not None and not self.targets and (
                weights is None or np.any(weights)
            ):
                self.name_targets(list(targets))
            if says is not None:
                predicted = np.empty((source.n_rows, self.intake.context.n_targets))
            self.learn_rows(
                source, Examples(None, y, weights), None,
                predicted if predicted is not None and predicted.size else None,
            )
        except BaseException as error:
            if self.targets and not self.intake.scaler.rows:
                self.name_targets([])
            error.rows_learned = self.rows_learned
            raise
        finally:
            self.end_batch(source)
        return predicted

    def grow(self, rows, list names, list first_rows, y, weights, make_tree):
        """Grow the tree from a whole data set: a RowSource, or dicts; y has one column."""
        self.begin_growing()
        try:
            self.grow_rows(rows, names, first_rows, Examples(None, y, weights))
        except BaseException:
            self.forget(new_tree(make_tree))
            raise
        finally:
            self.end_learning()

    cdef object predict_dict(self, x):
        """The predicted number, or a dict of them by target."""
        cdef Workspace workspace
        cdef double number = 0.0
        cdef double[::1] several
        cdef Prediction said
        self.intake.lock.begin_predicting()
        try:
            if self.targets is None:
                said.shares = &number
            else:
                predicted = np.empty(self.intake.context.n_targets + 1)
                several = predicted
                said.shares = &several[0]
            workspace = self.intake.read_known(x)
            self.answer(workspace, &said)
        finally:
            self.intake.lock.end_predicting()
        return number if self.targets is None else dict(zip(self.targets, predicted.tolist()))

    def predict_many(self, rows, list names):
        """The predictions as a float64 array of shape (n_rows, n_targets)."""
        cdef RowSource source = self._known(rows)
        self.intake.lock.begin_predicting()
        try:
            predicted = np.empty((source.n_rows, self.intake.context.n_targets))
            if predicted.size:
                self.predict_rows(source, names, None, predicted)
            return predicted
        finally:
            self.intake.lock.end_predicting()

    def sample_one(self, x, Py_ssize_t least):
        """(number, weight) of learned examples that are most like this one, `least` or more."""
        cdef Workspace workspace
        with self.intake.lock.reading():
            workspace = self.intake.read_known(x)
            return self.tree.sample(&workspace.row, workspace.scratch, least)

    def examine(self, x, y):
        """What a step on an example would go by, for tests."""
        targets = np.array(y, dtype=np.float64).reshape(1, -1)
        return self.examine_row(x, Examples(None, targets, None))

    def _own_state(self):
        cdef Shrinkage[::1] view
        cdef ColumnScale[::1] scales_view
        shrinkage = np.zeros(self.intake.context.n_targets, dtype=SHRINKAGE)
        view = shrinkage
        view[:] = self._shrinkage
        scales = np.zeros(self.intake.context.n_targets, dtype=SCALE)
        scales_view = scales
        scales_view[:] = self._scales
        return {
            "targets": None if self.targets is None else list(self.targets),
            "shrinkage": shrinkage,
            "target_scales": scales,
            "learned_range": np.array(self._learned),
        }

    def _take_own_state(self, state):
        if self.targets is None:
            self.make_room(1)
        else:
            self.name_targets(state["targets"])
        self._shrinkage = state["shrinkage"].copy()
        self._learned = state["learned_range"].copy()
        self._set_scales(state["target_scales"].copy())

    def _check_outputs(self, state):
        return check_regressor(state)
