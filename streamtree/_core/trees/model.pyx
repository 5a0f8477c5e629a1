"""The model tree: leaves predict with models, and split where their models err differently."""

cimport cython
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.leaves.mixture cimport MixtureLeaves
from streamtree._core.splits.scoretest cimport (
    Candidate, Residuals, SplitFinder, SplitSearch, exported_search, free_search, import_search,
    most_search_bytes,
)
from streamtree._core.store.links cimport ROOT, TreeLinks
from streamtree._core.store.budget cimport counted_nodes, counted_zeros, give_back, may_grow
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.store.tables cimport (
    Table, TableExport, import_table, table_bytes, table_count, table_find, table_free,
    table_insert, table_key, table_sorted_slots,
)
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.encoding cimport encoded_value
from streamtree._core.stream.row cimport ENCODED, Example, Prediction, Row, Scratch
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.trees.checks import check_model_tree

cdef enum:
    MOST_SPLITS = (1 << 30) - 1  # nodes have numbers of 32 bits


cdef struct ModelNode:
    double votes            # of a leaf: weight of its examples, inherited and seen
    double majority_votes
    float threshold         # of a split
    int32_t column          # of a split, else -1
    int32_t majority        # the class of most votes; of a new leaf what its parent says
    int32_t unused          # keeps the struct free of hidden padding


cdef ModelNode _blank
STATS = np.asarray(<ModelNode[:1]> &_blank).dtype


cdef struct Node:
    ModelNode stats
    SplitSearch* search     # of a leaf
    Table classes           # of a leaf: class -> votes


def model_tree(dict leaves, *, bint has_knots, **settings):
    """A tree with mixtures in its leaves: compiled, for it may be wanted amid a row."""
    return ModelTree(MixtureLeaves(has_knots=has_knots, has_rest=True, **leaves), **settings)


