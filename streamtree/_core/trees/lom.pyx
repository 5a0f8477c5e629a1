"""The LOMtree of Choromanska & Langford (2014): Algorithm 1, literally or made for streams."""

cimport cython
from libc.math cimport floor
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.kernels.linear cimport (
    NORM_OFFSET, Inputs, StepRule, adagrad_step, dot, limited, sgd_step,
)
from streamtree._core.kernels.losses cimport loss_reach, loss_slope
from streamtree._core.kernels.rng cimport random_sign
from streamtree._core.kernels.significance cimport chi_squared_quantile, log_ratio
from streamtree._core.leaves.explanation cimport Explanation, columns_of, pushing, weighted
from streamtree._core.store.links cimport ROOT, Link, TreeLinks
from streamtree._core.store.memory cimport prefetch
from streamtree._core.store.budget cimport (
    bytes_allowed, counted_lines, give_back, has_room, may_grow, spacious,
)
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.store.tables cimport (
    DENSE_FACTOR, Table, TableExport, import_table, table_bytes, table_find, table_free, table_key,
    table_locate_all, table_prefetch, table_reserve, table_sorted_slots,
)
from streamtree._core.stream.inputs cimport add_absent, find_inputs
from streamtree._core.stream.row cimport (
    PLAIN, STANDARD, Example, Prediction, Row, Scratch, View,
)
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.trees.checks import check_lom_tree

cdef enum:
    MODEL_WIDTH = 2     # weight, sum of squared gradients
    CLASS_WIDTH = 4     # a ClassRecord
    PASSAGE_WIDTH = 2   # a Passage
    PREFETCHED_RECORDS = 32
    TRAIL_LENGTH = 26   # a Trail fills two cache lines
    LOOKAHEAD = 2       # levels
    # of a class: its trail, a dozen passages, and a record in two leaves
    LABEL_BYTES = 1000
    # models leave one part of so many of what the tree may take to these
    PART_FOR_LABELS = 8

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


cdef LomNode _blank
STATS = np.asarray(<LomNode[:1]> &_blank).dtype


cdef struct Node:
    # a visit needs the first cache line of the two and the table that it points to
    Table model                 # column -> weight, sum of squared gradients
    LomNode stats
    Table classes               # of a leaf: class -> ClassRecord


cdef inline double share_right(const ClassRecord* record, double overall) noexcept nogil:
    """The share of a class that goes right when its leaf, whose test sent `overall` there, splits.
    """
    if record.passage.trained > 0.0:
        return record.right / record.passage.trained
    return 1.0 if overall >= 0.5 else 0.0


