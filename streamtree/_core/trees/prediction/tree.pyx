"""The self-terminating prediction tree of Goldman & Singer, grown on a stream.

Every node holds the counts of what reached it since it is there, and what it predicts. A branch
whose best alpha is 0 is not grown; it keeps its counts and may grow later.
"""

cimport cython
from libc.math cimport fabs, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from streamtree._core.kernels.losses cimport LOGISTIC, SQUARED
from streamtree._core.kernels.significance cimport level_of_look
from streamtree._core.leaves.explanation cimport Explanation
from streamtree._core.leaves.histogram cimport BAYES, HistogramLeaves
from streamtree._core.leaves.leaf cimport LeafModels
from streamtree._core.splits.histograms cimport LeafStatistics, Statistics
from streamtree._core.splits.predicates cimport (
    NONE, THRESHOLD, BranchSums, PredicateSearch, Split, begin_search, best_split, branch,
    end_search, exceeds, gain, gain_of_branches, n_branches, squares_of,
)
from streamtree._core.store.budget cimport bytes_allowed, bytes_used, has_room
from streamtree._core.store.links cimport ROOT
from streamtree._core.store.memory cimport regrown
from streamtree._core.store.tables cimport table_free
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.keptrows cimport KeptRows
from streamtree._core.stream.row cimport LISTED, Example, Prediction, Row, Scratch
from streamtree._core.stream.signals cimport SignalWatch, heed_signals, new_watch
from streamtree._core.trees.prediction.nodes cimport (
    CLOSED, INNER, NULL_BRANCH, OPEN, Node, PredictionNodes,
)

from streamtree._core.trees.prediction.checks import check_prediction

cdef enum:
    # When the bound is reached leaves are closed until this many parts of 8 of it are in use: to
    # look at all of them for every row that brings something new would take long.
    PARTS_KEPT = 7
    # values for which an open leaf is taken to need room
    TYPICAL_VALUES = 64

cdef struct Promise:
    double most         # that a leaf could gain
    int32_t node


cdef int by_promise(const void* a, const void* b) noexcept nogil:
    cdef const Promise* x = <const Promise*> a
    cdef const Promise* y = <const Promise*> b
    if x.most != y.most:
        return 1 if x.most > y.most else -1
    return 1 if x.node < y.node else -1


# a leaf asks whether to split whenever its weight has grown by this: a geometric series of tests
cdef double LOOK_GROWTH = 1.3
# a closed leaf takes the place of an open one that promises less than half as much
cdef double REOPEN_FACTOR = 2.0
# no target is larger, so no mean may be
cdef double FARTHEST = 1e100


def new_tree(int loss, bint is_linf, kind, **settings):
    """A tree with leaf models of a kind, or None: compiled, for it may be wanted amid a row."""
    leaves = None if kind is None else HistogramLeaves(kind, loss != SQUARED)
    return PredictionTree(loss=loss, is_linf=is_linf, leaves=leaves, **settings)


