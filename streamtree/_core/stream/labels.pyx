"""Class labels, any hashable objects, numbered in the order in which they are first learned."""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from streamtree._core.store.memory cimport larger, regrown
from streamtree._core.stream.features cimport UNBOUNDED, PyObject, object_bytes, warn

import reprlib

import numpy as np

cdef enum:
    # what a label takes besides the object: its number, and entries of a dict and a list
    LABEL_BYTES = 128
    TOLD_OF_LABELS = 10     # a warning when they take one part of so many of what they may
    # Labels have to wait where fewer than one part of so many came again: of labels that are met
    # once each there is nothing to learn. While there is room for all, they have to only if there
    # are as many as this, hardly any came again, and those that did have many rows: so it is with
    # a new label in every other row, but not where thousands of classes begin to come.
    ONCE_PARTS = 2
    ONCE_PARTS_WITH_ROOM = 10
    LEAST_WITH_ROOM = 32
    FEW = 4                 # labels that are looked through, those read last by their objects

cpdef enum:
    MOST_WAITING = 256      # labels that are remembered until they come again


cpdef bint is_missing(object label) except -1:
    """Whether a label stands for no label: NaN of any type, NaT, pandas' NA."""
    different = label != label
    # NA compared with NA is neither true nor false but NA again
    return type(different).__name__ == "NAType" or bool(different)


cdef bint has_missing(object label) except -1:
    """Whether a label, or what is in it if it is a tuple, is missing."""
    cdef list parts = [label]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple):
            parts.extend(part)
        elif is_missing(part):
            return True
    return False


def plain(scalar, str what):
    """A scalar of numpy as a Python object: dates are none of integers."""
    if isinstance(scalar, (np.datetime64, np.timedelta64)) and type(scalar.item()) is int:
        rounded = scalar.astype(f"{scalar.dtype.kind}8[us]")
        # in its own unit: what is too large for another one comes back as something else
        if rounded.astype(scalar.dtype) != scalar:
            raise ValueError(
                f"{what} is {scalar!r}, finer than a microsecond or too large: round it"
            )
        if type(rounded.item()) is int:
            raise ValueError(f"{what} is {scalar!r}, beyond the dates and durations of Python")
        scalar = rounded
    return scalar.item()


cdef bint are_one(object known, object label) except -1:
    """Whether two labels are one class, as a dict would have it."""
    if is_plain(known) and is_plain(label):
        return known == label
    return hash(known) == hash(label) and known == label


# of a model whose labels do not wait; another one takes its place once one does
cdef dict NONE_WAITING = {}


