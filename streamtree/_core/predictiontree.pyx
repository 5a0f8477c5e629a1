"""The self-terminating prediction tree of Goldman & Singer, grown on a stream.

Every node holds the counts of what reached it since it is there, and what it predicts: class
shares (log loss) or a score f, the sum of the alphas on the path. A branch whose best alpha is 0
is not grown; it keeps its counts and may grow later.
"""

cimport cython
from libc.math cimport NAN, HUGE_VAL, exp, fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcpy, memset

from streamtree._core.histograms cimport (
    ADAPTIVE, BAYES, LINEAR, PATH, Histogram, Leaf, LeafExport, bin_of, find_bin, find_histogram,
    free_leaf, histogram_of, import_leaf, inherit, map_bytes, map_find, map_insert, new_leaf,
    place_of_label,
)
from streamtree._core.memory cimport regrown
from streamtree._core.solvers cimport (
    EXPONENTIAL, LOG, ROUNDING, SCORE_BOUND, SQUARED, Scale, Share, alpha_l1, alpha_linf, bounded,
    gain_l1, gain_log_l1, shares_multiclass, sigmoid,
)
from streamtree._core.types cimport Row

import numpy as np

cdef enum:
    MAX_MODELLED = 64   # a leaf with more labels says what its path says
    # a leaf compares what it could say on its first rows, then on one of so many
    MANY_JUDGED = 64
    JUDGED_PARTS = 4

# looks come whenever the weight has grown by this factor: a geometric series of tests
cdef double LOOK_GROWTH = 1.3
# many classes: values are computed anew at this growth, and while a class is this rare
cdef double REFRESH_GROWTH = 1.0625
cdef double RARE_COUNT = 16.0
# what a split gains on noise, per degree of freedom: charged when predicates are compared
cdef double NOISE_GAIN = 1.0
# a closed leaf takes the place of an open one that promises less than half as much
cdef double REOPEN_FACTOR = 2.0
# added to every bin of every class
cdef double BAYES_PRIOR = 0.5
# of the linear models: step size, and how many deviations from its mean a value counts at most
cdef double RATE = 0.6
cdef double STANDARD_LIMIT = 5.0
# a linear model of numbers says nothing farther from a leaf's mean than so many deviations
cdef double NUMBER_LIMIT = 3.0


cdef struct Member:
    int32_t group
    int32_t column
    int32_t place
    int32_t unused


cdef int by_group(const void* a, const void* b) noexcept nogil:
    cdef const Member* x = <const Member*> a
    cdef const Member* y = <const Member*> b
    if x.group != y.group:
        return 1 if x.group > y.group else -1
    return 1 if x.column > y.column else -1


cdef inline double divergence(double q, double p) noexcept nogil:
    """The Kullback-Leibler divergence of Bernoulli shares."""
    cdef double value = 0.0
    if q > 0.0:
        value += q * log(q / p)
    if q < 1.0:
        value += (1.0 - q) * log((1.0 - q) / (1.0 - p))
    return value


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


cdef inline int32_t largest(const double* numbers, int32_t n) noexcept nogil:
    """Where the largest of n numbers is, the first of equals."""
    cdef int32_t i, best = 0
    for i in range(1, n):
        if numbers[i] > numbers[best]:
            best = i
    return best


cdef int32_t spacious(int32_t n) noexcept nogil:
    """A capacity for n nodes that depends on n only: at most a quarter more, in steps."""
    cdef int32_t step = 4
    while 8 * step < n:
        step *= 2
    return (n + step - 1) // step * step


