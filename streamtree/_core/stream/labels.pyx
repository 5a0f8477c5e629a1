"""Class labels, any hashable objects, numbered in the order in which they are first learned."""

cimport cython
from libc.stdint cimport int32_t, int64_t

from streamtree._core.stream.features cimport UNBOUNDED, object_bytes

import reprlib
import warnings

import numpy as np

cdef enum:
    # what a label takes besides the object: its number, and entries of a dict and a list
    LABEL_BYTES = 128
    TOLD_OF_LABELS = 10     # a warning when they take one part of so many of what they may


cdef bint is_missing(object label) except -1:
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


@cython.final
cdef class LabelIndex:
    """An append-only map from labels to the class numbers 0, 1, 2, ...

    Labels that compare equal (1, 1.0 and True) are one class, under the label that came first.
    """

    def __cinit__(self, list labels=None):
        self.most = self.most_labels = UNBOUNDED
        self._ids = {}
        self.labels = []
        for label in labels or ():
            self.add(label)

    def __len__(self):
        return self.size

    cdef size_t n_bytes(self) noexcept nogil:
        return self._bytes

    cpdef object normalized(self, object label):
        """The label as a plain Python object; raises if it cannot be a class."""
        if type(label) is str or type(label) is int or type(label) is bool:
            return label
        if isinstance(label, np.generic):
            label = label.item()
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

    cdef int32_t find(self, object label) except -2:
        """The number of a normalized label, -1 if it is new."""
        found = self._ids.get(label)
        return -1 if found is None else <int32_t> found

    cdef int32_t add(self, object label) except -1:
        """The number of a normalized label, appended if it is new."""
        cdef int32_t number = self.find(label)
        cdef int64_t size
        if number < 0:
            number = self.size
            size = LABEL_BYTES + object_bytes(label)
            if self._bytes + size > self.most or number >= self.most_labels:
                raise ValueError(
                    f"y: {reprlib.repr(label)} would be label number {number + 1}: max_bytes has "
                    "room for no more"
                )
            if (
                self._bytes <= self.most // TOLD_OF_LABELS < self._bytes + size
                or number == self.most_labels // TOLD_OF_LABELS
            ):
                warnings.warn(
                    f"y has had {number + 1} different labels, the last {reprlib.repr(label)}: "
                    "those that find no room within max_bytes will be refused", stacklevel=2,
                )
            # the step that may raise comes first
            self._ids[label] = number
            self.labels.append(label)
            self.size += 1
            self._bytes += size
        return number

    cdef int truncate(self, int32_t size) except -1:
        """Forget the labels from `size` on, without asking them for their hashes."""
        while self.size > size:
            self._bytes -= LABEL_BYTES + object_bytes(self.labels.pop())
            self._ids.popitem()
            self.size -= 1
        return 0
