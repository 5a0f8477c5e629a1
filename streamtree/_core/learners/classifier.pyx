"""Learners of class labels."""

from libc.stdint cimport int32_t

from streamtree._core.learners.learner cimport Examples, Learner, as_weight
from streamtree._core.stream.intake cimport Intake, Workspace
from streamtree._core.stream.labels cimport is_plain
from streamtree._core.stream.row cimport Example, Prediction
from streamtree._core.stream.sources cimport RowSource

import numpy as np


cdef class Classifier(Learner):
    """A learner of class labels."""

    has_labels = True

    @property
    def labels(self):
        """The index of the labels."""
        return self.intake.labels

    cdef int foretell(self, Workspace workspace, Prediction* out) noexcept nogil:
        out.label = -1
        if self.intake.context.n_labels:
            self.tree.predict(&workspace.row, workspace.scratch, out)
        return 0

    cdef void settle(self, Prediction* out) noexcept nogil:
        cdef int32_t i
        # shares are sums: rounding may make one more than all
        for i in range(self.intake.context.n_labels if out.shares != NULL else 0):
            out.shares[i] = min(out.shares[i], 1.0)

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
            if intake.has_new_names():
                intake.commit(intake.own.incoming)
            # what fails before does not count among the labels
            intake.labels.begin()
            example.label = intake.labels.add(y, True)
            example.targets = NULL
            if example.label >= 0:
                self.tree.expect(example.label)
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

    def grow(self, rows, list names, list first_rows, list labels, weights):
        """Grow the tree from a whole data set: a RowSource, or dicts."""
        self.begin_growing()
        try:
            self.check_labels(labels)
            try:
                self.intake.labels.begin()
                self.grow_rows(rows, names, first_rows, self._numbered(labels, weights, False))
            except BaseException:
                self.intake.labels.undo()
                self.forget()
                raise
        finally:
            self.end_batch(None)

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

    cdef object _shares_of(self, x, int32_t* label):
        """The probability of every label, as an array; `label` becomes the most likely one."""
        cdef Prediction said
        cdef double[::1] shares
        # with room for one at least, so that there is an address
        out = np.zeros(self.intake.labels.size + 1)
        shares = out
        said.shares = &shares[0]
        self.answer(self.intake.read_known(x), &said)
        label[0] = said.label
        return out[:self.intake.labels.size]

    def predict_proba_one(self, x):
        """Label -> probability for every label ever learned."""
        cdef int32_t likeliest
        self.intake.lock.begin_predicting()
        try:
            shares = self._shares_of(x, &likeliest)
        finally:
            self.intake.lock.end_predicting()
        return dict(zip(self.intake.labels.labels, shares.tolist()))

    def predict_topk_one(self, x, Py_ssize_t count):
        """The `count` most likely (label, probability) pairs.

        At a tie the label that is predicted is the first, then the one that was learned first.
        """
        cdef Workspace workspace
        cdef int32_t likeliest
        self.intake.lock.begin_predicting()
        try:
            workspace = self.intake.read_known(x)
            top = []
            if self.intake.labels.size:
                top = self.tree.top_shares(&workspace.row, workspace.scratch, count)
            if top is None:
                shares = self._shares_of(x, &likeliest)
                top = sorted(
                    enumerate(shares.tolist()), key=lambda item: (-item[1], item[0] != likeliest)
                )[:count]
            return [(self.intake.labels.labels[label], share) for label, share in top]
        finally:
            self.intake.lock.end_predicting()

    def predict_many(self, rows, list names, says="labels"):
        """The class number of every row, -1 before any learning, or the probabilities of all."""
        cdef RowSource source = self._known(rows)
        with self.intake.lock.reading():
            if says == "labels":
                numbers = np.empty(source.n_rows, dtype=np.int32)
                self.predict_rows(source, names, numbers, None)
                return numbers
            shares = np.zeros((source.n_rows, self.intake.labels.size))
            self.predict_rows(source, names, None, shares if shares.size else None)
            return shares

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
