"""The nodes of a soft tree: their memory, their outputs, the unit of the targets, their state."""

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memmove, memset

from streamtree._core.kernels.losses cimport LOGIT, LOGITS, NUMBER
from streamtree._core.store.links cimport ROOT, Link, TreeLinks
from streamtree._core.store.budget cimport counted, counted_room, give_back, spacious
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.store.tables cimport (
    Table, TableExport, import_table, table_allocate, table_clone, table_free,
)
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.scales cimport ColumnScale
from streamtree._core.trees.tree cimport Tree

import numpy as np

cdef enum:
    N_ROOMS = 7                 # vectors of one number an output that an example needs

# What a copy of a leaf keeps of its sums of squared gradients: it shall move faster than a leaf
# grown old.
cdef double INHERITED = 0.3

cdef SoftNode _blank
STATS = np.asarray(<SoftNode[:1]> &_blank).dtype


cdef inline void multiply(double* number, double factor) noexcept nogil:
    """A zero stays one even if the factor is infinite."""
    if number[0] != 0.0:
        number[0] *= factor


cdef void widen_record(
    double* wide, const double* record, int32_t old, int32_t capacity
) noexcept nogil:
    """Copy a record of `old` outputs to a clear one of `capacity`."""
    memcpy(wide, record, old * sizeof(double))
    memcpy(&wide[capacity], &record[old], old * sizeof(double))


cdef void narrow_records(double* records, int32_t n, int32_t capacity, int32_t old) noexcept nogil:
    """Make records of `capacity` outputs, where they are, those of `old` that they were."""
    cdef Py_ssize_t i, width = 2 * <Py_ssize_t> capacity
    cdef double* to
    for i in range(n):
        to = &records[i * 2 * old]
        memmove(to, &records[i * width], old * sizeof(double))
        memmove(to + old, &records[i * width + capacity], old * sizeof(double))


cdef void split_record(double* record, int32_t capacity) noexcept nogil:
    """From the weight of one logit to those of two."""
    record[1] = 0.5 * record[0]
    record[0] = -record[1]
    record[capacity + 1] = record[capacity]