@cython.final
cdef class LabelIndex:
    """An append-only map from labels to the class numbers 0, 1, 2, ...

    Labels that compare equal (1, 1.0 and True) are one class, under the label that came first.
    """

    def __cinit__(self, list labels=None):
        self.most = self.most_labels = self.most_at_once = UNBOUNDED
        self.labels = []
        self._waiting = NONE_WAITING
        for label in labels or ():
            self.add(label, False)
        self.begin()

    def __dealloc__(self):
        free(self._again)

    def __len__(self):
        return self.size

    cdef size_t n_bytes(self) noexcept nogil:
        return self._bytes

    cpdef object normalized(self, object label):
        """The label as a plain Python object; raises if it cannot be a class."""
        if is_plain(label):
            return label
        if isinstance(label, np.generic):
            label = plain(label, "y")
        try:
            hash(label)
        except TypeError:
            raise TypeError(
                f"y must be hashable to be a class label, got {type(label).__name__}"
            ) from None
        if label is None or has_missing(label):
            raise ValueError(
                f"y is {label!r}: a missing label cannot be learned; drop the example"
            )
        return label

    def normalize(self, list labels):
        """Put in place of each of some labels what `normalized` makes of it."""
        cdef Py_ssize_t i
        for i in range(len(labels)):
            if not is_plain(labels[i]):
                labels[i] = self.normalized(labels[i])

    cdef inline int32_t find(self, object label) except -2:
        """The number of a normalized label, -1 if it is new."""
        cdef int32_t number
        for number in range(min(self.size, <int32_t> FEW)):
            if PyList_GET_ITEM(self.labels, number) == <PyObject*> label:
                return number
        if self._ids is None:
            for number in range(self.size):
                if are_one(self.labels[number], label):
                    return number
            return -1
        found = self._ids.get(label)
        return -1 if found is None else <int32_t> found

    cdef int begin(self) except -1:
        """Begin a call that may fail: `undo` goes back to here."""
        self._size_before, self._repeats_before = self.size, self.n_repeats
        self._waiting_before = None
        self._marked = None
        return 0

    cdef int undo(self) except -1:
        """Forget what came since `begin`, without asking labels for their hashes."""
        cdef int32_t number
        for number in self._marked or ():
            self._again[number] = 0
            self.n_once += 1
        self.truncate(self._size_before)
        self.n_repeats = self._repeats_before
        if self._waiting_before is not None:
            self._waiting = self._waiting_before
        return self.begin()

    cdef int32_t add(self, object label, bint may_wait) except -2:
        """The number of a normalized label, appended if it is new; -1 where it has to wait."""
        cdef int32_t number = self.find(label)
        cdef bint came_before
        if number >= 0:
            self.n_repeats += 1
            if not self._again[number]:
                if number < self._size_before:
                    self._marked = self._marked or []
                    self._marked.append(number)
                self._again[number] = 1
                self.n_once -= 1
            return number
        came_before = label in self._waiting
        if may_wait and not came_before and self.has_to_wait():
            self.wait(label)
            return -1
        self.append(label, came_before)
        return self.size - 1

    cdef bint has_to_wait(self) noexcept:
        """Whether a new label must come again before it is learned: most came only once so far."""
        cdef int64_t parts = ONCE_PARTS
        if self.size < self.most_at_once:
            if (
                self.most_at_once == UNBOUNDED or self.size < LEAST_WITH_ROOM
                or 2 * self.n_repeats <= self.size
            ):
                return False
            parts = ONCE_PARTS_WITH_ROOM
        return parts * self.n_once > (parts - 1) * self.size

    cdef int wait(self, object label) except -1:
        """Remember a label for when it comes again; the oldest are forgotten."""
        cdef dict waiting = self._waiting.copy() if self._waiting_before is None else self._waiting
        if not waiting:
            warn(
                f"y has had {self.size + 1} different labels, most of them once, the last "
                f"{reprlib.repr(label)}: as long as that is so, others are learned from the second "
                "time on"
            )
        waiting[label] = None
        if len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]
        if self._waiting_before is None:
            self._waiting_before, self._waiting = self._waiting, waiting
        return 0

    cdef int append(self, object label, bint came_before) except -1:
        """Give a new label the next number, if there is room for it."""
        cdef int32_t number = self.size
        cdef int64_t size = LABEL_BYTES + object_bytes(label)
        if self._bytes + size > self.most or number >= self.most_labels:
            raise ValueError(
                f"y: {reprlib.repr(label)} would be label number {number + 1}: max_bytes has "
                "room for no more"
            )
        if (
            self._bytes <= self.most // TOLD_OF_LABELS < self._bytes + size
            or number == self.most_labels // TOLD_OF_LABELS
        ):
            warn(
                f"y has had {number + 1} different labels, the last {reprlib.repr(label)}: "
                "those that find no room within max_bytes will be refused"
            )
        if came_before:
            if self._waiting_before is None:
                self._waiting_before, self._waiting = self._waiting, self._waiting.copy()
            del self._waiting[label]
        # what may raise comes first
        if number >= self._capacity:
            self._again = <char*> regrown(self._again, larger(self._capacity, number + 1))
            self._capacity = larger(self._capacity, number + 1)
        if number == FEW:
            self._ids = {known: i for i, known in enumerate(self.labels)}
        if number >= FEW:
            self._ids[label] = number
        self.labels.append(label)
        self._again[number] = came_before
        self.size += 1
        self.n_once += not came_before
        self._bytes += size
        return 0

    cdef int truncate(self, int32_t size) except -1:
        """Forget the labels from `size` on, without asking them for their hashes."""
        while self.size > size:
            self._bytes -= LABEL_BYTES + object_bytes(self.labels.pop())
            self.size -= 1
            self.n_once -= not self._again[self.size]
            if self.size >= FEW:
                self._ids.popitem()
        if self.size <= FEW:
            self._ids = None
        return 0

    def state(self):
        """The labels, which of them came again, in how many rows any did, and those that wait."""
        return {
            "labels": list(self.labels),
            "labels_came_again": np.array(bytearray(self._again[:self.size])),
            "label_repeats": self.n_repeats, "waiting_labels": list(self._waiting),
        }

    def take_state(self, state):
        """Take over what `state` gave, for the same labels."""
        cdef int32_t number
        for number, came_again in enumerate(state["labels_came_again"].tolist()):
            self._again[number] = came_again
            self.n_once -= came_again
        self.n_repeats = state["label_repeats"]
        self._waiting = dict.fromkeys(state["waiting_labels"]) or NONE_WAITING
        self.begin()
