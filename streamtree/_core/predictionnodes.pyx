"""The nodes of a self-terminating prediction tree: links, counts, and what they predict.

A node predicts class shares (log loss) or a score f, the sum of the alphas on its path, by the
closed form of its branch. The statistics of leaves belong to it too; what is done with them is
the business of the tree.
"""

from libc.math cimport NAN, fabs, log
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.histograms cimport (
    LeafExport, free_leaf, import_leaf, map_bytes, map_find, map_insert,
)
from streamtree._core.leafmodels cimport Standard
from streamtree._core.memory cimport regrown
from streamtree._core.predicates cimport MISSING, NOMINAL, THRESHOLD
from streamtree._core.solvers cimport (
    LOG, ROUNDING, SCORE_BOUND, SQUARED, Scale, Share, alpha_l1, alpha_linf, bounded,
    shares_multiclass, sigmoid,
)
from streamtree._core.types cimport Row

import numpy as np

# many classes: values are computed anew at this growth, and while a class is this rare
cdef double REFRESH_GROWTH = 1.0625
cdef double RARE_COUNT = 16.0


cdef inline double number_in(Row row, int32_t column, bint* found) noexcept nogil:
    """The value of a column in a row."""
    cdef Py_ssize_t i
    found[0] = True
    if column < row.n and row.columns[column] == column:
        return row.values[column]
    for i in range(row.n):
        if row.columns[i] == column:
            return row.values[i]
    found[0] = False
    return 0.0


cdef int32_t spacious(int32_t n) noexcept nogil:
    """A capacity for n nodes that depends on n only: at most a quarter more, in steps."""
    cdef int32_t step = 4
    while 8 * step < n:
        step *= 2
    return (n + step - 1) // step * step


