"""A member of ensembles that says that the next label is the last one again."""

cimport cython
from libc.math cimport exp
from libc.stdint cimport int32_t

from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.store.state import check_counts, check_finite, require

# A stream's past fades: the last so many rows say how often a label is repeated.
cdef double MEMORY = 100.0


@cython.final
cdef class LastLabelTree(Tree):
    """A single leaf: the last label has the share that such repeats had lately."""

    cdef int32_t last       # -1 before the first
    cdef double repeats     # the fading share of labels that were those before them
    cdef double weight      # the fading weight of the labels

    def __cinit__(self):
        self.last = -1
        self.views = 0
        self.is_light = True

    def configure(self):
        """There is nothing to set."""

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef int32_t label, n = self.context.n_labels
        # one repeat and one other before the first row
        cdef double share = (self.repeats + 1.0) / (self.weight + 2.0)
        out.label = max(self.last, 0)
        if out.shares == NULL:
            return
        if self.last < 0 or n == 1:
            share = 1.0 / n
        for label in range(n):
            out.shares[label] = share if label == self.last else (1.0 - share) / max(n - 1, 1)
        if self.last < 0:
            out.shares[0] = share

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef double kept = exp(-min(example.weight, 1.0) / MEMORY)
        if out != NULL:
            self.predict(row, scratch, out)
        if self.last >= 0:
            self.repeats = kept * self.repeats + (1.0 - kept) * MEMORY * (
                example.label == self.last
            )
            self.weight = kept * self.weight + (1.0 - kept) * MEMORY
        self.last = example.label
        return 0

    cdef list path(self, const Row* row, Scratch* scratch):
        return [(0, None)]

    cdef dict state(self):
        return {"last": self.last + 1, "repeats": self.repeats, "weight": self.weight}

    cdef int take_state(self, dict state) except -1:
        self.last = state["last"] - 1
        self.repeats, self.weight = state["repeats"], state["weight"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_counts(state["last"])
        require(state["last"] <= n_outputs, "the last label")
        check_finite(np.array([state["repeats"], state["weight"]]), at_least=0.0)
        require(state["repeats"] <= state["weight"] <= 2.0 * MEMORY, "the share of repeats")

    @property
    def n_nodes(self):
        """A single leaf."""
        return 1

    def depths(self):
        """The depth of every node."""
        return np.zeros(1, dtype=np.int32)
