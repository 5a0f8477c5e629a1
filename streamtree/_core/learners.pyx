"""What all compiled learners share: from an example to a row, and the loops over rows.

A learner of its own implements `learn_row` and the `predict_*row` methods; dicts and arrays
alike end there, so that a batch equals a loop bit for bit.
"""

from libc.math cimport HUGE_VAL
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.features cimport FeatureIndex, RowBuffer
from streamtree._core.labels cimport LabelIndex
from streamtree._core.rows cimport RowSource
from streamtree._core.shrinkage cimport Shrinkage, admit, is_to_judge, judge, shrunken
from streamtree._core.types cimport Row

from collections.abc import Mapping
from numbers import Real

import numpy as np


# sums of weights and targets this large, and their squares, stay finite
MAX_WEIGHT = 1e100
MAX_TARGET = 1e100


cdef dict as_dict(object x, str rule="x must be a dict of features"):
    if type(x) is dict:
        return x
    if isinstance(x, Mapping):
        return dict(x)
    raise TypeError(f"{rule}, got {type(x).__name__}")


cdef class Learner:
    """Features, scales, scratch rows, and the rule of who may be inside at the same time."""

    def __cinit__(self, *args, **kwargs):
        self.features = FeatureIndex()
        self.raw = RowBuffer()
        self.scaled = RowBuffer()

    cdef int begin_learning(self) except -1:
        """Call with the GIL held; set `is_learning` back to False in the end."""
        if self.is_learning or self.n_predicting:
            raise RuntimeError(
                "the model is in use by another call: learning needs it alone, "
                "predictions may run side by side with each other only"
            )
        self.is_learning = True
        return 0

    cdef int begin_predicting(self) except -1:
        """Call with the GIL held; count `n_predicting` down in the end."""
        if self.is_learning:
            raise RuntimeError("the model is learning in another call: it cannot predict now")
        self.n_predicting += 1
        return 0

    cdef RowBuffer read_known(self, object x):
        """The scaled row of a dict, without the features that were never learned."""
        cdef RowBuffer raw = self.raw, scaled = self.scaled
        cdef bint nested = self._is_reading
        if nested:
            # a feature name's own code let another prediction in: it needs rows of its own
            raw, scaled = RowBuffer(), RowBuffer()
        self._is_reading = True
        try:
            self.features.read(as_dict(x), raw, False)
        finally:
            self._is_reading = nested
        self.scaler.apply(raw, scaled)
        return scaled

    cdef int check_example(self, object x, double w) except -1:
        """Read a dict into `raw`; raises before anything changes if it cannot be learned."""
        if not 0.0 <= w <= MAX_WEIGHT:
            raise ValueError(f"w must be from 0 to {MAX_WEIGHT:g}, got {w!r}")
        self.features.read(as_dict(x), self.raw, True)
        return 0

    cdef int commit_example(self) except -1:
        """Make columns for the new features of `raw`: all of them or, on an error, none."""
        self.features.commit(self.raw)
        if self.scaler.size < len(self.features.names):
            self.scaler.add_columns(<int32_t> len(self.features.names), self.scaler.rows)
        return 0

    cdef int end_batch(self, RowSource source, columns) except -1:
        """A sparse batch implies zeros only in the columns that it has."""
        cdef int32_t position
        if source.is_sparse:
            mentioned = set(columns.tolist())
            for position in range(self.scaler.size):
                if position not in mentioned:
                    self.scaler.not_implied(position, source.n_rows)
        return 0

    def check_one(self, x):
        """Raise if `learn_one` would refuse these features."""
        self.begin_predicting()
        try:
            self.read_known(x)
        finally:
            self.n_predicting -= 1

    cdef list path_of(self, Row row):
        """The nodes that a row passes, each with what its test gives, None at the last."""
        raise NotImplementedError

    cdef object node_depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        raise NotImplementedError

    cdef dict state(self):
        """What was learned, as arrays, numbers and lists; a learner adds what is its own."""
        return {"features": list(self.features.names), "scaler": self.scaler.snapshot()}

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; a learner extends it."""
        self.features = FeatureIndex(state["features"])
        self.scaler.restore(state["scaler"])
        return 0

    def path(self, x):
        """The nodes that an example passes, each with what its test gives, None at the last."""
        self.begin_predicting()
        try:
            return self.path_of(self.read_known(x).row())
        finally:
            self.n_predicting -= 1

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        self.begin_predicting()
        try:
            return self.node_depths()
        finally:
            self.n_predicting -= 1

    def snapshot(self):
        """The whole state as arrays, numbers and lists; the same history gives the same one."""
        self.begin_predicting()
        try:
            return self.state()
        finally:
            self.n_predicting -= 1

    def restore(self, state):
        """Take over what `snapshot` gave; the core must be new, with the same parameters."""
        self.take_state(state)

    def known_columns(self, names):
        """The column of every name as an int32 array, -1 where the model knows none."""
        columns = np.empty(len(names), dtype=np.int32)
        cdef int32_t[::1] view = columns
        cdef Py_ssize_t i
        for i, name in enumerate(names):
            view[i] = self.features.find(name)
        return columns

    def learned_columns(self, names, first_rows):
        """As `known_columns`, after adding the new names.

        `first_rows[i]` is the row of the batch in which column i first has a value, -1 if in
        none: the order of births must be that of a loop over the rows.
        """
        cdef int32_t column
        cdef Py_ssize_t size = len(self.features.names)
        for name in names:
            self.features.refuse_category(name)
        try:
            new = [
                (first_rows[i], i) for i, name in enumerate(names)
                if first_rows[i] >= 0 and self.features.find(name) < 0
            ]
            for _, i in sorted(new):
                self.features.add(names[i])
        except BaseException:
            self.features.truncate(size)
            raise
        for first_row, _ in sorted(new):
            column = self.scaler.size
            self.scaler.add_columns(column + 1, self.scaler.rows + <Py_ssize_t> first_row)
        return self.known_columns(names)


cdef class ClassifierCore(Learner):
    """A learner of class labels."""

    def __cinit__(self, *args, **kwargs):
        self.labels = LabelIndex()

    cdef void expect(self, int32_t label) noexcept nogil:
        """An example of this class is to come: ask for the memory that it will need."""

    cdef void approach(self, int32_t label) noexcept nogil:
        """It is the next one: what `expect` asked for is there, and says what else to ask for."""

    cdef dict state(self):
        return {"labels": list(self.labels.labels), **Learner.state(self)}

    cdef int take_state(self, dict state) except -1:
        self.labels = LabelIndex(state["labels"])
        return Learner.take_state(self, state)

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil:
        raise NotImplementedError

    cdef int32_t predict_row(self, Row row) noexcept nogil:
        """The class of a row, -1 before any learning."""
        return -1

    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil:
        """Write the probability of each of len(labels) classes."""

    def learn_one(self, x, y, double w):
        """Learn one dict; every error is raised before anything changes."""
        cdef int32_t label, n_labels
        self.begin_learning()
        try:
            y = self.labels.normalized(y)
            self.check_example(x, w)
            if w == 0.0:
                return
            n_labels = self.labels.size
            label = self.labels.add(y)
            self.expect(label)
            try:
                self.commit_example()
            except BaseException:
                self.labels.truncate(n_labels)
                raise
            self.approach(label)
            self.scaler.learn(self.raw, False, self.scaled)
            self.learn_row(self.scaled.row(), label, w)
        finally:
            self.is_learning = False

    def learn_many(self, RowSource source, list names, first_rows, list labels,
                   const double[::1] weights):
        """Learn the rows of a validated source, without the GIL.

        `labels` are normalized, one a row; `weights` are positive, or None for 1 each.
        """
        cdef Py_ssize_t i
        cdef int32_t n_labels
        cdef int32_t[::1] numbers
        cdef bint weighted = weights is not None
        self.begin_learning()
        try:
            numbers = np.empty(source.n_rows, dtype=np.int32)
            n_labels = self.labels.size
            try:
                for i in range(source.n_rows):
                    numbers[i] = self.labels.add(labels[i])
                columns = self.learned_columns(names, first_rows)
            except BaseException:
                self.labels.truncate(n_labels)
                raise
            source.bind(columns)
            with nogil:
                for i in range(source.n_rows):
                    self.expect(numbers[min(i + 1, source.n_rows - 1)])
                    self.approach(numbers[i])
                    source.read(i, self.scaler, self.raw)
                    self.scaler.learn(self.raw, source.is_sparse, self.scaled)
                    self.learn_row(
                        self.scaled.row(), numbers[i], weights[i] if weighted else 1.0
                    )
            self.end_batch(source, columns)
        finally:
            self.is_learning = False

    def predict_one(self, x):
        """The most likely label, None before any learning."""
        cdef int32_t label
        self.begin_predicting()
        try:
            label = self.predict_row(self.read_known(x).row())
        finally:
            self.n_predicting -= 1
        return None if label < 0 else self.labels.labels[label]

    def predict_proba_one(self, x):
        """Label -> probability for every label ever learned."""
        cdef double[::1] out
        self.begin_predicting()
        try:
            out = np.empty(len(self.labels.labels))
            if out.shape[0] == 0:
                self.read_known(x)
                return {}
            self.predict_proba_row(self.read_known(x).row(), &out[0])
        finally:
            self.n_predicting -= 1
        return dict(zip(self.labels.labels, np.asarray(out).tolist()))

    def predict_topk_one(self, x, Py_ssize_t count):
        """The `count` most likely (label, probability) pairs; at a tie the label learned first."""
        shares = self.predict_proba_one(x)
        return sorted(shares.items(), key=lambda item: -item[1])[:count]

    def predict_many(self, RowSource source, list names):
        """The class number of every row as an int32 array, -1 before any learning."""
        cdef RowBuffer raw = RowBuffer()
        cdef RowBuffer scaled = RowBuffer()
        cdef Py_ssize_t i
        predicted = np.empty(source.n_rows, dtype=np.int32)
        cdef int32_t[::1] view = predicted
        self.begin_predicting()
        try:
            source.bind(self.known_columns(names))
            with nogil:
                for i in range(source.n_rows):
                    source.read(i, self.scaler, raw)
                    self.scaler.apply(raw, scaled)
                    view[i] = self.predict_row(scaled.row())
        finally:
            self.n_predicting -= 1
        return predicted

    def predict_dicts(self, rows):
        """As `predict_many`, for a list of dicts."""
        cdef int32_t[::1] view
        cdef Py_ssize_t i
        predicted = np.empty(len(rows), dtype=np.int32)
        view = predicted
        self.begin_predicting()
        try:
            for i, x in enumerate(rows):
                view[i] = self.predict_row(self.read_known(x).row())
        finally:
            self.n_predicting -= 1
        return predicted

    def predict_proba_dicts(self, rows):
        """As `predict_proba_many`, for a list of dicts."""
        probabilities = [list(self.predict_proba_one(x).values()) for x in rows]
        return np.array(probabilities).reshape(len(rows), self.labels.size)

    def predict_proba_many(self, RowSource source, list names):
        """The probabilities as a float64 array of shape (n_rows, n_classes)."""
        cdef RowBuffer raw = RowBuffer()
        cdef RowBuffer scaled = RowBuffer()
        cdef Py_ssize_t i
        predicted = np.empty((source.n_rows, len(self.labels.labels)))
        cdef double[:, ::1] view = predicted
        if predicted.size == 0:
            return predicted
        self.begin_predicting()
        try:
            source.bind(self.known_columns(names))
            with nogil:
                for i in range(source.n_rows):
                    source.read(i, self.scaler, raw)
                    self.scaler.apply(raw, scaled)
                    self.predict_proba_row(scaled.row(), &view[i, 0])
        finally:
            self.n_predicting -= 1
        return predicted


cdef double as_target(object y, object name) except? -1.0:
    """A target as a finite number; `name` is what to call it in an error."""
    cdef double number
    if type(y) is not float and not isinstance(y, (Real, np.bool_)):
        raise TypeError(f"{name} must be a number, got {type(y).__name__}")
    try:
        number = float(y)
    except OverflowError:
        number = HUGE_VAL
    if not -MAX_TARGET <= number <= MAX_TARGET:
        raise ValueError(f"{name} must be from {-MAX_TARGET:g} to {MAX_TARGET:g}, got {y!r}")
    return number


cdef object blank_shrinkage(int32_t n_targets):
    cdef Shrinkage blank
    memset(&blank, 0, sizeof(Shrinkage))
    return np.zeros(n_targets, dtype=np.asarray(<Shrinkage[:1]> &blank).dtype)


cdef class RegressorCore(Learner):
    """A learner of one number per example, or of several, that go by names.

    `targets` is None for a single number; else the names, empty until the first example or
    batch fixes them. A learner that sets `shrinks` is followed only as far as that has paid.
    """

    def __cinit__(self, *args, bint several=False, **kwargs):
        self.targets = [] if several else None
        self.make_room(0 if several else 1)

    cdef int make_room(self, int32_t n_targets) except -1:
        self.n_targets = n_targets
        self._target = np.zeros(n_targets)
        self._predicted = np.zeros(n_targets)
        self._shrinkage = blank_shrinkage(n_targets)
        return 0

    cdef dict state(self):
        targets = None if self.targets is None else list(self.targets)
        shrinkage = blank_shrinkage(self.n_targets)
        cdef Shrinkage[::1] view = shrinkage
        view[:] = self._shrinkage
        return {"targets": targets, "shrinkage": shrinkage, **Learner.state(self)}

    cdef int take_state(self, dict state) except -1:
        if state["targets"]:
            self.name_targets(state["targets"])
        self._shrinkage = state["shrinkage"].copy()
        return Learner.take_state(self, state)

    cdef int learn_row(self, Row row, const double* target, double weight) except -1 nogil:
        raise NotImplementedError

    cdef void predict_row(self, Row row, double* out) noexcept nogil:
        """Write the n_targets numbers predicted for a row."""

    cdef int learn_example(self, Row row, const double* target, double weight) except -1 nogil:
        """Learn a row; if the learner shrinks, first see how far it can be trusted."""
        cdef int32_t i
        if self.shrinks:
            if is_to_judge(&self._shrinkage[0]):
                self.predict_row(row, &self._predicted[0])
                for i in range(self.n_targets):
                    judge(&self._shrinkage[i], self._predicted[i], target[i], weight)
            for i in range(self.n_targets):
                admit(&self._shrinkage[i], target[i], weight)
        return self.learn_row(row, target, weight)

    cdef void answer(self, Row row, double* out) noexcept nogil:
        """Write what to answer for a row."""
        cdef int32_t i
        self.predict_row(row, out)
        if self.shrinks:
            for i in range(self.n_targets):
                out[i] = shrunken(&self._shrinkage[i], out[i])

    cdef int name_targets(self, list names) except -1:
        """Fix the names of several targets; a learner that keeps numbers by target extends it."""
        self.targets = names
        return self.make_room(<int32_t> len(names))

    def check_names(self, names):
        """Raise unless the names are those of the targets, in any order."""
        if not names:
            raise ValueError("y must have at least one target")
        if self.targets and set(names) != set(self.targets):
            raise ValueError(f"y must have the targets {self.targets!r}, got {list(names)!r}")

    cdef int check_target(self, object y) except -1:
        """Read y into `_target`; raises before anything changes."""
        cdef Py_ssize_t i
        if self.targets is None:
            self._target[0] = as_target(y, "y")
            return 0
        y = as_dict(y, "y must be a dict of targets")
        self.check_names(list(y))
        values = [as_target(y[name], f"target {name!r}") for name in self.targets or y]
        if self.targets:
            for i in range(self.n_targets):
                self._target[i] = values[i]
        else:
            self._target = np.array(values, dtype=np.float64)
        return 0

    def learn_one(self, x, y, double w):
        """Learn one dict; every error is raised before anything changes."""
        cdef double[::1] target
        self.begin_learning()
        try:
            self.check_target(y)
            self.check_example(x, w)
            if w == 0.0:
                return
            self.commit_example()
            target = self._target
            if self.targets is not None and not self.targets:
                self.name_targets(list(y))
            self.scaler.learn(self.raw, False, self.scaled)
            self.learn_example(self.scaled.row(), &target[0], w)
        finally:
            self.is_learning = False

    def learn_many(self, RowSource source, list names, first_rows, targets, y,
                   const double[::1] weights):
        """Learn the rows of a validated source, without the GIL.

        `y` has the shape (n_rows, n_targets), its columns those of the list `targets` (None for
        a single target); `weights` are positive, or None for 1 each.
        """
        cdef Py_ssize_t i
        cdef bint weighted = weights is not None
        cdef const double[:, ::1] values
        self.begin_learning()
        try:
            if source.n_rows == 0:
                return
            if targets is not None:
                self.check_names(targets)
                if self.targets:
                    y = np.ascontiguousarray(y[:, [targets.index(t) for t in self.targets]])
            values = y
            columns = self.learned_columns(names, first_rows)
            if targets is not None and not self.targets:
                self.name_targets(list(targets))
            source.bind(columns)
            with nogil:
                for i in range(source.n_rows):
                    source.read(i, self.scaler, self.raw)
                    self.scaler.learn(self.raw, source.is_sparse, self.scaled)
                    self.learn_example(
                        self.scaled.row(), &values[i, 0], weights[i] if weighted else 1.0
                    )
            self.end_batch(source, columns)
        finally:
            self.is_learning = False

    def predict_one(self, x):
        """The predicted number, or a dict of them by target."""
        cdef double number = 0.0
        cdef double[::1] several
        self.begin_predicting()
        try:
            if self.targets is None:
                self.answer(self.read_known(x).row(), &number)
                return number
            predicted = np.empty(self.n_targets + 1)
            several = predicted
            self.answer(self.read_known(x).row(), &several[0])
            return dict(zip(self.targets, predicted.tolist()))
        finally:
            self.n_predicting -= 1

    def predict_many(self, RowSource source, list names):
        """The predictions as a float64 array of shape (n_rows, n_targets)."""
        cdef RowBuffer raw = RowBuffer()
        cdef RowBuffer scaled = RowBuffer()
        cdef Py_ssize_t i
        predicted = np.empty((source.n_rows, self.n_targets))
        cdef double[:, ::1] view = predicted
        if predicted.size == 0:
            return predicted
        self.begin_predicting()
        try:
            source.bind(self.known_columns(names))
            with nogil:
                for i in range(source.n_rows):
                    source.read(i, self.scaler, raw)
                    self.scaler.apply(raw, scaled)
                    self.answer(scaled.row(), &view[i, 0])
        finally:
            self.n_predicting -= 1
        return predicted

    def predict_dicts(self, rows):
        """As `predict_many`, for a list of dicts."""
        predicted = [self.predict_one(x) for x in rows]
        if self.targets is not None:
            predicted = [list(by_target.values()) for by_target in predicted]
        return np.array(predicted).reshape(len(rows), self.n_targets)


def restored(core_type, dict parameters, dict state):
    """A core of a type, with these parameters, in the state that `snapshot` gave."""
    core = core_type(**parameters)
    core.restore(state)
    return core
