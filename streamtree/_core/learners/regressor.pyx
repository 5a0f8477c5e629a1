"""Learners of one number per example, or of several."""

from libc.stdint cimport int32_t

from streamtree._core.kernels.shrinkage cimport Shrinkage, admit, is_to_judge, judge, shrunken
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.learners.learner cimport Examples, Learner, as_weight, float_of
from streamtree._core.stream.intake cimport Intake, Workspace, as_dict
from streamtree._core.stream.row cimport Example, Prediction
from streamtree._core.stream.scales cimport (
    GROSS, LEAST_TRUSTED, TRUSTED_COUNT, ColumnScale, count_number, is_far_out, n_shown,
    within_reach,
)
from streamtree._core.stream.sources cimport RowSource
from streamtree._core.trees.tree cimport Tree

from decimal import Decimal
from numbers import Real

import numpy as np

from streamtree._core.learners.checks import check_regressor
from streamtree._core.stream.scaling import SCALE

# sums of targets this large, and their squares, stay finite; batches know it, too
cdef double MOST_TARGET = 1e100
MAX_TARGET = MOST_TARGET

# A target so many deviations out among the first ones spoils a tree. To start again costs those few
# rows; what such a target has left in the step sizes of a soft tree costs for thousands.
cdef double SPOILS = 7.0

cdef Shrinkage _blank
SHRINKAGE = np.asarray(<Shrinkage[:1]> &_blank).dtype


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


cdef class Regressor(Learner):
    """A learner of one number per example, or of several, that go by names.

    `targets` is None for a single number; else the names, empty until the first example or
    batch fixes them. With `shrinks` the tree is followed only as far as that has paid.

    Unless `is_robust` is False a target far out is learned as one at the edge. One of the first few
    may prove to have been far out later: then `make_tree()`, unless None, makes a tree that starts
    again.
    """

    def __cinit__(self, Tree tree, *, bint several=False, bint shrinks=True, bint is_robust=True,
                  **kwargs):
        self.targets = [] if several else None
        self.shrinks = shrinks
        self.is_robust = is_robust
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

    def configure(self, *, shrinks=None, **settings):
        """Set what may change while the tree learns; None: `shrinks` stays as it is."""
        Learner.configure(self, **settings)
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
                self.start_again()
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

    cdef int start_again(self) except -1:
        cdef int32_t i
        shrinkage = np.zeros(self.intake.context.n_targets, dtype=SHRINKAGE)
        Learner.start_again(self)
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
            if targets is not None and not self.targets and source.n_rows and (
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

    def grow(self, rows, list names, list first_rows, y, weights):
        """Grow the tree from a whole data set: a RowSource, or dicts; y has one column."""
        self.begin_growing()
        try:
            self.grow_rows(rows, names, first_rows, Examples(None, y, weights))
        except BaseException:
            self.forget()
            raise
        finally:
            self.end_batch(None)

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
        with self.intake.lock.reading():
            predicted = np.empty((source.n_rows, self.intake.context.n_targets))
            if predicted.size:
                self.predict_rows(source, names, None, predicted)
            return predicted

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
        return {
            "targets": None if self.targets is None else list(self.targets),
            "shrinkage": np.array(self._shrinkage, dtype=SHRINKAGE),
            "target_scales": np.array(self._scales, dtype=SCALE),
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
