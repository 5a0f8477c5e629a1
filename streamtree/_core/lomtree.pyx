"""The LOMtree of Choromanska & Langford (2014): Algorithm 1, literally or made for streams."""

cimport cython
from libc.math cimport floor, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.learners cimport ClassifierCore
from streamtree._core.linear cimport adagrad_step, dot, sgd_step
from streamtree._core.losses cimport loss_reach, loss_slope
from streamtree._core.memory cimport prefetch, regrown_lines
from streamtree._core.modelleaves cimport ModelLeaves, goes_right
from streamtree._core.nodes cimport ROOT, BinaryTree, Link
from streamtree._core.readings cimport Reading, value_of
from streamtree._core.rng cimport random_sign
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.splitsearch cimport Candidate
from streamtree._core.tables cimport (
    Table, TableExport, import_table, table_bytes, table_find, table_free, table_insert,
    table_locate, table_locate_all, table_prefetch, table_reserve, table_sorted_slots,
)
from streamtree._core.types cimport Row

import numpy as np

from streamtree._core.learners import restored

cdef enum:
    MODEL_WIDTH = 2     # weight, sum of squared gradients
    CLASS_WIDTH = 4     # a ClassRecord
    PASSAGE_WIDTH = 2   # a Passage
    PREFETCHED_RECORDS = 32
    TRAIL_LENGTH = 26   # a Trail fills two cache lines
    LOOKAHEAD = 2       # levels

# What a row's squared norm is taken to be at least: without it, rows of two or three words learn
# by leaps.
cdef double NORM_OFFSET = 4.0
# scores beyond this carry no information; the bound keeps every sum finite
cdef double SCORE_LIMIT = 1e9
# A split that sends less than this share to one side is refused: depth stays logarithmic.
cdef double MIN_SIDE = 0.02
cdef double FIXED_POINT = 2.0 ** 40


cdef struct Passage:
    # what a class has left at a node
    double trained      # n(y): weight of the class that trained the node's model
    double score_sum    # m(y)


cdef struct Trail:
    Table passages                  # inner node -> Passage
    # The nodes that the last example of the class passed, by depth, 0 behind the last one. The
    # next one likely takes the same way: nothing but a hint what to ask memory for.
    int32_t nodes[TRAIL_LENGTH]


cdef struct ClassRecord:
    # what a leaf knows of a class
    double votes        # l(y): weight of the class, inherited and seen
    Passage passage
    double right        # weight of the class that the model, before training, sent right


cdef struct LomNode:
    double bias                 # the model's offset and its sum of squared gradients
    double bias_squares
    double trained              # sum of n(y) over the classes
    double score_sum            # sum of m(y)
    double size                 # C: of a leaf, its weight; else the smallest leaf's below
    # the rest serves leaves
    double right                # weight that the model, before training, sent right
    double votes                # sum of l(y)
    double majority_votes
    double next_test            # the `trained` at which a leaf next asks whether to split
    int32_t majority            # the class of most votes; at a new leaf, what its parent says
    int32_t n_classes           # classes met by the last test


cdef struct Node:
    # a visit needs the first cache line of the two and the table that it points to
    Table model                 # column -> weight, sum of squared gradients
    LomNode stats
    Table classes               # of a leaf: class -> ClassRecord


cdef inline double share_right(const ClassRecord* record, double overall) noexcept nogil:
    """The share of a class that goes right when its leaf, which sent `overall` there, splits."""
    if record.passage.trained > 0.0:
        return record.right / record.passage.trained
    return 1.0 if overall >= 0.5 else 0.0


