"""The label tree: a label lives in at most one group, and tests say how probable its side is.

As long as all labels fit one group a whole tree of another family stands for it. Then labels are
divided, and groups and counts predict (see groups.pxd).

The tree that stood for the only group goes on beside the groups until it is known which of the two
predicts better: where regions have few labels each, as on a map, one that splits at thresholds
does. The other one is dropped.

A group is divided by the means of its labels' rows (see labels.pxd): in two halves that a linear
test can tell.
"""

cimport cython
from libc.math cimport fmod
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.kernels.linear cimport NORM_OFFSET
from streamtree._core.kernels.losses cimport sigmoid
from streamtree._core.kernels.pooling cimport Say
from streamtree._core.leaves.additive cimport (
    MOST_CLASSES, AdditiveModel, Parts, by_column, exported_model, free_model, import_model,
    model_bytes, part_records, record_width,
)
from streamtree._core.leaves.explanation cimport Explanation, softmax_parts
from streamtree._core.leaves.mixture cimport MixtureLeaves, ModelState
from streamtree._core.leaves.postings cimport LabelCount, Postings
from streamtree._core.leaves.softmax cimport (
    StepSize, forget_label, forget_least, label_shares, make_room, prefetch_parts, side_score,
    step_labels, step_side, take_difference, take_mixture, take_part,
)
from streamtree._core.store.budget cimport (
    bytes_allowed, bytes_used, counted, give_back, has_room, may_grow, shrunk, spacious,
)
from streamtree._core.store.links cimport ROOT, Link
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport (
    BY_LABEL, ENCODED, Example, Prediction, Row, Scratch, bounded_weight, places_for,
)
from streamtree._core.trees.label.groups cimport LabelGroups, LabelNode, Node, Walk
from streamtree._core.trees.label.labels cimport SKETCH, LabelRecord
from streamtree._core.trees.tree cimport Tree

import numpy as np

from streamtree._core.trees.label.checks import check_label_tree

cdef enum:
    # A group of more labels is divided as soon as its examples weigh as much as it has labels.
    # Smaller ones are no faster: there are more tests above them.
    GROUP_SIZE = 48
    # the same once memory is short: then what speaks for no label of a side is left out of it
    SHORT_SIZE = 16
    # Means are counted once there is one part of so many of the labels of a group.
    EARLY = 32
    # the exponents learn from one row of so many
    JUDGED = 32
    # examples of a label before it joins a group: from fewer, groups learn next to nothing
    LEAST_EXAMPLES = 4
    # the same of one that counts do not know
    LEAST_UNCOUNTED = 2
    # bytes of a label: its record, its mean, and weights for a few columns
    LABEL_BYTES = 480
    # Groups take less of labels that come once: so many bytes for each have to be there.
    BYTES_AT_ONCE = 4096
    # That is worth it where groups are many.
    GROUPS_AT_ONCE = 8
    # nodes in turn that have nothing to forget, before one that asks for room has none
    MOST_IN_VAIN = 4
    # nodes that are looked at for a group that is no longer used
    LOOKED_AT = 8

# No label joins a side that would have a larger share of the labels of its node: the depth is at
# most 1.71 log2(labels), of those that were there when the node was divided.
cdef double LARGEST_SIDE = 2.0 / 3.0
# Groups are compared with the whole tree over so many rows, what lies rows back counting less. At
# first one has to be right on most of the rows on which they differ, for groups learn faster and
# may be overtaken; later it has to be ahead by so many deviations, and groups by no less than half
# of what they once were.
cdef double LEAST_COMPARED = 10000.0
cdef double LATER = 25000.0
cdef double MOST_COMPARED = 50000.0
cdef double CLEAR_LEAD = 0.75
cdef double SIGMAS = 4.0
cdef double FADING = 0.9998
# of the models, relative to that of the models of leaves
cdef double RELATIVE_RATE = 1.4
cdef double SQUARE_OFFSET = 0.1
# The share of a test's sums of squares that survives a step: labels that come later are to move it.
cdef double TEST_DECAY = 0.9997
# Where the probability of what it was is less than this from 1, a node learns nothing: words that
# come by chance beside those that tell take no weight and no memory.
cdef double LEAST_ERROR = 0.1

cdef LabelNode _blank_node
STATS = np.asarray(<LabelNode[:1]> &_blank_node).dtype


def label_tree(make_whole, dict leaves, **settings):
    """A tree that begins as `make_whole(models)`: compiled, for it may be wanted amid a row."""
    models = MixtureLeaves(has_knots=True, has_rest=False, **leaves)
    return LabelTree(make_whole(models), models, max_classes=leaves["max_classes"], **settings)


