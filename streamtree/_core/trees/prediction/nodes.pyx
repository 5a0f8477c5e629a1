"""The nodes of a self-terminating prediction tree: links, counts, and what they predict.

A node predicts class shares (log loss) or a score f, the sum of the alphas on its path, by the
closed form of its branch. The statistics that leaves collect are the business of the tree.
"""

cimport cython
from libc.math cimport NAN, fabs, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport EXPONENTIAL, LOGISTIC, SQUARED, sigmoid
from streamtree._core.kernels.solvers cimport (
    ROUNDING, SCORE_BOUND, Branches, Scale, Share, alpha_l1, alpha_linf, bounded,
    shares_multiclass,
)
from streamtree._core.splits.predicates cimport MISSING, NOMINAL, THRESHOLD
from streamtree._core.store.links cimport ROOT, Link, TreeLinks
from streamtree._core.store.memory cimport regrown
from streamtree._core.store.budget cimport bytes_allowed, counted, give_back, spacious
from streamtree._core.store.state cimport export_records
from streamtree._core.store.tables cimport Table, map_find, map_put, table_free
from streamtree._core.stream.row cimport Example, Prediction, Row, Scratch, View, value_of
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.store.checks import require

# many classes: values are computed anew at this growth, and while a class is this rare
cdef double REFRESH_GROWTH = 1.0625
cdef double RARE_COUNT = 16.0


cdef Node _blank
NODES = np.asarray(<Node[:1]> &_blank).dtype