cdef class SoftNodes(Tree):
    """A pool of nodes, of which some make up the tree, some are pairs, and some are free."""

    def __cinit__(self, *, bint is_regression, **settings):
        self.is_regression = is_regression
        self.response = NUMBER if is_regression else LOGIT
        self.shape = TreeLinks()
        self.first_free = -1
        self.output_capacity = self.outputs = 1
        self.n_reached = 1

    cdef int bind(self, Context context) except -1:
        Tree.bind(self, context)
        if self.capacity == 0:
            self._reserve(1)
            self._clear(ROOT, 0)
        return 0

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            table_free(&self.nodes[node].gate)
            table_free(&self.nodes[node].leaf)
            give_back(self.nodes[node].bias)
        give_back(self.nodes)
        give_back(self.visits)
        give_back(self.responses)
        give_back(self._rooms)

    @property
    def n_nodes(self):
        return self.n_reached

    # ------------------------------------------------------------------------- memory

    cdef int _reserve(self, int32_t n) except -1 nogil:
        """Room for n nodes, each with the offsets of its leaf."""
        cdef int32_t node
        self.nodes = <Node*> counted_room(self.nodes, &self.capacity, n, sizeof(Node))
        self.visits = <Visit*> counted(self.visits, self.capacity * sizeof(Visit))
        for node in range(n):
            # those to come may have one from a time when memory ran out
            if node >= self.shape.size or self.nodes[node].bias == NULL:
                self.nodes[node].bias = <double*> counted(
                    self.nodes[node].bias, 2 * self.output_capacity * sizeof(double)
                )
        return self._reserve_answers(self.output_capacity)

    cdef int _reserve_answers(self, int32_t outputs) except -1 nogil:
        """Room for so many outputs of every node."""
        self.responses = <double*> counted(
            self.responses, self.capacity * <size_t> outputs * sizeof(double)
        )
        self._rooms = <double*> counted(self._rooms, N_ROOMS * <size_t> outputs * sizeof(double))
        return 0

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
            self.shape.reserve(self.shape.size + 2)
            self._reserve(self.shape.size + 2)
            pair = self.shape.add(-1)
            self.shape.add(-1)
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
        self.shape.links[pair] = self.shape.links[pair + 1] = Link(-1, -1, -1, -1)
        self.nodes[pair].stats.pair = self.first_free
        self.first_free = pair
        self.nodes[node].stats.pair = -1
        table_free(&self.nodes[node].gate)
        self.nodes[node].stats.gate_bias = self.nodes[node].stats.gate_squares = 0.0
        self._begin_window(node)

    cdef int _copy_leaf(self, int32_t source, int32_t target) except -1 nogil:
        cdef Table* copied = &self.nodes[target].leaf
        cdef size_t i, j, n = self.output_capacity
        table_clone(copied, &self.nodes[source].leaf, 2 * self.output_capacity)
        for i in range(<size_t> copied.capacity):
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

    cdef int _set_outputs(self, int32_t outputs) except -1 nogil:
        """Give every leaf one logit a class; that of a new class starts at 0."""
        if outputs > self.output_capacity:
            self._widen(<int32_t> spacious(outputs))
        self.outputs = outputs
        if self.response == LOGIT:
            self.response = LOGITS
            self._split_logit()
        return 0

    cdef int _widen(self, int32_t capacity) except -1 nogil:
        """Make room for `capacity` outputs in every record, or, on an error, in none."""
        cdef int32_t node, old = self.output_capacity, n_wide = 0
        try:
            self._reserve_answers(capacity)
            for node in range(self.shape.size):
                self._widen_node(node, capacity)
                n_wide += 1
            self.output_capacity = capacity
        finally:
            if self.output_capacity != capacity:
                for node in range(n_wide):
                    narrow_records(
                        self.nodes[node].leaf.records, self.nodes[node].leaf.capacity, capacity,
                        old,
                    )
                    narrow_records(self.nodes[node].bias, 1, capacity, old)
        return 0

    cdef int _widen_node(self, int32_t node, int32_t capacity) except -1 nogil:
        cdef int32_t slot, old = self.output_capacity
        cdef size_t width = 2 * capacity
        cdef Table* table = &self.nodes[node].leaf
        cdef Table wide
        cdef double* records = <double*> counted(self.nodes[node].bias, width * sizeof(double))
        self.nodes[node].bias = records
        if table.capacity:
            table_allocate(&wide, <int> width, table.capacity, table.keys == NULL)
            wide.size = table.size
            for slot in range(table.capacity):
                widen_record(&wide.records[slot * width],
                             &table.records[slot * 2 * <size_t> old], old, capacity)
            if table.keys != NULL:
                memcpy(wide.keys, table.keys, table.capacity * sizeof(int32_t))
            table_free(table)
            table[0] = wide
        # in place: the squares, then zeros behind both
        memmove(&records[capacity], &records[old], old * sizeof(double))
        memset(&records[old], 0, (capacity - old) * sizeof(double))
        memset(&records[capacity + old], 0, (capacity - old) * sizeof(double))
        return 0

    cdef void _split_logit(self) noexcept nogil:
        """From one logit s to one for each class: -s / 2 and s / 2 give the same shares."""
        cdef int32_t node, slot, capacity = self.output_capacity
        cdef Table* table
        for node in range(self.shape.size):
            table = &self.nodes[node].leaf
            for slot in range(table.capacity):
                split_record(&table.records[<size_t> slot * 2 * capacity], capacity)
            split_record(self.nodes[node].bias, capacity)

    # ------------------------------------------------------------------------- targets

    cdef void _widen_range(self, double target) noexcept nogil:
        """Note the least and the greatest target."""
        if self.n_targets == 0:
            self.low = self.high = target
        self.n_targets += 1
        self.low = min(self.low, target)
        self.high = max(self.high, target)

    cdef bint _follow(self, const ColumnScale* scale) noexcept nogil:
        """Take over the scale of the targets; returns whether that changed the leaves.

        Leaves respond in standard deviations from the mean of the targets. Whenever these two are
        computed anew, all leaves are rescaled, so that no prediction changes; where the targets
        have another unit, standardised ones look as before, and leaves stay as they are.
        """
        cdef TargetUnit before = self.unit
        if scale.center == before.center and scale.factor == before.factor:
            return False
        self.unit = TargetUnit(scale.center, scale.factor, scale.n_units)
        # as long as all targets are alike, every leaf predicts their mean
        if not (before.factor > 0.0 and scale.factor > 0.0) or before.n_units != scale.n_units:
            return False
        self._rescale(
            scale.factor / before.factor, (before.center - scale.center) * scale.factor
        )
        return True

    cdef void _rescale(self, double factor, double offset) noexcept nogil:
        """Turn every response F into factor F + offset, all gradients with it."""
        cdef double squared = factor * factor
        cdef int32_t node, slot
        cdef SoftNode* stats
        for node in range(self.shape.size):
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
        depths = np.zeros(self.n_reached, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node = ROOT, depth = 0, i = 0
        while node >= 0:
            view[i] = depth
            i += 1
            node = self.shape.next_in_preorder(node, &depth)
        return depths

    cdef dict state(self):
        cdef int32_t node, c, k = self.outputs, capacity = self.output_capacity
        cdef TableExport gates = TableExport(GATE_WIDTH)
        cdef TableExport leaves = TableExport(2 * capacity)
        cdef double[:, ::1] offsets
        biases = np.zeros((self.shape.size, 2 * k))
        offsets = biases
        for node in range(self.shape.size):
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
            "links": self.shape.state(),
            "nodes": export_records(
                &self.nodes[0].stats, sizeof(Node), self.shape.size, STATS
            ),
            "gates": gates.arrays(),
            "leaves": models,
            "leaf_offsets": biases,
            "n_classes": self.n_classes,
            "target_unit": dict(self.unit),
            "target_range": {"n": self.n_targets, "low": self.low, "high": self.high},
            "newest": self.newest,
            "first_free": self.first_free,
            "n_nodes": self.n_reached,
            "n_splits": self.n_splits,
            "n_collapses": self.n_collapses,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const double[:, ::1] offsets = state["leaf_offsets"]
        cdef int32_t node, n_columns = self.context.n_columns
        self.outputs = <int32_t> (offsets.shape[1] // 2)
        if self.outputs > 1:
            self.response = LOGITS
            self._widen(self.outputs)
        self.shape.take_state(state["links"])
        self._reserve(self.shape.size)
        import_records(&self.nodes[0].stats, sizeof(Node), state["nodes"])
        for node in range(self.shape.size):
            memcpy(self.nodes[node].bias, &offsets[node, 0], 2 * self.outputs * sizeof(double))
            import_table(&self.nodes[node].gate, GATE_WIDTH, n_columns, state["gates"], node)
            import_table(
                &self.nodes[node].leaf, 2 * self.outputs, n_columns, state["leaves"], node
            )
        self._widen(<int32_t> spacious(self.outputs) if self.outputs > 1 else 1)
        self.n_classes = state["n_classes"]
        self.unit = state["target_unit"]
        self.n_targets = state["target_range"]["n"]
        self.low, self.high = state["target_range"]["low"], state["target_range"]["high"]
        self.newest = state["newest"]
        self.first_free = state["first_free"]
        self.n_reached = state["n_nodes"]
        self.n_splits = state["n_splits"]
        self.n_collapses = state["n_collapses"]
        return 0