@cython.final
cdef class LabelTree(LabelGroups):
    """State and algorithm; parameters are validated by `LOMTreeClassifier`.

    `whole` is the tree that stands for the only group, with models from `leaves`.
    """

    cdef Tree whole             # of the only group; None once it was worse than the groups
    cdef readonly bint has_groups   # labels are divided, or about to be
    cdef readonly bint is_settled   # it is known whether groups or the whole tree are better
    cdef double lead            # weight that groups alone had right less that of the whole tree
    cdef double most_lead       # since both began
    cdef double differing       # weight that one of them had right; it fades, as the lead does
    cdef double compared        # rows
    cdef MixtureLeaves leaves
    cdef int32_t max_classes    # of a group
    cdef Py_ssize_t max_splits
    cdef double swap_resistance
    cdef readonly Py_ssize_t n_swaps    # groups, and places of labels, that were given up
    cdef double leaf_rate
    cdef double mean_norm       # of the rows in parts
    cdef double rows
    cdef int32_t hand           # one more than the node that forgot last, 0: there was room for all

    def __cinit__(self, Tree whole, MixtureLeaves leaves, *, int32_t max_classes,
                  **settings):
        self.whole = whole
        self.leaves = leaves
        self.max_classes = max_classes
        self.views = ENCODED | BY_LABEL | whole.views
        self.memo_place_size = whole.memo_place_size
        # a Walk may use all that is there as soon as there are labels enough for groups
        room = whole.memo_size + places_for(max_classes + 1) * whole.memo_place_size
        self.memo_size = whole.memo_size + max(0, <object> sizeof(Walk) - room)
        self.has_leaf_models = True
        self.label_bytes = LABEL_BYTES
        self.mean_norm = 1.0
        self._set(**settings)

    def _set(self, *, Py_ssize_t max_splits, double swap_resistance, int32_t beam,
             double leaf_rate):
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.beam = beam
        self.leaf_rate = leaf_rate

    def configure(self, *, whole, **settings):
        """Set what may change while the tree grows; `whole` is for the tree of one group."""
        self._set(**settings)
        if self.whole is not None:
            self.whole.configure(**whole)

    cdef int bind(self, Context context) except -1:
        LabelGroups.bind(self, context)
        # a tree that begins later than others knows their labels, as its copy does
        self.labels.reserve(context.n_labels)
        if self.whole is not None:
            self.whole.bind(context)
        return 0

    cdef object labels_at_once(self, object bytes):
        cdef object n = bytes // BYTES_AT_ONCE
        if n >= GROUPS_AT_ONCE * self.max_classes:
            return n
        return Tree.labels_at_once(self, bytes)

    cdef int let_wait(self) except -1 nogil:
        return 0 if self.whole is None else self.whole.let_wait()

    cdef void _clear_groups(self) noexcept nogil:
        """Make the tree one node without labels, with what that takes and no more.

        It takes no memory, which might not be there: the root has been there from the first.
        """
        self.empty_nodes()
        self.capacity = 1
        self.nodes = <Node*> shrunk(self.nodes, sizeof(Node))
        self.links.cut(1)
        self.links.links[ROOT] = Link(-1, -1, -1, -1)

    # -------------------------------------------------------------------------- prediction

    cdef inline bint _is_whole(self) noexcept nogil:
        """Whether the whole tree speaks."""
        return not self.has_groups or (not self.is_settled and self.lead <= 0.0)

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        if self._is_whole():
            return self.whole.leaf(row, scratch)
        return self.likely_group(row, scratch)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        if self._is_whole():
            self.whole.predict_below(node, row, scratch, out)
        else:
            self.predict_groups(node, row, scratch, out)

    cdef list top_shares(self, const Row* row, Scratch* scratch, Py_ssize_t count):
        if self._is_whole():
            return self.whole.top_shares(row, scratch, count)
        return self.top_of_groups(row, scratch, count)

    # ---------------------------------------------------------------------------- learning

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        cdef int32_t n = example.label + 1
        if self.has_groups and n > self.labels.n_records:
            self._make_room(
                self.labels.bytes_for(n)
                + (spacious(n) - self.postings.n_labels) * sizeof(LabelCount)
            )
        self.labels.reserve(n)
        if not self.has_groups and not self.is_settled and example.label >= self.max_classes:
            self._begin_groups()
        if not self.has_groups:
            self.whole.learn(row, example, scratch, out)
        elif not self.is_settled:
            self._compare(row, example, scratch, out)
        elif out != NULL:
            self.predict_groups(ROOT, row, scratch, out)
        if (
            self.has_groups and self.rows % JUDGED == 0.0
            and self.labels.records[example.label].weight > 0.0
        ):
            self.judge_groups(row, example, scratch)
        scratch.memo_serial = 0
        return self._learn_label(row, example, scratch)

    cdef int _learn_label(self, const Row* row, const Example* example,
                          Scratch* scratch) except -1 nogil:
        """Let groups learn, or count the rows by which the only one may be divided."""
        cdef double weight = bounded_weight(example.weight)
        cdef int32_t label = example.label, node
        cdef LabelRecord* record = &self.labels.records[label]
        cdef bint is_short
        cdef Parts parts
        self.look_at(&parts, row, scratch)
        if not self.has_groups:
            record.weight += example.weight
            # as long as labels are few there may never be groups
            if EARLY * self.context.n_labels > self.max_classes and not self.is_settled:
                self._count(label, &parts, weight)
                record.used = self.rows
            return 0
        self._count(label, &parts, weight)
        record.used = self.rows
        is_short = not self.postings.learn(&row.encoded, label, weight)
        if record.group < 0 and not self._waits(label):
            self._join(label, row, &parts, scratch)
        record.weight += example.weight
        node = record.group
        if node < 0:
            # it waits, or found no room
            if is_short:
                self._forget()
            self.nodes[ROOT].stats.weight += example.weight
            return 0
        prefetch_parts(&self.nodes[node].model, &parts)
        is_short |= not self._learn_path(node, &parts, example.weight, weight)
        is_short |= not self._learn_group(node, label, &parts, weight)
        self.nodes[node].stats.seen += weight
        self.nodes[node].stats.used = self.rows
        if is_short:
            self._forget()
            node = record.group
        if self._is_due(node):
            self._divide(node)
        return 0

    cdef int _compare(self, const Row* row, const Example* example, Scratch* scratch,
                      Prediction* out) except -1 nogil:
        """Let groups and the whole tree predict, and the whole tree learn; the better one speaks.
        """
        cdef Prediction of_groups, of_whole
        cdef bint is_whole = self._is_whole()
        cdef double right
        of_groups.shares = of_whole.shares = NULL
        if out != NULL and not is_whole:
            self.predict_groups(ROOT, row, scratch, out)
            of_groups.label = out.label
        else:
            self.predict_groups(ROOT, row, scratch, &of_groups)
        if out != NULL and is_whole:
            self.whole.learn(row, example, scratch, out)
            of_whole.label = out.label
        else:
            self.whole.learn(row, example, scratch, &of_whole)
        right = (of_groups.label == example.label) - <double> (of_whole.label == example.label)
        self.compared += 1.0
        self.lead = FADING * self.lead + right
        self.most_lead = max(self.most_lead, self.lead)
        self.differing = FADING * self.differing + right * right
        if self.compared >= MOST_COMPARED or (
            self.compared >= LEAST_COMPARED
            and abs(self.lead) >= CLEAR_LEAD * self.differing
        ) or (
            self.compared >= LATER
            and self.lead * self.lead > SIGMAS * SIGMAS * self.differing
            and (self.lead < 0.0 or self.lead >= 0.5 * self.most_lead)
        ):
            self._settle()
        return 0

    cdef void _settle(self) noexcept nogil:
        """Drop the groups or the whole tree, whichever was worse."""
        self.is_settled = True
        if self.lead > 0.0:
            with gil:
                self.whole = self.leaves = None
            return
        self.has_groups = False
        with gil:
            self.postings = None
        self.hand = 0
        self._clear_groups()
        self.labels.forget_groups()

    cdef int _count(self, int32_t label, const Parts* parts, double weight) except -1 nogil:
        """Count a row in the mean norm of all and the mean of its label."""
        cdef double norm = 0.0
        cdef Py_ssize_t i
        for i in range(parts.n):
            norm += parts.row.values[i] * parts.row.values[i]
        if self.has_groups or has_room(self.labels.bytes_for(self.context.n_labels)):
            self.labels.reserve_sums(self.context.n_labels)
            self.labels.count(label, parts, self.context.features.hashes, weight)
        elif self.labels.n_sums:
            # groups, if they begin, do without the means of rows so far
            self.labels.forget_groups()
        self.rows += 1.0
        self.mean_norm += (norm - self.mean_norm) / self.rows
        return 0

    cdef inline StepSize _step_size(self, double weight, double decay) noexcept nogil:
        cdef StepSize size
        size.decay = <float> decay
        size.rate = <float> (RELATIVE_RATE * self.leaf_rate / (self.mean_norm + NORM_OFFSET))
        # weights of another scale are to take the same steps; no root of nothing for tiny ones
        size.offset = <float> (SQUARE_OFFSET * weight * weight + 1e-30)
        return size

    cdef bint _learn_path(self, int32_t node, Parts* parts, double whole_weight,
                          double weight) except -1 nogil:
        """Train the tests above a group on the sides of its label; returns whether they found room.
        """
        cdef StepSize size = self._step_size(weight, TEST_DECAY)
        cdef int32_t child
        cdef bint found_room = True
        cdef double slope
        self.nodes[node].stats.weight += whole_weight
        while self.links.links[node].parent >= 0:
            child, node = node, self.links.links[node].parent
            self.nodes[node].stats.weight += whole_weight
            if self.links.links[node].parent >= 0:
                prefetch_parts(&self.nodes[self.links.links[node].parent].test, parts)
            slope = sigmoid(side_score(&self.nodes[node].test, parts))
            slope -= self.links.links[node].right == child
            if abs(slope) >= LEAST_ERROR:
                found_room &= step_side(&self.nodes[node].test, parts, weight * slope, &size)
        return found_room

    cdef bint _learn_group(self, int32_t node, int32_t label, Parts* parts,
                           double weight) except -1 nogil:
        """Train a group on a label of it; returns whether it found room."""
        cdef StepSize size = self._step_size(weight, 1.0)
        cdef Node* group = &self.nodes[node]
        cdef int32_t place = self.labels.records[label].place
        cdef float shares[MOST_CLASSES]
        if group.stats.n_labels < 2:
            return True
        label_shares(&group.model, parts, group.stats.n_labels, shares)
        if shares[place] > 1.0 - LEAST_ERROR:
            return True
        return step_labels(&group.model, parts, group.stats.n_labels, place, shares, weight, &size)

    # ------------------------------------------------------------------------------ growth

    cdef int _begin_groups(self) except -1 nogil:
        """Begin with one group that knows what the whole tree knows, if there is room.

        Where there is none for both, the group goes on alone: the other has no place for labels.
        """
        cdef const ModelState* known = self.leaves.common()
        cdef Node* root = &self.nodes[ROOT]
        cdef size_t size = model_bytes(&known.model)
        cdef bint is_alone = not may_grow(2 * size)
        cdef int32_t k
        if known.n_classes == 0 or not has_room(size):
            return 0
        with gil:
            self.postings = Postings()
        take_mixture(&root.model, &known.model, known.n_classes, self.context.n_columns)
        # the last memory that it takes; one that failed before begins anew
        root.labels = <int32_t*> counted(
            root.labels, spacious(known.n_classes) * sizeof(int32_t)
        )
        root.capacity = <int32_t> spacious(known.n_classes)
        for k in range(known.n_classes):
            self._list(ROOT, known.classes[k])
        for k in range(self.labels.n_records):
            root.stats.weight += self.labels.records[k].weight
        root.stats.used = self.rows
        self.has_groups = True
        if is_alone:
            self.lead = 1.0
            self._settle()
        return 0

    cdef int _list(self, int32_t node, int32_t label) except -1 nogil:
        """Write a label into a group."""
        cdef Node* group = &self.nodes[node]
        cdef int32_t n = group.stats.n_labels
        if n == group.capacity:
            group.labels = <int32_t*> counted(group.labels, spacious(n + 1) * sizeof(int32_t))
            group.capacity = <int32_t> spacious(n + 1)
        group.labels[n] = label
        group.stats.n_labels += 1
        self.labels.records[label].group = node
        self.labels.records[label].place = n
        return 0

    cdef bint _waits(self, int32_t label) noexcept nogil:
        """Whether a label is left to counts, if they know it, until more of its examples come."""
        cdef const LabelRecord* record = &self.labels.records[label]
        cdef int least = LEAST_EXAMPLES if self.postings.knows(label) else LEAST_UNCOUNTED
        return record.counted * record.counted < least * record.squares

    cdef int _join(self, int32_t label, const Row* row, Parts* parts,
                   Scratch* scratch) except -1 nogil:
        """Find a group for a label without one: that of the label which is most probable for its
        example, by what is counted if there is anything, or nearest to it where labels are
        arranged by means; or that to which the example goes, or a smaller one."""
        cdef int32_t n, node = self.counted_group(row, scratch)
        if node < 0:
            node = self.likely_group(row, scratch)
            n = self.links.links[node].parent
            if n >= 0 and self.nodes[n].stats.by_means:
                node = self._nearest_group(label, <const Walk*> scratch.memo)
        if not self._stays_balanced(node):
            node = ROOT
        while True:
            while self.links.links[node].left >= 0:
                node = self._side_for_new(node, parts)
            n = self.nodes[node].stats.n_labels
            if n < self.max_classes:
                break
            node = self._divide(node)
            if self.links.links[node].left < 0:
                self._replace(node, label)
                return 0
        if n + 1 > self.nodes[node].model.stride and not self._finds_room(
            &node, 2 * model_bytes(&self.nodes[node].model)
        ):
            self._replace(node, label)
            return 0
        make_room(&self.nodes[node].model, n + 1, self.context.n_columns)
        self._list(node, label)
        self._add_weight(node, self.labels.records[label].weight)
        while self.links.links[node].parent >= 0:
            node = self.links.links[node].parent
            self.nodes[node].stats.n_labels += 1
        return 0

    cdef void _add_weight(self, int32_t node, double weight) noexcept nogil:
        """Add examples from before a label joined to a group and the nodes above it; the root has
        them."""
        while self.links.links[node].parent >= 0:
            self.nodes[node].stats.weight = max(self.nodes[node].stats.weight + weight, 0.0)
            node = self.links.links[node].parent

    cdef inline double _last_unused(self) noexcept nogil:
        """What had no row since this one is no longer used."""
        return self.rows - self.swap_resistance * self.nodes[ROOT].stats.n_labels

    cdef void _replace(self, int32_t node, int32_t label) noexcept nogil:
        """Give a label the place of one of a group that is no longer used, if there is one."""
        cdef Node* group = &self.nodes[node]
        cdef LabelRecord* records = self.labels.records
        cdef int32_t k, other, place = 0
        for k in range(1, group.stats.n_labels):
            if records[group.labels[k]].used < records[group.labels[place]].used:
                place = k
        other = group.labels[place]
        if records[other].used >= self._last_unused():
            return
        forget_label(&group.model, place)
        group.labels[place] = label
        records[label].group, records[label].place = node, place
        records[other].group, records[other].place = -1, 0
        self._add_weight(node, records[label].weight - records[other].weight)
        self.n_swaps += 1

    cdef bint _finds_room(self, int32_t* node, size_t size) except -1 nogil:
        """Whether a group may take so many bytes. Its number may be another one then."""
        cdef int32_t label = self.nodes[node[0]].labels[0]
        # others are to be given up
        self.nodes[node[0]].stats.used = self.rows
        self._make_room(size)
        node[0] = self.labels.records[label].group
        return has_room(size)

    cdef int _make_room(self, size_t size) except -1 nogil:
        """Where groups are ahead what the whole tree has serves; else groups forget as much as it
        takes."""
        cdef int32_t turns, in_vain = 0
        cdef size_t used
        if not has_room(size) and not self.is_settled and self.lead > 0.0:
            self._settle()
        while not has_room(size) and self._swap():
            pass
        # not if that were most of what is known
        turns = self.links.size if size <= bytes_allowed() // 4 else 0
        while turns and in_vain < MOST_IN_VAIN and not has_room(size):
            used = bytes_used()
            self._forget()
            in_vain = in_vain + 1 if bytes_used() == used else 0
            turns -= 1
        return 0

    cdef void _forget(self) noexcept nogil:
        """Give up a group that is no longer used; if none is found, let the next node, in turn,
        forget half of its weights: those that hardly learned.

        Either way other nodes may have other numbers.
        """
        cdef int32_t node = self.hand % self.links.size
        if self._swap():
            # nodes forget as soon as there was no room for all
            self.hand = max(self.hand, 1)
            return
        forget_least(&self.nodes[node].test, self.context.n_columns)
        forget_least(&self.nodes[node].model, self.context.n_columns)
        self.hand = node + 1

    cdef bint _swap(self) noexcept nogil:
        """Look at a few nodes for a group that is no longer used, and give it up; returns whether
        there was one.

        That is so once it had no row for `swap_resistance` rows for every label of the tree.
        """
        cdef double last_unused = self._last_unused()
        cdef int32_t i, node, first = <int32_t> fmod(LOOKED_AT * self.rows, self.links.size)
        for i in range(LOOKED_AT):
            node = (first + i) % self.links.size
            # a child of the root stays: without it there would be no tests
            if (
                self.links.links[node].left < 0 and self.links.links[node].parent > ROOT
                and self.nodes[node].stats.used < last_unused
            ):
                self._give_up(node)
                return True
        return False

    cdef void _give_up(self, int32_t group) noexcept nogil:
        """Cut out a group; its labels are in none until they come again.

        The last nodes take the numbers that are free, and there is room for as many nodes as there
        is in a copy.
        """
        cdef LabelNode given = self.nodes[group].stats
        cdef int32_t k, node, parent = self.links.links[group].parent
        for k in range(given.n_labels):
            self.labels.records[self.nodes[group].labels[k]].group = -1
            self.labels.records[self.nodes[group].labels[k]].place = 0
        self._add_weight(parent, -given.weight)
        node = parent
        while node >= 0:
            self.nodes[node].stats.n_labels -= given.n_labels
            node = self.links.links[node].parent
        self.links.detach(group)
        self._remove(max(group, parent), self.links.size - 1)
        self._remove(min(group, parent), self.links.size - 2)
        self.links.cut(self.links.size - 2)
        if spacious(self.links.size) < self.capacity:
            self.capacity = <int32_t> spacious(self.links.size)
            self.nodes = <Node*> shrunk(self.nodes, self.capacity * sizeof(Node))
        self.hand = min(self.hand, self.links.size)
        self.n_swaps += 1

    cdef void _remove(self, int32_t node, int32_t last) noexcept nogil:
        """Free a node that is cut out; the last one gets its number."""
        cdef int32_t k
        self._clear(node)
        free_model(&self.nodes[node].test)
        if node != last:
            self.links.renumber(last, node)
            self.nodes[node] = self.nodes[last]
            for k in range(self.nodes[node].stats.n_labels if self.nodes[node].labels else 0):
                self.labels.records[self.nodes[node].labels[k]].group = node
        memset(&self.nodes[last], 0, sizeof(Node))

    cdef int32_t _nearest_group(self, int32_t label, const Walk* walk) noexcept nogil:
        """The group, of those that a beam found, of the label whose mean is nearest."""
        cdef const Node* group
        cdef double distance, nearest = -1.0
        cdef int32_t i, k, found = walk.groups[0].node
        for i in range(walk.n_groups):
            group = &self.nodes[walk.groups[i].node]
            for k in range(group.stats.n_labels):
                if not self.labels.has_mean(group.labels[k]):
                    continue
                distance = self.labels.distance(label, group.labels[k])
                if nearest < 0.0 or distance < nearest:
                    nearest, found = distance, walk.groups[i].node
        return found

    cdef bint _stays_balanced(self, int32_t node) noexcept nogil:
        """Whether with one more label in a group no side above it has too many."""
        cdef int32_t n
        while self.links.links[node].parent >= 0:
            n = self.nodes[node].stats.n_labels
            node = self.links.links[node].parent
            if n + 1 > LARGEST_SIDE * (self.nodes[node].stats.n_labels + 1):
                return False
        return True

    cdef int32_t _side_for_new(self, int32_t node, Parts* parts) noexcept nogil:
        """Where a new label goes from a node, so that no side has too many."""
        cdef int32_t left = self.links.links[node].left, right = self.links.links[node].right
        cdef int32_t n_left = self.nodes[left].stats.n_labels
        cdef int32_t n_right = self.nodes[right].stats.n_labels
        cdef double most = LARGEST_SIDE * (n_left + n_right + 1)
        cdef double score = side_score(&self.nodes[node].test, parts)
        cdef bint goes_right = score > 0.0 or (score == 0.0 and n_right < n_left)
        if goes_right and n_right + 1 > most:
            return left
        if not goes_right and n_left + 1 > most:
            return right
        return right if goes_right else left

    cdef bint _is_due(self, int32_t node) noexcept nogil:
        """Whether a group has more labels than it should, and knows them."""
        cdef const LabelNode* stats = &self.nodes[node].stats
        cdef int32_t most = SHORT_SIZE if self.hand else GROUP_SIZE
        return stats.n_labels > min(most, self.max_classes) and stats.seen >= stats.n_labels

    cdef int32_t _divide(self, int32_t node) except -1 nogil:
        """Divide the labels of a group in two if there is room; returns what number it has then."""
        cdef int32_t places[MOST_CLASSES]
        cdef Node* group = &self.nodes[node]
        cdef int32_t cut, n = group.stats.n_labels, label = group.labels[0]
        cdef bint by_means
        cdef size_t size = model_bytes(&group.model)
        # a test has one weight where the model has one for every label
        size += size * 2 // record_width(group.model.stride)
        size += (spacious(self.links.size + 2) - self.capacity) * (sizeof(Node) + sizeof(Link))
        if n < 2:
            return node
        group.stats.used = self.rows
        if self.links.size // 2 >= self.max_splits and not self._swap():
            return node
        # sides hardly take more than the group did: for a moment they may use what is for others
        node = self.labels.records[label].group
        if not self._finds_room(&node, size):
            return node
        by_means = self.labels.order(self.nodes[node].labels, n, places, &cut)
        self.reserve(self.links.size + 2)
        self.links.reserve(self.links.size + 2)
        self._part(node, places, cut, by_means)
        return node

    cdef int _part(self, int32_t node, const int32_t* places, int32_t cut,
                   bint by_means) except -1 nogil:
        """Make the two sides of a group that is divided after so many labels.

        All memory is taken before anything changes: without it the group stays as it was.
        """
        cdef Node* group = &self.nodes[node]
        cdef int32_t n = group.stats.n_labels, left = self.links.size, right = left + 1
        with gil:
            try:
                self._copy(node, left, places, cut)
                self._copy(node, right, &places[cut], n - cut)
                if by_means:
                    take_difference(
                        &group.test, &group.model, places, n, cut, self.context.n_columns
                    )
            except BaseException:
                self._clear(left)
                self._clear(right)
                raise
        # from here nothing can fail
        self._move(node, self.links.add(node), places, cut)
        self._move(node, self.links.add(node), &places[cut], n - cut)
        self._clear(node)
        self.nodes[left].stats.used = self.nodes[right].stats.used = group.stats.used
        group.stats.by_means = by_means
        group.stats.seen = group.stats.used = 0.0
        self.links.attach(node, left, right)
        return 0

    cdef int _copy(self, int32_t node, int32_t child, const int32_t* places,
                   int32_t n) except -1 nogil:
        """Give a child what a group knows of some labels, and room for these."""
        cdef Node* side = &self.nodes[child]
        take_part(&side.model, &self.nodes[node].model, places, n, self.context.n_columns)
        side.labels = <int32_t*> counted(NULL, spacious(n) * sizeof(int32_t))
        side.capacity = <int32_t> spacious(n)
        return 0

    cdef void _clear(self, int32_t node) noexcept nogil:
        """Give back the labels of a group and their model."""
        cdef Node* group = &self.nodes[node]
        free_model(&group.model)
        give_back(group.labels)
        group.labels = NULL
        group.capacity = 0

    cdef int _move(self, int32_t node, int32_t child, const int32_t* places,
                   int32_t n) except -1 nogil:
        """List some labels of a group in a child that has room for them."""
        cdef int32_t k, label
        for k in range(n):
            label = self.nodes[node].labels[places[k]]
            self._list(child, label)
            self.nodes[child].stats.weight += self.labels.records[label].weight
        return 0

    # -------------------------------------------------------------------------- inspection

    cdef list path(self, const Row* row, Scratch* scratch):
        cdef Parts parts
        cdef int32_t node
        if self._is_whole():
            return self.whole.path(row, scratch)
        node = self.leaf(row, scratch)
        self.look_at(&parts, row, scratch)
        nodes = [(node, None)]
        while self.links.links[node].parent >= 0:
            node = self.links.links[node].parent
            nodes.append((node, side_score(&self.nodes[node].test, &parts)))
        return nodes[::-1]

    cdef list ways(self, const Row* row, Scratch* scratch):
        """The nodes above the groups that a beam finds; the shares of these sum to 1."""
        cdef const Walk* walk
        cdef Parts parts
        cdef int32_t node, i
        cdef double found = 0.0
        if self._is_whole():
            return self.whole.ways(row, scratch)
        walk = self.walk(ROOT, row, scratch)
        shares = {}
        for i in range(walk.n_groups):
            found += walk.groups[i].mass
        for i in range(walk.n_groups):
            node = walk.groups[i].node
            while node >= 0:
                shares[node] = shares.get(node, 0.0) + walk.groups[i].mass / found
                node = self.links.links[node].parent
        self.look_at(&parts, row, scratch)
        ways = []
        depths = self.links.depths()
        for node in sorted(shares, key=lambda node: (depths[node], node)):
            score = None
            if self.links.links[node].left >= 0:
                score = side_score(&self.nodes[node].test, &parts)
            ways.append((node, score, shares[node]))
        return [*ways, (None, None, 1.0)]

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """From what is said of a row without values: by the tests above the label's group, by its
        model and by what is counted, each column by the slope of its part in the log of the
        probability."""
        cdef Parts parts
        cdef int32_t node, child, place
        cdef double before, after, share, right, weight
        if self._is_whole():
            return self.whole.explain(row, scratch, out)
        before = self.output_below(ROOT, out.blank, out.blank_scratch, out)
        after = self.output_below(ROOT, row, scratch, out)
        out.add_bias(before)
        if after == before:
            return 0
        self.look_at(&parts, row, scratch)
        counts = np.zeros((parts.n, 1))
        counts[:row.encoded.n_linear, 0] = self.postings.column_scores(
            &row.encoded, out.output
        )
        _, columns, sums = by_column(&parts, counts)
        total = self.says[1].weight * sums[:, 0]
        # counts speak where they tell anything of any label
        weight = 1.0
        if total.any() or self.counted_group(row, scratch) >= 0:
            weight = self.says[0].weight
        child, place = self.labels.records[out.output].group, self.labels.records[out.output].place
        if child < 0:
            return out.spread(columns, total, after - before)
        base, columns, sums = self._column_scores(
            &self.nodes[child].model, &parts, self.nodes[child].stats.n_labels
        )
        scores = base + sums.sum(axis=0)
        scores = np.exp(scores - scores.max())
        share = scores[place] / scores.sum()
        total += weight * softmax_parts(base, sums, place) / max(share, 1e-300)
        while self.links.links[child].parent >= 0:
            node = self.links.links[child].parent
            right = sigmoid(side_score(&self.nodes[node].test, &parts))
            right -= self.links.links[node].right == child
            total -= weight * right * self._column_scores(
                &self.nodes[node].test, &parts, 1
            )[2][:, 0]
            child = node
        return out.spread(columns, total, after - before)

    cdef tuple _column_scores(self, const AdditiveModel* model, Parts* parts, int32_t width):
        """The scores of the bias, the columns of a row, and the scores of each of them."""
        cdef float unused[MOST_CLASSES]
        cdef Py_ssize_t i
        values = np.empty((parts.n, 1))
        for i in range(parts.n):
            values[i, 0] = parts.row.values[i]
        if model.stride == 0:
            side_score(model, parts)
        else:
            label_shares(model, parts, width, unused)
        return by_column(parts, part_records(model, parts, width) * values)

    # ------------------------------------------------------------------------------- state

    @property
    def is_whole(self):
        """Whether one tree speaks for all labels, and no groups do."""
        return self._is_whole()

    @property
    def n_nodes(self):
        """Number of nodes, leaves included."""
        return self.whole.n_nodes if self._is_whole() else self.links.size

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        return self.whole.depths() if self._is_whole() else self.links.depths()

    def mean_depth(self):
        """The depth of the leaves, weighted by the examples that each has seen."""
        if self._is_whole():
            return self.whole.frame.mean_depth(self.whole.outline()["nodes"]["votes"])
        return self.links.mean_depth(self._stats()["weight"])

    def _stats(self):
        """The statistics of all nodes as a record array of shape (n_nodes,)."""
        return export_records(&self.nodes[0].stats, sizeof(Node), self.links.size, STATS)

    cdef dict outline(self):
        return {
            "links": self.links.state(),
            "nodes": self._stats(),
            "labels": self.labels.state(self.context.n_labels),
            "sums": self.labels.state_of_sums(self.context.n_labels),
            "tests": [
                {"node": node, **exported_model(&self.nodes[node].test)}
                for node in range(self.links.size)
            ],
            "whole": [self.whole.outline()] if self.whole is not None else [],
            "is_whole": bool(self._is_whole()),
        }

    cdef dict state(self):
        return {
            **self.outline(),
            "models": [
                {"node": node, **exported_model(&self.nodes[node].model)}
                for node in range(self.links.size)
                if self.has_groups and self.links.links[node].left < 0
            ],
            "postings": [
                self.postings.state(self.context.n_columns, self.context.n_labels)
            ] if self.has_groups else [],
            "says": np.array([[say.weight, say.squares] for say in self.says]),
            "whole": [self.whole.state()] if self.whole is not None else [],
            "has_groups": bool(self.has_groups),
            "is_settled": bool(self.is_settled),
            "lead": self.lead, "most_lead": self.most_lead, "differing": self.differing,
            "compared": self.compared, "mean_norm": self.mean_norm, "rows": self.rows,
            "hand": self.hand, "n_swaps": self.n_swaps,
        }

    cdef int take_state(self, dict state) except -1:
        cdef int32_t label, i, n_labels = <int32_t> len(state["labels"])
        cdef const LabelRecord* record
        cdef Node* group
        self.links.take_state(state["links"])
        self.reserve(self.links.size)
        import_records(&self.nodes[0].stats, sizeof(Node), state["nodes"])
        self.labels.take_state(state["labels"], state["sums"])
        self.lead, self.most_lead = state["lead"], state["most_lead"]
        self.differing, self.compared = state["differing"], state["compared"]
        self.mean_norm, self.rows = state["mean_norm"], state["rows"]
        self.hand, self.n_swaps = state["hand"], state["n_swaps"]
        self.has_groups = state["has_groups"]
        self.is_settled = state["is_settled"]
        for i in range(2):
            self.says[i] = Say(state["says"][i, 0], state["says"][i, 1])
        if self.has_groups:
            self.postings = Postings()
            self.postings.take_state(state["postings"][0])
        if state["whole"]:
            self.whole.take_state(state["whole"][0])
        else:
            self.whole = self.leaves = None
        for test in state["tests"]:
            import_model(&self.nodes[<int32_t> test["node"]].test, self.context.n_columns, test)
        for model in state["models"]:
            group = &self.nodes[<int32_t> model["node"]]
            import_model(&group.model, self.context.n_columns, model)
            group.capacity = <int32_t> spacious(group.stats.n_labels)
            group.labels = <int32_t*> counted(NULL, group.capacity * sizeof(int32_t))
        for label in range(n_labels):
            record = &self.labels.records[label]
            if record.group >= 0:
                self.nodes[record.group].labels[record.place] = label
        return 0

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        check_label_tree(
            state, n_columns, n_outputs, max_classes=self.max_classes, sketch=SKETCH,
            whole=self.whole, kind=None if self.whole is None else self.whole.state(),
        )
