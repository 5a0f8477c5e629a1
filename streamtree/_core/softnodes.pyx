"""The nodes of a soft tree: their memory, their outputs, their unit, their snapshot."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.memory cimport regrown
from streamtree._core.nodes cimport ROOT, BinaryTree, Link
from streamtree._core.responses cimport Response
from streamtree._core.tables cimport (
    Table, TableExport, import_table, table_bytes, table_free,
)

import numpy as np

cdef enum:
    N_SCRATCH = 7               # scratch vectors of an example

# What a copy of a leaf keeps of its sums of squared gradients: it shall move faster than a leaf
# grown old.
cdef double INHERITED = 0.3


cdef inline void multiply(double* number, double factor) noexcept nogil:
    """A zero stays one even if the factor is infinite."""
    if number[0] != 0.0:
        number[0] *= factor


cdef double* zeros(size_t n) except NULL nogil:
    """A new array of n zeros, n > 0."""
    cdef double* made = <double*> regrown(NULL, n * sizeof(double))
    memset(made, 0, n * sizeof(double))
    return made


cdef void widen_record(
    double* wide, const double* record, int32_t old, int32_t capacity
) noexcept nogil:
    """Copy a record of `old` outputs to a clear one of `capacity`."""
    memcpy(wide, record, old * sizeof(double))
    memcpy(&wide[capacity], &record[old], old * sizeof(double))


cdef void split_record(double* record, int32_t capacity) noexcept nogil:
    """From the weight of one logit to those of two."""
    record[1] = 0.5 * record[0]
    record[0] = -record[1]
    record[capacity + 1] = record[capacity]


cdef class SoftNodes:
    """A pool of nodes, of which some make up the tree, some are pairs, and some are free."""

    def __cinit__(self):
        self.tree = BinaryTree()
        self.first_free = -1
        self.output_capacity = self.outputs = 1
        self.n_nodes = 1

    def __dealloc__(self):
        cdef int32_t node
        if self.tree is not None:
            for node in range(self.tree.size if self.capacity else 0):
                table_free(&self.nodes[node].gate)
                table_free(&self.nodes[node].leaf)
                free(self.nodes[node].bias)
        free(self.nodes)
        free(self.visits)
        free(self.responses)
        free(self._scratch)

    cdef size_t bytes(self) noexcept nogil:
        cdef size_t total = self.capacity * (sizeof(Node) + sizeof(Visit))
        cdef int32_t node
        total += (self.capacity + N_SCRATCH) * self.output_capacity * sizeof(double)
        for node in range(self.tree.size):
            total += table_bytes(&self.nodes[node].gate, GATE_WIDTH)
            total += table_bytes(&self.nodes[node].leaf, 2 * self.output_capacity)
            total += 2 * self.output_capacity * sizeof(double)
        return total

    # ------------------------------------------------------------------------- memory

    cdef int _reserve(self, int32_t capacity) except -1 nogil:
        """Room for `capacity` nodes, each with the offsets of its leaf."""
        cdef int32_t node
        if capacity > self.capacity:
            capacity += capacity // 2
            self.nodes = <Node*> regrown(self.nodes, capacity * sizeof(Node))
            memset(&self.nodes[self.capacity], 0, (capacity - self.capacity) * sizeof(Node))
            self.visits = <Visit*> regrown(self.visits, capacity * sizeof(Visit))
            self.capacity = capacity
        for node in range(self.tree.size):
            if self.nodes[node].bias == NULL:
                self.nodes[node].bias = zeros(2 * self.output_capacity)
        self.responses = <double*> regrown(
            self.responses, self.capacity * self.output_capacity * sizeof(double)
        )
        self._scratch = <double*> regrown(
            self._scratch, N_SCRATCH * self.output_capacity * sizeof(double)
        )
        return 0

    cdef inline double* _room(self, int i) noexcept nogil:
        return &self._scratch[i * self.output_capacity]

    cdef void _clear(self, int32_t node, int32_t depth) noexcept nogil:
        """Nothing old survives but the memory of the offsets."""
        table_free(&self.nodes[node].gate)
        table_free(&self.nodes[node].leaf)
        memset(&self.nodes[node].stats, 0, sizeof(SoftNode))
        memset(self.nodes[node].bias, 0, 2 * self.output_capacity * sizeof(double))
        self.nodes[node].stats.pair = -1
        self.nodes[node].stats.depth = depth

    cdef int32_t _new_pair(self, int32_t depth) except -1 nogil:
        """Two clear nodes side by side."""
        cdef int32_t pair = self.first_free
        if pair >= 0:
            self.first_free = self.nodes[pair].stats.pair
        else:
            pair = self.tree.add(-1)
            self.tree.add(-1)
            self._reserve(self.tree.size)
        self._clear(pair, depth)
        self._clear(pair + 1, depth)
        return pair

    cdef void _free_pair(self, int32_t node) noexcept nogil:
        """Give up what a leaf's children would be."""
        cdef int32_t pair = self.nodes[node].stats.pair
        if pair < 0:
            return
        self._clear(pair, -1)
        self._clear(pair + 1, -1)
        self.tree.links[pair] = self.tree.links[pair + 1] = Link(-1, -1, -1, 0)
        self.nodes[pair].stats.pair = self.first_free
        self.first_free = pair
        self.nodes[node].stats.pair = -1
        table_free(&self.nodes[node].gate)
        self.nodes[node].stats.gate_bias = self.nodes[node].stats.gate_squares = 0.0
        self._begin_window(node)

    cdef int _copy_leaf(self, int32_t source, int32_t target) except -1 nogil:
        cdef const Table* table = &self.nodes[source].leaf
        cdef Table* copied = &self.nodes[target].leaf
        cdef size_t i, j, n = self.output_capacity
        cdef size_t size = table.capacity * 2 * n * sizeof(double)
        if table.capacity:
            copied.records = <double*> regrown(NULL, size)
            memcpy(copied.records, table.records, size)
            if table.keys != NULL:
                copied.keys = <int32_t*> regrown(NULL, table.capacity * sizeof(int32_t))
                memcpy(copied.keys, table.keys, table.capacity * sizeof(int32_t))
            copied.capacity = table.capacity
            copied.size = table.size
            for i in range(<size_t> table.capacity):
                for j in range(n, 2 * n):
                    copied.records[2 * n * i + j] *= INHERITED
        memcpy(self.nodes[target].bias, self.nodes[source].bias, 2 * n * sizeof(double))
        for j in range(n, 2 * n):
            self.nodes[target].bias[j] *= INHERITED
        return 0

    cdef void _begin_window(self, int32_t node) noexcept nogil:
        cdef SoftNode* stats = &self.nodes[node].stats
        stats.count = stats.gain_sum = stats.gain_squares = 0.0

    # ------------------------------------------------------------------------- outputs

    cdef int set_outputs(self, int32_t outputs) except -1 nogil:
        """Give every leaf one logit a class; that of a new class starts at 0."""
        if outputs > self.output_capacity:
            self._widen(max(outputs, self.output_capacity + self.output_capacity // 2))
        self.outputs = outputs
        if self.kind == Response.LOGIT:
            self.kind = Response.LOGITS
            self._split_logit()
        return 0

    cdef int _widen(self, int32_t capacity) except -1 nogil:
        """Make room for `capacity` outputs in every record."""
        cdef int32_t node, slot, old = self.output_capacity
        cdef size_t width = 2 * capacity
        cdef double* records
        cdef Table* table
        for node in range(self.tree.size):
            table = &self.nodes[node].leaf
            if table.capacity:
                records = zeros(table.capacity * width)
                for slot in range(table.capacity):
                    widen_record(&records[slot * width], &table.records[slot * 2 * <size_t> old],
                                 old, capacity)
                free(table.records)
                table.records = records
            records = zeros(width)
            widen_record(records, self.nodes[node].bias, old, capacity)
            free(self.nodes[node].bias)
            self.nodes[node].bias = records
        self.output_capacity = capacity
        self._reserve(self.tree.size)
        return 0

    cdef void _split_logit(self) noexcept nogil:
        """From one logit s to one for each class: -s / 2 and s / 2 give the same shares."""
        cdef int32_t node, slot, capacity = self.output_capacity
        cdef Table* table
        for node in range(self.tree.size):
            table = &self.nodes[node].leaf
            for slot in range(table.capacity):
                split_record(&table.records[<size_t> slot * 2 * capacity], capacity)
            split_record(self.nodes[node].bias, capacity)

    cdef void rescale(self, double factor, double offset) noexcept nogil:
        """Turn every response F into factor F + offset, all gradients with it."""
        cdef double squared = factor * factor
        cdef int32_t node, slot
        cdef SoftNode* stats
        for node in range(self.tree.size):
            for slot in range(self.nodes[node].leaf.capacity):
                multiply(&self.nodes[node].leaf.records[2 * <size_t> slot], factor)
                multiply(&self.nodes[node].leaf.records[2 * <size_t> slot + 1], squared)
            multiply(&self.nodes[node].bias[0], factor)
            multiply(&self.nodes[node].bias[1], squared)
            self.nodes[node].bias[0] += offset
            # losses and the slopes of gates go with the square of the response
            stats = &self.nodes[node].stats
            multiply(&stats.gain_sum, squared)
            multiply(&stats.gain_squares, squared * squared)
            multiply(&stats.gate_squares, squared * squared)
            for slot in range(self.nodes[node].gate.capacity):
                multiply(&self.nodes[node].gate.records[2 * <size_t> slot + 1], squared * squared)

    # ---------------------------------------------------------------------------- state

    def depths(self):
        """The depth of every node of the tree, parents first, as an int32 array."""
        depths = np.zeros(self.n_nodes, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node = ROOT, depth = 0, i = 0
        while node >= 0:
            view[i] = depth
            i += 1
            node = self.tree.next_in_preorder(node, &depth)
        return depths

    cdef dict snapshot(self):
        """All that was learned, as arrays and numbers."""
        cdef int32_t node, c, k = self.outputs, capacity = self.output_capacity
        cdef TableExport gates = TableExport(GATE_WIDTH)
        cdef TableExport leaves = TableExport(2 * capacity)
        cdef SoftNode empty
        cdef SoftNode[::1] view
        cdef double[:, ::1] offsets
        memset(&empty, 0, sizeof(SoftNode))
        stats = np.zeros(self.tree.size, dtype=np.asarray(<SoftNode[:1]> &empty).dtype)
        biases = np.zeros((self.tree.size, 2 * k))
        view = stats
        offsets = biases
        for node in range(self.tree.size):
            view[node] = self.nodes[node].stats
            gates.add(&self.nodes[node].gate)
            leaves.add(&self.nodes[node].leaf)
            for c in range(k):
                offsets[node, c] = self.nodes[node].bias[c]
                offsets[node, k + c] = self.nodes[node].bias[capacity + c]
        models = leaves.arrays()
        models["records"] = np.hstack(
            [models["records"][:, :k], models["records"][:, capacity:capacity + k]]
        )
        return {
            "links": self.tree.snapshot(),
            "nodes": stats,
            "gates": gates.arrays(),
            "leaves": models,
            "leaf_offsets": biases,
            "newest": self.newest,
            "first_free": self.first_free,
            "n_nodes": self.n_nodes,
            "n_splits": self.n_splits,
            "n_collapses": self.n_collapses,
        }

    cdef int restore(self, dict state, int32_t n_columns) except -1:
        """Take over what `snapshot` gave; the tree must be new."""
        cdef const SoftNode[::1] stats = state["nodes"]
        cdef const double[:, ::1] offsets = state["leaf_offsets"]
        cdef int32_t node
        self.outputs = <int32_t> (offsets.shape[1] // 2)
        if self.outputs > 1:
            self.kind = Response.LOGITS
            self._widen(self.outputs)
        self.tree.restore(state["links"])
        self._reserve(self.tree.size)
        for node in range(self.tree.size):
            self.nodes[node].stats = stats[node]
            memcpy(self.nodes[node].bias, &offsets[node, 0], 2 * self.outputs * sizeof(double))
            import_table(&self.nodes[node].gate, GATE_WIDTH, n_columns, state["gates"], node)
            import_table(
                &self.nodes[node].leaf, 2 * self.outputs, n_columns, state["leaves"], node
            )
        self.newest = state["newest"]
        self.first_free = state["first_free"]
        self.n_nodes = state["n_nodes"]
        self.n_splits = state["n_splits"]
        self.n_collapses = state["n_collapses"]
        return 0
