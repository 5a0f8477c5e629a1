"""The self-terminating prediction tree of Goldman & Singer, grown on a stream.

Every node holds the counts of what reached it since it is there, and what it predicts. A branch
whose best alpha is 0 is not grown; it keeps its counts and may grow later.
"""

cimport cython
from libc.math cimport fabs, log
from libc.stdint cimport int32_t
from libc.string cimport memset

from streamtree._core.histograms cimport (
    ADAPTIVE, BAYES, LINEAR, PATH, Histogram, Leaf, bin_of, free_leaf, histogram_of, inherit,
    new_leaf, place_of_label,
)
from streamtree._core.leafmodels cimport (
    MAX_MODELLED, bayes, guarded, judge_label, judge_number, largest, linear, linear_number,
    speaker_of, standardise,
)
from streamtree._core.predicates cimport (
    NONE, THRESHOLD, Look, Split, begin_look, best_split, branch, end_look, exceeds, gain,
    gain_of_branches, n_branches, spread_of,
)
from streamtree._core.predictionnodes cimport (
    CLOSED, INNER, NULL_BRANCH, OPEN, ROOT, Node, PredictionNodes,
)
from streamtree._core.solvers cimport EXPONENTIAL, LOG, SQUARED, sigmoid
from streamtree._core.types cimport Row

# looks come whenever the weight has grown by this factor: a geometric series of tests
cdef double LOOK_GROWTH = 1.3
# a closed leaf takes the place of an open one that promises less than half as much
cdef double REOPEN_FACTOR = 2.0