@cython.final
cdef class PredictionTree(PredictionNodes):
    """How the tree grows from the statistics of open leaves, and what it predicts.

    `leaves` are models that predict where they do better than the path; None: there are none.
    """

    def __cinit__(self, *, int loss, bint is_linf, LeafModels leaves=None, **settings):
        self.leaves = leaves
        self.has_leaf_models = leaves is not None
        self.views = LISTED | (0 if leaves is None else leaves.views)
        if leaves is not None:
            self.memo_size, self.memo_place_size = leaves.memo_size, leaves.memo_place_size
        self.max_labels = 2 if loss != SQUARED and (loss != LOGISTIC or is_linf) else 0
        self.statistics = LeafStatistics(loss != SQUARED, 0)
        self.models_null_branches = leaves is not None
        if isinstance(leaves, HistogramLeaves):
            (<HistogramLeaves> leaves).share(self.statistics)
            # naive Bayes has nothing to go by where no histograms are
            self.models_null_branches = leaves.kind != BAYES
        self.configure(**settings)
        self.statistics.reserve(self.capacity)

    cdef int bind(self, Context context) except -1:
        self.context = self.statistics.context = context
        if self.leaves is not None:
            self.leaves.bind(context)
            self.leaves.reserve(self.capacity)
        if self.nodes[ROOT].state == NULL_BRANCH:
            self.open(ROOT)
        return 0

    def configure(self, *, double regularization, double depth_penalty, delta,
                  double grace_period, int max_bins):
        """Set what may change while the tree grows."""
        self.regularization = regularization
        self.depth_penalty = depth_penalty
        self.is_confident = delta is not None
        self.delta = 1.0 if delta is None else delta
        self.grace_period = grace_period
        self.statistics.max_bins = max_bins

    def refuse_label(self, label):
        """Raise for a label that would be the third where two are all."""
        raise ValueError(
            f"y: {label!r} would be a third label; only loss='log' with penalty='l1' knows more "
            "than two"
        )

    # -------------------------------------------------------------------------- memory

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        PredictionNodes.reserve(self, capacity)
        self.statistics.reserve(self.capacity)
        if self.leaves is not None:
            self.leaves.reserve(self.capacity)
        return 0

    cdef int open(self, int32_t node) except -1 nogil:
        """Let a node collect statistics, from nothing, with a new model."""
        cdef Statistics* leaf = self.statistics.open(node)
        leaf.next_look = self.grace_period
        if self.loss == SQUARED:
            leaf.before[0] = self.counts_of(node)[0]
            leaf.before[1] = self.counts_of(node)[1]
            leaf.squares_before = self.counts_of(node)[2]
        try:
            if self.leaves is not None and not self.defers:
                self.leaves.open(node)
            self.nodes[node].state = OPEN
        finally:
            if self.nodes[node].state != OPEN:
                self.close(node)
        return 0

    cdef void close(self, int32_t node) noexcept nogil:
        """Give up what a leaf has collected, and its model."""
        if self.leaves is not None:
            self.leaves.clear(node)
        self.statistics.close(node)
        if self.nodes[node].state == OPEN:
            self.nodes[node].state = CLOSED
            self.nodes[node].next_look = self.nodes[node].weight * LOOK_GROWTH

    cdef double promise(self, int32_t node) noexcept nogil:
        """What splits below a node could gain at the most: its errors, or its squared error."""
        cdef const double* counts = self.counts_of(node)
        cdef double most = 0.0
        cdef int32_t i
        if self.loss == SQUARED:
            return counts[2] - counts[1] * counts[1] / counts[0] if counts[0] > 0.0 else 0.0
        for i in range(self.n_labels):
            most = max(most, counts[i])
        return self.nodes[node].weight - most

    cdef int32_t least_promising(self) noexcept nogil:
        """The leaf with statistics that promises least, the youngest of equals; -1 for none."""
        cdef int32_t node, best = -1
        cdef double promise, least = 0.0
        for node in range(self.size):
            if self.statistics.nodes[node] != NULL:
                promise = self.promise(node)
                if best < 0 or promise <= least:
                    best = node
                    least = promise
        return best

    cdef int keep_within_bounds(self) except -1 nogil:
        """Close the leaves that promise least, the youngest of equals first."""
        cdef size_t enough = bytes_allowed() // 8 * PARTS_KEPT
        cdef Promise* promises = <Promise*> regrown(NULL, (self.size + 1) * sizeof(Promise))
        cdef int32_t node, i, n = 0
        for node in range(self.size):
            if self.statistics.nodes[node] != NULL:
                promises[n] = Promise(self.promise(node), node)
                n += 1
        qsort(promises, n, sizeof(Promise), by_promise)
        for i in range(n):
            if bytes_used() <= enough:
                break
            self.close(promises[i].node)
        free(promises)
        return 0

    cdef int reopen(self, int32_t node) except -1 nogil:
        """Open a closed leaf if there is room, or one that promises much less."""
        cdef int32_t least
        cdef size_t typical = <size_t> TYPICAL_VALUES * self.statistics.max_bins * sizeof(double)
        self.nodes[node].next_look = self.nodes[node].weight * LOOK_GROWTH
        if not has_room(typical):
            least = self.least_promising()
            if least < 0 or self.promise(node) <= REOPEN_FACTOR * self.promise(least):
                return 0
            self.close(least)
        return self.open(node)

    # --------------------------------------------------------------------- one example

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        node = self.leaf_below(node, &row.listed)
        if out.shares != NULL and self.loss != SQUARED:
            memset(out.shares, 0, self.context.n_labels * sizeof(double))
        if (
            self.statistics.nodes[node] == NULL or self.leaves is None
            or not self.leaves.predict(node, row, scratch, out)
        ):
            self.answer(node, out)

    cdef int explain_leaf(self, int32_t node, const Row* row, Scratch* scratch,
                          Explanation out, double difference) except -1:
        if self.nodes[node].state == INNER:
            # it has no branch for the row yet: the node itself answers
            columns, parts = self.pushes(node, 0.0, row, scratch)
            return out.spread(columns, parts, difference)
        if self.leaves is None or self.statistics.nodes[node] == NULL:
            return out.add_bias(difference)
        return self.leaves.explain(node, row, scratch, out, difference)

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t node
        cdef Example known
        if out != NULL:
            self.predict(row, scratch, out)
        if example.label >= self.n_labels and self.loss != SQUARED:
            self.admit(example.label)
            if example.label >= self.n_labels:
                known = example[0]
                known.label = self.n_labels - 1
                example = &known
        node = self.descend(row, example)
        if self.statistics.nodes[node] != NULL:
            self.learn_leaf(node, row, example, scratch)
        self.develop(node)
        if not has_room(0):
            self.keep_within_bounds()
        return 0

    cdef int32_t descend(self, const Row* row, const Example* example) except -1 nogil:
        """Count a row on its way; returns the node in which it ends, which may be new."""
        cdef int32_t node = ROOT, child, key, said
        cdef double said_number
        while True:
            said = self.nodes[node].majority
            said_number = self.values_of(node)[0]
            self.count(node, example)
            self.refresh(node)
            if self.nodes[node].state != INNER:
                break
            key = self.key_of(node, &row.listed)
            child = self.child_of(node, key)
            if child < 0:
                if not self.fits(self.size + 1, self.stride):
                    break
                child = self.add_node(node, key)
                self.nodes[child].next_look = self.grace_period
            node = child
        if self.leaves is not None:
            # what the path would have predicted
            self.leaves.tree_label = said
            self.leaves.tree_number = said_number
        return node

    cdef int learn_leaf(self, int32_t node, const Row* row, const Example* example,
                        Scratch* scratch) except -1 nogil:
        """Train the model of a leaf, then count the row; a null branch collects no histograms."""
        cdef Statistics* leaf = self.statistics.nodes[node]
        cdef int32_t place, n = leaf.n_sums
        if n == leaf.width and not has_room(leaf.bytes):
            # the next label would take twice of everything
            self.close(node)
            return 0
        if self.leaves is not None and not self.defers:
            if self.loss != SQUARED:
                place = self.statistics.place(node, example.label)
                if leaf.n_sums > n:
                    # met there before the leaf began to collect
                    leaf.before[place] = self.counts_of(node)[example.label] - example.weight
            self.leaves.learn(node, row, example, scratch, NULL)
        return self.statistics.count(
            node, &row.listed, example, self.nodes[node].state == OPEN
        )

    cdef int develop(self, int32_t node) except -1 nogil:
        """Let the node in which a row ended grow if it is time to."""
        cdef const Node* fields = &self.nodes[node]
        if fields.state == OPEN:
            if self.statistics.nodes[node].weight >= self.statistics.nodes[node].next_look:
                self.look(node)
        elif fields.weight >= fields.next_look:
            if fields.state == NULL_BRANCH:
                self.reconsider(node)
            elif fields.state == CLOSED:
                self.reopen(node)
        return 0

    # -------------------------------------------------------------------------- growth

    cdef int reconsider(self, int32_t node) except -1 nogil:
        """A null branch grows once its counts justify it."""
        cdef int32_t parent = self.parent_of(node), i
        cdef const double* values = self.values_of(node)
        cdef const double* above = self.values_of(parent)
        cdef double most = 0.0
        cdef Node* fields = &self.nodes[node]
        fields.looks += 1
        fields.next_look = fields.weight * LOOK_GROWTH
        if self.is_confident and not self.differs(node):
            return 0
        # grown for a moment, to see whether alpha is 0
        fields.state = CLOSED
        fields.next_refresh = 0.0
        self.refresh(node)
        for i in range(self.n_labels if self.loss == LOGISTIC else 1):
            most = max(most, fabs(values[i] - above[i]))
        if most == 0.0:
            fields.state = NULL_BRANCH
            return 0
        if self.statistics.nodes[node] == NULL:
            return self.open(node)
        fields.state = OPEN
        self.statistics.begin_anew(node)
        self.statistics.nodes[node].next_look = self.grace_period
        return 0

    cdef bint differs(self, int32_t node) noexcept nogil:
        """Whether a null branch differs from its parent by more than penalty and chance."""
        cdef int32_t parent = self.parent_of(node), child = self.links.links[parent].left
        cdef const Node* fields = &self.nodes[node]
        cdef double tests = 0.0, level
        cdef BranchSums sums
        while child >= 0:
            tests += 1.0
            child = self.links.links[child].next
        level = log(2.0 * tests * max(1, self.n_labels) / level_of_look(self.delta, fields.looks))
        level *= fields.weight_squares / fields.weight
        sums.sums = self.counts_of(node)
        sums.totals = self.counts_of(parent)
        sums.weight = fields.weight
        sums.total = self.nodes[parent].weight
        sums.target_squares = sums.totals[2] if self.loss == SQUARED else 0.0
        sums.n = self.n_labels
        return exceeds(self.loss, &sums, self.penalty_below(parent), level)

    cdef bint look(self, int32_t node) except -1 nogil:
        """Search the best predicate of an open leaf; returns whether it was split."""
        cdef PredicateSearch search
        cdef Split best
        cdef bint splits
        cdef int32_t size = self.size
        cdef Statistics* leaf = self.statistics.nodes[node]
        leaf.looks += 1
        leaf.next_look = leaf.weight * LOOK_GROWTH
        # nothing splits what is pure
        if leaf.n_sums < 2:
            return False
        memset(&search, 0, sizeof(PredicateSearch))
        search.leaf = leaf
        search.groups = self.context.features.groups
        search.ties = self.context.features.ties
        search.loss = self.loss
        search.is_linf = self.is_linf
        search.is_two_class = self.loss != SQUARED and self.n_labels <= 2
        search.charges = self.is_confident and not self.defers
        search.lam = self.penalty_below(node)
        if search.is_two_class or self.loss == SQUARED:
            search.bias = self.bias_of(node)
        begin_search(&search, self.values_of(node), self.delta)
        best_split(&search, &best)
        splits = (
            best.predicate != NONE and self.choose_branches(&search, &best)
            and self.fits(self.size + n_branches(&best), self.stride)
        )
        try:
            if splits:
                self.add_branches(&search, node, &best)
        finally:
            end_search(&search)
            if splits and self.nodes[node].state != INNER:
                self.cut(node, size)
        return splits

    cdef void cut(self, int32_t node, int32_t size) noexcept nogil:
        """Take back the branches of a leaf that found no memory, all nodes from `size` on."""
        cdef int32_t child
        for child in range(size, self.size):
            self.close(child)
        table_free(&self.categories[node])
        self.size = self.links.size = size
        self.links.links[node].left = self.links.links[node].right = -1
        self.nodes[node].low = self.nodes[node].high = self.nodes[node].missing = -1
        self.nodes[node].predicate, self.nodes[node].column = NONE, -1
        self.nodes[node].threshold = 0.0

    cdef bint choose_branches(self, PredicateSearch* search, Split* split) noexcept nogil:
        """Set `search.grows`: 1 for a branch that grows, 0 for one that does not, -1 for none.

        Returns whether any grows.
        """
        cdef const Statistics* leaf = search.leaf
        cdef int32_t number, key, i, present = 0
        cdef bint is_sure, any_grows = False
        cdef BranchSums sums
        sums.sums = search.branch
        sums.totals = leaf.totals
        sums.total = leaf.weight
        sums.target_squares = leaf.target_squares
        sums.n = leaf.n_sums
        if self.is_linf:
            gain_of_branches(search, split)
        for number in range(n_branches(split)):
            search.grows[number] = -1
            if not branch(search, split, number, &key):
                continue
            if self.is_linf:
                is_sure = search.alpha[present] != 0.0
            else:
                is_sure = gain(search, search.branch) > 0.0
            present += 1
            if is_sure and search.charges:
                sums.weight = 0.0
                for i in range(1 if self.loss == SQUARED else leaf.n_sums):
                    sums.weight += search.branch[i]
                is_sure = exceeds(self.loss, &sums, search.lam, search.level)
            search.grows[number] = is_sure
            any_grows |= is_sure
        return any_grows

    cdef int add_branches(
        self, PredicateSearch* search, int32_t node, Split* split
    ) except -1 nogil:
        """Make the branches of a predicate; some of them grow."""
        cdef int32_t number, key, child
        self.nodes[node].predicate = split.predicate
        self.nodes[node].column = split.column
        self.nodes[node].threshold = split.threshold if split.predicate == THRESHOLD else 0.0
        for number in range(n_branches(split)):
            if search.grows[number] < 0:
                continue
            branch(search, split, number, &key)
            child = self.add_node(node, key)
            self.begin_branch(search, child)
            if search.grows[number]:
                self.nodes[child].state = OPEN
            # a null branch has no histograms, but a model to go on with
            if search.grows[number] or (self.models_null_branches and not self.defers):
                self.pass_on(node, child)
        child = self.links.links[node].left
        while child >= 0:
            self.refresh(child)
            child = self.links.links[child].next
        self.nodes[node].state = INNER
        self.close(node)
        return 0

    cdef int begin_branch(self, PredicateSearch* search, int32_t child) except -1 nogil:
        """Let a branch begin with its part of what its leaf has counted."""
        cdef const Statistics* leaf = search.leaf
        cdef double* counts = self.counts_of(child)
        cdef double weight = 0.0
        cdef int32_t i
        # what is missing is a difference: no weight below 0 by rounding, and no mean out of bounds
        if self.loss == SQUARED:
            weight = search.branch[0] = max(search.branch[0], 0.0)
            search.branch[1] = max(min(search.branch[1], FARTHEST * weight), -FARTHEST * weight)
            counts[0], counts[1] = weight, search.branch[1]
            counts[2] = squares_of(leaf, search.branch)
        else:
            for i in range(leaf.n_sums):
                counts[leaf.labels[i]] = max(search.branch[i], 0.0)
                weight += max(search.branch[i], 0.0)
        self.nodes[child].weight = weight
        self.nodes[child].weight_squares = weight * (leaf.weight_squares / leaf.weight)
        self.nodes[child].next_look = weight * LOOK_GROWTH
        return 0

    cdef int pass_on(self, int32_t node, int32_t child) except -1 nogil:
        """Open the statistics of a branch; its model goes on from that of its leaf.

        There may be thousands of branches: once there is no room, the others begin closed.
        """
        cdef const Statistics* parent = self.statistics.nodes[node]
        cdef const double* counts = self.counts_of(child)
        cdef Statistics* leaf
        cdef int32_t i, place
        if not has_room(0):
            self.close(child)
            return 0
        leaf = self.statistics.open(child)
        leaf.next_look = self.grace_period
        if self.leaves is None or self.defers:
            return 0
        if self.loss == SQUARED:
            leaf.before[0] = counts[0]
            leaf.before[1] = counts[1]
            leaf.squares_before = counts[2]
        else:
            for i in range(parent.n_sums):
                if counts[parent.labels[i]] > 0.0:
                    place = self.statistics.place(child, parent.labels[i])
                    leaf.before[place] = counts[parent.labels[i]]
        return self.leaves.clone(node, child)

    cdef int grow(self, KeptRows rows) except -1:
        """Grow level by level: in every pass the leaves of one level see all of their rows."""
        cdef int32_t first = 0, size, node
        cdef SignalWatch watch = new_watch()
        self.defers = True
        try:
            if self.leaves is not None:
                self.leaves.clear(ROOT)
            if self.context.n_labels and self.loss != SQUARED:
                self.admit(self.context.n_labels - 1)
            while first < self.size:
                self.collect(rows, first, &watch)
                size = self.size
                for node in range(first, size):
                    heed_signals(&watch)
                    self.refresh(node)
                    if self.nodes[node].state == OPEN:
                        self.look(node)
                first = size
            for node in range(self.size):
                self.refresh(node)
        finally:
            self.defers = False
        for node in range(self.size):
            if self.leaves is not None and self.nodes[node].state == OPEN:
                self.leaves.open(node)
        return 0

    cdef int collect(self, KeptRows rows, int32_t first, SignalWatch* watch) except -1 nogil:
        """Count all rows into the statistics of the leaves from `first` on."""
        cdef Row row
        cdef Example example
        cdef int32_t node
        cdef Py_ssize_t i
        for i in range(rows.n):
            heed_signals(watch)
            rows.row(i, &row)
            example = rows.example(i)
            if first == 0:
                self.count(ROOT, &example)
            node = self.leaf_below(ROOT, &row.listed)
            if node >= first and self.nodes[node].state == OPEN:
                self.learn_leaf(node, &row, &example, NULL)
                if not has_room(0):
                    self.keep_within_bounds()
        return 0

    # --------------------------------------------------------------------------- state

    cdef dict outline(self):
        return PredictionNodes.state(self)

    cdef dict state(self):
        state = self.outline()
        state["statistics"] = self.statistics.state()
        state["leaves"] = {} if self.leaves is None else self.leaves.state(self.size)
        return state

    cdef int take_state(self, dict state) except -1:
        self.close(ROOT)
        PredictionNodes.take_state(self, state)
        self.statistics.take_state(state["statistics"])
        if self.leaves is not None:
            self.leaves.take_state(state["leaves"])
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        """Raise StateError unless `take_state` can trust a state."""
        check_prediction(state, n_columns, n_outputs, self.loss == SQUARED, self.leaves)
