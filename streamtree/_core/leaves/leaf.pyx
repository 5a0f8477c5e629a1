"""What a leaf predicts with: one interface, so that any tree may have any leaf models.

A LeafModels object holds the models of all leaves of one tree, each under the number of its node.
Which node is a leaf is for the tree to know.
"""

from libc.math cimport NAN
from libc.stdint cimport int32_t

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.splits.scoretest cimport Residuals
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport PLAIN, Example, Prediction, Row, Scratch


cdef class LeafModels:
    """The base of all leaf models."""

    def __cinit__(self, *args, **kwargs):
        self.views = PLAIN
        self.tree_label = -1
        self.tree_number = NAN

    def configure(self, **settings):
        """Set what may change while the tree learns."""

    cdef int bind(self, Context context) except -1:
        """Take the context of the tree; it comes before any row."""
        self.context = context
        return 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        """Make room for the models of so many nodes."""
        raise NotImplementedError

    cdef int open(self, int32_t node) except -1 nogil:
        """Give a node a model that begins anew."""
        raise NotImplementedError

    cdef int clone(self, int32_t node, int32_t child) except -1 nogil:
        """Give a child a model that goes on from that of its parent."""
        raise NotImplementedError

    cdef int look_closely(self, int32_t node, int32_t column) except -1 nogil:
        """The node came of a split at this column: its model may tell more of its values apart."""
        return 0

    cdef void clear(self, int32_t node) noexcept nogil:
        """Take a node's model away: it is no leaf any more, or has to do without."""

    cdef bint predict(self, int32_t node, const Row* row, Scratch* scratch,
                      Prediction* out) noexcept nogil:
        """Say what a row is; returns False, and writes nothing, if the model has nothing to say.

        Of `out.shares`, which are zero, it writes those of the classes that the model knows; they
        sum to 1.
        """
        return False

    cdef int explain(self, int32_t node, const Row* row, Scratch* scratch, Explanation out,
                     double difference) except -1:
        """Hand to columns what the values of a row change in the prediction of a leaf.

        A model that knows nothing of its columns leaves it to the bias.
        """
        return out.add_bias(difference)

    cdef bint learn(self, int32_t node, const Row* row, const Example* example, Scratch* scratch,
                    Prediction* out) except -1 nogil:
        """Learn an example; returns False, and learns nothing, if its class finds no room.

        `out` is NULL, or gets what `predict` would have said; its label is -1 where that is
        nothing.
        """
        raise NotImplementedError

    cdef void residuals(self, int32_t node, Scratch* scratch, Residuals* out) noexcept nogil:
        """What the model of the leaf alone said of the row learned last."""
        out.n = 0

    cdef size_t bytes_of(self, int32_t node) noexcept nogil:
        """What a copy of a node's model would take."""
        return 0

    cdef dict state(self, int32_t n_nodes):
        """All that was learned, as arrays, numbers, lists and dicts of these."""
        raise NotImplementedError

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; the models are new, with the same parameters."""
        raise NotImplementedError

    def check_state(self, dict state, Py_ssize_t n_nodes, Py_ssize_t n_columns,
                    Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state; returns the nodes with models."""
        raise NotImplementedError