@cython.final
cdef class LomTreeCore(ClassifierCore):
    """State and algorithm; parameters are validated by `LOMTreeClassifier`.

    Leaves keep a table of their classes, for what they do with it concerns all of them. Of the
    inner nodes every class keeps a table: what an example of the class reads on its way down
    then lies together, however many classes there are.
    """

    cdef BinaryTree tree
    cdef ModelLeaves models     # None: leaves predict their majority
    cdef Node* nodes
    cdef void* node_block       # the memory in which they lie
    cdef int32_t capacity
    cdef Trail* trails          # by class
    cdef void* trail_block
    cdef int32_t n_trails
    cdef size_t _bytes
    cdef readonly Py_ssize_t n_splits
    cdef readonly Py_ssize_t n_swaps
    cdef bint literal
    cdef int loss
    cdef Py_ssize_t max_splits
    cdef double swap_resistance
    cdef double learning_rate
    cdef double rate            # for the example at hand
    cdef double keep
    cdef double grace_period
    cdef double split_z
    cdef double delta
    cdef int32_t max_leaf_classes
    cdef double leaf_learning_rate
    cdef size_t max_size
    cdef readonly str leaf_model
    cdef bint is_seeded
    cdef uint64_t seed

    def __cinit__(self, *, bint literal, int loss, seed, leaf_model, **settings):
        self.literal = literal
        self.leaf_model = leaf_model
        self.loss = loss
        self.is_seeded = seed is not None
        self.seed = 0 if seed is None else seed
        self.scaler = ColumnScaler(not literal)
        if leaf_model != "majority":
            self.models = ModelLeaves(self.scaler, leaf_model == "adaptive", self.seed)
        self.configure(**settings)
        self.tree = BinaryTree()
        self._reserve(1)
        self._clear(ROOT, -1)
        if self.models is not None:
            self.models.open(ROOT, True)

    def configure(self, *, max_splits, double swap_resistance, double learning_rate, double keep,
                  double grace_period, double split_z, double delta, int32_t max_leaf_classes,
                  double leaf_learning_rate, size_t max_size):
        """Set what may change while the tree grows."""
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.learning_rate = learning_rate
        self.keep = keep
        self.grace_period = grace_period
        self.split_z = split_z
        self.delta = delta
        self.max_leaf_classes = max_leaf_classes
        self.leaf_learning_rate = leaf_learning_rate
        self.max_size = max_size
        if self.models is not None:
            self.models.configure(
                max_classes=max_leaf_classes, max_size=max_size,
                learning_rate=leaf_learning_rate, grace_period=grace_period, delta=delta,
            )

    def __dealloc__(self):
        cdef int32_t node, label
        if self.tree is not None:
            for node in range(self.tree.size if self.capacity else 0):
                table_free(&self.nodes[node].model)
                table_free(&self.nodes[node].classes)
        free(self.node_block)
        for label in range(self.n_trails):
            table_free(&self.trails[label].passages)
        free(self.trail_block)

    def __sizeof__(self):
        cdef int32_t node, label
        # while another call learns, the tables move about: then the size last known is the answer
        if not self.is_learning:
            self._bytes = self.capacity * sizeof(Node)
            for node in range(self.tree.size):
                self._bytes += table_bytes(&self.nodes[node].model, MODEL_WIDTH)
                self._bytes += table_bytes(&self.nodes[node].classes, CLASS_WIDTH)
            self._bytes += self.n_trails * sizeof(Trail)
            for label in range(self.n_trails):
                self._bytes += table_bytes(&self.trails[label].passages, PASSAGE_WIDTH)
            if self.models is not None:
                self._bytes += self.models.n_bytes()
        return object.__sizeof__(self) + self._bytes

    cdef int _reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        capacity += capacity // 2
        self.nodes = <Node*> regrown_lines(
            &self.node_block, self.nodes, self.capacity * sizeof(Node), capacity * sizeof(Node)
        )
        memset(&self.nodes[self.capacity], 0, (capacity - self.capacity) * sizeof(Node))
        self.capacity = capacity
        if self.models is not None:
            self.models.reserve(capacity)
        return 0

    cdef int commit_example(self) except -1:
        ClassifierCore.commit_example(self)
        return self._tell_columns()

    def learned_columns(self, names, first_rows):
        columns = ClassifierCore.learned_columns(self, names, first_rows)
        self._tell_columns()
        return columns

    cdef int _tell_columns(self) except -1:
        cdef Py_ssize_t column
        if self.models is not None:
            for column in range(self.models.reader.n_columns, len(self.features.names)):
                self.models.reader.add_column(self.features.names[column])
        return 0

    cdef int _reserve_trails(self, int32_t size) except -1 nogil:
        cdef int32_t capacity = size + size // 2
        if size <= self.n_trails:
            return 0
        self.trails = <Trail*> regrown_lines(
            &self.trail_block, self.trails, self.n_trails * sizeof(Trail),
            capacity * sizeof(Trail),
        )
        memset(&self.trails[self.n_trails], 0, (capacity - self.n_trails) * sizeof(Trail))
        self.n_trails = capacity
        return 0

    cdef void _clear(self, int32_t node, int32_t majority) noexcept nogil:
        """SetNode of the paper, at birth and when a node is recycled: nothing old survives."""
        table_free(&self.nodes[node].model)
        table_free(&self.nodes[node].classes)
        memset(&self.nodes[node], 0, sizeof(Node))
        if self.models is not None:
            self.models.clear(node)
        self.nodes[node].stats.majority = majority
        self.nodes[node].stats.next_test = self.grace_period

    # ----------------------------------------------------------------- one example

    cdef inline double _score(self, int32_t node, Row row, int32_t** slots,
                              Py_ssize_t* absent) noexcept nogil:
        """h(x) of a node; leaves where the model's records are for a step to follow."""
        cdef const Table* model = &self.nodes[node].model
        cdef double score
        if model.keys == NULL and row.top < model.capacity:
            slots[0] = NULL if row.is_full else <int32_t*> row.columns
            absent[0] = 0
        else:
            slots[0] = row.slots
            absent[0] = table_locate(model, row.columns, row.n, row.slots)
        score = self.nodes[node].stats.bias + dot(model.records, slots[0], row.values, row.n)
        if not score <= SCORE_LIMIT:
            return SCORE_LIMIT if score > 0 else 0.0
        return score if score >= -SCORE_LIMIT else -SCORE_LIMIT

    cdef ClassRecord* _class_record(self, int32_t node, int32_t label) except NULL nogil:
        cdef Table* table = &self.nodes[node].classes
        cdef int32_t slot = table_find(table, label)
        if slot < 0:
            slot = table_insert(table, CLASS_WIDTH, label, self.labels.size)
        return <ClassRecord*> &table.records[<size_t> slot * CLASS_WIDTH]

    cdef inline Passage* _passage(self, int32_t node, int32_t label) except NULL nogil:
        """What a class has left at an inner node."""
        cdef Table* table = &self.trails[label].passages
        cdef int32_t slot = table_find(table, node)
        if slot < 0:
            slot = table_insert(table, PASSAGE_WIDTH, node, self.tree.size)
        return <Passage*> &table.records[<size_t> slot * PASSAGE_WIDTH]

    cdef void expect(self, int32_t label) noexcept nogil:
        if label < self.n_trails:
            prefetch(&self.trails[label].passages)
            prefetch(&self.trails[label].nodes[TRAIL_LENGTH - 1])

    cdef void approach(self, int32_t label) noexcept nogil:
        cdef const Trail* trail
        cdef int32_t depth, node = ROOT
        if label >= self.n_trails:
            return
        trail = &self.trails[label]
        table_prefetch(&trail.passages, PASSAGE_WIDTH, ROOT)
        for depth in range(1, TRAIL_LENGTH):
            if trail.nodes[depth] <= 0:
                break
            node = trail.nodes[depth]
            prefetch(&self.nodes[node])
            table_prefetch(&trail.passages, PASSAGE_WIDTH, node)
        if node != ROOT:
            # the last one was a leaf, whose size is compared with that of its sibling
            prefetch(&self.nodes[node].classes)
            prefetch(&self.nodes[self.tree.sibling(node)])

    cdef int learn_row(self, Row row, int32_t label, double weight) except -1 nogil:
        cdef int32_t node = ROOT
        cdef int32_t depth = 0
        cdef double before
        cdef ClassRecord* record
        cdef Trail* trail
        self._reserve_trails(label + 1)
        if self.models is not None:
            return self._learn_with_models(row, label, weight)
        trail = &self.trails[label]
        self._set_rate()
        while True:
            if depth < TRAIL_LENGTH - LOOKAHEAD and trail.nodes[depth] == node:
                if trail.nodes[depth + LOOKAHEAD] > 0:
                    self._prefetch_tables(trail.nodes[depth + LOOKAHEAD], row, label)
            else:
                self._prefetch_below(node, row, label)
                if depth < TRAIL_LENGTH:
                    trail.nodes[depth] = node
            depth += 1
            if self.tree.links[node].left < 0:
                record = self._class_record(node, label)
                self._vote(node, record, label, weight)
                if not self.literal:
                    self._learn_at_leaf(node, record, row, label, weight)
                    break
                if not self._is_mixed(node) or not self._split(node):
                    self._resize(node, self.nodes[node].stats.size + weight)
                    break
            if self._train(
                node, self._passage(node, label), row, label, weight, &before
            ) > 0.0:
                node = self.tree.links[node].right
            else:
                node = self.tree.links[node].left
        if depth < TRAIL_LENGTH:
            trail.nodes[depth] = 0
        return 0

    cdef inline void _set_rate(self) noexcept nogil:
        # longer rows take smaller steps, short ones not much larger
        self.rate = self.learning_rate
        if not self.literal:
            self.rate /= self.scaler.mean_norm + NORM_OFFSET

    cdef int _learn_with_models(self, Row row, int32_t label, double weight) except -1 nogil:
        """As `learn_row`, where leaves have models."""
        cdef int32_t node = ROOT, top = -1
        cdef double before
        cdef LomNode* stats
        cdef ClassRecord* record
        cdef Reading reading
        cdef bint is_right, has_room
        self._set_rate()
        self.models.reader.take(&reading, &row)
        while self.tree.links[node].left >= 0:
            if top < 0 and self.models.sites[node].state != NULL:
                top = node
            if self.models.sites[node].column >= 0:
                is_right = goes_right(&self.models.sites[node], &reading)
            else:
                is_right = self._train(
                    node, self._passage(node, label), row, label, weight, &before
                ) > 0.0
            node = self.tree.links[node].right if is_right else self.tree.links[node].left
        record = self._class_record(node, label)
        stats = &self.nodes[node].stats
        if self.models.sites[node].state.is_crowded:
            self._vote(node, record, label, weight)
            return self._learn_at_leaf(node, record, row, label, weight)
        self.models.reader.read(&reading)
        if top < 0:
            top = node
        has_room = self.models.learn(&reading, top, node, label, self.labels.size, weight)
        self._vote(node, record, label, weight)
        self._resize(node, stats.votes)
        if has_room:
            return self._split_at_threshold(node)
        if top == node:
            self.models.crowd(node)
        else:
            self._dissolve(top)
        return 0

    cdef int _dissolve(self, int32_t top) except -1 nogil:
        """More classes than a model may have: the leaves below go on, each with its own."""
        cdef int32_t depth = 0, node = top
        while True:
            if self.tree.links[node].left < 0:
                self.models.open(node, True)
            else:
                self.models.free_state(node)
            node = self.tree.next_in_preorder(node, &depth)
            if node < 0 or depth <= 0:
                return 0

    cdef int _split_at_threshold(self, int32_t node) except -1 nogil:
        """Split a leaf where its model asks for it."""
        cdef const Candidate* found = self.models.found(node)
        cdef int32_t left, right, column, top, ancestor
        cdef double share
        cdef float threshold
        if found == NULL:
            return 0
        column = found.column
        threshold = found.threshold
        share = found.weight / self.models.sites[node].state.search.watched
        if not self._find_children(node, &left, &right):
            return 0
        # the topmost model may have moved, with the parent of a leaf that was recycled
        top = ancestor = node
        while ancestor >= 0:
            if self.models.sites[ancestor].state != NULL:
                top = ancestor
            ancestor = self.tree.links[ancestor].parent
        self.models.divide(top, node, left, right, column, threshold)
        self._bequeath_shares(node, left, right, share)
        self._update_smallest(left)
        return 0

    cdef inline void _prefetch_below(self, int32_t node, Row row, int32_t label) noexcept nogil:
        """Ask for what a visit to either child needs, and for the heads of the grandchildren.

        A large tree does not fit the caches; the score of this node takes about as long to
        compute as memory takes to answer. A label of -1 reads no class records.
        """
        cdef const Link* link = &self.tree.links[node]
        if link.left >= 0:
            self._prefetch_tables(link.left, row, label)
            self._prefetch_tables(link.right, row, label)
            self._prefetch_heads(link.left)
            self._prefetch_heads(link.right)

    cdef inline void _prefetch_tables(self, int32_t node, Row row, int32_t label) noexcept nogil:
        cdef const Table* model = &self.nodes[node].model
        cdef Py_ssize_t i
        if label >= 0:
            if self.tree.links[node].left < 0:
                table_prefetch(&self.nodes[node].classes, CLASS_WIDTH, label)
            else:
                table_prefetch(&self.trails[label].passages, PASSAGE_WIDTH, node)
        if model.keys == NULL:
            # four records to a cache line; long rows are left to the hardware
            for i in range(0, min(row.n, PREFETCHED_RECORDS), 4):
                prefetch(&model.records[MODEL_WIDTH * i])
            # the table need not begin where a cache line does
            prefetch(&model.records[MODEL_WIDTH * min(row.n, PREFETCHED_RECORDS)])

    cdef inline void _prefetch_heads(self, int32_t node) noexcept nogil:
        cdef const Link* link = &self.tree.links[node]
        if link.left >= 0:
            prefetch(&self.nodes[link.left])
            prefetch(&self.nodes[link.right])

    cdef void _vote(self, int32_t node, ClassRecord* record, int32_t label,
                    double weight) noexcept nogil:
        cdef LomNode* stats = &self.nodes[node].stats
        record.votes += weight
        stats.votes += weight
        if record.votes >= stats.majority_votes:
            stats.majority_votes = record.votes
            stats.majority = label

    cdef int _learn_at_leaf(self, int32_t node, ClassRecord* record, Row row, int32_t label,
                            double weight) except -1 nogil:
        """A leaf trains its model before it splits, so that there is something to judge."""
        cdef LomNode* stats = &self.nodes[node].stats
        cdef double before
        self._resize(node, stats.votes)
        if self.n_splits >= self.max_splits and not self._is_swap_worth(node, ROOT):
            return 0
        self._train(node, &record.passage, row, label, weight, &before)
        if before > 0.0:
            record.right += weight
            stats.right += weight
        if stats.trained >= stats.next_test:
            # a test reads every class of the leaf: many classes, fewer tests
            stats.next_test = stats.trained + max(self.grace_period, 0.25 * stats.n_classes)
            if self._separates_classes(node):
                self._split(node)
        return 0

    cdef double _train(self, int32_t node, Passage* passage, Row row, int32_t label,
                       double weight, double* before) except? -1 nogil:
        """One step towards the label's side; returns the score then, leaves the one before."""
        cdef LomNode* stats = &self.nodes[node].stats
        cdef int32_t* slots
        cdef Py_ssize_t absent
        cdef double score, updated, target, slope, counted
        cdef bint goes_left
        cdef double* records
        before[0] = updated = score = self._score(node, row, &slots, &absent)
        # E > e(y) with the quotients multiplied out; while n(y) = 0, e(y) counts as 0
        if passage.trained > 0.0:
            goes_left = stats.score_sum * passage.trained > passage.score_sum * stats.trained
        else:
            goes_left = stats.score_sum > 0.0
        target = -1.0 if goes_left else 1.0
        if self.is_seeded and passage.trained == 0:
            target = random_sign(self.seed, node, label)
        slope = weight * loss_slope(self.loss, score, target)
        if slope != 0.0:
            if absent:
                table_locate_all(
                    &self.nodes[node].model, MODEL_WIDTH, row.columns, row.n,
                    self.scaler.size, row.slots,
                )
                slots = row.slots
            records = self.nodes[node].model.records
            if self.literal:
                updated += sgd_step(
                    &stats.bias, records, slots, row.values, row.n, slope, self.rate,
                )
            else:
                updated += adagrad_step(
                    &stats.bias, records, slots, row.values, row.n, row.steps,
                    slope, self.rate, self.keep, loss_reach(self.loss, score, target),
                )
        # The paper counts the updated score. The score before the update measures better: it
        # is what an example that is not learned would get.
        counted = updated if self.literal else score
        passage.trained += weight
        passage.score_sum += weight * counted
        stats.trained += weight
        stats.score_sum += weight * counted
        return updated

    # --------------------------------------------------------------- growth and swaps

    cdef bint _is_mixed(self, int32_t node) noexcept nogil:
        """Whether a leaf has seen at least two classes."""
        return self.nodes[node].stats.majority_votes < self.nodes[node].stats.votes

    cdef bint _separates_classes(self, int32_t node) noexcept nogil:
        """Whether the leaf's model sends the classes to different sides, beyond chance.

        Likelihood-ratio (G) test of independence between class and side, on the sides that
        the model gave before it trained on each example; Wilson & Hilferty's approximation
        of the chi-squared quantile.
        """
        cdef LomNode* stats = &self.nodes[node].stats
        cdef const Table* table = &self.nodes[node].classes
        cdef const ClassRecord* records = <const ClassRecord*> table.records
        cdef double share = stats.right / stats.trained
        cdef double left, term, quantile
        # in units of 2^-40: a sum of integers does not depend on the order of the classes
        cdef int64_t statistic = 0
        cdef int32_t slot
        cdef int n_classes = 0
        for slot in range(table.capacity):
            if records[slot].passage.trained <= 0.0:
                continue
            n_classes += 1
            term = 0.0
            left = records[slot].passage.trained - records[slot].right
            if records[slot].right > 0.0:
                term += records[slot].right * log(
                    records[slot].right / (records[slot].passage.trained * share)
                )
            if left > 0.0:
                term += left * log(left / (records[slot].passage.trained * (1.0 - share)))
            statistic += <int64_t> (term / stats.trained * FIXED_POINT)
        stats.n_classes = n_classes
        if n_classes < 2 or share <= MIN_SIDE or share >= 1.0 - MIN_SIDE:
            return False
        quantile = 2.0 / (9.0 * (n_classes - 1))
        quantile = 1.0 - quantile + self.split_z * sqrt(quantile)
        return (
            2.0 * stats.trained * (statistic / FIXED_POINT)
            > (n_classes - 1) * quantile * quantile * quantile
        )

    cdef bint _is_swap_worth(self, int32_t node, int32_t smallest) noexcept nogil:
        """C_j - max_i l_j(i) > R_S (C_s + 1): the leaf needs a split more than s its place."""
        return (
            self.nodes[node].stats.size - self.nodes[node].stats.majority_votes
            > self.swap_resistance * (self.nodes[smallest].stats.size + 1.0)
        )

    cdef int32_t _smallest_leaf(self) noexcept nogil:
        """The leaf to recycle, -1 if there is none. Its parent is never the root.

        A child of the root has no grandparent that could adopt its sibling: recycling it
        would lose the root, and with it the tree.
        """
        cdef int32_t left = self.tree.links[ROOT].left, right = self.tree.links[ROOT].right
        cdef int32_t node
        if left < 0:
            return -1
        if self.tree.links[left].left < 0:
            node = right
        elif self.tree.links[right].left < 0:
            node = left
        else:
            node = self._smaller(left, right)
        if self.tree.links[node].left < 0:
            return -1
        while self.tree.links[node].left >= 0:
            node = self._smaller(self.tree.links[node].left, self.tree.links[node].right)
        return node

    cdef inline int32_t _smaller(self, int32_t left, int32_t right) noexcept nogil:
        return right if self.nodes[right].stats.size < self.nodes[left].stats.size else left

    cdef bint _find_children(self, int32_t node, int32_t* left, int32_t* right) except -1 nogil:
        """Attach two children to a leaf, new or recycled ones; returns whether there are any."""
        cdef int32_t smallest, sibling
        if self.n_splits < self.max_splits:
            self._reserve(self.tree.size + 2)
            self.tree.reserve(self.tree.size + 2)
            left[0] = self.tree.add(node)
            right[0] = self.tree.add(node)
            self.n_splits += 1
        else:
            smallest = self._smallest_leaf()
            if smallest < 0 or not self._is_swap_worth(node, smallest):
                return False
            left[0], right[0] = smallest, self.tree.links[smallest].parent
            sibling = self.tree.sibling(smallest)
            if self.models is not None:
                self.models.hand_places(right[0], sibling)
            self.tree.detach(smallest)
            self._forget_passages(right[0])
            self._update_smallest(sibling)
            self.n_swaps += 1
        self._clear(left[0], self.nodes[node].stats.majority)
        self._clear(right[0], self.nodes[node].stats.majority)
        self.tree.attach(node, left[0], right[0])
        return True

    cdef bint _split(self, int32_t node) except -1 nogil:
        """Split a leaf by its linear model; returns whether it got children."""
        cdef int32_t left, right
        if not self._find_children(node, &left, &right):
            return False
        if self.literal:
            self.nodes[left].stats.size = floor(0.5 * self.nodes[node].stats.size)
            self.nodes[right].stats.size = self.nodes[node].stats.size - self.nodes[left].stats.size
        else:
            self._bequeath(node, left, right)
        self._hand_over_passages(node)
        self._update_smallest(left)
        if self.models is not None:
            self.models.clear(node)
            self.models.open(left, True)
            self.models.open(right, True)
        return True

    cdef int _bequeath(self, int32_t node, int32_t left, int32_t right) except -1 nogil:
        """Hand a leaf's votes to its children, each class by the share that went each way.

        A class that the leaf inherited and has not met since goes whole to the side of the most
        examples: split, such classes would fill the tables of a subtree with shreds of votes.
        """
        cdef const Table* table = &self.nodes[node].classes
        cdef const ClassRecord* record
        cdef int32_t label
        cdef double share, overall = self.nodes[node].stats.right / self.nodes[node].stats.trained
        cdef Py_ssize_t i, n, n_left = 0, n_right = 0
        cdef int32_t* slots = table_sorted_slots(table, CLASS_WIDTH, &n)
        for i in range(n):
            share = share_right(&(<const ClassRecord*> table.records)[slots[i]], overall)
            n_left += share < 1.0
            n_right += share > 0.0
        table_reserve(&self.nodes[left].classes, CLASS_WIDTH, n_left, self.labels.size)
        table_reserve(&self.nodes[right].classes, CLASS_WIDTH, n_right, self.labels.size)
        for i in range(n):
            record = &(<const ClassRecord*> table.records)[slots[i]]
            label = slots[i] if table.keys == NULL else table.keys[slots[i]]
            share = share_right(record, overall)
            if share > 0.0:
                self._vote(right, self._class_record(right, label), label, share * record.votes)
            if share < 1.0:
                self._vote(
                    left, self._class_record(left, label), label, (1.0 - share) * record.votes
                )
        free(slots)
        self.nodes[left].stats.size = self.nodes[left].stats.votes
        self.nodes[right].stats.size = self.nodes[right].stats.votes
        return 0

    cdef int _bequeath_shares(self, int32_t node, int32_t left, int32_t right,
                              double share) except -1 nogil:
        """Hand a leaf's votes to its children, of every class the same share to the right."""
        cdef Table* table = &self.nodes[node].classes
        cdef int32_t label
        cdef double votes
        cdef Py_ssize_t i, n
        cdef int32_t* slots = table_sorted_slots(table, CLASS_WIDTH, &n)
        for i in range(n):
            votes = (<const ClassRecord*> table.records)[slots[i]].votes
            label = slots[i] if table.keys == NULL else table.keys[slots[i]]
            self._vote(left, self._class_record(left, label), label, (1.0 - share) * votes)
            self._vote(right, self._class_record(right, label), label, share * votes)
        free(slots)
        table_free(table)
        self.nodes[left].stats.size = self.nodes[left].stats.votes
        self.nodes[right].stats.size = self.nodes[right].stats.votes
        return 0

    cdef int _hand_over_passages(self, int32_t node) except -1 nogil:
        """Now that a leaf is an inner node, its classes keep what they left there."""
        cdef Table* table = &self.nodes[node].classes
        cdef const ClassRecord* records = <const ClassRecord*> table.records
        cdef int32_t slot
        for slot in range(table.capacity):
            if records[slot].passage.trained > 0.0:
                self._passage(
                    node, slot if table.keys == NULL else table.keys[slot]
                )[0] = records[slot].passage
        table_free(table)
        return 0

    cdef void _forget_passages(self, int32_t node) noexcept nogil:
        """Before an inner node is recycled: a zero record is as good as none."""
        cdef int32_t label, slot, ahead
        for label in range(self.n_trails):
            # one after the other, each would wait for memory
            ahead = min(label + 16, self.n_trails - 1)
            table_prefetch(&self.trails[ahead].passages, PASSAGE_WIDTH, node)
            slot = table_find(&self.trails[label].passages, node)
            if slot >= 0:
                memset(
                    &self.trails[label].passages.records[<size_t> slot * PASSAGE_WIDTH], 0,
                    sizeof(Passage),
                )

    cdef void _resize(self, int32_t leaf, double size) noexcept nogil:
        self.nodes[leaf].stats.size = size
        self._update_smallest(leaf)

    cdef void _update_smallest(self, int32_t node) noexcept nogil:
        """UpdateC of the paper: carry a changed size upwards for as far as it matters."""
        cdef int32_t parent = self.tree.links[node].parent
        cdef double smallest
        while parent >= 0:
            smallest = min(
                self.nodes[self.tree.links[parent].left].stats.size,
                self.nodes[self.tree.links[parent].right].stats.size,
            )
            if self.nodes[parent].stats.size == smallest:
                return
            self.nodes[parent].stats.size = smallest
            parent = self.tree.links[parent].parent

    # -------------------------------------------------------------------- prediction

    cdef int32_t _leaf(self, const Row* row, Reading* reading, int32_t* top) noexcept nogil:
        """The leaf of a row, and the first node on the way there that has a model, or -1.

        Where there are models, the row is left to be read in parts.
        """
        cdef int32_t node = ROOT
        cdef int32_t* slots
        cdef Py_ssize_t absent
        cdef bint has_models = self.models is not None
        top[0] = -1
        if has_models:
            self.models.reader.take(reading, row)
        while self.tree.links[node].left >= 0:
            if has_models:
                if top[0] < 0 and self.models.sites[node].state != NULL:
                    top[0] = node
                if self.models.sites[node].column >= 0:
                    if goes_right(&self.models.sites[node], reading):
                        node = self.tree.links[node].right
                    else:
                        node = self.tree.links[node].left
                    continue
            self._prefetch_below(node, row[0], -1)
            if self._score(node, row[0], &slots, &absent) > 0.0:
                node = self.tree.links[node].right
            else:
                node = self.tree.links[node].left
        return node

    cdef int32_t predict_row(self, Row row) noexcept nogil:
        cdef Reading reading
        cdef int32_t top, label = -1, node = self._leaf(&row, &reading, &top)
        cdef const LomNode* stats = &self.nodes[node].stats
        if self.models is not None:
            self.models.reader.read(&reading)
            label = self.models.predict(&reading, node if top < 0 else top, node)
        return label if label >= 0 else stats.majority

    cdef void predict_proba_row(self, Row row, double* out) noexcept nogil:
        """What the models say; else class shares of the leaf and a pseudo-vote.

        Half of the pseudo-vote is the majority's, half everyone's: the majority is the most
        likely class also among equals and at a new leaf.
        """
        cdef Reading reading
        cdef int32_t top, node = self._leaf(&row, &reading, &top)
        cdef int32_t label, slot, n_labels = self.labels.size
        cdef const LomNode* stats = &self.nodes[node].stats
        cdef const Table* table = &self.nodes[node].classes
        cdef const ClassRecord* records = <const ClassRecord*> table.records
        cdef double total = stats.votes + 1.0
        if self.models is not None:
            memset(out, 0, n_labels * sizeof(double))
            self.models.reader.read(&reading)
            if self.models.predict_proba(&reading, node if top < 0 else top, node, out):
                for label in range(n_labels):
                    out[label] = (stats.votes * out[label] + 1.0 / n_labels) / total
                return
        for label in range(n_labels):
            out[label] = 0.5 / n_labels / total
        out[self.nodes[node].stats.majority] += 0.5 / total
        for slot in range(table.capacity):
            if records[slot].votes > 0.0:
                label = slot if table.keys == NULL else table.keys[slot]
                out[label] += records[slot].votes / total

    def predict_topk_one(self, x, Py_ssize_t count):
        """The `count` most likely (label, probability) pairs; costs O(classes of the leaf)."""
        cdef int32_t node, slot, label, majority, modelled
        cdef const Table* table
        cdef double total, rest
        cdef Row row
        cdef Reading reading
        if self.models is not None:
            return ClassifierCore.predict_topk_one(self, x, count)
        self.begin_predicting()
        try:
            row = self.read_known(x).row()
            node = self._leaf(&row, &reading, &modelled)
        finally:
            self.n_predicting -= 1
        if self.labels.size == 0:
            return []
        majority = self.nodes[node].stats.majority
        total = self.nodes[node].stats.votes + 1.0
        rest = 0.5 / self.labels.size / total
        shares = {majority: rest + 0.5 / total}
        table = &self.nodes[node].classes
        for slot in range(table.capacity):
            if table.records[<size_t> slot * CLASS_WIDTH] > 0.0:
                label = slot if table.keys == NULL else table.keys[slot]
                shares[label] = (
                    shares.get(label, rest) + table.records[<size_t> slot * CLASS_WIDTH] / total
                )
        top = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:count]
        # the labels that the leaf never met are all alike
        for label in range(self.labels.size):
            if len(top) >= count:
                break
            if label not in shares:
                top.append((label, rest))
        return [(self.labels.labels[label], share) for label, share in top]

    # ------------------------------------------------------------------------- state

    @property
    def n_nodes(self):
        return self.tree.size

    def __reduce__(self):
        parameters = {
            "literal": self.literal, "loss": self.loss,
            "seed": self.seed if self.is_seeded else None, "max_splits": self.max_splits,
            "swap_resistance": self.swap_resistance, "learning_rate": self.learning_rate,
            "keep": self.keep, "grace_period": self.grace_period, "split_z": self.split_z,
            "delta": self.delta, "max_leaf_classes": self.max_leaf_classes,
            "leaf_learning_rate": self.leaf_learning_rate, "leaf_model": self.leaf_model,
            "max_size": self.max_size,
        }
        return restored, (LomTreeCore, parameters, self.snapshot())

    cdef list path_of(self, Row row):
        cdef int32_t node = ROOT
        cdef int32_t* slots
        cdef Py_ssize_t absent
        cdef double score
        cdef Reading reading
        nodes = []
        if self.models is not None:
            self.models.reader.take(&reading, &row)
        while self.tree.links[node].left >= 0:
            if self.models is not None and self.models.sites[node].column >= 0:
                score = value_of(&reading, self.models.sites[node].column)
                score -= self.models.sites[node].threshold
            else:
                score = self._score(node, row, &slots, &absent)
            nodes.append((node, score))
            node = self.tree.links[node].right if score > 0.0 else self.tree.links[node].left
        return [*nodes, (node, None)]

    cdef object node_depths(self):
        return self.tree.depths()

    def mean_depth(self):
        """The depth of the leaves, weighted by the examples that each has seen."""
        self.begin_predicting()
        try:
            depths = self.tree.depths()
            leaves = self.tree.snapshot()["left"] < 0
            weights = self._stats()["votes"][leaves]
        finally:
            self.n_predicting -= 1
        total = weights.sum()
        return float((depths[leaves] * weights).sum() / total) if total > 0 else 0.0

    def _stats(self):
        """The statistics of all nodes as a record array of shape (n_nodes,)."""
        cdef LomNode empty
        cdef LomNode[::1] view
        cdef int32_t node
        memset(&empty, 0, sizeof(LomNode))
        stats = np.zeros(self.tree.size, dtype=np.asarray(<LomNode[:1]> &empty).dtype)
        view = stats
        for node in range(self.tree.size):
            view[node] = self.nodes[node].stats
        return stats

    cdef dict state(self):
        cdef int32_t node, label
        cdef TableExport models = TableExport(MODEL_WIDTH)
        cdef TableExport classes = TableExport(CLASS_WIDTH)
        cdef TableExport passages = TableExport(PASSAGE_WIDTH)
        for node in range(self.tree.size):
            models.add(&self.nodes[node].model)
            classes.add(&self.nodes[node].classes)
        self._reserve_trails(self.labels.size)
        for label in range(self.labels.size):
            passages.add(&self.trails[label].passages)
        return {
            **ClassifierCore.state(self),
            "links": self.tree.snapshot(),
            "nodes": self._stats(),
            "models": models.arrays(),
            "classes": classes.arrays(),
            "passages": passages.arrays(),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
            "leaf_models": None if self.models is None else self.models.state(self.tree.size),
        }

    cdef int take_state(self, dict state) except -1:
        cdef const LomNode[::1] stats = state["nodes"]
        cdef int32_t node, label
        ClassifierCore.take_state(self, state)
        self.tree.restore(state["links"])
        self._reserve(self.tree.size)
        for node in range(self.tree.size):
            self.nodes[node].stats = stats[node]
            import_table(
                &self.nodes[node].model, MODEL_WIDTH, self.scaler.size, state["models"], node
            )
            import_table(
                &self.nodes[node].classes, CLASS_WIDTH, self.labels.size, state["classes"], node
            )
        self._reserve_trails(self.labels.size)
        for label in range(self.labels.size):
            import_table(
                &self.trails[label].passages, PASSAGE_WIDTH, self.tree.size, state["passages"],
                label,
            )
        self.n_splits = state["n_splits"]
        self.n_swaps = state["n_swaps"]
        if self.models is not None:
            self.models.take_state(state["leaf_models"], state["features"], self.labels.size)
        return 0
