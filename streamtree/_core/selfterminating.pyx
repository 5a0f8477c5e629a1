"""Self-terminating prediction trees as learners: of labels and of numbers."""

cimport cython
from libc.stdint cimport int32_t

from streamtree._core.features cimport FeatureIndex, RowBuffer, stable_hash
from streamtree._core.histograms cimport ADAPTIVE
from streamtree._core.learners cimport ClassifierCore, Learner, RegressorCore
from streamtree._core.predictionnodes cimport OPEN, ROOT
from streamtree._core.predictiontree cimport PredictionTree
from streamtree._core.rows cimport RowSource
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.solvers cimport LOG, SQUARED
from streamtree._core.types cimport Row

from streamtree._core.features import Category

import numpy as np

from streamtree._core.learners import restored

# what `sys.getsizeof` adds to `__sizeof__`, and a little
cdef enum:
    OVERHEAD = 64


cdef int add_columns(PredictionTree tree, FeatureIndex features, dict groups) except -1:
    """Tell the tree of new columns; `groups` numbers the features that have categories."""
    cdef int32_t column
    for column in range(tree.n_columns, <int32_t> len(features.names)):
        name = features.names[column]
        if type(name) is Category:
            # the value does not enter: the categories of a feature are one candidate
            tree.add_column(
                groups.setdefault(name.name, len(groups)), stable_hash(name.name)
            )
        else:
            tree.add_column(-1, stable_hash(name))
    return 0


cdef RowBuffer copied(RowBuffer row):
    cdef RowBuffer copy = RowBuffer()
    cdef Py_ssize_t i
    copy.reserve(row.n)
    copy.n = row.n
    for i in range(row.n):
        copy.columns[i] = row.columns[i]
        copy.values[i] = row.values[i]
    return copy


cdef int begin_growth(Learner core, dicts) except -1:
    """Check what can be checked; set `is_learning` back to False in the end."""
    for x in dicts or ():
        core.check_example(x, 1.0)
    core.begin_learning()
    if core.scaler.rows:
        core.is_learning = False
        raise RuntimeError("grow() needs a model that has not learned anything yet")
    return 0


cdef int grow_rows(Learner core, PredictionTree tree, RowSource source, columns, dicts,
                   const int32_t[::1] labels, const double[::1] targets, weights) except -1:
    """Keep all rows, so that the scales are those of the whole set, and grow a tree from them."""
    cdef Py_ssize_t i
    cdef list rows = []
    if source is not None:
        source.bind(columns)
    for i in range(len(weights)):
        if source is not None:
            source.read(i, core.scaler, core.raw)
        else:
            core.check_example(dicts[i], 1.0)
            core.commit_example()
        core.scaler.learn(core.raw, source is not None and source.is_sparse, core.scaled)
        rows.append(copied(core.raw))
    grow_levels(tree, core.scaler, core.scaled, rows, labels, targets, weights)
    if source is not None:
        core.end_batch(source, columns)
    return 0


cdef int grow_levels(PredictionTree tree, ColumnScaler scaler, RowBuffer out, list rows,
                     const int32_t[::1] labels, const double[::1] targets,
                     const double[::1] weights) except -1:
    """Grow level by level: in every pass the leaves of one level see all of their rows."""
    cdef Py_ssize_t i
    cdef int32_t first = 0, size, node, label = -1
    cdef double target = 0.0
    cdef Row row
    tree.defers = True
    try:
        while first < tree.size:
            for i in range(len(rows)):
                scaler.apply(<RowBuffer> rows[i], out)
                row = out.row()
                if labels is not None:
                    label = labels[i]
                    if label >= tree.n_labels:
                        tree.admit(label)
                else:
                    target = targets[i]
                if first == 0:
                    tree.count(ROOT, label, target, weights[i])
                node = tree.leaf_of(row)
                if node >= first and tree.nodes[node].state == OPEN:
                    tree.learn_leaf(node, row, label, target, weights[i], -1, 0.0)
                    if tree.n_bytes > tree.max_size:
                        tree.keep_within_bounds()
            size = tree.size
            for node in range(first, size):
                tree.refresh(node)
                if tree.nodes[node].state == OPEN:
                    tree.look(node)
            first = size
        for node in range(tree.size):
            tree.refresh(node)
    finally:
        tree.defers = False
    return 0


