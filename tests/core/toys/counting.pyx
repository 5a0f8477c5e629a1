"""A leaf model of one file: the frequencies of the classes in a leaf."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.store.memory cimport regrown
from streamtree._core.store.tables cimport (
    Table, TableExport, import_table, table_bytes, table_clone, table_find, table_free,
    table_insert,
)
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch

import numpy as np

from streamtree._core.store.checks import check_tables, require


cdef struct Counts:
    bint is_open
    int32_t n_classes
    double total
    Table classes


cdef class CountingLeaves(LeafModels):
    """A leaf says how often it met every class; it has room for so many classes."""

    cdef Counts* counts
    cdef int32_t capacity
    cdef int32_t max_classes

    def __cinit__(self, int32_t max_classes=256):
        self.max_classes = max_classes

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            table_free(&self.counts[node].classes)
        free(self.counts)

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity > self.capacity:
            self.counts = <Counts*> regrown(self.counts, capacity * sizeof(Counts))
            memset(&self.counts[self.capacity], 0,
                   (capacity - self.capacity) * sizeof(Counts))
            self.capacity = capacity
        return 0

    cdef int open(self, int32_t node) except -1 nogil:
        self.clear(node)
        self.counts[node].is_open = True
        return 0

    cdef int clone(self, int32_t node, int32_t child) except -1 nogil:
        self.open(child)
        self.counts[child] = self.counts[node]
        memset(&self.counts[child].classes, 0, sizeof(Table))
        return table_clone(&self.counts[child].classes, &self.counts[node].classes, 1)

    cdef void clear(self, int32_t node) noexcept nogil:
        table_free(&self.counts[node].classes)
        memset(&self.counts[node], 0, sizeof(Counts))

    cdef bint predict(self, int32_t node, const Row* row, Scratch* scratch,
                      Prediction* out) noexcept nogil:
        cdef const Counts* counts = &self.counts[node]
        cdef const Table* classes = &counts.classes
        cdef int32_t slot, label
        cdef double most = 0.0
        if not counts.total > 0.0:
            return False
        for slot in range(classes.capacity):
            label = slot if classes.keys == NULL else classes.keys[slot]
            if classes.records[slot] > 0.0:
                if out.shares != NULL:
                    out.shares[label] = classes.records[slot] / counts.total
                if classes.records[slot] > most or (
                    classes.records[slot] == most and label < out.label
                ):
                    most = classes.records[slot]
                    out.label = label
        return True

    cdef bint learn(self, int32_t node, const Row* row, const Example* example, Scratch* scratch,
                    Prediction* out) except -1 nogil:
        cdef Counts* counts = &self.counts[node]
        cdef int32_t slot = table_find(&counts.classes, example.label)
        if out != NULL:
            out.label = -1
            self.predict(node, row, scratch, out)
        if slot < 0 or counts.classes.records[slot] == 0.0:
            if counts.n_classes == self.max_classes:
                return False
            counts.n_classes += 1
            slot = table_insert(&counts.classes, 1, example.label, self.context.n_labels)
        counts.classes.records[slot] += example.weight
        counts.total += example.weight
        return True

    cdef size_t bytes_of(self, int32_t node) noexcept nogil:
        return table_bytes(&self.counts[node].classes, 1)

    cdef size_t n_bytes(self) noexcept nogil:
        cdef int32_t node
        cdef size_t total = self.capacity * sizeof(Counts)
        for node in range(self.capacity):
            total += self.bytes_of(node)
        return total

    cdef dict state(self, int32_t n_nodes):
        cdef int32_t node
        cdef TableExport classes = TableExport(1)
        for node in range(n_nodes):
            classes.add(&self.counts[node].classes)
        is_open = np.array([self.counts[node].is_open for node in range(n_nodes)], dtype=bool)
        return {"is_open": is_open, "classes": classes.arrays()}

    cdef int take_state(self, dict state) except -1:
        cdef int32_t node
        cdef double[:, ::1] records
        starts = state["classes"]["starts"]
        for node in range(len(state["is_open"])):
            self.clear(node)
            self.counts[node].is_open = state["is_open"][node]
            import_table(
                &self.counts[node].classes, 1, self.context.n_labels, state["classes"], node
            )
            records = state["classes"]["records"][starts[node]:starts[node + 1]]
            self.counts[node].total = np.sum(records)
            self.counts[node].n_classes = <int32_t> records.shape[0]
        return 0

    def check_state(self, dict state, Py_ssize_t n_nodes, Py_ssize_t n_columns,
                    Py_ssize_t n_outputs):
        """Return the nodes that have a model."""
        require(len(state["is_open"]) == n_nodes, "the number of nodes")
        check_tables(state["classes"], n_nodes, n_outputs, 1)
        return set(state["is_open"].nonzero()[0].tolist())
