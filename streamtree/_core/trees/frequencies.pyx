"""A member of ensembles that knows how often labels came, and looks at no row."""

cimport cython
from libc.math cimport expm1
from libc.stdint cimport int32_t

from streamtree._core.kernels.pooling cimport MOST_REPEATS
from streamtree._core.store.budget cimport counted_room, give_back
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport OneLeaf

import numpy as np

from streamtree._core.trees.checks import check_frequencies

# a count that is less is none: processors are slow with numbers next to zero
cdef double LEAST_COUNT = 1e-30


@cython.final
cdef class FrequencyTree(OneLeaf):
    """A single leaf: every label has the share that it had lately.

    The past fades: the last `memory` rows or so count.
    """

    cdef double memory
    cdef double* counts         # fading weights, by label
    cdef int32_t n_counted
    cdef int32_t capacity
    cdef double weight          # their sum

    def __cinit__(self, double memory):
        self.memory = memory
        self.views = 0
        self.is_light = True
        self.label_bytes = sizeof(double)

    def __dealloc__(self):
        give_back(self.counts)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef int32_t label, n = self.context.n_labels
        out.label = 0
        for label in range(1, min(n, self.n_counted)):
            if self.counts[label] > self.counts[out.label]:
                out.label = label
        if out.shares == NULL:
            return
        # one row of all labels before the first
        for label in range(n):
            out.shares[label] = 1.0 / n / (self.weight + 1.0)
        for label in range(min(n, self.n_counted)):
            out.shares[label] += self.counts[label] / (self.weight + 1.0)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef double faded = -expm1(-min(example.weight, <double> MOST_REPEATS) / self.memory)
        cdef double more = faded * self.memory
        cdef int32_t label
        if out != NULL:
            self.predict(row, scratch, out)
        self._reserve(example.label + 1)
        for label in range(self.n_counted):
            self.counts[label] *= 1.0 - faded
            if self.counts[label] < LEAST_COUNT:
                self.counts[label] = 0.0
        self.counts[example.label] += more
        self.weight = (1.0 - faded) * self.weight + more
        return 0

    cdef int _reserve(self, int32_t n) except -1 nogil:
        self.counts = <double*> counted_room(self.counts, &self.capacity, n, sizeof(double))
        self.n_counted = max(self.n_counted, n)
        return 0

    cdef dict state(self):
        cdef int32_t label
        counts = np.array([self.counts[label] for label in range(self.n_counted)], dtype=np.float64)
        return {"counts": counts, "weight": self.weight}

    cdef int take_state(self, dict state) except -1:
        cdef const double[::1] counts = state["counts"]
        cdef int32_t label
        self._reserve(<int32_t> counts.shape[0])
        for label in range(self.n_counted):
            self.counts[label] = counts[label]
        self.weight = state["weight"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_frequencies(state, n_outputs, self.memory)