cdef class PredictionNodes(Tree):
    """Nodes in a flat array, children after their parents."""

    def __cinit__(self, *, int loss, bint is_linf, **settings):
        self.loss = loss
        self.is_linf = is_linf
        self.stride = 4 if loss == SQUARED else 2
        self.shares = <Share*> counted(NULL, (self.stride + 1) * sizeof(Share))
        self.links = self.frame = TreeLinks()
        self.add_node(-1, 0)

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.size):
            table_free(&self.categories[node])
        give_back(self.nodes)
        give_back(self.categories)
        give_back(self.pool)
        give_back(self.shares)

    def count_leaves(self):
        """Number of nodes without branches, null branches included."""
        return self.size - self.n_in_state(INNER)

    def n_in_state(self, int state):
        """How many nodes are in a state."""
        cdef int32_t node
        cdef Py_ssize_t n = 0
        for node in range(self.size):
            n += self.nodes[node].state == state
        return n

    cdef size_t bytes_with(self, int32_t nodes, int32_t stride) noexcept nogil:
        """What the arrays of so many nodes take, with room for so many labels."""
        return <size_t> spacious(nodes) * (
            sizeof(Node) + sizeof(Link) + sizeof(Table) + 2 * stride * sizeof(double)
        )

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        capacity = <int32_t> spacious(capacity)
        self.nodes = <Node*> counted(self.nodes, capacity * sizeof(Node))
        self.categories = <Table*> counted(self.categories, capacity * sizeof(Table))
        self.pool = <double*> counted(
            self.pool, <size_t> capacity * 2 * self.stride * sizeof(double)
        )
        self.capacity = capacity
        return 0

    cdef bint fits(self, int32_t nodes, int32_t stride) noexcept nogil:
        """Whether there is room for so many nodes, were all statistics of leaves given up."""
        return self.bytes_with(nodes, stride) <= bytes_allowed() // 4 * 3

    cdef int admit(self, int32_t label) except -1 nogil:
        """Make room for a label in every node, if the model has room for that.

        If not, there still are `n_labels`: what comes beyond counts as the last of them.
        """
        cdef int32_t node, stride = self.stride
        cdef double* pool
        cdef double* old
        while stride <= label:
            stride *= 2
        # both are there for a moment
        if stride > self.stride and not self.fits(self.size, stride + self.stride):
            return 0
        if stride > self.stride:
            self.shares = <Share*> counted(self.shares, (stride + 1) * sizeof(Share))
            pool = <double*> counted(
                NULL, <size_t> self.capacity * 2 * stride * sizeof(double)
            )
            memset(pool, 0, <size_t> self.capacity * 2 * stride * sizeof(double))
            for node in range(self.size):
                old = self.counts_of(node)
                memcpy(&pool[<size_t> node * 2 * stride], old, self.stride * sizeof(double))
                memcpy(&pool[(<size_t> node * 2 + 1) * stride], old + self.stride,
                       self.stride * sizeof(double))
            give_back(self.pool)
            self.pool = pool
            self.stride = stride
        self.n_labels = label + 1
        return 0

    cdef int32_t add_node(self, int32_t parent, int32_t key) except -1 nogil:
        """A new leaf; the root (parent -1) comes first."""
        cdef int32_t node = self.size
        cdef Node* fields
        cdef Node* above
        self.reserve(node + 1)
        self.links.reserve(node + 1)
        if parent >= 0 and key != MISSING and self.nodes[parent].predicate == NOMINAL:
            map_put(&self.categories[parent], key, node)
        # from here nothing can fail
        fields = &self.nodes[node]
        memset(fields, 0, sizeof(Node))
        memset(&self.categories[node], 0, sizeof(Table))
        memset(self.counts_of(node), 0, 2 * self.stride * sizeof(double))
        fields.key = key
        fields.low = fields.high = fields.missing = -1
        fields.column = -1
        fields.majority = -1
        if parent >= 0:
            self.links.add(parent)
            self.links.append(parent, node)
            above = &self.nodes[parent]
            fields.depth = above.depth + 1
            fields.majority = above.majority
            memcpy(self.values_of(node), self.values_of(parent), self.stride * sizeof(double))
            if key == MISSING:
                above.missing = node
            elif above.predicate == THRESHOLD and key == 0:
                above.low = node
            elif above.predicate == THRESHOLD:
                above.high = node
        self.size += 1
        return node

    # ------------------------------------------------------------------- the way of a row

    @cython.final
    cdef int32_t key_of(self, int32_t node, const View* row) noexcept nogil:
        """The branch that a row takes at an inner node."""
        cdef const Node* fields = &self.nodes[node]
        cdef Py_ssize_t i
        cdef double value
        if fields.predicate == THRESHOLD:
            value = value_of(row, fields.column, NAN)
            if value != value:
                return MISSING
            return 0 if value <= fields.threshold else 1
        for i in range(row.n):
            if self.context.features.groups[row.columns[i]] == fields.column:
                return row.columns[i]
        return MISSING

    @cython.final
    cdef int32_t child_of(self, int32_t node, int32_t key) noexcept nogil:
        """The child of a branch, -1 if nothing ever went there."""
        if key == MISSING:
            return self.nodes[node].missing
        if self.nodes[node].predicate == NOMINAL:
            return map_find(&self.categories[node], key)
        return self.nodes[node].low if key == 0 else self.nodes[node].high

    @cython.final
    cdef int32_t leaf_below(self, int32_t node, const View* row) noexcept nogil:
        """The last node on the way of a row from a node on, null branches included."""
        cdef int32_t child
        while self.nodes[node].state == INNER:
            child = self.child_of(node, self.key_of(node, row))
            if child < 0:
                break
            node = child
        return node

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return self.leaf_below(ROOT, &row.listed)

    cdef list path(self, const Row* row, Scratch* scratch):
        """The nodes on the way of a row, each with the number that it compares, NaN if none."""
        cdef int32_t node = ROOT, child
        cdef double value
        nodes = []
        while self.nodes[node].state == INNER:
            child = self.child_of(node, self.key_of(node, &row.listed))
            if child < 0:
                break
            value = NAN
            if self.nodes[node].predicate == THRESHOLD:
                value = value_of(&row.listed, self.nodes[node].column, NAN)
            nodes.append((node, value))
            node = child
        return [*nodes, (node, None)]

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        cdef int32_t column = self.nodes[node].column, group = column
        if self.nodes[node].predicate == NOMINAL:
            column = self.key_of(node, &row.listed)
            if column == MISSING:
                # any column of the feature stands for it
                column = 0
                while self.context.features.groups[column] != group:
                    column += 1
        return [column], [1.0]

    cdef double leaf_weight(self, int32_t node) noexcept nogil:
        return self.nodes[node].weight

    # -------------------------------------------------------------------------- values

    cdef double bias_of(self, int32_t node) noexcept nogil:
        """b: the sum of alphas down to a node, for two labels or a number."""
        cdef const double* values = self.values_of(node)
        if self.loss != LOGISTIC:
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

    cdef void count(self, int32_t node, const Example* example) noexcept nogil:
        cdef double* counts = self.counts_of(node)
        cdef double weight = example.weight
        self.nodes[node].weight += weight
        self.nodes[node].weight_squares += weight * weight
        if self.loss == SQUARED:
            counts[0] += weight
            counts[1] += weight * example.targets[0]
            counts[2] += weight * example.targets[0] * example.targets[0]
        else:
            counts[example.label] += weight

    cdef int refresh(self, int32_t node) except -1 nogil:
        """Let what a node predicts follow its counts, by the closed form of its branch."""
        cdef Node* fields = &self.nodes[node]
        cdef int32_t parent = self.parent_of(node)
        cdef double* counts = self.counts_of(node)
        cdef double* values = self.values_of(node)
        cdef double* above
        cdef double lam, e, s
        cdef int32_t i
        if parent < 0:
            if self.loss == LOGISTIC:
                for i in range(self.n_labels):
                    values[i] = counts[i] / fields.weight
            elif self.loss == SQUARED:
                values[0] = counts[1] / counts[0]
            else:
                values[0] = alpha_l1(self.loss, counts[1], counts[0], 0.0, 0.0)
            self.set_majority(node)
            return 0
        above = self.values_of(parent)
        if fields.state == NULL_BRANCH:
            fields.majority = self.nodes[parent].majority
            memcpy(values, above, self.stride * sizeof(double))
            return 0
        if self.is_linf or (self.loss == LOGISTIC and self.n_labels > 2):
            if fields.weight < fields.next_refresh and not self.defers:
                return 0
            fields.next_refresh = fields.weight * REFRESH_GROWTH
            if fields.weight < RARE_COUNT:
                fields.next_refresh = 0.0
        if self.is_linf:
            return self.refresh_branches(parent)
        lam = self.penalty_below(parent)
        if self.loss == SQUARED:
            values[0] = above[0] + alpha_l1(SQUARED, counts[0], counts[1], above[0], lam)
            return 0
        if self.loss != LOGISTIC:
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
            shares_multiclass(counts, above, self.n_labels, 2.0 * lam, values, self.shares)
        self.set_majority(node)
        return 0

    cdef int refresh_branches(self, int32_t node) except -1 nogil:
        """Under the l-infinity penalty the branches of a predicate are solved together."""
        cdef int32_t first = self.links.links[node].left, child = first, n = 0
        cdef Branches branches
        cdef double f
        cdef double* counts
        cdef double* values
        cdef double* block
        while child >= 0:
            n += 1
            child = self.links.links[child].next
        block = <double*> regrown(NULL, n * (3 * sizeof(double) + sizeof(Scale)))
        branches = Branches(block, block + n, n, self.loss, self.bias_of(node))
        child, n = first, 0
        while child >= 0:
            counts = self.counts_of(child)
            block[n] = counts[0] if self.loss == SQUARED else counts[1]
            block[branches.n + n] = counts[1] if self.loss == SQUARED else counts[0]
            n += 1
            child = self.links.links[child].next
        alpha_linf(&branches, self.penalty_below(node), block + 2 * n, <Scale*> (block + 3 * n))
        child, n = first, 0
        while child >= 0:
            if self.nodes[child].state != NULL_BRANCH:
                values = self.values_of(child)
                f = branches.b + block[2 * branches.n + n]
                if self.loss == LOGISTIC:
                    values[0] = sigmoid(-f)
                    values[1] = sigmoid(f)
                else:
                    values[0] = f
                self.set_majority(child)
            n += 1
            child = self.links.links[child].next
        free(block)
        return 0

    cdef void set_majority(self, int32_t node) noexcept nogil:
        cdef const double* values = self.values_of(node)
        cdef int32_t i, parent = self.parent_of(node)
        cdef int32_t best = self.nodes[parent].majority if parent >= 0 else 0
        if self.loss == LOGISTIC:
            best = max(best, 0)
            for i in range(self.n_labels):
                if values[i] > values[best]:
                    best = i
        elif self.loss != SQUARED:
            if values[0] != 0.0:
                best = 1 if values[0] > 0.0 else 0
        self.nodes[node].majority = best

    cdef void answer(self, int32_t node, Prediction* out) noexcept nogil:
        """Write what the path to a node predicts; of shares, all are 0."""
        cdef const double* values
        cdef double total = 0.0
        cdef int32_t i
        # what a null branch has of its own may be older than what its parent has
        if self.nodes[node].state == NULL_BRANCH and node != ROOT:
            node = self.parent_of(node)
        out.label = max(self.nodes[node].majority, 0)
        if out.shares == NULL:
            return
        values = self.values_of(node)
        if self.loss == SQUARED:
            out.shares[0] = values[0]
        elif self.n_labels < 2:
            # of none that were learned the first
            out.shares[0] = 1.0
        elif self.loss == LOGISTIC:
            for i in range(self.n_labels):
                out.shares[i] = values[i]
                total += values[i]
            for i in range(self.n_labels):
                out.shares[i] /= total
        else:
            # exponential loss is least at half the logit; the hinges end at -1 and 1
            if self.loss == EXPONENTIAL:
                out.shares[1] = sigmoid(2.0 * values[0])
            else:
                out.shares[1] = 0.5 + 0.5 * min(max(values[0], -1.0), 1.0)
            out.shares[0] = 1.0 - out.shares[1]

    # --------------------------------------------------------------------------- state

    cdef dict state(self):
        """Nodes, counts and values as arrays; the links follow from parents and keys."""
        cdef int32_t node, i, width = 3 if self.loss == SQUARED else self.n_labels
        counts, values = np.empty((self.size, width)), np.empty((self.size, width))
        parents = np.empty(self.size, dtype=np.int32)
        cdef double[:, ::1] counts_view = counts, values_view = values
        cdef int32_t[::1] parents_view = parents
        for node in range(self.size):
            parents_view[node] = self.parent_of(node)
            for i in range(width):
                counts_view[node, i] = self.counts_of(node)[i]
                values_view[node, i] = self.values_of(node)[i]
        nodes = export_records(self.nodes, sizeof(Node), self.size, NODES)
        return {"nodes": nodes, "parents": parents, "counts": counts, "values": values}

    cdef int take_state(self, dict state) except -1:
        cdef const Node[::1] nodes = state["nodes"]
        cdef const int32_t[::1] parents = state["parents"]
        cdef const double[:, ::1] counts = state["counts"]
        cdef const double[:, ::1] values = state["values"]
        cdef int32_t node, i, width = <int32_t> counts.shape[1], n_groups = 0
        cdef Node* fields
        cdef Node made
        cdef const int32_t* groups = self.context.features.groups
        for i in range(self.context.n_columns):
            n_groups = max(n_groups, groups[i] + 1)
        if self.loss != SQUARED and width:
            self.admit(width - 1)
        for node in range(nodes.shape[0]):
            # which columns are categories is not known before
            if nodes[node].predicate == NOMINAL:
                require(nodes[node].column < n_groups, "the feature of a node")
            if node > 0:
                fields, i = &self.nodes[parents[node]], nodes[node].key
                if fields.predicate == NOMINAL and i != MISSING:
                    require(groups[i] == fields.column, "a branch of a category")
                self.add_node(parents[node], i)
            fields = &self.nodes[node]
            made = fields[0]
            fields[0] = nodes[node]
            fields.depth = made.depth
            fields.low = fields.high = fields.missing = -1
            for i in range(width):
                self.counts_of(node)[i] = counts[node, i]
                self.values_of(node)[i] = values[node, i]
        return 0
