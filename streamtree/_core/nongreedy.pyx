"""Non-greedy oblique trees as learners of labels and of numbers."""

cimport cython
from libc.stdint cimport int32_t

from streamtree._core.learners cimport ClassifierCore, RegressorCore
from streamtree._core.oblique cimport ObliqueTree
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.types cimport Row
from streamtree._core.warmup cimport WarmUp

import numpy as np

from streamtree._core.learners import restored


@cython.final
cdef class NonGreedyClassifierCore(ClassifierCore):
    """Leaves hold a logit for every class; the loss is the log loss."""

    cdef readonly ObliqueTree tree
    cdef WarmUp warm_up
    cdef dict _fixed

    def __cinit__(self, *, fixed, **changing):
        self._fixed = fixed
        self.scaler = ColumnScaler(not fixed["literal"])
        self.tree, self.warm_up = planted(self.scaler, False, **fixed)
        self.configure(**changing)

    def configure(self, **changing):
        """Set what may change while the tree learns."""
        self.tree.configure(**changing)

    def __sizeof__(self):
        return (
            object.__sizeof__(self)
            + self.tree.memory(self.is_learning) + self.warm_up.memory(self.is_learning)
        )

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil:
        if label >= self.tree.n_outputs:
            self.tree.reserve_outputs(label + 1)
        if self.warm_up.n_rows:
            self.warm_up.keep(row, label, NULL, 0, weight)
        self.tree.learn(row, label, NULL, weight)
        if self.warm_up.n_rows and self.warm_up.n >= self.warm_up.due_at:
            with gil:
                self.warm_up.build(self.tree, self.features.names)
        return 0

    cdef int32_t predict_row(self, Row row) noexcept nogil:
        return self.tree.most_likely(self.tree.leaf(row))

    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil:
        self.tree.probabilities(self.tree.leaf(row), out)

    def find(self, x, y):
        """The fear and the hope leaf of an example, and what they attain."""
        cdef int32_t label = self.labels.labels.index(y), fear, hope
        cdef double fear_value, hope_value
        self.begin_learning()
        try:
            self.tree.find(
                self.read_known(x).row(), label, NULL, &fear, &hope, &fear_value, &hope_value
            )
        finally:
            self.is_learning = False
        return fear, hope, fear_value, hope_value

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return self.tree.depths()

    @property
    def n_nodes(self):
        return self.tree.n_nodes

    def __reduce__(self):
        parameters = {"fixed": self._fixed, **self.tree.settings()}
        return restored, (NonGreedyClassifierCore, parameters, self.snapshot())

    cdef dict state(self):
        return {
            **ClassifierCore.state(self),
            **self.tree.snapshot(),
            "warm_up": self.warm_up.snapshot(),
        }

    cdef int take_state(self, dict state) except -1:
        ClassifierCore.take_state(self, state)
        self.tree.restore(state)
        self.warm_up.restore(state["warm_up"])
        return 0


@cython.final
cdef class NonGreedyRegressorCore(RegressorCore):
    """Leaves hold a number for every target; the loss is the squared loss."""

    cdef readonly ObliqueTree tree
    cdef WarmUp warm_up
    cdef dict _fixed

    def __cinit__(self, *, bint several, fixed, **changing):
        self._fixed = fixed
        self.shrinks = not fixed["literal"]
        self.scaler = ColumnScaler(not fixed["literal"])
        self.tree, self.warm_up = planted(self.scaler, True, **fixed)
        self.tree.reserve_outputs(self.n_targets)
        self.configure(**changing)

    def configure(self, **changing):
        """Set what may change while the tree learns."""
        self.tree.configure(**changing)

    def __sizeof__(self):
        return (
            object.__sizeof__(self)
            + self.tree.memory(self.is_learning) + self.warm_up.memory(self.is_learning)
        )

    cdef int name_targets(self, list names) except -1:
        RegressorCore.name_targets(self, names)
        self.tree.reserve_outputs(self.n_targets)
        return 0

    cdef int learn_row(self, Row row, const double* target, double weight) except -1 nogil:
        if self.warm_up.n_rows:
            self.warm_up.keep(row, 0, target, self.n_targets, weight)
        self.tree.learn(row, 0, target, weight)
        if self.warm_up.n_rows and self.warm_up.n >= self.warm_up.due_at:
            with gil:
                self.warm_up.build(self.tree, self.features.names)
        return 0

    cdef void predict_row(self, Row row, double* out) noexcept nogil:
        self.tree.numbers(self.tree.leaf(row), out)

    def find(self, x, y):
        """The fear and the hope leaf of an example, and what they attain."""
        cdef int32_t fear, hope
        cdef double fear_value, hope_value
        cdef double[::1] target = np.array(y, dtype=np.float64).reshape(self.n_targets)
        self.begin_learning()
        try:
            self.tree.find(
                self.read_known(x).row(), 0, &target[0], &fear, &hope, &fear_value, &hope_value
            )
        finally:
            self.is_learning = False
        return fear, hope, fear_value, hope_value

    cdef list path_of(self, Row row):
        return self.tree.path(row)

    cdef object node_depths(self):
        return self.tree.depths()

    @property
    def n_nodes(self):
        return self.tree.n_nodes

    def __reduce__(self):
        several = self.targets is not None
        parameters = {"several": several, "fixed": self._fixed, **self.tree.settings()}
        return restored, (NonGreedyRegressorCore, parameters, self.snapshot())

    cdef dict state(self):
        return {
            **RegressorCore.state(self),
            **self.tree.snapshot(),
            "warm_up": self.warm_up.snapshot(),
        }

    cdef int take_state(self, dict state) except -1:
        RegressorCore.take_state(self, state)
        self.tree.restore(state)
        self.warm_up.restore(state["warm_up"])
        return 0


def planted(
    ColumnScaler scaler, bint is_regression, *, start, Py_ssize_t warm_up, bint joins=True,
    **settings
):
    """A tree to start from and the warm-up that may change it.

    Without `joins` the warm-up leaves the tree as it was grown greedily, as it does by the
    literal algorithm.
    """
    cdef ObliqueTree tree = ObliqueTree(scaler, is_regression=is_regression, **settings)
    if start == "zeros":
        tree.complete()
        warm_up = 0
    return tree, WarmUp(warm_up, start == "co2", joins and not tree.literal)