@cython.final
cdef class SelfTerminatingClassifierCore(ClassifierCore):
    """A tree of labels; parameters are validated by `SelfTerminatingTreeClassifier`."""

    cdef readonly PredictionTree tree
    cdef dict _groups
    cdef dict _parameters
    cdef bint _is_two_class

    def __cinit__(self, *, loss, penalty_is_linf, leaf_model, **settings):
        self._parameters = {
            "loss": loss, "penalty_is_linf": penalty_is_linf, "leaf_model": leaf_model,
            **settings,
        }
        self._groups = {}
        self._is_two_class = loss != LOG or penalty_is_linf
        self.scaler = ColumnScaler(True, True)
        self.tree = PredictionTree(
            loss=loss, is_linf=penalty_is_linf, leaf_model=leaf_model,
            **_tree_settings(self, settings),
        )

    def __sizeof__(self):
        return object.__sizeof__(self) + self.tree.n_bytes

    def configure(self, **settings):
        """Set what may change while the tree grows."""
        self._parameters.update(settings)
        self.tree.configure(**_tree_settings(self, settings))

    cdef int commit_example(self) except -1:
        Learner.commit_example(self)
        return add_columns(self.tree, self.features, self._groups)

    def learned_columns(self, names, first_rows):
        columns = ClassifierCore.learned_columns(self, names, first_rows)
        add_columns(self.tree, self.features, self._groups)
        return columns

    def check_labels(self, labels):
        """Raise if these labels would be more than a loss for two classes can tell apart."""
        if self._is_two_class:
            known = set(self.labels.labels)
            for label in labels:
                known.add(self.labels.normalized(label))
                if len(known) > 2:
                    raise ValueError(
                        f"y: {label!r} would be a third label; only loss='log' with "
                        "penalty='l1' knows more than two"
                    )

    def learn_one(self, x, y, double w):
        """Learn one dict; every error is raised before anything changes."""
        if self._is_two_class:
            self.check_labels([y])
        ClassifierCore.learn_one(self, x, y, w)

    def learn_many(self, RowSource source, list names, first_rows, list labels,
                   const double[::1] weights):
        """Learn the rows of a validated source, without the GIL."""
        self.check_labels(labels)
        ClassifierCore.learn_many(self, source, names, first_rows, labels, weights)

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil:
        return self.tree.learn(row, label, 0.0, weight)

    cdef int32_t predict_row(self, Row row) noexcept nogil:
        return self.tree.label_of(row)

    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil:
        self.tree.probabilities_of(row, out, self.labels.size)

    def grow(self, RowSource source, list names, first_rows, dicts, list labels, weights):
        """Grow the tree from a whole data set: rows of a source, or dicts if it is None."""
        cdef int32_t n_labels = self.labels.size
        self.check_labels(labels)
        begin_growth(self, dicts)
        try:
            try:
                numbers = np.array([self.labels.add(label) for label in labels], dtype=np.int32)
                columns = None if source is None else self.learned_columns(names, first_rows)
            except BaseException:
                self.labels.truncate(n_labels)
                raise
            grow_rows(self, self.tree, source, columns, dicts, numbers, None, weights)
        finally:
            self.is_learning = False

    @property
    def n_nodes(self):
        return self.tree.size

    def n_in_state(self, int state):
        """How many nodes are in a state."""
        return _n_in_state(self.tree, state)

    def __reduce__(self):
        return restored, (SelfTerminatingClassifierCore, self._parameters, self.snapshot())

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return _depths(self.tree)

    cdef dict state(self):
        return {**ClassifierCore.state(self), "tree": self.tree.snapshot()}

    cdef int take_state(self, dict state) except -1:
        ClassifierCore.take_state(self, state)
        add_columns(self.tree, self.features, self._groups)
        self.tree.restore(state["tree"])
        return 0


@cython.final
cdef class SelfTerminatingRegressorCore(RegressorCore):
    """A tree of numbers; parameters are validated by `SelfTerminatingTreeRegressor`."""

    cdef readonly PredictionTree tree
    cdef dict _groups
    cdef dict _parameters

    def __cinit__(self, *, penalty_is_linf, leaf_model, **settings):
        self._parameters = {
            "penalty_is_linf": penalty_is_linf, "leaf_model": leaf_model, **settings,
        }
        self._groups = {}
        self.shrinks = leaf_model == ADAPTIVE
        self.scaler = ColumnScaler(True, True)
        self.tree = PredictionTree(
            loss=SQUARED, is_linf=penalty_is_linf, leaf_model=leaf_model,
            **_tree_settings(self, settings),
        )

    def __sizeof__(self):
        return object.__sizeof__(self) + self.tree.n_bytes

    def configure(self, **settings):
        """Set what may change while the tree grows."""
        self._parameters.update(settings)
        self.tree.configure(**_tree_settings(self, settings))

    cdef int commit_example(self) except -1:
        Learner.commit_example(self)
        return add_columns(self.tree, self.features, self._groups)

    def learned_columns(self, names, first_rows):
        columns = RegressorCore.learned_columns(self, names, first_rows)
        add_columns(self.tree, self.features, self._groups)
        return columns

    cdef int learn_row(self, Row row, const double* target, double weight) except -1 nogil:
        return self.tree.learn(row, -1, target[0], weight)

    cdef void predict_row(self, Row row, double* out) noexcept nogil:
        out[0] = self.tree.number_of(row)

    def grow(self, RowSource source, list names, first_rows, dicts, targets, weights):
        """Grow the tree from a whole data set: rows of a source, or dicts if it is None."""
        begin_growth(self, dicts)
        try:
            columns = None if source is None else self.learned_columns(names, first_rows)
            grow_rows(self, self.tree, source, columns, dicts, None, targets, weights)
        finally:
            self.is_learning = False

    @property
    def n_nodes(self):
        return self.tree.size

    def n_in_state(self, int state):
        """How many nodes are in a state."""
        return _n_in_state(self.tree, state)

    def __reduce__(self):
        return restored, (SelfTerminatingRegressorCore, self._parameters, self.snapshot())

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return _depths(self.tree)

    cdef dict state(self):
        return {**RegressorCore.state(self), "tree": self.tree.snapshot()}

    cdef int take_state(self, dict state) except -1:
        RegressorCore.take_state(self, state)
        add_columns(self.tree, self.features, self._groups)
        self.tree.restore(state["tree"])
        return 0


def _tree_settings(core, dict settings):
    """The settings of the tree: its bytes are what `max_size` leaves beside the core itself."""
    return {**settings, "max_size": settings["max_size"] - object.__sizeof__(core) - OVERHEAD}


def _depths(PredictionTree tree):
    depths = np.empty(tree.size, dtype=np.int32)
    cdef int32_t[::1] view = depths
    cdef int32_t node
    for node in range(tree.size):
        view[node] = tree.nodes[node].depth
    return depths


def _n_in_state(PredictionTree tree, int state):
    cdef int32_t node
    cdef Py_ssize_t n = 0
    for node in range(tree.size):
        n += tree.nodes[node].state == state
    return n
