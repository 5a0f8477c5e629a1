"""A family of trees of one file: the majority on either side of zero in one column."""

from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.store.tables cimport (
    Table, TableExport, import_table, table_bytes, table_find, table_free, table_insert,
)
from streamtree._core.stream.row cimport PLAIN, Example, Prediction, Row, Scratch, value_of
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.store.checks import check_tables


cdef class StumpTree(Tree):
    """One split that never changes, and votes in its two leaves."""

    cdef int32_t column
    cdef Table[2] votes

    def __cinit__(self, int32_t column):
        self.views = PLAIN
        self.column = column

    def __dealloc__(self):
        table_free(&self.votes[0])
        table_free(&self.votes[1])

    cdef bint side(self, const Row* row) noexcept nogil:
        return value_of(&row.plain, self.column, 0.0) > 0.0

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        cdef const Table* votes = &self.votes[self.side(row)]
        cdef int32_t label, slot, n = self.context.n_labels
        cdef double vote, most = -1.0, total = 1.0
        for label in range(n):
            slot = table_find(votes, label)
            total += votes.records[slot] if slot >= 0 else 0.0
        for label in range(n):
            slot = table_find(votes, label)
            vote = votes.records[slot] if slot >= 0 else 0.0
            if out.shares != NULL:
                out.shares[label] = (vote + 1.0 / n) / total
            if vote > most:
                most = vote
                out.label = label

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef Table* votes = &self.votes[self.side(row)]
        cdef int32_t slot = table_find(votes, example.label)
        if out != NULL:
            self.predict(row, scratch, out)
        if slot < 0:
            slot = table_insert(votes, 1, example.label, self.context.n_labels)
        votes.records[slot] += example.weight
        return 0

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return 1 + self.side(row)

    cdef list path(self, const Row* row, Scratch* scratch):
        return [(0, value_of(&row.plain, self.column, 0.0)), (1 + self.side(row), None)]

    cdef size_t n_bytes(self) noexcept nogil:
        return table_bytes(&self.votes[0], 1) + table_bytes(&self.votes[1], 1)

    @property
    def n_nodes(self):
        """The root and two leaves."""
        return 3

    def depths(self):
        """The depth of every node."""
        return np.array([0, 1, 1], dtype=np.int32)

    cdef dict state(self):
        cdef TableExport votes = TableExport(1)
        votes.add(&self.votes[0])
        votes.add(&self.votes[1])
        return {"votes": votes.arrays()}

    cdef int take_state(self, dict state) except -1:
        cdef int i
        for i in range(2):
            table_free(&self.votes[i])
            memset(&self.votes[i], 0, sizeof(Table))
            import_table(&self.votes[i], 1, self.context.n_labels, state["votes"], i)
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_tables(state["votes"], 2, n_outputs, 1)
