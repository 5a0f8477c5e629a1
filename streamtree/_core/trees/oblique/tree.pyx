"""Non-greedy oblique trees: a start on the first rows, then joint training."""

cimport cython
from libc.stdint cimport int32_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.oblique.steps cimport Extremes, ObliqueSteps, Step
from streamtree._core.trees.oblique.warmup cimport WarmUp

from streamtree._core.trees.oblique.checks import check_oblique


@cython.final
cdef class ObliqueTree(ObliqueSteps):
    """Leaves hold a logit for every class, or a number for every target.

    Without `joins` the warm-up leaves the tree as it was grown greedily, as it does by the paper's
    algorithm.
    """

    def __cinit__(self, *, start, Py_ssize_t warm_up, bint is_paper, bint joins=True,
                  dict settings, **others):
        self._most_rows = 0 if start == "zeros" else warm_up
        self.warm_up = WarmUp(self._most_rows, start == "co2", joins and not is_paper)
        self.configure(**settings)

    cdef int bind(self, Context context) except -1:
        cdef bint is_new = self.context is None
        ObliqueSteps.bind(self, context)
        # from zeros
        return self.complete() if is_new and not self._most_rows else 0

    def configure(self, *, double max_norm, double learning_rate, double fear, double decay,
                  double strength):
        """Set what may change while the tree learns."""
        self.max_norm = max_norm
        self.learning_rate = learning_rate
        self.fear = fear
        self.decay = decay
        self.strength = strength

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        """Count an example and take the step that it asks for."""
        cdef Step step = Step(self.view_of(row), scratch, example)
        cdef int32_t n_targets = self.context.n_targets
        cdef int32_t home = self.begin(&step)
        cdef Example known
        if out != NULL:
            self.answer(home, out)
        if not self.is_regression and not self.admits(example.label + 1):
            # a class that finds no room counts as the last one that did, or as the first
            known = example[0]
            known.label = max(min(example.label, self.n_outputs - 1), 0)
            step.example = example = &known
        self.reserve_outputs(n_targets if self.is_regression else example.label + 1)
        self.reserve_steps()
        if self.warm_up.n_rows:
            self.warm_up.keep(step.x, example, n_targets if self.is_regression else 0)
        self.count(example)
        if self.hold:
            self._round = self.n_learned // self.hold
        self.n_learned += 1
        self.step(&step, home)
        if self.warm_up.is_due():
            with gil:
                self.warm_up.build(self)
            self.reserve_steps()
        return 0

    cdef object examine(self, const Row* row, const Example* example, Scratch* scratch):
        """The fear and the hope leaf of an example, and what they attain."""
        cdef Step step = Step(self.view_of(row), scratch, example)
        cdef Extremes found
        self.find(&step, self.begin(&step), &found)
        return found.fear, found.hope, found.fear_value, found.hope_value

    cdef dict state(self):
        return {**ObliqueSteps.state(self), "warm_up": self.warm_up.state()}

    cdef int take_state(self, dict state) except -1:
        ObliqueSteps.take_state(self, state)
        return self.warm_up.take_state(state["warm_up"])

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        check_oblique(
            state, n_columns, n_outputs, is_regression=self.is_regression, depth=self.depth,
            moves=self.moves(), batch_size=self.batch_size, most_rows=self._most_rows,
            n_nodes=self.n_nodes,
        )