@cython.final
cdef class PredictionTree:
    """Nodes in a flat array, the statistics of open leaves, and how both grow."""

    def __cinit__(self, *, int loss, bint is_linf, int leaf_model, **settings):
        self.loss = loss
        self.is_linf = is_linf
        self.leaf_model = leaf_model
        self.has_linear = leaf_model in (LINEAR, ADAPTIVE)
        self.configure(**settings)
        self.stride = 4 if loss == SQUARED else 2
        self.scratch = <Share*> regrown(NULL, (self.stride + 1) * sizeof(Share))
        self.n_bytes = (self.stride + 1) * sizeof(Share)
        self.add_node(-1, 0)
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

    # --------------------------------------------------------------------------- nodes

    cdef size_t bytes_with(self, int32_t nodes) noexcept nogil:
        """What the arrays of so many nodes take."""
        return <size_t> spacious(nodes) * (
            sizeof(Node) + sizeof(Private) + 2 * self.stride * sizeof(double)
        )

    cdef bint has_room(self, int32_t nodes) noexcept nogil:
        """Whether so many more nodes fit if every open leaf but one gave up its statistics."""
        return self.bytes_with(self.size + nodes) + 4096 <= self.max_size

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

    cdef double* counts_of(self, int32_t node) noexcept nogil:
        """Weight by label, or the sums w, w y, w y^2."""
        return &self.pool[<size_t> node * 2 * self.stride]

    cdef double* values_of(self, int32_t node) noexcept nogil:
        """Shares by label (log loss), or the score f alone."""
        return &self.pool[(<size_t> node * 2 + 1) * self.stride]

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

    # -------------------------------------------------------------------------- memory

    cdef int open(self, int32_t node, const Leaf* origin) except -1 nogil:
        """Let a leaf collect statistics, with the linear model of `origin` if there is one."""
        cdef Leaf* leaf = new_leaf(self.loss != SQUARED)
        leaf.next_look = self.grace_period
        if origin != NULL and self.leaf_model != PATH and not self._defers:
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
        cdef double largest = 0.0
        cdef int32_t i
        if self.loss == SQUARED:
            return counts[2] - counts[1] * counts[1] / counts[0] if counts[0] > 0.0 else 0.0
        for i in range(self.n_labels):
            largest = max(largest, counts[i])
        return self.nodes[node].weight - largest

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
            self.standardise(row)
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
            if (not self._defers
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

    cdef int learn_leaf(self, int32_t node, Row row, int32_t label, double target, double weight,
                        int32_t said, double said_number) except -1 nogil:
        """Count a row into the statistics of an open leaf; of a null branch only train it.

        `said` or `said_number` is what the path said before the row was counted.
        """
        cdef Leaf* leaf = self.privates[node].leaf
        cdef Histogram* histogram
        cdef bint judges = self.has_linear and not self._defers
        cdef double* sums
        cdef int32_t place = 0, i
        cdef Py_ssize_t position
        self.n_bytes -= leaf.bytes
        if self.loss != SQUARED:
            place = place_of_label(leaf, label)
            if judges:
                self.judge(node, row, place, label == said, weight)
            leaf.totals[place] += weight
        else:
            if judges:
                self.judge_number(node, row, target, said_number - target, weight)
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

    # -------------------------------------------------------------------------- values

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
            if fields.weight < fields.next_refresh and not self._defers:
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

    # -------------------------------------------------------------------------- growth

    cdef bint exceeds(self, const double* branch, double weight, const double* totals,
                      double total, int32_t n, double squares, double lam,
                      double level) noexcept nogil:
        """Whether a branch differs from the rest of its node beyond penalty and chance.

        Of a class with the share p in the node, the branch has e more than its part. Were there
        nothing to learn, a branch at least as far from p as it still is after lambda is taken
        off e would have a chance of about exp(-g), where g is the likelihood ratio of two shares
        against one (Chernoff's bound, of the branch and of the rest); `level` is the g to beat.
        Of numbers, e must exceed lambda + s (sqrt(2 V level) + level), a Bernstein bound for
        tails like those of an exponential with the standard deviation s of the node.
        """
        cdef double rest = total - weight
        cdef double e, p, g, s
        cdef int32_t i
        if weight <= 0.0 or rest <= ROUNDING * total:
            return False
        if self.loss == SQUARED:
            s = squares / total - (totals[1] / total) * (totals[1] / total)
            s = sqrt(s) if s > 0.0 else 0.0
            e = fabs(branch[1] - weight * (totals[1] / total)) - lam
            return e > s * (sqrt(2.0 * level * weight * (rest / total)) + level)
        for i in range(n):
            p = totals[i] / total
            e = fabs(branch[i] - weight * p) - lam
            if e <= 0.0 or p >= 1.0:
                continue
            if branch[i] < weight * p:
                e = -e
            g = (weight * divergence(p + e / weight, p)
                 + rest * divergence(min(max(p - e / rest, 0.0), 1.0), p))
            if g > level:
                return True
        return False

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
            if not self.exceeds(
                self.counts_of(node), fields.weight, self.counts_of(parent),
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

    cdef int begin_look(self, Look* look, int32_t node) except -1 nogil:
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef const double* values = self.values_of(node)
        cdef int32_t i, n = leaf.n_sums, n_sums = n + 2, group
        cdef size_t most = leaf.n + 3
        cdef Member* members
        cdef int32_t n_members = 0
        cdef double rest = 1.0
        cdef double candidates = 0.0
        memset(look, 0, sizeof(Look))
        look.leaf = leaf
        look.lam = self.penalty_below(node)
        look.is_two_class = self.loss != SQUARED and self.n_labels <= 2
        look.parent = <double*> regrown(
            NULL, (4 * n_sums + 3 * most) * sizeof(double) + most * sizeof(int32_t)
            + most * sizeof(Member) + (n_sums + 2 * most) * sizeof(Share)
        )
        look.branch = look.parent + n_sums
        look.other = look.branch + n_sums
        look.counts = look.other + n_sums
        look.positive = look.counts + n_sums
        look.negative = look.positive + most
        look.alpha = look.negative + most
        look.shares = <Share*> (look.alpha + most)
        members = <Member*> (look.shares + n_sums + 2 * most)
        look.order = <int32_t*> (members + most)
        if look.is_two_class or self.loss == SQUARED:
            look.bias = self.bias_of(node)
            look.share = sigmoid(look.bias)
        look.at_zero = look.at_one = -1
        if self.loss != SQUARED:
            for i in range(n):
                look.parent[i] = values[leaf.labels[i]]
                rest -= look.parent[i]
                if leaf.labels[i] == 0:
                    look.at_zero = i
                elif leaf.labels[i] == 1:
                    look.at_one = i
            look.parent[n] = max(rest, 0.0)
        for i in range(leaf.n):
            candidates += leaf.histograms[i].n_bins
            group = self.groups[leaf.histograms[i].column]
            if group < 0:
                look.order[look.n_numbers] = i
                look.n_numbers += 1
            else:
                members[n_members].group = group
                members[n_members].column = leaf.histograms[i].column
                members[n_members].place = i
                n_members += 1
        qsort(members, n_members, sizeof(Member), by_group)
        for i in range(n_members):
            look.order[look.n_numbers + i] = members[i].place
        look.level = log(
            2.0 * candidates * max(1, n - 1) * (leaf.looks * (leaf.looks + 1.0)) / self.delta
        )
        look.level *= leaf.weight_squares / leaf.weight
        return 0

    cdef void end_look(self, Look* look) noexcept nogil:
        free(look.parent)

    cdef double gain(self, Look* look, const double* sums) noexcept nogil:
        """What one branch gains under the l1 penalty."""
        cdef int32_t i, n = look.leaf.n_sums
        cdef double positive, negative
        if self.loss == SQUARED:
            if sums[0] <= 0.0:
                return 0.0
            return gain_l1(SQUARED, sums[0], sums[1], look.bias, look.lam)
        if look.is_two_class:
            positive = sums[look.at_one] if look.at_one >= 0 else 0.0
            negative = sums[look.at_zero] if look.at_zero >= 0 else 0.0
            if self.loss == LOG:
                return gain_log_l1(positive, negative, look.bias, look.share, look.lam)
            return gain_l1(self.loss, positive, negative, look.bias, look.lam)
        for i in range(n):
            look.counts[i] = sums[i]
        # the labels that the leaf has not met are one that no branch has
        look.counts[n] = 0.0
        return shares_multiclass(
            look.counts, look.parent, n + 1, 2.0 * look.lam, NULL, look.shares
        )

    cdef int32_t n_branches(self, Look* look, Split* split) noexcept nogil:
        """How many branches a predicate may have, the one for missing values included."""
        return 3 if split.predicate == THRESHOLD else split.n + 1

    cdef bint branch(self, Look* look, Split* split, int32_t number,
                     int32_t* key) noexcept nogil:
        """Write the sums of a branch to `look.branch`; returns whether anything is in it."""
        cdef const Leaf* leaf = look.leaf
        cdef const Histogram* histogram
        cdef int32_t i, j, k, n = leaf.n_sums
        cdef double* sums = look.branch
        cdef bint is_missing = number == self.n_branches(look, split) - 1
        cdef int64_t rows = 0
        cdef bint any_bin = False
        if is_missing:
            key[0] = MISSING
            memcpy(sums, leaf.totals, n * sizeof(double))
        else:
            memset(sums, 0, n * sizeof(double))
        for j in range(split.n):
            histogram = &leaf.histograms[look.order[split.first + j]]
            rows += histogram.rows
            if is_missing:
                for i in range(histogram.n_bins):
                    for k in range(n):
                        sums[k] -= histogram.sums[<size_t> i * leaf.width + k]
            elif split.predicate == NOMINAL and j == number:
                key[0] = histogram.column
                any_bin = histogram.n_bins > 0
                memcpy(sums, histogram.sums, n * sizeof(double))
            elif split.predicate == THRESHOLD:
                key[0] = number
                for i in range(histogram.n_bins):
                    if (i <= split.cut) == (number == 0):
                        any_bin = True
                        for k in range(n):
                            sums[k] += histogram.sums[<size_t> i * leaf.width + k]
        return rows < leaf.rows if is_missing else any_bin

    cdef double gain_of_branches(self, Look* look, Split* split) noexcept nogil:
        """What a predicate gains under the l-infinity penalty: its branches together."""
        cdef int32_t number, key, n = 0
        cdef double* sums = look.branch
        for number in range(self.n_branches(look, split)):
            if not self.branch(look, split, number, &key):
                continue
            if self.loss == SQUARED:
                look.positive[n] = sums[0]
                look.negative[n] = sums[1]
            else:
                look.positive[n] = sums[look.at_one] if look.at_one >= 0 else 0.0
                look.negative[n] = sums[look.at_zero] if look.at_zero >= 0 else 0.0
            n += 1
        return alpha_linf(self.loss, look.positive, look.negative, n, look.bias, look.lam,
                          look.alpha, <Scale*> look.shares)

    cdef void consider(self, Look* look, Split* split, Split* best) noexcept nogil:
        """Keep a candidate that is better than the best so far."""
        if self.is_linf:
            split.score += self.gain_of_branches(look, split)
        if best.predicate == NONE or split.score > best.score or (
            split.score == best.score and split.tie > best.tie
        ):
            best[0] = split[0]

    cdef void consider_numbers(self, Look* look, int32_t place, Split* best) noexcept nogil:
        """All thresholds of a column."""
        cdef const Leaf* leaf = look.leaf
        cdef const Histogram* histogram = &leaf.histograms[look.order[place]]
        cdef int32_t i, k, key, n = leaf.n_sums
        cdef double* sums
        cdef double missing_gain = 0.0, low, high, charge = 0.0
        cdef bint has_missing
        cdef Split split
        memset(&split, 0, sizeof(Split))
        split.predicate = THRESHOLD
        split.column = histogram.column
        split.tie = self.ties[histogram.column]
        split.first = place
        split.n = 1
        has_missing = self.branch(look, &split, 2, &key)
        if has_missing and not self.is_linf:
            missing_gain = self.gain(look, look.branch)
        if self.is_confident and not self._defers:
            charge = NOISE_GAIN * leaf.weight_squares / leaf.weight * max(1, n - 1)
            if self.loss == SQUARED:
                charge *= (leaf.target_squares - leaf.totals[1] * leaf.totals[1] / leaf.weight)
                charge /= leaf.weight
        # `branch` holds what is left of the cut, `other` what is right of it
        memset(look.other, 0, n * sizeof(double))
        for i in range(histogram.n_bins):
            for k in range(n):
                look.other[k] += histogram.sums[<size_t> i * leaf.width + k]
        memset(look.branch, 0, n * sizeof(double))
        for i in range(histogram.n_bins):
            sums = &histogram.sums[<size_t> i * leaf.width]
            split.cut = i
            if i == histogram.n_bins - 1:
                # every value against none
                if not has_missing:
                    return
                split.threshold = HUGE_VAL
                memcpy(look.branch, leaf.totals, n * sizeof(double))
                split.score = -charge
                if not self.is_linf:
                    self.branch(look, &split, 0, &key)
                    split.score += self.gain(look, look.branch) + missing_gain
                self.consider(look, &split, best)
                return
            low = histogram.high[i]
            high = histogram.low[i + 1]
            split.threshold = 0.5 * low + 0.5 * high
            if not low <= split.threshold < high:
                split.threshold = low
            split.score = -charge * (2 if has_missing else 1)
            if not self.is_linf:
                for k in range(n):
                    look.branch[k] += sums[k]
                    look.other[k] -= sums[k]
                split.score += (
                    self.gain(look, look.branch) + self.gain(look, look.other) + missing_gain
                )
            self.consider(look, &split, best)

    cdef void consider_categories(self, Look* look, Split* best) noexcept nogil:
        """Every nominal feature: a branch for each of its values."""
        cdef const Leaf* leaf = look.leaf
        cdef int32_t place = look.n_numbers, group, key, number, n = leaf.n_sums
        cdef int32_t n_present
        cdef double charge = 0.0
        cdef Split split
        if self.is_confident and not self._defers:
            charge = NOISE_GAIN * leaf.weight_squares / leaf.weight * max(1, n - 1)
            if self.loss == SQUARED:
                charge *= (leaf.target_squares - leaf.totals[1] * leaf.totals[1] / leaf.weight)
                charge /= leaf.weight
        while place < leaf.n:
            memset(&split, 0, sizeof(Split))
            group = self.groups[leaf.histograms[look.order[place]].column]
            split.predicate = NOMINAL
            split.column = group
            split.tie = self.ties[leaf.histograms[look.order[place]].column]
            split.first = place
            while place < leaf.n and self.groups[
                leaf.histograms[look.order[place]].column
            ] == group:
                split.n += 1
                place += 1
            n_present = 0
            for number in range(split.n + 1):
                if self.branch(look, &split, number, &key):
                    n_present += 1
                    if not self.is_linf:
                        split.score += self.gain(look, look.branch)
            split.score -= charge * (n_present - 1)
            if n_present >= 2:
                self.consider(look, &split, best)

    cdef bint look(self, int32_t node) except -1 nogil:
        """Search the best predicate of an open leaf; returns whether it was split."""
        cdef Look look
        cdef Split best
        cdef int32_t i
        cdef bint was_split = False
        cdef Leaf* leaf = self.privates[node].leaf
        leaf.looks += 1
        leaf.next_look = leaf.weight * LOOK_GROWTH
        # nothing splits what is pure
        if leaf.n_sums < 2:
            return False
        memset(&best, 0, sizeof(Split))
        self.begin_look(&look, node)
        for i in range(look.n_numbers):
            self.consider_numbers(&look, i, &best)
        self.consider_categories(&look, &best)
        if best.predicate != NONE:
            was_split = self.apply(&look, node, &best)
        self.end_look(&look)
        if was_split:
            self.n_bytes -= leaf.bytes
            free_leaf(leaf)
        return was_split

    cdef bint apply(self, Look* look, int32_t node, Split* split) except -1 nogil:
        """Make the branches of a predicate, if at least one of them grows."""
        cdef Leaf* leaf = self.privates[node].leaf
        cdef int32_t number, key, child, i, n = self.n_branches(look, split)
        cdef bint* grows = <bint*> look.positive
        cdef bint any_grows = False, is_sure
        cdef double weight, squares
        cdef double* counts
        cdef int32_t present = 0
        if self.is_linf:
            self.gain_of_branches(look, split)
        # 1 grows, 0 does not, -1 is not there
        for number in range(n):
            grows[number] = -1
            if not self.branch(look, split, number, &key):
                continue
            if self.is_linf:
                is_sure = look.alpha[present] != 0.0
            else:
                is_sure = self.gain(look, look.branch) > 0.0
            present += 1
            if is_sure and self.is_confident and not self._defers:
                weight = 0.0
                for i in range(1 if self.loss == SQUARED else leaf.n_sums):
                    weight += look.branch[i]
                is_sure = self.exceeds(
                    look.branch, weight, leaf.totals, leaf.weight, leaf.n_sums,
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
            self.branch(look, split, number, &key)
            child = self.add_node(node, key)
            counts = self.counts_of(child)
            if self.loss == SQUARED:
                weight = counts[0] = look.branch[0]
                counts[1] = look.branch[1]
                counts[2] = self.spread_of(leaf, look.branch)
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
            if grows[number] or (self.has_linear and not self._defers):
                self.open(child, leaf)
        child = self.nodes[node].first_child
        while child >= 0:
            self.refresh(child)
            child = self.nodes[child].next_sibling
        return True

    cdef double spread_of(self, const Leaf* leaf, const double* sums) noexcept nogil:
        """The squares of a branch's targets, taken to vary as the leaf's do around its mean."""
        cdef double mean, variance
        if sums[0] <= 0.0:
            return 0.0
        mean = sums[1] / sums[0]
        variance = leaf.target_squares / leaf.weight - (leaf.totals[1] / leaf.weight) ** 2
        return sums[0] * (mean * mean + max(variance, 0.0))

    # ---------------------------------------------------------------------- prediction

    cdef int bayes(self, int32_t node, Row row, double* shares) noexcept nogil:
        """Class shares by naive Bayes over the bins of a leaf; returns whether there are any.

        shares[i] is that of the leaf's i-th label, up to one factor for all.
        """
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef const Histogram* histogram
        cdef const double* counts = self.counts_of(node)
        cdef const double* sums
        cdef int32_t i, place, n = leaf.n_sums
        cdef double most, room
        cdef Py_ssize_t position
        if n < 2 or n > MAX_MODELLED:
            return 0
        for i in range(n):
            shares[i] = counts[leaf.labels[i]]
        for position in range(row.n):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram == NULL:
                continue
            place = find_bin(histogram, row.values[position])
            if place < 0:
                continue
            sums = &histogram.sums[<size_t> place * leaf.width]
            room = BAYES_PRIOR * (histogram.n_bins + 1)
            most = 0.0
            for i in range(n):
                shares[i] *= (sums[i] + BAYES_PRIOR) / (leaf.totals[i] + room)
                most = max(most, shares[i])
            if most < 1e-100:
                for i in range(n):
                    shares[i] *= 1e100
        return 1

    cdef int answer_of(self, int32_t node) noexcept nogil:
        """Who speaks for a node: of an adaptive leaf, what was right most often there."""
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef int best = PATH
        if leaf == NULL:
            return PATH
        if self.leaf_model != ADAPTIVE:
            return self.leaf_model
        if leaf.scores[<int> BAYES] > leaf.scores[best] and self.loss != SQUARED:
            best = BAYES
        if leaf.scores[<int> LINEAR] > leaf.scores[best]:
            best = LINEAR
        return best

    cdef int answers(self, int32_t node, Row row, double* shares) noexcept nogil:
        """What naive Bayes or the linear model says; 0 if it is the path that is asked."""
        cdef int answer = self.answer_of(node)
        if answer == BAYES:
            return self.bayes(node, row, shares)
        return self.linear(node, row, shares) if answer == LINEAR else 0

    cdef void standardise(self, Row row) noexcept nogil:
        """Count a row into the mean and deviation of its columns."""
        cdef Standard* column
        cdef double value, mean, variance
        cdef Py_ssize_t i
        self.n_rows += 1
        for i in range(row.n):
            column = &self.standards[row.columns[i]]
            value = row.values[i]
            if column.n == 0:
                column.pivot = value
                column.birth = self.n_rows - 1
            value -= column.pivot
            column.n += 1
            column.sum += value
            column.squares += value * value
            if column.n < column.refresh_at:
                continue
            column.refresh_at = column.n + 1 + column.n // 16
            mean = column.sum / column.n
            variance = max(column.squares / column.n - mean * mean, 0.0)
            mean += column.pivot
            column.center = 0.0
            # a column that few rows list, or with one value only, would vanish if centred
            if variance > 1e-20 * mean * mean and 4 * column.n >= self.n_rows - column.birth + 8:
                column.center = mean
            else:
                variance += mean * mean
            column.factor = 1.0 / sqrt(variance) if variance > 0.0 else 0.0
            if not column.factor < 1e200 or not fabs(column.center) < 1e200:
                column.center = column.factor = 0.0

    cdef double standard(self, int32_t column, double value) noexcept nogil:
        value = (value - self.standards[column].center) * self.standards[column].factor
        if value > STANDARD_LIMIT:
            return STANDARD_LIMIT
        return value if value >= -STANDARD_LIMIT else -STANDARD_LIMIT

    cdef int linear(self, int32_t node, Row row, double* shares) noexcept nogil:
        """Class shares by the softmax of a leaf's linear model; returns whether there are any."""
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef const Histogram* histogram
        cdef int32_t i, n = leaf.n_sums
        cdef double value, most, total = 0.0
        cdef Py_ssize_t position
        if n < 2 or n > MAX_MODELLED:
            return 0
        for i in range(n):
            shares[i] = leaf.offsets[i]
        for position in range(row.n):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram != NULL:
                value = self.standard(row.columns[position], row.values[position])
                for i in range(n):
                    shares[i] += value * histogram.model[i]
        most = shares[largest(shares, n)]
        for i in range(n):
            shares[i] = exp(shares[i] - most)
            total += shares[i]
        for i in range(n):
            shares[i] /= total
        return 1

    cdef void train(self, int32_t node, Row row, const double* shares,
                    double weight) noexcept nogil:
        """One step of AdaGrad on the log loss, or for numbers on half the squared error.

        `shares` holds what the model says, less what is so.
        """
        cdef Leaf* leaf = self.privates[node].leaf
        cdef Histogram* histogram
        cdef int32_t i, n = 1 if self.loss == SQUARED else leaf.n_sums
        cdef double value, gradient
        cdef double rate = RATE / sqrt(1.0 + row.n)
        cdef Py_ssize_t position
        for i in range(n):
            gradient = weight * shares[i]
            if gradient != 0.0:
                leaf.offsets[leaf.width + i] += gradient * gradient
                leaf.offsets[i] -= rate * gradient / sqrt(leaf.offsets[leaf.width + i])
        for position in range(row.n):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram == NULL:
                continue
            value = weight * self.standard(row.columns[position], row.values[position])
            for i in range(n):
                gradient = value * shares[i]
                if gradient != 0.0:
                    histogram.model[leaf.width + i] += gradient * gradient
                    histogram.model[i] -= (
                        rate * gradient / sqrt(histogram.model[leaf.width + i])
                    )

    cdef double linear_number(self, int32_t node, Row row) noexcept nogil:
        """The linear model's number, in deviations of all targets from their mean."""
        cdef const Leaf* leaf = self.privates[node].leaf
        cdef const Histogram* histogram
        cdef double value = leaf.offsets[0]
        cdef Py_ssize_t position
        for position in range(row.n):
            histogram = find_histogram(leaf, row.columns[position], position)
            if histogram != NULL:
                value += histogram.model[0] * self.standard(
                    row.columns[position], row.values[position]
                )
        return value

    cdef double guarded(self, int32_t node, double value) noexcept nogil:
        """A linear model's number in the unit of the targets, not far from what the node saw."""
        cdef const double* counts = self.counts_of(ROOT)
        cdef double mean = counts[1] / counts[0]
        cdef double deviation = sqrt(max(counts[2] / counts[0] - mean * mean, 0.0))
        value = mean + value * deviation
        counts = self.counts_of(node)
        mean = counts[1] / counts[0]
        deviation = NUMBER_LIMIT * sqrt(max(counts[2] / counts[0] - mean * mean, 0.0))
        if value > mean + deviation:
            return mean + deviation
        return value if value >= mean - deviation else mean - deviation

    cdef void judge(self, int32_t node, Row row, int32_t place, bint path_is_right,
                    double weight) noexcept nogil:
        """Score the answers that a leaf could have given, then train its linear model."""
        cdef Leaf* leaf = self.privates[node].leaf
        cdef double* count = &self.counts_of(node)[leaf.labels[place]]
        cdef double counted = count[0]
        cdef double[MAX_MODELLED] shares
        cdef bint compares = self.leaf_model == ADAPTIVE and (
            leaf.rows < MANY_JUDGED or leaf.rows % JUDGED_PARTS == 0
        )
        # as before this row was counted
        count[0] = counted - weight
        if compares and self.bayes(node, row, shares):
            leaf.scores[<int> BAYES] += weight * (largest(shares, leaf.n_sums) == place)
            leaf.scores[<int> PATH] += weight * path_is_right
        count[0] = counted
        if self.linear(node, row, shares):
            leaf.scores[<int> LINEAR] += weight * compares * (
                largest(shares, leaf.n_sums) == place
            )
            shares[place] -= 1.0
            self.train(node, row, shares, weight)

    cdef void judge_number(self, int32_t node, Row row, double target, double path_error,
                           double weight) noexcept nogil:
        """The same for numbers, by squared errors."""
        cdef Leaf* leaf = self.privates[node].leaf
        cdef const double* counts = self.counts_of(ROOT)
        cdef double mean = counts[1] / counts[0], error
        cdef double deviation = sqrt(max(counts[2] / counts[0] - mean * mean, 0.0))
        cdef double value = self.linear_number(node, row)
        error = self.guarded(node, value) - target
        leaf.scores[<int> LINEAR] -= weight * error * error
        leaf.scores[<int> PATH] -= weight * path_error * path_error
        if deviation > 0.0:
            error = value - (target - mean) / deviation
            error = min(max(error, -STANDARD_LIMIT), STANDARD_LIMIT)
            self.train(node, row, &error, weight)

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
        if self.answer_of(node) == LINEAR and self.counts_of(node)[0] > 0.0:
            return self.guarded(node, self.linear_number(node, row))
        if self.nodes[node].state == NULL_BRANCH and self.nodes[node].parent >= 0:
            node = self.nodes[node].parent
        return self.values_of(node)[0]

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