@cython.final
cdef class PredictionTree(PredictionNodes):
    """The statistics of open leaves, how the tree grows from them, and what it says."""

    def __cinit__(self, *, int loss, bint is_linf, int leaf_model, **settings):
        self.leaf_model = leaf_model
        self.has_linear = leaf_model in (LINEAR, ADAPTIVE)
        self.configure(**settings)
        self.nodes[ROOT].state = OPEN
        self.open(ROOT, NULL)

    def configure(self, *, double regularization, double depth_penalty, delta,
                  double grace_period, int max_bins, size_t max_size):
        """Set what may change while the tree grows."""
        self.regularization = regularization
        self.depth_penalty = depth_penalty
        self.is_confident = delta is not None
        self.delta = 1.0 if delta is None else delta
        self.grace_period = grace_period
        self.max_bins = max_bins
        self.max_size = max_size

    # -------------------------------------------------------------------------- memory

    cdef bint has_room(self, int32_t nodes) noexcept nogil:
        """Whether so many more nodes fit if every open leaf but one gave up its statistics."""
        return self.bytes_with(self.size + nodes) + 4096 <= self.max_size

    cdef int open(self, int32_t node, const Leaf* origin) except -1 nogil:
        """Let a leaf collect statistics, with the linear model of `origin` if there is one."""
        cdef Leaf* leaf = new_leaf(self.loss != SQUARED)
        leaf.next_look = self.grace_period
        if origin != NULL and self.leaf_model != PATH and not self.defers:
            inherit(leaf, origin, self.counts_of(node))
        if self.privates[node].leaf != NULL:
            self.n_bytes -= self.privates[node].leaf.bytes
            free_leaf(self.privates[node].leaf)
        self.privates[node].leaf = leaf
        self.n_bytes += leaf.bytes
        return 0

    cdef void close(self, int32_t node) noexcept nogil:
        self.n_bytes -= self.privates[node].leaf.bytes
        free_leaf(self.privates[node].leaf)
        self.privates[node].leaf = NULL
        if self.nodes[node].state == NULL_BRANCH:
            return
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
            if self.privates[node].leaf != NULL:
                promise = self.promise(node)
                if best < 0 or promise <= least:
                    best = node
                    least = promise
        return best

    cdef void keep_within_bounds(self) noexcept nogil:
        cdef int32_t node
        while self.n_bytes > self.max_size:
            node = self.least_promising()
            if node < 0:
                return
            self.close(node)

    cdef int reopen(self, int32_t node) except -1 nogil:
        """Open a closed leaf if there is room, or one that promises much less."""
        cdef int32_t least
        cdef size_t typical = 64 * <size_t> self.max_bins * sizeof(double)
        self.nodes[node].next_look = self.nodes[node].weight * LOOK_GROWTH
        if self.n_bytes + typical > self.max_size:
            least = self.least_promising()
            if least < 0 or self.promise(node) <= REOPEN_FACTOR * self.promise(least):
                return 0
            self.close(least)
        self.nodes[node].state = OPEN
        return self.open(node, NULL)

    # --------------------------------------------------------------------- one example

    cdef int learn(self, Row row, int32_t label, double target, double weight) except -1 nogil:
        """Learn a label, or for squared loss a target."""
        cdef int32_t node = ROOT, child, key, said
        cdef double said_number
        if label >= self.n_labels:
            self.admit(label)
        if self.has_linear:
            self.n_rows += 1
            standardise(self.standards, self.n_rows, row)
        while True:
            # what the tree would have said
            said = self.nodes[node].majority
            said_number = self.values_of(node)[0]
            self.count(node, label, target, weight)
            self.refresh(node)
            if self.nodes[node].state != INNER:
                break
            key = self.key_of(node, row)
            child = self.child_of(node, key)
            if child < 0:
                if not self.has_room(1):
                    break
                child = self.add_node(node, key)
                self.nodes[child].next_look = self.grace_period
            node = child
        if self.privates[node].leaf != NULL:
            self.learn_leaf(node, row, label, target, weight, said, said_number)
        if self.nodes[node].state == OPEN:
            if (not self.defers
                    and self.privates[node].leaf.weight >= self.privates[node].leaf.next_look):
                self.look(node)
        elif self.nodes[node].weight >= self.nodes[node].next_look:
            if self.nodes[node].state == NULL_BRANCH:
                self.reconsider(node)
            elif self.nodes[node].state == CLOSED:
                self.reopen(node)
        if self.n_bytes > self.max_size:
            self.keep_within_bounds()
        return 0

    cdef int learn_leaf(self, int32_t node, Row row, int32_t label, double target, double weight,
                        int32_t said, double said_number) except -1 nogil:
        """Count a row into the statistics of an open leaf; of a null branch only train it.

        `said` or `said_number` is what the path said before the row was counted.
        """
        cdef Leaf* leaf = self.privates[node].leaf
        cdef Histogram* histogram
        cdef bint judges = self.has_linear and not self.defers
        cdef double* sums
        cdef int32_t place = 0, i
        cdef Py_ssize_t position
        self.n_bytes -= leaf.bytes
        if self.loss != SQUARED:
            place = place_of_label(leaf, label)
            if judges:
                judge_label(
                    leaf, self.leaf_model, self.standards, self.counts_of(node), row, place,
                    label == said, weight,
                )
            leaf.totals[place] += weight
        else:
            if judges:
                judge_number(
                    leaf, self.standards, self.counts_of(ROOT), self.counts_of(node), row, target,
                    said_number - target, weight,
                )
            leaf.totals[0] += weight
            leaf.totals[1] += weight * target
            leaf.target_squares += weight * target * target
        leaf.rows += 1
        leaf.weight += weight
        leaf.weight_squares += weight * weight
        for position in range(row.n):
            histogram = histogram_of(leaf, row.columns[position], position)
            if self.nodes[node].state == NULL_BRANCH:
                continue
            i = bin_of(leaf, histogram, row.values[position], self.max_bins)
            sums = &histogram.sums[<size_t> i * leaf.width]
            histogram.rows += 1
            sums[place] += weight
            if self.loss == SQUARED:
                sums[1] += weight * target
        self.n_bytes += leaf.bytes
        return 0

    # -------------------------------------------------------------------------- growth

    cdef int reconsider(self, int32_t node) except -1 nogil:
        """A null branch grows once its counts say so."""
        cdef int32_t parent = self.nodes[node].parent, child = self.nodes[parent].first_child
        cdef int32_t i, n = self.n_labels
        cdef double tests = 0.0, level, before
        cdef double* values = self.values_of(node)
        cdef Node* fields = &self.nodes[node]
        fields.looks += 1
        fields.next_look = fields.weight * LOOK_GROWTH
        if self.is_confident:
            while child >= 0:
                tests += 1.0
                child = self.nodes[child].next_sibling
            level = log(2.0 * tests * max(1, n) * (fields.looks * (fields.looks + 1.0))
                        / self.delta)
            level *= fields.weight_squares / fields.weight
            if not exceeds(
                self.loss, self.counts_of(node), fields.weight, self.counts_of(parent),
                self.nodes[parent].weight, n,
                self.counts_of(parent)[2] if self.loss == SQUARED else 0.0,
                self.penalty_below(parent), level,
            ):
                return 0
        # grown for a moment, to see whether alpha is 0
        fields.state = CLOSED
        fields.next_refresh = 0.0
        self.refresh(node)
        before = 0.0
        for i in range(n if self.loss == LOG else 1):
            before = max(before, fabs(values[i] - self.values_of(parent)[i]))
        if before == 0.0:
            fields.state = NULL_BRANCH
            return 0
        fields.state = OPEN
        return self.open(node, self.privates[node].leaf)

    cdef bint look(self, int32_t node) except -1 nogil:
        """Search the best predicate of an open leaf; returns whether it was split."""
        cdef Look look
        cdef Split best
        cdef bint was_split = False
        cdef Leaf* leaf = self.privates[node].leaf
        leaf.looks += 1
        leaf.next_look = leaf.weight * LOOK_GROWTH
        # nothing splits what is pure
        if leaf.n_sums < 2:
            return False
        memset(&look, 0, sizeof(Look))
        look.leaf = leaf
        look.groups = self.groups
        look.ties = self.ties
        look.loss = self.loss
        look.is_linf = self.is_linf
        look.is_two_class = self.loss != SQUARED and self.n_labels <= 2
        look.charges = self.is_confident and not self.defers
        look.lam = self.penalty_below(node)
        if look.is_two_class or self.loss == SQUARED:
            look.bias = self.bias_of(node)
        begin_look(&look, self.values_of(node), self.delta)
        best_split(&look, &best)
        if best.predicate != NONE:
            was_split = self.apply(&look, node, &best)
        end_look(&look)
        if was_split:
            self.n_bytes -= leaf.bytes
            free_leaf(leaf)
        return was_split

    cdef bint apply(self, Look* look, int32_t node, Split* split) except -1 nogil:
        """Make the branches of a predicate, if at least one of them grows."""
        cdef Leaf* leaf = self.privates[node].leaf
        cdef int32_t number, key, child, i, n = n_branches(look, split)
        cdef bint* grows = <bint*> look.positive
        cdef bint any_grows = False, is_sure
        cdef double weight, squares
        cdef double* counts
        cdef int32_t present = 0
        if self.is_linf:
            gain_of_branches(look, split)
        # 1 grows, 0 does not, -1 is not there
        for number in range(n):
            grows[number] = -1
            if not branch(look, split, number, &key):
                continue
            if self.is_linf:
                is_sure = look.alpha[present] != 0.0
            else:
                is_sure = gain(look, look.branch) > 0.0
            present += 1
            if is_sure and look.charges:
                weight = 0.0
                for i in range(1 if self.loss == SQUARED else leaf.n_sums):
                    weight += look.branch[i]
                is_sure = exceeds(
                    self.loss, look.branch, weight, leaf.totals, leaf.weight, leaf.n_sums,
                    leaf.target_squares, look.lam, look.level,
                )
            grows[number] = is_sure
            any_grows |= is_sure
        if not any_grows or not self.has_room(n):
            return False
        squares = leaf.weight_squares / leaf.weight
        self.nodes[node].predicate = split.predicate
        self.nodes[node].column = split.column
        self.nodes[node].threshold = split.threshold if split.predicate == THRESHOLD else 0.0
        self.nodes[node].state = INNER
        self.privates[node].leaf = NULL
        for number in range(n):
            if grows[number] < 0:
                continue
            branch(look, split, number, &key)
            child = self.add_node(node, key)
            counts = self.counts_of(child)
            if self.loss == SQUARED:
                weight = counts[0] = look.branch[0]
                counts[1] = look.branch[1]
                counts[2] = spread_of(leaf, look.branch)
            else:
                weight = 0.0
                for i in range(leaf.n_sums):
                    # what is missing is a difference: no weight below 0 by rounding
                    counts[leaf.labels[i]] = max(look.branch[i], 0.0)
                    weight += max(look.branch[i], 0.0)
            self.nodes[child].weight = weight
            self.nodes[child].weight_squares = weight * squares
            self.nodes[child].next_look = weight * LOOK_GROWTH
            if grows[number]:
                self.nodes[child].state = OPEN
            # a null branch has nothing to collect, but a linear model to say something
            if grows[number] or (self.has_linear and not self.defers):
                self.open(child, leaf)
        child = self.nodes[node].first_child
        while child >= 0:
            self.refresh(child)
            child = self.nodes[child].next_sibling
        return True

    # ---------------------------------------------------------------------- prediction

    cdef bint answers(self, int32_t node, Row row, double* shares) noexcept nogil:
        """What naive Bayes or the linear model says; False if it is the path that is asked."""
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef int speaker = speaker_of(leaf, self.leaf_model)
        if speaker == BAYES:
            return bayes(leaf, self.counts_of(node), row, shares)
        return speaker == LINEAR and linear(leaf, self.standards, row, shares)

    cdef int32_t label_of(self, Row row) noexcept nogil:
        cdef int32_t node = self.leaf_of(row)
        cdef double[MAX_MODELLED] shares
        if self.answers(node, row, shares):
            return self.privates[node].leaf.labels[
                largest(shares, self.privates[node].leaf.n_sums)
            ]
        # what a null branch has of its own may be older than what its parent says
        if self.nodes[node].state == NULL_BRANCH and self.nodes[node].parent >= 0:
            node = self.nodes[node].parent
        return self.nodes[node].majority

    cdef void probabilities_of(self, Row row, double* out, int32_t n) noexcept nogil:
        """Write the probabilities of n labels, of which the tree may know the first ones only."""
        cdef int32_t node = self.leaf_of(row), i
        cdef double[MAX_MODELLED] shares
        cdef const double* values
        cdef double total = 0.0
        memset(out, 0, n * sizeof(double))
        if self.answers(node, row, shares):
            for i in range(self.privates[node].leaf.n_sums):
                total += shares[i]
            for i in range(self.privates[node].leaf.n_sums):
                out[self.privates[node].leaf.labels[i]] = shares[i] / total
            return
        if self.nodes[node].state == NULL_BRANCH and self.nodes[node].parent >= 0:
            node = self.nodes[node].parent
        values = self.values_of(node)
        if self.loss == LOG:
            for i in range(self.n_labels):
                out[i] = values[i]
                total += values[i]
            for i in range(self.n_labels):
                out[i] /= total
        elif self.n_labels < 2:
            out[0] = 1.0
        else:
            # exponential loss is least at half the logit; the hinges end at -1 and 1
            if self.loss == EXPONENTIAL:
                out[1] = sigmoid(2.0 * values[0])
            else:
                out[1] = 0.5 + 0.5 * min(max(values[0], -1.0), 1.0)
            out[0] = 1.0 - out[1]

    cdef double number_of(self, Row row) noexcept nogil:
        cdef int32_t node = self.leaf_of(row)
        cdef const Leaf* leaf = self.privates[node].leaf
        if speaker_of(leaf, self.leaf_model) == LINEAR and self.counts_of(node)[0] > 0.0:
            return guarded(linear_number(leaf, self.standards, row), self.counts_of(ROOT),
                           self.counts_of(node))
        if self.nodes[node].state == NULL_BRANCH and self.nodes[node].parent >= 0:
            node = self.nodes[node].parent
        return self.values_of(node)[0]
