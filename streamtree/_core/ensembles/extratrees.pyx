"""Randomised trees over one window of recent rows."""

cimport cython

from streamtree._core.ensembles.ensemble cimport Ensemble, MeanPool
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport Example, Row, Scratch
from streamtree._core.stream.window cimport Window

from streamtree._core.stream.window import check_window


@cython.final
cdef class ExtraTrees(MeanPool):
    """The mean of trees that grow from the window; it lets every row in once."""

    cdef Window window
    cdef bint has_numbers

    def __cinit__(self, list members, *, Window window, bint has_numbers):
        self.window = window
        self.has_numbers = has_numbers

    cdef int bind(self, Context context) except -1:
        self.window.bind(context)
        return Ensemble.bind(self, context)

    cdef int teach(self, const Row* row, const Example* example, Scratch* scratch,
                   bint asks) except -1 nogil:
        self.window.push(row, example)
        return Ensemble.teach(self, row, example, scratch, asks)

    cdef size_t n_bytes(self) noexcept nogil:
        return Ensemble.n_bytes(self) + self.window.n_bytes()

    cdef dict own_state(self):
        return {"window": self.window.state()}

    cdef int take_state(self, dict state) except -1:
        # its rows are what the members' states are about
        self.window.take_state(state["window"])
        return Ensemble.take_state(self, state)

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        n_targets = n_outputs if self.has_numbers else 0
        check_window(state["window"], self.window.length, n_columns, n_outputs, n_targets)
        for m, member in enumerate(self.members):
            member.check_state_over(state["window"], state["members"][str(m)], n_outputs)
