"""Rows that are kept: one store for all that look at them again."""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from streamtree._core.store.budget cimport counted, give_back, spacious
from streamtree._core.stream.row cimport Example, Row, View, describe

import numpy as np


@cython.final
cdef class KeptRows:
    """Rows in the order in which they came, each with what was to be learned of it."""

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept nogil:
        """Give all rows and their memory back."""
        give_back(self.starts)
        give_back(self.columns)
        give_back(self.values)
        give_back(self.labels)
        give_back(self.targets)
        give_back(self.weights)
        self.starts = NULL
        self.columns = self.labels = NULL
        self.values = self.targets = self.weights = NULL
        self.n = self.row_capacity = self.entry_capacity = 0

    cdef int add(self, const View* view, const Example* example,
                 int32_t n_targets) except -1 nogil:
        """Keep a row; all have the same number of targets."""
        cdef int64_t end = self.starts[self.n] if self.n else 0
        self.n_targets = n_targets
        self._reserve(self.n + 1, end + view.n)
        self.starts[0] = 0
        if view.n:
            memcpy(&self.columns[end], view.columns, view.n * sizeof(int32_t))
            memcpy(&self.values[end], view.values, view.n * sizeof(double))
        self.labels[self.n] = example.label
        if n_targets:
            memcpy(&self.targets[self.n * n_targets], example.targets, n_targets * sizeof(double))
        self.weights[self.n] = example.weight
        self.n += 1
        self.starts[self.n] = end + view.n
        return 0

    cdef size_t bytes_with(self, Py_ssize_t n_rows, Py_ssize_t n_more) noexcept nogil:
        """What so many rows take, if they have `n_more` entries more."""
        cdef size_t n_entries = n_more + (self.starts[self.n] if self.n else 0)
        return spacious(n_entries + 1) * (sizeof(int32_t) + sizeof(double)) + (
            spacious(n_rows + 1) * (
                sizeof(int64_t) + sizeof(int32_t) + sizeof(double) * (1 + self.n_targets)
            )
        )

    cdef int _reserve(self, Py_ssize_t n_rows, Py_ssize_t n_entries) except -1 nogil:
        cdef Py_ssize_t size
        if n_rows + 1 > self.row_capacity:
            size = spacious(n_rows + 1)
            self.starts = <int64_t*> counted(self.starts, size * sizeof(int64_t))
            self.labels = <int32_t*> counted(self.labels, size * sizeof(int32_t))
            self.weights = <double*> counted(self.weights, size * sizeof(double))
            if self.n_targets:
                self.targets = <double*> counted(
                    self.targets, size * self.n_targets * sizeof(double)
                )
            self.row_capacity = size
        if n_entries + 1 > self.entry_capacity:
            size = spacious(n_entries + 1)
            self.columns = <int32_t*> counted(self.columns, size * sizeof(int32_t))
            self.values = <double*> counted(self.values, size * sizeof(double))
            self.entry_capacity = size
        return 0

    cdef void view(self, Py_ssize_t i, View* view) noexcept nogil:
        """The i-th row; it lies in the store and is gone when another one is added."""
        view.columns = &self.columns[self.starts[i]]
        view.values = &self.values[self.starts[i]]
        view.n = self.starts[i + 1] - self.starts[i]
        describe(view)

    cdef void row(self, Py_ssize_t i, Row* row) noexcept nogil:
        """The i-th row for a tree: its three lists of values are what was kept, it has no other."""
        self.view(i, &row.standard)
        row.plain = row.listed = row.standard
        row.serial = 0

    cdef Example example(self, Py_ssize_t i) noexcept nogil:
        """What is to be learned of the i-th row."""
        cdef Example example
        example.label = self.labels[i]
        example.targets = &self.targets[i * self.n_targets] if self.n_targets else NULL
        example.weight = self.weights[i]
        return example

    cdef Py_ssize_t longest(self) noexcept nogil:
        """How many values the longest row has."""
        cdef Py_ssize_t i, longest = 0
        for i in range(self.n):
            longest = max(longest, self.starts[i + 1] - self.starts[i])
        return longest

    cdef dict state(self):
        """The rows as arrays; {"n": 0} if there are none."""
        n, entries = self.n, self.starts[self.n] if self.n else 0
        if n == 0:
            return {"n": 0}
        return {
            "n": n,
            "starts": np.asarray(<int64_t[:n + 1]> self.starts).copy(),
            "columns": np.asarray(<int32_t[:entries + 1]> self.columns)[:entries].copy(),
            "values": np.asarray(<double[:entries + 1]> self.values)[:entries].copy(),
            "labels": np.asarray(<int32_t[:n]> self.labels).copy(),
            "targets": np.empty((n, 0)) if self.n_targets == 0 else np.asarray(
                <double[:n, :self.n_targets]> self.targets
            ).copy(),
            "weights": np.asarray(<double[:n]> self.weights).copy(),
        }

    cdef int take_state(self, dict state) except -1:
        """Take over what `state` gave."""
        cdef const int64_t[::1] starts
        cdef const int32_t[::1] columns, labels
        cdef const double[::1] values, weights
        cdef const double[:, ::1] targets
        cdef Py_ssize_t n = state["n"]
        self.clear()
        if n == 0:
            return 0
        starts, columns, values = state["starts"], state["columns"], state["values"]
        labels, weights, targets = state["labels"], state["weights"], state["targets"]
        self.n_targets = <int32_t> targets.shape[1]
        self._reserve(n, starts[n])
        memcpy(self.starts, &starts[0], (n + 1) * sizeof(int64_t))
        if columns.shape[0]:
            memcpy(self.columns, &columns[0], columns.shape[0] * sizeof(int32_t))
            memcpy(self.values, &values[0], columns.shape[0] * sizeof(double))
        memcpy(self.labels, &labels[0], n * sizeof(int32_t))
        memcpy(self.weights, &weights[0], n * sizeof(double))
        if self.n_targets:
            memcpy(self.targets, &targets[0, 0], n * self.n_targets * sizeof(double))
        self.n = n
        return 0