@cython.final
cdef class ModelTree(Tree):
    """Splits at thresholds of standardised columns; a split copies the model of its leaf."""

    cdef TreeLinks links
    cdef LeafModels leaves
    cdef SplitFinder finder
    cdef Node* nodes
    cdef int32_t capacity
    cdef Py_ssize_t max_splits

    def __cinit__(self, LeafModels leaves, *, uint64_t seed, **settings):
        self.leaves = leaves
        self.views = ENCODED | leaves.views
        self.has_leaf_models = True
        self.memo_size, self.memo_place_size = leaves.memo_size, leaves.memo_place_size
        self.finder = SplitFinder(seed)
        self._set(**settings)
        self.links = self.frame = TreeLinks()
        self._reserve(1)

    def _set(self, *, double grace_period, double delta, Py_ssize_t max_splits=MOST_SPLITS):
        self.max_splits = max_splits
        self.finder.configure(grace_period=grace_period, delta=delta)

    def configure(self, *, leaves, **settings):
        """Set what may change while the tree grows; `leaves` are the settings of the models."""
        self._set(**settings)
        self.leaves.configure(**leaves)

    def __dealloc__(self):
        cdef int32_t node
        for node in range(self.capacity):
            free_search(self.nodes[node].search)
            table_free(&self.nodes[node].classes)
        give_back(self.nodes)

    cdef int bind(self, Context context) except -1:
        cdef bint is_new = self.context is None
        Tree.bind(self, context)
        self.finder.context = context
        self.leaves.bind(context)
        if is_new:
            self.nodes[ROOT].stats.column = self.nodes[ROOT].stats.majority = -1
            self.leaves.open(ROOT)
        return 0

    cdef int _reserve(self, int32_t n) except -1 nogil:
        self.nodes = <Node*> counted_nodes(self.nodes, &self.capacity, n, sizeof(Node))
        return self.leaves.reserve(self.capacity)

    cdef int _begin_search(self, int32_t node) except -1 nogil:
        """Let a leaf search for its split: the root from its first example on."""
        self.nodes[node].search = <SplitSearch*> counted_zeros(sizeof(SplitSearch))
        return 0

    # ------------------------------------------------------------------------- one example

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return self._leaf_below(ROOT, row)

    cdef inline int32_t _leaf_below(self, int32_t node, const Row* row) noexcept nogil:
        cdef const ModelNode* stats
        while self.links.links[node].left >= 0:
            stats = &self.nodes[node].stats
            if encoded_value(row, stats.column) > stats.threshold:
                node = self.links.links[node].right
            else:
                node = self.links.links[node].left
        return node

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        node = self._leaf_below(node, row)
        out.label = -1
        if out.shares != NULL:
            memset(out.shares, 0, self.context.n_labels * sizeof(double))
        self.leaves.predict(node, row, scratch, out)
        self._complete(node, out)

    cdef void _complete(self, int32_t node, Prediction* out) noexcept nogil:
        """What the tree says where the models of a leaf said this, or nothing.

        One vote is everybody's: no class that was ever met is impossible.
        """
        cdef const ModelNode* stats = &self.nodes[node].stats
        cdef const Table* classes = &self.nodes[node].classes
        cdef int32_t label, slot, n_labels = self.context.n_labels
        cdef double total = stats.votes + 1.0
        if out.shares != NULL:
            for label in range(n_labels):
                out.shares[label] = (stats.votes * out.shares[label] + 1.0 / n_labels) / total
        if out.label >= 0:
            return
        # without a vote labels wait, or memory ran out
        out.label = max(stats.majority, 0)
        for slot in range(classes.capacity if out.shares != NULL else 0):
            if classes.records[slot] > 0.0:
                label = table_key(classes, slot)
                out.shares[label] += classes.records[slot] / total

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t node = self.leaf(row, scratch)
        cdef Residuals residuals
        cdef Candidate best
        cdef bint has_room
        if self.nodes[node].search == NULL:
            self._begin_search(node)
        if out != NULL and out.shares != NULL:
            memset(out.shares, 0, self.context.n_labels * sizeof(double))
        has_room = self.leaves.learn(node, row, example, scratch, out)
        if out != NULL:
            self._complete(node, out)
        self._vote(node, example.label, example.weight)
        residuals.n = 0
        if has_room:
            self.leaves.residuals(node, scratch, &residuals)
        if residuals.n == 0:
            return 0
        self.finder.watch(self.nodes[node].search, node, row, &residuals, example.weight)
        if self.finder.found(self.nodes[node].search, &best):
            self._split(node, &best)
        return 0

    cdef int let_wait(self) except -1 nogil:
        """Begin anew if there is no split yet and the root has met most labels.

        Most of them came once, and would be in the models of all leaves.
        """
        cdef Node* root = &self.nodes[ROOT]
        if self.links.size > 1 or 2 * table_count(&root.classes, 1) <= self.context.n_labels:
            return 0
        self.leaves.open(ROOT)
        free_search(root.search)
        root.search = NULL
        table_free(&root.classes)
        root.stats.votes = root.stats.majority_votes = 0.0
        root.stats.majority = -1
        return 0

    cdef int _vote(self, int32_t node, int32_t label, double weight) except -1 nogil:
        cdef ModelNode* stats = &self.nodes[node].stats
        cdef Table* classes = &self.nodes[node].classes
        cdef int32_t slot = table_find(classes, label)
        if slot < 0:
            slot = table_insert(classes, 1, label, self.context.n_labels)
        classes.records[slot] += weight
        stats.votes += weight
        if classes.records[slot] >= stats.majority_votes:
            stats.majority_votes = classes.records[slot]
            stats.majority = label
        return 0

    cdef int _split(self, int32_t node, const Candidate* best) except -1 nogil:
        """Split a leaf at the threshold that was found, if there is room."""
        cdef int32_t left, right, size = self.links.size
        cdef double share
        cdef bint is_done = False
        if size // 2 >= self.max_splits:
            return 0
        if not may_grow(2 * self._leaf_bytes(node)):
            return 0
        share = best.weight / self.nodes[node].search.watched
        self._reserve(size + 2)
        self.links.reserve(size + 2)
        left, right = size, size + 1
        try:
            self._begin(node, left)
            self._begin(node, right)
            self._bequeath(node, left, right, share)
            self.leaves.look_closely(left, best.column)
            self.leaves.look_closely(right, best.column)
            is_done = True
        finally:
            if not is_done:
                # without memory the leaf stays as it was
                self._clear(left)
                self._clear(right)
        self.nodes[node].stats.column = best.column
        self.nodes[node].stats.threshold = best.threshold
        self._clear(node)
        self.links.add(node)
        self.links.add(node)
        self.links.attach(node, left, right)
        return 0

    cdef int _begin(self, int32_t node, int32_t child) except -1 nogil:
        """Make a new node a leaf that goes on from another."""
        # a split that failed may have left votes there
        memset(&self.nodes[child].stats, 0, sizeof(ModelNode))
        self.nodes[child].stats.column = -1
        self.nodes[child].stats.majority = self.nodes[node].stats.majority
        self._begin_search(child)
        return self.leaves.clone(node, child)

    cdef void _clear(self, int32_t node) noexcept nogil:
        """Give back what only a leaf has; its numbers stay."""
        free_search(self.nodes[node].search)
        self.nodes[node].search = NULL
        table_free(&self.nodes[node].classes)
        self.leaves.clear(node)

    cdef size_t _leaf_bytes(self, int32_t node) noexcept nogil:
        """What a leaf takes that goes on from another."""
        return (
            self.leaves.bytes_of(node) + most_search_bytes(self.context.n_columns) + sizeof(Node)
            + table_bytes(&self.nodes[node].classes, 1)
        )

    cdef int _bequeath(self, int32_t node, int32_t left, int32_t right,
                       double share) except -1 nogil:
        """Hand a leaf's votes to its children, of every class the same share to the right."""
        cdef Table* classes = &self.nodes[node].classes
        cdef int32_t label
        cdef double votes
        cdef Py_ssize_t i, n
        cdef int32_t* slots = table_sorted_slots(classes, 1, &n)
        try:
            for i in range(n):
                votes = classes.records[slots[i]]
                label = table_key(classes, slots[i])
                self._vote(left, label, (1.0 - share) * votes)
                self._vote(right, label, share * votes)
        finally:
            free(slots)
        return 0

    # ------------------------------------------------------------------------------- state

    cdef double test_score(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil:
        cdef const ModelNode* stats = &self.nodes[node].stats
        return encoded_value(row, stats.column) - stats.threshold

    cdef double leaf_weight(self, int32_t node) noexcept nogil:
        return self.nodes[node].stats.votes

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        return [self.nodes[node].stats.column], [1.0]

    cdef int explain_leaf(self, int32_t node, const Row* row, Scratch* scratch,
                          Explanation out, double difference) except -1:
        return self.leaves.explain(node, row, scratch, out, difference)

    cdef dict outline(self):
        cdef int32_t node, size = self.links.size
        cdef TableExport classes = TableExport(1)
        for node in range(size):
            classes.add(&self.nodes[node].classes)
        return {
            "links": self.links.state(),
            "nodes": export_records(&self.nodes[0].stats, sizeof(Node), size, STATS),
            "classes": classes.arrays(),
        }

    cdef dict state(self):
        cdef int32_t node, size = self.links.size
        cdef SplitSearch blank
        memset(&blank, 0, sizeof(SplitSearch))
        return {
            **self.outline(),
            "searches": [
                {"node": node, **exported_search(self.nodes[node].search or &blank)}
                for node in range(size) if self.links.links[node].left < 0
            ],
            "leaves": self.leaves.state(size),
        }

    cdef int take_state(self, dict state) except -1:
        cdef int32_t node
        self.links.take_state(state["links"])
        self._reserve(self.links.size)
        import_records(&self.nodes[0].stats, sizeof(Node), state["nodes"])
        for node in range(self.links.size):
            import_table(
                &self.nodes[node].classes, 1, self.context.n_labels, state["classes"], node
            )
            free_search(self.nodes[node].search)
            self.nodes[node].search = NULL
        for search in state["searches"]:
            node = search["node"]
            if node == ROOT and not self.nodes[ROOT].stats.votes > 0.0:
                continue
            self._begin_search(node)
            import_search(self.nodes[node].search, search)
        return self.leaves.take_state(state["leaves"])

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        check_model_tree(state, n_columns, n_outputs, self.leaves)
