"""Trees whose leaves add up to scores, and what is known of them without rows."""

cimport cython
from libc.float cimport FLT_MAX
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove, memset

from streamtree._core.kernels.bins cimport BINS, bin_of
from streamtree._core.splits.bounds cimport bound_of, bucket_of
from streamtree._core.store.budget cimport counted, counted_room, give_back, spacious
from streamtree._core.store.memory cimport regrown
from streamtree._core.stream.row cimport Row

import numpy as np


cdef enum:
    # of more columns than these a row is not coded: most would not be asked for
    MOST_CODES = 128
    # trees that a row is followed down at a time: alone it waits at every node
    SIDE_BY_SIDE = 8

cdef struct StageRecord:
    # of a StageNode, in the order of the trees
    int32_t column
    float threshold
    uint32_t members
    int32_t next
    float gain
    int32_t n_rows
    int32_t missing_right
    int32_t salt


cdef StageRecord _blank
RECORDS = np.asarray(<StageRecord[:1]> &_blank).dtype


@cython.final
cdef class Stages:
    """Nodes of one tree after the other; the two children of a node come after it."""

    def __cinit__(self):
        self.unit = 1.0

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept nogil:
        """Forget all trees, and that there are outputs."""
        give_back(self.nodes)
        give_back(self.grown)
        give_back(self.roots)
        give_back(self.values)
        give_back(self.base)
        self._drop_codes()
        self.nodes = NULL
        self.grown = NULL
        self.roots = NULL
        self.values, self.base = NULL, NULL
        self.unit = 1.0
        self.n_nodes = self.n_trees = self.n_leaves = self.n_outputs = self.n_labels = 0
        self.node_capacity = self.tree_capacity = self.leaf_capacity = 0

    cdef size_t n_bytes(self) noexcept nogil:
        return (
            self.node_capacity * (sizeof(StageNode) + sizeof(Grown))
            + self.tree_capacity * sizeof(int32_t)
            + self.leaf_capacity * self.n_outputs * sizeof(float) + self.n_outputs * sizeof(double)
        )

    cdef void swap(self, Stages other) noexcept nogil:
        """Exchange all trees."""
        self.nodes, other.nodes = other.nodes, self.nodes
        self.grown, other.grown = other.grown, self.grown
        self.roots, other.roots = other.roots, self.roots
        self.values, other.values = other.values, self.values
        self.base, other.base = other.base, self.base
        self.unit, other.unit = other.unit, self.unit
        self.n_nodes, other.n_nodes = other.n_nodes, self.n_nodes
        self.n_trees, other.n_trees = other.n_trees, self.n_trees
        self.n_leaves, other.n_leaves = other.n_leaves, self.n_leaves
        self.n_outputs, other.n_outputs = other.n_outputs, self.n_outputs
        self.n_labels, other.n_labels = other.n_labels, self.n_labels
        self.node_capacity, other.node_capacity = other.node_capacity, self.node_capacity
        self.tree_capacity, other.tree_capacity = other.tree_capacity, self.tree_capacity
        self.leaf_capacity, other.leaf_capacity = other.leaf_capacity, self.leaf_capacity
        self.coded, other.coded = other.coded, self.coded
        self.codes, other.codes = other.codes, self.codes
        self.cuts, other.cuts = other.cuts, self.cuts
        self.n_codes, other.n_codes = other.n_codes, self.n_codes

    # ---------------------------------------------------------------------------- growing

    cdef int begin(self, int32_t n_labels, int32_t n_outputs) except -1 nogil:
        """Begin with no tree, for so many outputs that say nothing."""
        cdef int32_t i
        self.clear()
        self.base = <double*> counted(NULL, n_outputs * sizeof(double))
        for i in range(n_outputs):
            self.base[i] = 0.0
        self.n_labels, self.n_outputs = n_labels, n_outputs
        return 0

    cdef int begin_tree(self) except -1 nogil:
        """Begin with another tree: a root that is neither split nor a leaf yet."""
        cdef int32_t root
        self.roots = <int32_t*> counted_room(
            self.roots, &self.tree_capacity, self.n_trees + 1, sizeof(int32_t)
        )
        self.reserve_nodes(self.n_nodes + 1)
        root = self.add_node()
        self.roots[self.n_trees] = root
        self.n_trees += 1
        return 0

    cdef int reserve_nodes(self, int32_t n) except -1 nogil:
        cdef int32_t capacity = <int32_t> spacious(n)
        if capacity > self.node_capacity:
            self.nodes = <StageNode*> counted(self.nodes, capacity * sizeof(StageNode))
            self.grown = <Grown*> counted(self.grown, capacity * sizeof(Grown))
            self.node_capacity = capacity
        return 0

    cdef int reserve_leaves(self, int32_t n) except -1 nogil:
        self.values = <float*> counted_room(
            self.values, &self.leaf_capacity, n, self.n_outputs * sizeof(float)
        )
        return 0

    cdef int32_t add_node(self) except -1 nogil:
        """A new node, for which there is room."""
        memset(&self.nodes[self.n_nodes], 0, sizeof(StageNode))
        self.grown[self.n_nodes] = Grown(0.0, 0)
        self.nodes[self.n_nodes].column = -1
        self.n_nodes += 1
        return self.n_nodes - 1

    cdef int32_t split(self, int32_t node) except -1 nogil:
        """Two children for a node, whose test is there; returns the left one."""
        cdef int32_t left
        self.reserve_nodes(self.n_nodes + 2)
        left = self.add_node()
        self.add_node()
        self.nodes[node].next = left
        return left

    cdef float* add_leaf(self, int32_t node) except NULL nogil:
        """Make a node a leaf; returns its values, which are to be written."""
        self.reserve_leaves(self.n_leaves + 1)
        self.nodes[node].next = self.n_leaves
        self.n_leaves += 1
        return &self.values[<Py_ssize_t> (self.n_leaves - 1) * self.n_outputs]

    # ------------------------------------------------------------------------------- rows

    cdef int32_t step_of(self, int32_t node, const Row* row,
                         const int32_t* groups) noexcept nogil:
        """The child of a node to which a row goes."""
        return self.nodes[node].next + is_right(&self.nodes[node], row, groups)

    cdef void score(self, const Row* row, const int32_t* groups, double* out) noexcept nogil:
        """Write what all trees together say to n_outputs numbers."""
        cdef int32_t at[SIDE_BY_SIDE]
        cdef uint8_t codes[MOST_CODES + 1]
        cdef int32_t first = 0, n, i, k, width = self.n_outputs
        cdef const Code* code
        cdef const float* values
        for k in range(width):
            out[k] = self.base[k]
        for i in range(self.n_codes):
            code = &self.codes[i]
            codes[i] = <uint8_t> (
                bucket_of(row.kinds[groups[code.column]], code.salt) if code.salt
                else bin_of(row.table[code.column], &self.cuts[i * BINS], code.n_cuts)
            )
        # by which leaves go nowhere
        codes[self.n_codes] = 0
        while first < self.n_trees:
            n = min(self.n_trees - first, <int32_t> SIDE_BY_SIDE)
            for i in range(n):
                at[i] = self.roots[first + i]
            self._descend(at, n, row, groups, codes)
            for i in range(n):
                values = &self.values[<Py_ssize_t> self.nodes[at[i]].next * width]
                for k in range(width):
                    out[k] += self.unit * values[k]
            first += n

    cdef void _descend(self, int32_t* at, int32_t n, const Row* row, const int32_t* groups,
                       const uint8_t* codes) noexcept nogil:
        """Follow a row down some trees to their leaves."""
        cdef int32_t i, child, moves = 1
        cdef const StageNode* here
        cdef const CodedNode* coded
        while moves:
            moves = 0
            for i in range(n if self.coded != NULL else 0):
                coded = &self.coded[at[i]]
                child = coded.next + <int32_t> (coded.right >> codes[coded.code] & 1)
                moves |= child ^ at[i]
                at[i] = child
            for i in range(n if self.coded == NULL else 0):
                here = &self.nodes[at[i]]
                if here.column >= 0:
                    at[i] = here.next + is_right(here, row, groups)
                    moves = 1

    # ------------------------------------------------------------------------------ codes

    cdef void _drop_codes(self) noexcept nogil:
        free(self.coded)
        free(self.codes)
        free(self.cuts)
        self.coded, self.codes, self.cuts, self.n_codes = NULL, NULL, NULL, 0

    cdef size_t coded_bytes(self) noexcept nogil:
        """What codes take, which follow from the nodes and are not counted."""
        if self.coded == NULL:
            return 0
        return self.n_nodes * sizeof(CodedNode) + MOST_CODES * sizeof(Code) + (
            self.n_codes * BINS * sizeof(float)
        )

    cdef int encode(self) except -1 nogil:
        """Write down by which codes of its columns a row goes right; no node comes after that.

        A value is coded once a row, by the thresholds that trees have for its column; then a test
        is a bit, of thresholds as well as of sets, and no jump is random.
        """
        cdef int32_t node
        cdef const StageNode* here
        self._drop_codes()
        self.codes = <Code*> regrown(NULL, MOST_CODES * sizeof(Code))
        self.cuts = <float*> regrown(NULL, MOST_CODES * BINS * sizeof(float))
        for node in range(self.n_nodes):
            if self.nodes[node].column >= 0 and self._find_code(&self.nodes[node]) < 0:
                self._drop_codes()
                return 0
        self.cuts = <float*> regrown(self.cuts, max(self.n_codes, 1) * BINS * sizeof(float))
        self.coded = <CodedNode*> regrown(NULL, max(self.n_nodes, 1) * sizeof(CodedNode))
        for node in range(self.n_nodes):
            here = &self.nodes[node]
            self.coded[node] = CodedNode(0, node, self.n_codes)
            if here.column >= 0:
                self.coded[node].next = here.next
                self.coded[node].code = self._find_code(here)
                self.coded[node].right = self._right_codes(here, self.coded[node].code)
        return 0

    cdef int32_t _find_code(self, const StageNode* node) noexcept nogil:
        """The code of the column of a node, with its threshold; -1 where there is no room."""
        cdef int32_t i = 0, place = 0
        cdef Code* code
        cdef float* cuts
        while i < self.n_codes and (
            self.codes[i].column != node.column or self.codes[i].salt != node.salt
        ):
            i += 1
        if i == MOST_CODES:
            return -1
        code, cuts = &self.codes[i], &self.cuts[i * BINS]
        if i == self.n_codes:
            self.n_codes += 1
            code[0] = Code(node.column, 0, node.salt)
            for place in range(BINS):
                cuts[place] = FLT_MAX
            place = 0
        if node.salt or node.bound.threshold == FLT_MAX:
            # no value is above
            return i
        while place < code.n_cuts and cuts[place] < node.bound.threshold:
            place += 1
        if place < code.n_cuts and cuts[place] == node.bound.threshold:
            return i
        if code.n_cuts == BINS - 2:
            return -1
        memmove(&cuts[place + 1], &cuts[place], (code.n_cuts - place) * sizeof(float))
        cuts[place] = node.bound.threshold
        code.n_cuts += 1
        return i

    cdef uint64_t _right_codes(self, const StageNode* node, int32_t code) noexcept nogil:
        """The codes by which a row goes right, by bit."""
        cdef int32_t place = 0
        if node.salt:
            return node.bound.members
        while self.cuts[code * BINS + place] < node.bound.threshold:
            place += 1
        # of as many cuts below a value it is one more, and 0 of what is missing
        return <uint64_t> -4 << place | node.missing_right

    # -------------------------------------------------------------------------- inspection

    def expected(self, int32_t output):
        """By node: the mean of what the rows that it was grown from are told by its tree."""
        cdef int32_t node, child
        cdef double part
        means = np.zeros(self.n_nodes)
        cdef double[::1] view = means
        for node in range(self.n_nodes - 1, -1, -1):
            child = self.nodes[node].next
            if self.nodes[node].column < 0:
                view[node] = self.unit * self.values[
                    <Py_ssize_t> child * self.n_outputs + output
                ]
            else:
                part = self.grown[child].n_rows / <double> self.grown[node].n_rows
                view[node] = part * view[child] + (1.0 - part) * view[child + 1]
        return means

    def depths(self):
        """The depth of every node in its tree, as an int32 array of shape (n_nodes,)."""
        depths = np.zeros(self.n_nodes, dtype=np.int32)
        cdef int32_t[::1] view = depths
        cdef int32_t node, child
        for node in range(self.n_nodes):
            if self.nodes[node].column >= 0:
                child = self.nodes[node].next
                view[child] = view[child + 1] = view[node] + 1
        return depths

    # ------------------------------------------------------------------------------ state

    cdef dict state(self):
        cdef int32_t node, n = self.n_nodes
        cdef const StageNode* here
        records = np.empty(n, dtype=RECORDS)
        cdef StageRecord[::1] view = records
        for node in range(n):
            here = &self.nodes[node]
            view[node] = StageRecord(
                here.column, 0.0 if here.salt else here.bound.threshold,
                here.bound.members if here.salt else 0, here.next, self.grown[node].gain,
                self.grown[node].n_rows, here.missing_right, here.salt,
            )
        roots = np.empty(self.n_trees, dtype=np.int32)
        values = np.empty((self.n_leaves, self.n_outputs), dtype=np.float32)
        base = np.empty(self.n_outputs)
        if self.n_trees:
            roots[:] = <int32_t[:self.n_trees]> self.roots
        if self.n_leaves:
            values[:] = <float[:self.n_leaves, :self.n_outputs]> self.values
        if self.n_outputs:
            base[:] = <double[:self.n_outputs]> self.base
        return {
            "nodes": records, "roots": roots, "values": values, "base": base,
            "n_labels": self.n_labels, "unit": self.unit,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const StageRecord[::1] records = state["nodes"]
        cdef const int32_t[::1] roots = state["roots"]
        cdef const float[:, ::1] values = state["values"]
        cdef const double[::1] base = state["base"]
        cdef int32_t i, k, n_leaves = <int32_t> values.shape[0]
        cdef StageNode* here
        self.clear()
        if base.shape[0] == 0:
            return 0
        self.begin(state["n_labels"], <int32_t> base.shape[0])
        self.unit = state["unit"]
        for k in range(self.n_outputs):
            self.base[k] = base[k]
        for i in range(<int32_t> roots.shape[0]):
            self.begin_tree()
            self.roots[i] = roots[i]
        self.reserve_nodes(<int32_t> records.shape[0])
        self.n_nodes = <int32_t> records.shape[0]
        for i in range(self.n_nodes):
            here = &self.nodes[i]
            here.column, here.next = records[i].column, records[i].next
            here.bound = bound_of(records[i].salt, records[i].threshold, records[i].members)
            self.grown[i] = Grown(records[i].gain, records[i].n_rows)
            here.missing_right = <uint8_t> records[i].missing_right
            here.salt = <uint8_t> records[i].salt
        if n_leaves:
            self.reserve_leaves(n_leaves)
        self.n_leaves = n_leaves
        for i in range(n_leaves):
            for k in range(self.n_outputs):
                self.values[<Py_ssize_t> i * self.n_outputs + k] = values[i, k]
        return self.encode()
