"""What a tree is to its learner: an interface of a few functions.

A tree knows neither names nor locks nor Python objects: it is given rows by number. All that it
has to know of the stream besides is in its Context. A forest is itself a tree.
"""

from libc.stdint cimport int32_t

from streamtree._core.stream.context cimport Context
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport PLAIN, Example, Prediction, Row, Scratch


cdef class Tree:
    """The base of all trees. A family implements `learn`, `predict`, `path`, and its state."""

    def __cinit__(self, *args, **kwargs):
        self.views = PLAIN

    def configure(self, **settings):
        """Set what may change while the tree learns."""
        raise NotImplementedError

    def refuse_label(self, label):
        """Raise for a label that would be one too many."""
        raise ValueError(f"y: {label!r} would be label number {self.max_labels + 1}")

    cdef list scratches(self):
        """What the tree needs a Scratch for, its own first: the views read, the size of a memo."""
        return [(self.views, self.memo_size)]

    cdef int bind(self, Context context) except -1:
        """Take the context of a learner; it comes before any row."""
        self.context = context
        return 0

    cdef void expect(self, int32_t label) noexcept nogil:
        """An example of this class (-1: unknown) is to come: ask for the memory it will need."""

    cdef void approach(self, int32_t label) noexcept nogil:
        """It is the next one: what `expect` asked for is there, and says what else to ask for."""

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        """Learn an example; write to `out`, unless it is NULL, what `predict` would have said.

        With NULL, what comes of `judge` is not learned.
        """
        raise NotImplementedError

    cdef void judge(self, const Example* example, Scratch* scratch) noexcept nogil:
        """Learn from what `predict` said last with this scratch, not from the row."""

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        """Say what a row is; changes nothing but `out` and the scratch."""

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The node in which a row ends."""
        return 0

    cdef list path(self, const Row* row, Scratch* scratch):
        """The nodes that a row passes, each with what its test gives, None at the last."""
        raise NotImplementedError

    cdef list top_shares(self, const Row* row, Scratch* scratch, Py_ssize_t count):
        """The most likely (class, probability) pairs; None: no cheaper than all probabilities."""
        return None

    cdef object examine(self, const Row* row, const Example* example, Scratch* scratch):
        """What a step would go by, for tests; None where a family has nothing to tell."""
        return None

    cdef int grow(self, KeptRows rows) except -1:
        """Grow a tree that has learned nothing from a whole data set at once."""
        raise TypeError(f"{type(self).__name__} learns row by row only")

    cdef size_t n_bytes(self) noexcept nogil:
        """The memory that the tree has taken, besides that of its Python objects."""
        return 0

    cdef dict state(self):
        """All that was learned, as arrays, numbers, lists and dicts of these."""
        raise NotImplementedError

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave; the tree is new, with the same parameters."""
        raise NotImplementedError

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state, which may be anybody's.

        The types of its parts are those of the state of a new tree; their values are to be
        checked, and what is in its lists.
        """
        raise NotImplementedError

    @property
    def n_nodes(self):
        """Number of nodes, leaves included."""
        raise NotImplementedError

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        raise NotImplementedError