@cython.final
cdef class LomTree(Tree):
    """State and algorithm; parameters are validated by `LOMTreeClassifier`.

    Leaves keep a table of their classes, for what they do with it concerns all of them. Of the
    inner nodes every class keeps a table: what an example of the class reads on its way down
    then lies together, however many classes there are.
    """

    cdef TreeLinks tree
    cdef Node* nodes
    cdef void* node_block       # the memory in which they lie
    cdef int32_t capacity
    cdef Trail* trails          # by class
    cdef void* trail_block
    cdef int32_t n_trails
    cdef Passage unkept         # of a class whose passages have no room
    cdef readonly Py_ssize_t n_splits
    cdef readonly Py_ssize_t n_swaps
    cdef bint paper
    cdef int loss
    cdef bint is_seeded
    cdef uint64_t seed
    cdef Py_ssize_t max_splits
    cdef double swap_resistance
    cdef double learning_rate
    cdef double decay
    cdef double grace_period
    cdef double split_z
    cdef StepRule rule          # for the example at hand

    def __cinit__(self, *, bint paper, int loss, seed, **settings):
        self.paper = paper
        self.loss = loss
        self.is_seeded = seed is not None
        self.seed = 0 if seed is None else seed
        self.views = PLAIN if paper else STANDARD
        self.label_bytes = LABEL_BYTES
        self.looks_ahead = True
        self.configure(**settings)
        self.tree = self.frame = TreeLinks()
        self._reserve(1)
        self._clear(ROOT, -1)

    def configure(self, *, Py_ssize_t max_splits, double swap_resistance, double learning_rate,
                  double decay, double grace_period, double split_z):
        """Set what may change while the tree grows."""
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.learning_rate = learning_rate
        self.decay = decay
        self.grace_period = grace_period
        self.split_z = split_z

    def __dealloc__(self):
        cdef int32_t node, label
        for node in range(self.capacity):
            table_free(&self.nodes[node].model)
            table_free(&self.nodes[node].classes)
        give_back(self.node_block)
        for label in range(self.n_trails):
            table_free(&self.trails[label].passages)
        give_back(self.trail_block)

    cdef int _reserve(self, int32_t n) except -1 nogil:
        self.nodes = <Node*> counted_lines(
            &self.node_block, self.nodes, &self.capacity, n, sizeof(Node)
        )
        return 0

    cdef bint _reserve_trails(self, int32_t n) except -1 nogil:
        """Make room for so many classes; returns whether there is any."""
        if n > self.n_trails and not has_room((spacious(n) - self.n_trails) * sizeof(Trail)):
            return False
        self.trails = <Trail*> counted_lines(
            &self.trail_block, self.trails, &self.n_trails, n, sizeof(Trail)
        )
        return True

    cdef void _clear(self, int32_t node, int32_t majority) noexcept nogil:
        """SetNode of the paper, at birth and when a node is recycled: nothing old survives."""
        table_free(&self.nodes[node].model)
        table_free(&self.nodes[node].classes)
        memset(&self.nodes[node], 0, sizeof(Node))
        self.nodes[node].stats.majority = majority
        self.nodes[node].stats.next_test = self.grace_period

    # ----------------------------------------------------------------- one example

    cdef inline const View* _view(self, const Row* row) noexcept nogil:
        return &row.plain if self.paper else &row.standard

    cdef inline double _score(self, int32_t node, const View* view, Scratch* scratch,
                              Inputs* inputs) noexcept nogil:
        """h(x) of a node; leaves where the model's records are for a step to follow."""
        cdef const Table* model = &self.nodes[node].model
        inputs[0] = find_inputs(model, view, scratch)
        return limited(self.nodes[node].stats.bias + dot(model.records, inputs))

    cdef ClassRecord* _class_record(self, Table* table, int32_t label) except? NULL nogil:
        """What a leaf knows of a class; NULL: there is no room for it."""
        cdef int32_t slot = table_find(table, label)
        if slot < 0 and table_locate_all(
            table, CLASS_WIDTH, &label, 1, self.context.n_labels, DENSE_FACTOR, &slot
        ):
            return NULL
        return <ClassRecord*> &table.records[<size_t> slot * CLASS_WIDTH]

    cdef inline Passage* _passage(self, int32_t node, int32_t label) except NULL nogil:
        """What a class has left at an inner node; without room nothing of it is kept."""
        cdef Table* table = &self.trails[label].passages
        cdef int32_t slot = table_find(table, node)
        if slot < 0 and table_locate_all(
            table, PASSAGE_WIDTH, &node, 1, self.tree.size, DENSE_FACTOR, &slot
        ):
            self.unkept = Passage(0.0, 0.0)
            return &self.unkept
        return <Passage*> &table.records[<size_t> slot * PASSAGE_WIDTH]

    cdef void expect(self, int32_t label) noexcept nogil:
        if 0 <= label < self.n_trails:
            prefetch(&self.trails[label].passages)
            prefetch(&self.trails[label].nodes[TRAIL_LENGTH - 1])

    cdef void approach(self, int32_t label) noexcept nogil:
        cdef const Trail* trail
        cdef int32_t depth, node = ROOT
        if not 0 <= label < self.n_trails:
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

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t node = ROOT, depth = 0, label = example.label
        cdef const View* view = self._view(row)
        cdef double before
        cdef bint is_right
        cdef Trail* trail
        if label >= self.n_trails and not self._reserve_trails(label + 1):
            if out != NULL:
                self.predict(row, scratch, out)
            return 0
        trail = &self.trails[label]
        self._set_rule()
        while True:
            if depth < TRAIL_LENGTH - LOOKAHEAD and trail.nodes[depth] == node:
                if trail.nodes[depth + LOOKAHEAD] > 0:
                    self._prefetch_tables(trail.nodes[depth + LOOKAHEAD], view, label)
            else:
                self._prefetch_below(node, view, label)
                if depth < TRAIL_LENGTH:
                    trail.nodes[depth] = node
            depth += 1
            if self.tree.links[node].left < 0:
                if out != NULL:
                    self._say(node, out)
                    out = NULL
                if self._learn_leaf(node, view, example, scratch):
                    break
                # by the paper's algorithm a leaf that splits goes on as an inner node
            is_right = self._train(
                node, self._passage(node, label), view, example, scratch, &before
            ) > 0.0
            if out != NULL and is_right != (before > 0.0):
                # the step has turned the row round: it was predicted on the other side
                self.predict_below(self._child(node, not is_right), row, scratch, out)
                out = NULL
            node = self._child(node, is_right)
        if depth < TRAIL_LENGTH:
            trail.nodes[depth] = 0
        return 0

    cdef inline int32_t _child(self, int32_t node, bint is_right) noexcept nogil:
        return self.tree.links[node].right if is_right else self.tree.links[node].left

    cdef inline void _set_rule(self) noexcept nogil:
        """How to step on the example at hand."""
        self.rule.rate = self.learning_rate
        self.rule.decay = self.decay
        # far below the square of any gradient that matters; it makes 0/0 a 0
        self.rule.prior = 1e-300
        if not self.paper:
            # longer rows take smaller steps, short ones not much larger
            self.rule.rate /= self.context.scaler.mean_norm + NORM_OFFSET

    cdef inline void _prefetch_below(self, int32_t node, const View* view,
                                     int32_t label) noexcept nogil:
        """Ask for what a visit to either child needs, and for the heads of the grandchildren.

        A large tree does not fit the caches; the score of this node takes about as long to
        compute as memory takes to answer. A label of -1 reads no class records.
        """
        cdef const Link* link = &self.tree.links[node]
        if link.left >= 0:
            self._prefetch_tables(link.left, view, label)
            self._prefetch_tables(link.right, view, label)
            self._prefetch_heads(link.left)
            self._prefetch_heads(link.right)

    cdef inline void _prefetch_tables(self, int32_t node, const View* view,
                                      int32_t label) noexcept nogil:
        cdef const Table* model = &self.nodes[node].model
        cdef Py_ssize_t i
        if label >= 0:
            if self.tree.links[node].left < 0:
                table_prefetch(&self.nodes[node].classes, CLASS_WIDTH, label)
            else:
                table_prefetch(&self.trails[label].passages, PASSAGE_WIDTH, node)
        if model.keys == NULL:
            # four records to a cache line; long rows are left to the hardware
            for i in range(0, min(view.n, PREFETCHED_RECORDS), 4):
                prefetch(&model.records[MODEL_WIDTH * i])
            # the table need not begin where a cache line does
            prefetch(&model.records[MODEL_WIDTH * min(view.n, PREFETCHED_RECORDS)])

    cdef inline void _prefetch_heads(self, int32_t node) noexcept nogil:
        cdef const Link* link = &self.tree.links[node]
        if link.left >= 0:
            prefetch(&self.nodes[link.left])
            prefetch(&self.nodes[link.right])

    cdef void _vote(self, LomNode* stats, ClassRecord* record, int32_t label,
                    double weight) noexcept nogil:
        record.votes += weight
        stats.votes += weight
        if record.votes >= stats.majority_votes:
            stats.majority_votes = record.votes
            stats.majority = label

    cdef bint _learn_leaf(self, int32_t node, const View* view, const Example* example,
                          Scratch* scratch) except -1 nogil:
        """Learn an example at a leaf; returns False if the leaf split and the example goes on."""
        cdef LomNode* stats = &self.nodes[node].stats
        cdef ClassRecord* record
        cdef double before
        record = self._class_record(&self.nodes[node].classes, example.label)
        if record == NULL:
            return True
        self._vote(stats, record, example.label, example.weight)
        if self.paper:
            if self._is_mixed(node) and self._split(node):
                return False
            self._resize(node, stats.size + example.weight)
            return True
        self._resize(node, stats.votes)
        if not self._has_nodes(node) and not self._is_swap_worth(node, ROOT):
            return True
        # A leaf trains its test before it splits, so that there is something to judge.
        self._train(node, &record.passage, view, example, scratch, &before)
        if before > 0.0:
            record.right += example.weight
            stats.right += example.weight
        if stats.trained >= stats.next_test:
            # a test reads every class of the leaf: many classes, fewer tests
            stats.next_test = stats.trained + max(self.grace_period, 0.25 * stats.n_classes)
            if self._separates_classes(node):
                self._split(node)
        return True

    cdef double _train(self, int32_t node, Passage* passage, const View* view,
                       const Example* example, Scratch* scratch,
                       double* before) except? -1 nogil:
        """One step towards the label's side; returns the score then, leaves the one before."""
        cdef LomNode* stats = &self.nodes[node].stats
        cdef Table* model = &self.nodes[node].model
        cdef Inputs inputs
        cdef double score, updated, target, slope, counted, weight = example.weight
        cdef bint goes_left
        before[0] = updated = score = self._score(node, view, scratch, &inputs)
        # E > e(y) with the quotients multiplied out; while n(y) = 0, e(y) counts as 0
        if passage.trained > 0.0:
            goes_left = stats.score_sum * passage.trained > passage.score_sum * stats.trained
        else:
            goes_left = stats.score_sum > 0.0
        target = -1.0 if goes_left else 1.0
        if self.is_seeded and passage.trained == 0:
            target = random_sign(self.seed, node, example.label)
        slope = weight * loss_slope(self.loss, score, target)
        if slope != 0.0:
            if inputs.n_absent and has_room(bytes_allowed() // PART_FOR_LABELS):
                add_absent(model, MODEL_WIDTH, self.context.n_columns, view, &inputs)
            if self.paper:
                updated += sgd_step(&stats.bias, model.records, &inputs, slope, self.rule.rate)
            else:
                self.rule.reach = loss_reach(self.loss, score, target)
                updated += adagrad_step(&stats.bias, model.records, &inputs, slope, &self.rule)
        # The paper counts the updated score. The score before the update measures better: it
        # is what an example that is not learned would get.
        counted = updated if self.paper else score
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
        cdef double right, left, term
        # in units of 2^-40: a sum of integers does not depend on the order of the classes
        cdef int64_t statistic = 0
        cdef int32_t slot
        cdef int n_classes = 0
        for slot in range(table.capacity):
            if records[slot].passage.trained <= 0.0:
                continue
            n_classes += 1
            right = records[slot].right
            left = records[slot].passage.trained - right
            term = log_ratio(right, records[slot].passage.trained * share)
            if left > 0.0:
                term += log_ratio(left, records[slot].passage.trained * (1.0 - share))
            statistic += <int64_t> (term / stats.trained * FIXED_POINT)
        stats.n_classes = n_classes
        if n_classes < 2 or share <= MIN_SIDE or share >= 1.0 - MIN_SIDE:
            return False
        return (
            2.0 * stats.trained * (statistic / FIXED_POINT)
            > chi_squared_quantile(n_classes - 1, self.split_z)
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

    cdef bint _has_nodes(self, int32_t node) noexcept nogil:
        """Whether a leaf may split without taking the place of another."""
        # a new one takes what this one does: its test learns of the columns that this one knows
        cdef size_t size = sizeof(Node) + self._table_bytes(node)
        return self.n_splits < self.max_splits and may_grow(2 * size)

    cdef size_t _table_bytes(self, int32_t node) noexcept nogil:
        return (
            table_bytes(&self.nodes[node].model, MODEL_WIDTH)
            + table_bytes(&self.nodes[node].classes, CLASS_WIDTH)
        )

    cdef bint _find_children(self, int32_t node, int32_t* left, int32_t* right) except -1 nogil:
        """Find two nodes for a leaf to have as children, new ones or such as are to be recycled;
        returns whether there are any."""
        cdef size_t size, freed
        if self._has_nodes(node):
            self._reserve(self.tree.size + 2)
            self.tree.reserve(self.tree.size + 2)
            left[0], right[0] = self.tree.size, self.tree.size + 1
            return True
        left[0] = self._smallest_leaf()
        if left[0] < 0 or not self._is_swap_worth(node, left[0]):
            return False
        right[0] = self.tree.links[left[0]].parent
        # there are the votes of two leaves more, and the tables of these are gone
        size = 2 * table_bytes(&self.nodes[node].classes, CLASS_WIDTH)
        freed = self._table_bytes(left[0]) + self._table_bytes(right[0])
        return size <= freed or has_room(size - freed)

    cdef int _attach(self, int32_t node, int32_t left, int32_t right) except -1 nogil:
        """Make these the children of a leaf, which cannot fail; nothing is in them."""
        cdef int32_t sibling
        if left == self.tree.size:
            self.tree.add(node)
            self.tree.add(node)
            self.n_splits += 1
        else:
            sibling = self.tree.sibling(left)
            self.tree.detach(left)
            self._forget_passages(right)
            self._update_smallest(sibling)
            self.n_swaps += 1
        self._clear(left, -1)
        self._clear(right, -1)
        self.tree.attach(node, left, right)
        return 0

    cdef bint _split(self, int32_t node) except -1 nogil:
        """Split a leaf; returns whether it got children."""
        cdef int32_t left, right
        cdef Node heirs[2]
        if not self._find_children(node, &left, &right):
            return False
        self._bequeath(node, heirs)
        self._attach(node, left, right)
        self.nodes[left], self.nodes[right] = heirs[0], heirs[1]
        self._update_smallest(left)
        self._hand_over_passages(node)
        return True

    cdef int _bequeath(self, int32_t node, Node* heirs) except -1 nogil:
        """Make what the children of a leaf are to be, or nothing where there is no memory."""
        cdef LomNode* stats = &self.nodes[node].stats
        cdef bint is_done = False
        memset(heirs, 0, 2 * sizeof(Node))
        heirs[0].stats.majority = heirs[1].stats.majority = stats.majority
        heirs[0].stats.next_test = heirs[1].stats.next_test = self.grace_period
        if self.paper:
            heirs[0].stats.size = floor(0.5 * stats.size)
            heirs[1].stats.size = stats.size - heirs[0].stats.size
            return 0
        try:
            self._share_votes(node, &heirs[0], &heirs[1])
            is_done = True
        finally:
            if not is_done:
                table_free(&heirs[0].classes)
                table_free(&heirs[1].classes)
        return 0

    cdef int _share_votes(self, int32_t node, Node* left, Node* right) except -1 nogil:
        """Hand a leaf's votes to its children, each class by the share that went each way.

        A class that the leaf inherited and has not met since goes whole to the side of the most
        examples: split, such classes would fill the tables of a subtree with shreds of votes.
        """
        cdef const Table* table = &self.nodes[node].classes
        cdef const ClassRecord* record
        cdef ClassRecord* heir
        cdef int32_t label
        cdef double share, overall = self.nodes[node].stats.right / self.nodes[node].stats.trained
        cdef Py_ssize_t i, n, n_left = 0, n_right = 0
        cdef int32_t* slots = table_sorted_slots(table, CLASS_WIDTH, &n)
        try:
            for i in range(n):
                share = share_right(&(<const ClassRecord*> table.records)[slots[i]], overall)
                n_left += share < 1.0
                n_right += share > 0.0
            table_reserve(&left.classes, CLASS_WIDTH, n_left, self.context.n_labels)
            table_reserve(&right.classes, CLASS_WIDTH, n_right, self.context.n_labels)
            for i in range(n):
                record = &(<const ClassRecord*> table.records)[slots[i]]
                label = table_key(table, slots[i])
                share = share_right(record, overall)
                if share > 0.0:
                    heir = self._class_record(&right.classes, label)
                    self._vote(&right.stats, heir, label, share * record.votes)
                if share < 1.0:
                    heir = self._class_record(&left.classes, label)
                    self._vote(&left.stats, heir, label, (1.0 - share) * record.votes)
        finally:
            free(slots)
        left.stats.size, right.stats.size = left.stats.votes, right.stats.votes
        return 0

    cdef int _hand_over_passages(self, int32_t node) except -1 nogil:
        """Now that a leaf is an inner node, its classes keep what they left there."""
        cdef Table* table = &self.nodes[node].classes
        cdef const ClassRecord* records = <const ClassRecord*> table.records
        cdef int32_t slot
        try:
            for slot in range(table.capacity):
                if records[slot].passage.trained > 0.0:
                    self._passage(node, table_key(table, slot))[0] = records[slot].passage
        finally:
            # where memory runs out, those that are left keep nothing
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

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return self._leaf_below(ROOT, row, scratch)

    cdef int32_t _leaf_below(self, int32_t node, const Row* row,
                             Scratch* scratch) noexcept nogil:
        cdef const View* view = self._view(row)
        cdef Inputs inputs
        while self.tree.links[node].left >= 0:
            self._prefetch_below(node, view, -1)
            node = self._child(node, self._score(node, view, scratch, &inputs) > 0.0)
        return node

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        node = self._leaf_below(node, row, scratch)
        self._say(node, out)

    cdef void _say(self, int32_t node, Prediction* out) noexcept nogil:
        """The majority; class shares of the leaf and a pseudo-vote.

        Half of the pseudo-vote is the majority's, half everyone's: the majority is the most
        likely class also among equals and at a new leaf.
        """
        cdef int32_t label, slot, n_labels = self.context.n_labels
        cdef const LomNode* stats = &self.nodes[node].stats
        cdef const Table* table = &self.nodes[node].classes
        cdef const ClassRecord* records = <const ClassRecord*> table.records
        cdef double total = stats.votes + 1.0
        # without a vote nothing was learned of the labels: memory ran out
        out.label = max(stats.majority, 0)
        if out.shares == NULL:
            return
        for label in range(n_labels):
            out.shares[label] = 0.5 / n_labels / total
        out.shares[out.label] += 0.5 / total
        for slot in range(table.capacity):
            if records[slot].votes > 0.0:
                label = table_key(table, slot)
                out.shares[label] += records[slot].votes / total

    cdef list top_shares(self, const Row* row, Scratch* scratch, Py_ssize_t count):
        """Costs O(classes of the leaf)."""
        cdef int32_t slot, label, majority, node = self.leaf(row, scratch)
        cdef const Table* table = &self.nodes[node].classes
        cdef double total, rest
        majority = max(self.nodes[node].stats.majority, 0)
        total = self.nodes[node].stats.votes + 1.0
        rest = 0.5 / self.context.n_labels / total
        shares = {majority: rest + 0.5 / total}
        for slot in range(table.capacity):
            if table.records[<size_t> slot * CLASS_WIDTH] > 0.0:
                label = table_key(table, slot)
                shares[label] = (
                    shares.get(label, rest) + table.records[<size_t> slot * CLASS_WIDTH] / total
                )
        top = sorted(
            shares.items(), key=lambda item: (-item[1], item[0] != majority, item[0])
        )[:count]
        # the labels that the leaf never met are all alike
        for label in range(self.context.n_labels):
            if len(top) >= count:
                break
            if label not in shares:
                top.append((label, rest))
        return top

    # ------------------------------------------------------------------------- state

    cdef double test_score(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil:
        cdef Inputs inputs
        return self._score(node, self._view(row), scratch, &inputs)

    cdef double leaf_weight(self, int32_t node) noexcept nogil:
        return self.nodes[node].stats.votes

    cdef double output_below(self, int32_t node, const Row* row, Scratch* scratch,
                             Explanation out) noexcept:
        cdef const LomNode* stats
        cdef const Table* table
        cdef double votes
        cdef int32_t slot
        node = self._leaf_below(node, row, scratch)
        stats, table = &self.nodes[node].stats, &self.nodes[node].classes
        # one of maybe thousands of shares, as `_say` has it
        slot = table_find(table, out.output)
        votes = table.records[<size_t> slot * CLASS_WIDTH] if slot >= 0 else 0.0
        votes += 0.5 / self.context.n_labels + 0.5 * (max(stats.majority, 0) == out.output)
        return votes / (stats.votes + 1.0)

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        cdef const View* view = self._view(row)
        parts = weighted(&self.nodes[node].model, MODEL_WIDTH, view, scratch)[:, 0]
        return columns_of(view), pushing(parts, score > 0.0)

    def mean_depth(self):
        """The depth of the leaves, weighted by the examples that each has seen."""
        return self.tree.mean_depth(self._stats()["votes"])

    def _stats(self):
        """The statistics of all nodes as a record array of shape (n_nodes,)."""
        return export_records(&self.nodes[0].stats, sizeof(Node), self.tree.size, STATS)

    cdef dict outline(self):
        cdef int32_t node
        cdef TableExport models = TableExport(MODEL_WIDTH)
        cdef TableExport classes = TableExport(CLASS_WIDTH)
        for node in range(self.tree.size):
            models.add(&self.nodes[node].model)
            classes.add(&self.nodes[node].classes)
        return {
            "links": self.tree.state(),
            "nodes": self._stats(),
            "models": models.arrays(),
            "classes": classes.arrays(),
        }

    cdef dict state(self):
        cdef int32_t label
        cdef TableExport passages = TableExport(PASSAGE_WIDTH)
        # of so many there is the same room again, see `spacious`
        for label in range(min(self.context.n_labels, self.n_trails)):
            passages.add(&self.trails[label].passages)
        return {
            **self.outline(),
            "passages": passages.arrays(),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
        }

    cdef int take_state(self, dict state) except -1:
        cdef int32_t node, label
        self.tree.take_state(state["links"])
        self._reserve(self.tree.size)
        import_records(&self.nodes[0].stats, sizeof(Node), state["nodes"])
        for node in range(self.tree.size):
            import_table(
                &self.nodes[node].model, MODEL_WIDTH, self.context.n_columns, state["models"], node
            )
            import_table(
                &self.nodes[node].classes, CLASS_WIDTH, self.context.n_labels, state["classes"],
                node,
            )
        self._reserve_trails(<int32_t> len(state["passages"]["capacities"]))
        for label in range(<int32_t> len(state["passages"]["capacities"])):
            import_table(
                &self.trails[label].passages, PASSAGE_WIDTH, self.tree.size, state["passages"],
                label,
            )
        self.n_splits = state["n_splits"]
        self.n_swaps = state["n_swaps"]
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        widths = {"models": MODEL_WIDTH, "classes": CLASS_WIDTH, "passages": PASSAGE_WIDTH}
        check_lom_tree(state, n_columns, n_outputs, widths)