cdef class PredictionNodes:
    """Nodes in a flat array, children after their parents."""

    def __cinit__(self, *, int loss, bint is_linf, **settings):
        self.loss = loss
        self.is_linf = is_linf
        self.stride = 4 if loss == SQUARED else 2
        self.scratch = <Share*> regrown(NULL, (self.stride + 1) * sizeof(Share))
        self.n_bytes = (self.stride + 1) * sizeof(Share)
        self.add_node(-1, 0)

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.size):
            free_leaf(self.privates[node].leaf)
            free(self.privates[node].branches.pairs)
        free(self.nodes)
        free(self.privates)
        free(self.pool)
        free(self.scratch)
        free(self.groups)
        free(self.ties)
        free(self.standards)

    cdef int add_column(self, int32_t group, uint32_t tie) except -1:
        """Say of the next column which feature it is a category of (-1: a number)."""
        cdef int32_t capacity
        if self.n_columns == self.columns_capacity:
            capacity = spacious(self.n_columns + 1)
            self.groups = <int32_t*> regrown(self.groups, capacity * sizeof(int32_t))
            self.ties = <uint32_t*> regrown(self.ties, capacity * sizeof(uint32_t))
            self.standards = <Standard*> regrown(self.standards, capacity * sizeof(Standard))
            self.n_bytes += (capacity - self.columns_capacity) * (
                2 * sizeof(int32_t) + sizeof(Standard)
            )
            self.columns_capacity = capacity
        memset(&self.standards[self.n_columns], 0, sizeof(Standard))
        self.groups[self.n_columns] = group
        self.ties[self.n_columns] = tie
        self.n_columns += 1
        return 0

    cdef size_t bytes_with(self, int32_t nodes) noexcept nogil:
        """What the arrays of so many nodes take."""
        return <size_t> spacious(nodes) * (
            sizeof(Node) + sizeof(Private) + 2 * self.stride * sizeof(double)
        )

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        self.n_bytes -= self.bytes_with(self.capacity) if self.capacity else 0
        capacity = spacious(capacity)
        self.nodes = <Node*> regrown(self.nodes, capacity * sizeof(Node))
        self.privates = <Private*> regrown(self.privates, capacity * sizeof(Private))
        self.pool = <double*> regrown(
            self.pool, <size_t> capacity * 2 * self.stride * sizeof(double)
        )
        self.capacity = capacity
        self.n_bytes += self.bytes_with(capacity)
        return 0

    cdef int admit(self, int32_t label) except -1 nogil:
        """Make room for a label in every node."""
        cdef int32_t node, stride = self.stride
        cdef double* pool
        cdef double* old
        while stride <= label:
            stride *= 2
        if stride > self.stride:
            pool = <double*> regrown(
                NULL, <size_t> self.capacity * 2 * stride * sizeof(double)
            )
            memset(pool, 0, <size_t> self.capacity * 2 * stride * sizeof(double))
            for node in range(self.size):
                old = self.counts_of(node)
                memcpy(&pool[<size_t> node * 2 * stride], old, self.stride * sizeof(double))
                memcpy(&pool[(<size_t> node * 2 + 1) * stride], old + self.stride,
                       self.stride * sizeof(double))
            free(self.pool)
            self.pool = pool
            self.scratch = <Share*> regrown(self.scratch, (stride + 1) * sizeof(Share))
            self.n_bytes += (stride - self.stride) * sizeof(Share)
            self.n_bytes -= self.bytes_with(self.capacity)
            self.stride = stride
            self.n_bytes += self.bytes_with(self.capacity)
        self.n_labels = label + 1
        return 0

    cdef int32_t add_node(self, int32_t parent, int32_t key) except -1 nogil:
        cdef int32_t node = self.size
        cdef Node* fields
        self.reserve(node + 1)
        fields = &self.nodes[node]
        memset(fields, 0, sizeof(Node))
        memset(&self.privates[node], 0, sizeof(Private))
        memset(self.counts_of(node), 0, 2 * self.stride * sizeof(double))
        fields.parent = parent
        fields.key = key
        fields.first_child = fields.last_child = fields.next_sibling = -1
        fields.low = fields.high = fields.missing = -1
        fields.column = -1
        fields.majority = -1
        if parent >= 0:
            fields.depth = self.nodes[parent].depth + 1
            fields.majority = self.nodes[parent].majority
            memcpy(self.values_of(node), self.values_of(parent), self.stride * sizeof(double))
            if key == MISSING:
                self.nodes[parent].missing = node
            elif self.nodes[parent].predicate == NOMINAL:
                self.n_bytes -= map_bytes(&self.privates[parent].branches)
                map_insert(&self.privates[parent].branches, key, node)
                self.n_bytes += map_bytes(&self.privates[parent].branches)
            elif key == 0:
                self.nodes[parent].low = node
            else:
                self.nodes[parent].high = node
            if self.nodes[parent].first_child < 0:
                self.nodes[parent].first_child = node
            else:
                self.nodes[self.nodes[parent].last_child].next_sibling = node
            self.nodes[parent].last_child = node
        self.size += 1
        return node

    # ----------------------------------------------------------------------------- ways

    cdef int32_t key_of(self, int32_t node, Row row) noexcept nogil:
        """The branch that a row takes at an inner node."""
        cdef const Node* fields = &self.nodes[node]
        cdef Py_ssize_t i
        cdef bint found
        cdef double value
        if fields.predicate == THRESHOLD:
            value = number_in(row, fields.column, &found)
            if not found:
                return MISSING
            return 0 if value <= fields.threshold else 1
        for i in range(row.n):
            if self.groups[row.columns[i]] == fields.column:
                return row.columns[i]
        return MISSING

    cdef int32_t child_of(self, int32_t node, int32_t key) noexcept nogil:
        """The child of a branch, -1 if nothing ever went there."""
        if key == MISSING:
            return self.nodes[node].missing
        if self.nodes[node].predicate == NOMINAL:
            return map_find(&self.privates[node].branches, key)
        return self.nodes[node].low if key == 0 else self.nodes[node].high

    cdef list path(self, Row row):
        """The nodes on the way of a row, each with the number that it compares, None if none."""
        cdef int32_t node = ROOT, child
        cdef double value
        cdef bint found
        nodes = []
        while self.nodes[node].state == INNER:
            child = self.child_of(node, self.key_of(node, row))
            if child < 0:
                break
            value = NAN
            if self.nodes[node].predicate == THRESHOLD:
                value = number_in(row, self.nodes[node].column, &found)
                value = value if found else NAN
            nodes.append((node, value))
            node = child
        return [*nodes, (node, None)]

    cdef int32_t leaf_of(self, Row row) noexcept nogil:
        """The last node on the way of a row, null branches included."""
        cdef int32_t node = ROOT, child
        while self.nodes[node].state == INNER:
            child = self.child_of(node, self.key_of(node, row))
            if child < 0:
                break
            node = child
        return node

    # -------------------------------------------------------------------------- values

    cdef double bias_of(self, int32_t node) noexcept nogil:
        """b: the sum of alphas down to a node, for two labels or a number."""
        cdef const double* values = self.values_of(node)
        if self.loss != LOG:
            return values[0]
        if not values[1] > 0.0:
            return -SCORE_BOUND
        return bounded(log(values[1] / values[0])) if values[0] > 0.0 else SCORE_BOUND

    cdef double penalty_below(self, int32_t node) noexcept nogil:
        """lambda of the branches of a node: a share of the weight of the whole stream."""
        return (
            self.regularization * self.nodes[ROOT].weight
            * (1.0 + self.depth_penalty * self.nodes[node].depth)
        )

    cdef void count(self, int32_t node, int32_t label, double target,
                    double weight) noexcept nogil:
        cdef double* counts = self.counts_of(node)
        self.nodes[node].weight += weight
        self.nodes[node].weight_squares += weight * weight
        if self.loss == SQUARED:
            counts[0] += weight
            counts[1] += weight * target
            counts[2] += weight * target * target
        else:
            counts[label] += weight

    cdef int refresh(self, int32_t node) except -1 nogil:
        """Let what a node predicts follow its counts, by the closed form of its branch."""
        cdef Node* fields = &self.nodes[node]
        cdef double* counts = self.counts_of(node)
        cdef double* values = self.values_of(node)
        cdef double* above
        cdef double lam, e, s
        cdef int32_t i
        if fields.parent < 0:
            if self.loss == LOG:
                for i in range(self.n_labels):
                    values[i] = counts[i] / fields.weight
            elif self.loss == SQUARED:
                values[0] = counts[1] / counts[0]
            else:
                values[0] = alpha_l1(self.loss, counts[1], counts[0], 0.0, 0.0)
            self.set_majority(node)
            return 0
        above = self.values_of(fields.parent)
        if fields.state == NULL_BRANCH:
            fields.majority = self.nodes[fields.parent].majority
            memcpy(values, above, self.stride * sizeof(double))
            return 0
        if self.is_linf or (self.loss == LOG and self.n_labels > 2):
            if fields.weight < fields.next_refresh and not self.defers:
                return 0
            fields.next_refresh = fields.weight * REFRESH_GROWTH
            if fields.weight < RARE_COUNT:
                fields.next_refresh = 0.0
        if self.is_linf:
            return self.refresh_branches(fields.parent)
        lam = self.penalty_below(fields.parent)
        if self.loss == SQUARED:
            values[0] = above[0] + alpha_l1(SQUARED, counts[0], counts[1], above[0], lam)
            return 0
        if self.loss != LOG:
            values[0] = above[0] + alpha_l1(self.loss, counts[1], counts[0], above[0], lam)
        elif self.n_labels <= 2:
            e = counts[1] * above[0] - counts[0] * above[1]
            s = 1.0 if e > 0.0 else -1.0
            if fabs(e) <= lam + ROUNDING * fields.weight:
                values[0] = above[0]
                values[1] = above[1]
            else:
                values[0] = (counts[0] + lam * s) / fields.weight
                values[1] = (counts[1] - lam * s) / fields.weight
        else:
            # twice lambda: with two classes max |alpha_i| is half of the scalar alpha
            shares_multiclass(counts, above, self.n_labels, 2.0 * lam, values, self.scratch)
        self.set_majority(node)
        return 0

    cdef int refresh_branches(self, int32_t node) except -1 nogil:
        """Under the l-infinity penalty the branches of a predicate are solved together."""
        cdef int32_t child = self.nodes[node].first_child, n = 0, j = 0
        cdef double b = self.bias_of(node), f
        cdef double* counts
        cdef double* values
        cdef double* block
        while child >= 0:
            n += 1
            child = self.nodes[child].next_sibling
        block = <double*> regrown(NULL, n * (3 * sizeof(double) + sizeof(Scale)))
        child = self.nodes[node].first_child
        while child >= 0:
            counts = self.counts_of(child)
            block[j] = counts[0] if self.loss == SQUARED else counts[1]
            block[n + j] = counts[1] if self.loss == SQUARED else counts[0]
            j += 1
            child = self.nodes[child].next_sibling
        alpha_linf(self.loss, block, block + n, n, b, self.penalty_below(node), block + 2 * n,
                   <Scale*> (block + 3 * n))
        child = self.nodes[node].first_child
        j = 0
        while child >= 0:
            if self.nodes[child].state != NULL_BRANCH:
                values = self.values_of(child)
                f = b + block[2 * n + j]
                if self.loss == LOG:
                    values[0] = sigmoid(-f)
                    values[1] = sigmoid(f)
                else:
                    values[0] = f
                self.set_majority(child)
            j += 1
            child = self.nodes[child].next_sibling
        free(block)
        return 0

    cdef void set_majority(self, int32_t node) noexcept nogil:
        cdef const double* values = self.values_of(node)
        cdef int32_t i, parent = self.nodes[node].parent
        cdef int32_t best = self.nodes[parent].majority if parent >= 0 else 0
        if self.loss == LOG:
            best = max(best, 0)
            for i in range(self.n_labels):
                if values[i] > values[best]:
                    best = i
        elif self.loss != SQUARED:
            if values[0] != 0.0:
                best = 1 if values[0] > 0.0 else 0
        self.nodes[node].majority = best

    # --------------------------------------------------------------------------- state

    def snapshot(self):
        """Nodes, counts and values as arrays, and a dict for every open leaf."""
        cdef Node empty
        cdef LeafExport leaves = LeafExport()
        cdef int32_t node, i, width = 3 if self.loss == SQUARED else self.n_labels
        cdef Node[::1] view
        cdef Standard blank
        memset(&empty, 0, sizeof(Node))
        nodes = np.zeros(self.size, dtype=np.asarray(<Node[:1]> &empty).dtype)
        view = nodes
        counts = np.empty((self.size, width))
        values = np.empty((self.size, width))
        cdef double[:, ::1] counts_view = counts, values_view = values
        for node in range(self.size):
            view[node] = self.nodes[node]
            for i in range(width):
                counts_view[node, i] = self.counts_of(node)[i]
                values_view[node, i] = self.values_of(node)[i]
            if self.privates[node].leaf != NULL:
                leaves.add(node, self.privates[node].leaf)
        groups = np.empty(self.n_columns, dtype=np.int32)
        for i in range(self.n_columns):
            groups[i] = self.groups[i]
        memset(&blank, 0, sizeof(Standard))
        standards = np.asarray(<Standard[:1]> &blank)[:0]
        if self.n_columns:
            standards = np.asarray(<Standard[:self.n_columns]> self.standards)
        return {"nodes": nodes, "counts": counts, "values": values, "groups": groups,
                "standards": standards.copy(), "rows": self.n_rows, "leaves": leaves.parts}

    def restore(self, state):
        """Take over what `snapshot` gave; the tree must be new and know the columns."""
        cdef const Node[::1] nodes = state["nodes"]
        cdef const double[:, ::1] counts = state["counts"]
        cdef const double[:, ::1] values = state["values"]
        cdef const Standard[::1] standards = state["standards"]
        cdef int32_t node, child, i, width = <int32_t> counts.shape[1]
        self.n_bytes -= self.privates[ROOT].leaf.bytes
        free_leaf(self.privates[ROOT].leaf)
        self.privates[ROOT].leaf = NULL
        self.size = 0
        if self.loss != SQUARED and width:
            self.admit(width - 1)
        # children are added under nodes that already know their predicate
        for node in range(nodes.shape[0]):
            self.add_node(-1, 0)
            self.nodes[node] = nodes[node]
            for i in range(width):
                self.counts_of(node)[i] = counts[node, i]
                self.values_of(node)[i] = values[node, i]
        for child in range(1, self.size):
            node = self.nodes[child].parent
            if self.nodes[node].predicate == NOMINAL and self.nodes[child].key != MISSING:
                self.n_bytes -= map_bytes(&self.privates[node].branches)
                map_insert(&self.privates[node].branches, self.nodes[child].key, child)
                self.n_bytes += map_bytes(&self.privates[node].branches)
        for i in range(self.n_columns):
            self.standards[i] = standards[i]
        self.n_rows = state["rows"]
        for part in state["leaves"]:
            node = part["node"]
            self.privates[node].leaf = import_leaf(part)
            self.n_bytes += self.privates[node].leaf.bytes
