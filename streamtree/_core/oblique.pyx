"""Joint training of oblique splits by projected SGD on a convex-concave surrogate.

Norouzi et al. (2015). For an example x with score s_i = w_i . x at every split, and l(j) the loss
at leaf j, the surrogate is

    max over leaves j of  l(j) - cost(j)      cost(j) = sum of 2 |s_i| over the splits on the way
                                              to j that x takes the other way

up to the sum of |s_i|, which cancels. The leaf that attains it is the *fear* leaf: a step moves
x away from it and lowers its loss. The surrogate alone never pulls towards a better leaf. The
ramp loss of structured prediction does: it adds - max over j of  -l(j) - cost(j), whose leaf is the
*hope* leaf, and the step moves x from one to the other.
"""

cimport cython
from libc.math cimport exp, fabs, isfinite, log, log1p, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamtree._core.linear cimport adagrad_step, dot, sgd_step
from streamtree._core.memory cimport regrown
from streamtree._core.nodes cimport ROOT, BinaryTree, Link
from streamtree._core.scaling cimport ColumnScaler
from streamtree._core.tables cimport (
    Table, TableExport, import_table, table_bytes, table_clone, table_free, table_insert,
    table_locate, table_locate_all, table_sorted_slots,
)
from streamtree._core.types cimport Row

import numpy as np

cdef enum:
    WIDTH = 2           # of every record: weight and squares, velocity and pending

# What a row's squared norm is taken to be at least: rows of a few words must not learn by leaps.
cdef double NORM_OFFSET = 4.0
# scores beyond this carry no information; the bound keeps every sum finite
cdef double SCORE_LIMIT = 1e9
cdef double OUTPUT_LIMIT = 1e100
cdef double GRADIENT_LIMIT = 1e150
# beyond this a logit says no more, and the sum of exp would lose what sets two apart
cdef double LOGIT_LIMIT = 1e4
# log losses this close are equal: a leaf never taught and one taught to be even-handed tie
cdef double TIE = 1e-12
# a scale below this is multiplied into the weights, before they overflow
cdef double SMALLEST_SCALE = 1e-6
# Chosen over a dozen streams: the step of class outputs; how much of a leaf's mean of targets
# survives an example; the weight of a leaf's first guess, and how far the guesses spread.
cdef double OUTPUT_RATE = 1.0
cdef double KEEP_MEAN = 0.997
cdef double GUESS_WEIGHT = 10.0
cdef double GUESS_SPREAD = 0.4 / 1.702      # a logit of variance 1.702^2 is close to a normal


cdef double touched_norm(
    const double* records, const int32_t* slots, Py_ssize_t n
) noexcept nogil:
    """Sum of squared weights over the records of a row."""
    cdef double total = 0.0, weight
    cdef Py_ssize_t i
    for i in range(n):
        weight = records[WIDTH * <Py_ssize_t> (slots[i] if slots != NULL else i)]
        total += weight * weight
    return total


@cython.final
cdef class ObliqueTree:
    """State and algorithm; settings are validated by the estimators."""

    def __cinit__(self, ColumnScaler scaler, *, bint literal, bint is_regression, bint hopes,
                  bint exact, int32_t depth, int64_t hold, Py_ssize_t batch_size,
                  double momentum):
        self.scaler = scaler
        self.literal = literal
        self.is_regression = is_regression
        self.hopes = hopes
        self.exact = exact
        self.depth = depth
        self.hold = hold
        self.batch_size = batch_size
        self.momentum = momentum
        self._fear_path = <int32_t*> regrown(NULL, (depth + 1) * sizeof(int32_t))
        self._hope_path = <int32_t*> regrown(NULL, (depth + 1) * sizeof(int32_t))
        self._costs = <double*> regrown(NULL, (depth + 2) * sizeof(double))
        self.plant()

    cdef int plant(self) except -1:
        """Forget every node and start with a single leaf."""
        self._free_nodes()
        self.shape = BinaryTree()
        self.reserve(1)
        self._clear(ROOT)
        self.nodes[ROOT].stats.place = 0.5
        self.in_batch = 0
        self._n_touched = 0
        return 0

    cdef int complete(self) except -1:
        """Grow every leaf to the full depth, with splits of weight zero."""
        cdef int32_t node = 0
        cdef int32_t depth
        depths = self.shape.depths().tolist()
        self.reserve((1 << (self.depth + 1)) - 1)
        while node < self.shape.size:
            depth = depths[node]
            if self.shape.links[node].left < 0 and depth < self.depth:
                self.split(node)
                depths += [depth + 1, depth + 1]
            node += 1
        return 0

    def configure(self, *, double max_norm, double learning_rate, double fear, double keep):
        """Set what may change while the tree learns."""
        self.max_norm = max_norm
        self.learning_rate = learning_rate
        self.fear = fear
        self.keep = keep

    def settings(self):
        """What `configure` set."""
        return {
            "max_norm": self.max_norm, "learning_rate": self.learning_rate,
            "fear": self.fear, "keep": self.keep,
        }

    @property
    def n_nodes(self):
        """Number of nodes, leaves included."""
        return self.shape.size

    def depths(self):
        """The depth of every node, as an int32 array of shape (n_nodes,)."""
        return self.shape.depths()

    cdef void _hand_down(self, int32_t node, int32_t child) noexcept nogil:
        """Move a leaf's outputs to a child."""
        cdef Node* source = &self.nodes[node]
        cdef Node* target = &self.nodes[child]
        target.outputs, source.outputs = source.outputs, NULL
        target.moving_outputs, source.moving_outputs = source.moving_outputs, NULL
        target.n_allocated, source.n_allocated = source.n_allocated, 0
        target.stats.n_outputs, source.stats.n_outputs = source.stats.n_outputs, 0
        target.stats.visits, source.stats.visits = source.stats.visits, 0.0
        target.stats.log_sum = source.stats.log_sum

    def __dealloc__(self):
        if self.shape is not None:
            self._free_nodes()
        free(self.nodes)
        free(self.totals)
        free(self._gradient)
        free(self._touched)
        free(self._scores)
        free(self._scored_at)
        free(self._fear_path)
        free(self._hope_path)
        free(self._costs)

    cdef void _free_nodes(self) noexcept:
        cdef int32_t node
        for node in range(self.shape.size if self.shape is not None and self.capacity else 0):
            self._free_node(&self.nodes[node])

    cdef void _free_node(self, Node* node) noexcept nogil:
        table_free(&node.weights)
        table_free(&node.moving)
        table_free(&node.held)
        free(node.outputs)
        free(node.moving_outputs)
        memset(node, 0, sizeof(Node))

    def memory(self, bint is_moving):
        """Bytes that belong to the tree; while it learns (`is_moving`), those last known."""
        cdef int32_t i
        cdef Node* node
        if not is_moving:
            self._bytes = self.capacity * (sizeof(Node) + sizeof(double) + sizeof(int64_t))
            self._bytes += self.shape.capacity * sizeof(Link)
            self._bytes += self._touched_capacity * sizeof(int32_t)
            self._bytes += self.n_totals * 3 * sizeof(double)
            for i in range(self.shape.size):
                node = &self.nodes[i]
                self._bytes += table_bytes(&node.weights, WIDTH)
                self._bytes += table_bytes(&node.moving, WIDTH)
                self._bytes += table_bytes(&node.held, WIDTH)
                self._bytes += (
                    node.n_allocated * WIDTH * sizeof(double)
                    * (1 + (node.moving_outputs != NULL))
                )
        return self._bytes

    cdef int reserve(self, int32_t capacity) except -1 nogil:
        if capacity <= self.capacity:
            return 0
        self.nodes = <Node*> regrown(self.nodes, capacity * sizeof(Node))
        self._scores = <double*> regrown(self._scores, capacity * sizeof(double))
        self._scored_at = <int64_t*> regrown(self._scored_at, capacity * sizeof(int64_t))
        memset(&self.nodes[self.capacity], 0, (capacity - self.capacity) * sizeof(Node))
        memset(
            &self._scored_at[self.capacity], 0, (capacity - self.capacity) * sizeof(int64_t)
        )
        self.capacity = capacity
        return 0

    cdef int reserve_outputs(self, int32_t n_outputs) except -1 nogil:
        """Make room for that many classes or targets."""
        cdef int64_t n_totals
        if n_outputs > self.n_totals:
            n_totals = n_outputs + n_outputs // 8
            self.totals = <double*> regrown(self.totals, n_totals * 2 * sizeof(double))
            memset(
                &self.totals[2 * self.n_totals], 0,
                (n_totals - self.n_totals) * 2 * sizeof(double),
            )
            self._gradient = <double*> regrown(self._gradient, n_totals * sizeof(double))
            self.n_totals = n_totals
        self.n_outputs = max(self.n_outputs, n_outputs)
        return 0

    cdef void _clear(self, int32_t node) noexcept nogil:
        self._free_node(&self.nodes[node])
        self.nodes[node].stats.scale = 1.0
        self.nodes[node].stats.held_round = -1

    cdef int _open_outputs(self, int32_t leaf) except -1 nogil:
        """Outputs of 0 for the classes or targets that the leaf does not know yet."""
        cdef Node* node = &self.nodes[leaf]
        cdef int64_t n = node.n_allocated
        if n < self.n_outputs:
            node.outputs = <double*> regrown(
                node.outputs, self.n_totals * WIDTH * sizeof(double)
            )
            if self._moves():
                node.moving_outputs = <double*> regrown(
                    node.moving_outputs, self.n_totals * WIDTH * sizeof(double)
                )
                memset(
                    &node.moving_outputs[WIDTH * n], 0,
                    (self.n_totals - n) * WIDTH * sizeof(double),
                )
            memset(&node.outputs[WIDTH * n], 0, (self.n_totals - n) * WIDTH * sizeof(double))
            node.n_allocated = self.n_totals
        node.stats.n_outputs = self.n_outputs
        return 0

    cdef inline bint _moves(self) noexcept nogil:
        """Whether gradients wait for the end of a mini-batch, or go through velocities."""
        return self.batch_size > 1 or self.momentum > 0.0

    # ----------------------------------------------------------------------- scores

    cdef inline double _score(
        self, int32_t node, Row row, int32_t** slots, Py_ssize_t* absent
    ) noexcept nogil:
        """w . x of a split; leaves where its records are for a step to follow."""
        cdef const Table* weights = &self.nodes[node].weights
        cdef double score
        if weights.keys == NULL and row.top < weights.capacity:
            slots[0] = NULL if row.is_full else <int32_t*> row.columns
            absent[0] = 0
        else:
            slots[0] = row.slots
            absent[0] = table_locate(weights, row.columns, row.n, row.slots)
        score = self.nodes[node].stats.bias + dot(weights.records, slots[0], row.values, row.n)
        score *= self.nodes[node].stats.scale
        if not score <= SCORE_LIMIT:
            return SCORE_LIMIT if score > 0 else 0.0
        return score if score >= -SCORE_LIMIT else -SCORE_LIMIT

    cdef inline double _score_once(self, int32_t node, Row row) noexcept nogil:
        """As `_score`, computed once an example; for the one that learns only."""
        cdef int32_t* slots
        cdef Py_ssize_t absent
        if self._scored_at[node] != self._now:
            self._scores[node] = self._score(node, row, &slots, &absent)
            self._scored_at[node] = self._now
        return self._scores[node]

    cdef inline int32_t _turn(self, int32_t node, double score) noexcept nogil:
        """The child on the side of the score; 0 goes left, everywhere."""
        return self.shape.links[node].right if score > 0.0 else self.shape.links[node].left

    cdef int32_t _follow(self, int32_t node, Row row) noexcept nogil:
        while self.shape.links[node].left >= 0:
            node = self._turn(node, self._score_once(node, row))
        return node

    cdef int32_t leaf(self, Row row) noexcept nogil:
        """The leaf that a row falls into."""
        return self._leaf_below(ROOT, row)

    cdef inline int32_t _leaf_below(self, int32_t node, Row row) noexcept nogil:
        cdef int32_t* slots
        cdef Py_ssize_t absent
        while self.shape.links[node].left >= 0:
            node = self._turn(node, self._score(node, row, &slots, &absent))
        return node

    cdef list path(self, Row row):
        """The nodes that a row passes, each with its score, None at the leaf."""
        cdef int32_t node = ROOT
        cdef double score
        nodes = []
        while self.shape.links[node].left >= 0:
            score = self.score(node, row)
            nodes.append((node, score))
            node = self._turn(node, score)
        return [*nodes, (node, None)]

    cdef int32_t _held_leaf(self, Row row) noexcept nogil:
        """The leaf that a row fell into when the present round began."""
        cdef int32_t node = ROOT
        cdef double score
        cdef Node* split
        while self.shape.links[node].left >= 0:
            split = &self.nodes[node]
            if split.stats.held_round == self._round:
                table_locate(&split.held, row.columns, row.n, row.slots)
                score = split.stats.held_bias + dot(
                    split.held.records, row.slots, row.values, row.n
                )
                score *= split.stats.held_scale
            else:
                score = self._score_once(node, row)
            node = self._turn(node, score)
        return node

    # ---------------------------------------------------------------- losses of leaves

    cdef inline double _guess(self, int32_t leaf, int32_t target) noexcept nogil:
        """What a leaf predicts of a target before it has seen any: the leaves' guesses spread."""
        cdef double place = self.nodes[leaf].stats.place
        if self.literal:
            return 0.0
        return self.totals[2 * target] + (
            GUESS_SPREAD * log(place / (1.0 - place)) * self._deviation(target)
        )

    cdef inline double _deviation(self, int32_t target) noexcept nogil:
        if self.total <= 0.0:
            return 0.0
        return sqrt(self.totals[2 * target + 1] / self.total)

    cdef inline double _number(self, int32_t leaf, int32_t target) noexcept nogil:
        """The prediction of a leaf for one target."""
        cdef const Node* node = &self.nodes[leaf]
        cdef double visits = node.stats.visits
        if self.literal:
            return node.outputs[WIDTH * target] if node.outputs != NULL else 0.0
        if visits == 0.0:
            return self._guess(leaf, target)
        return (
            visits * node.outputs[WIDTH * target] + GUESS_WEIGHT * self._guess(leaf, target)
        ) / (visits + GUESS_WEIGHT)

    cdef inline double _log_total(self, int32_t leaf) noexcept nogil:
        """ln of the sum of exp(output) over all classes; those never met there have output 0."""
        cdef const ObliqueNode* stats = &self.nodes[leaf].stats
        cdef double others, larger
        if stats.n_outputs == 0:
            return log(<double> self.n_outputs)
        if stats.n_outputs == self.n_outputs:
            return stats.log_sum
        others = log(<double> (self.n_outputs - stats.n_outputs))
        larger = max(others, stats.log_sum)
        return larger + log1p(exp(-fabs(others - stats.log_sum)))

    cdef inline double _output(self, int32_t leaf, int32_t label) noexcept nogil:
        if label < self.nodes[leaf].stats.n_outputs:
            return self.nodes[leaf].outputs[WIDTH * label]
        return 0.0

    cdef double loss(self, int32_t leaf, int32_t label, const double* target) noexcept nogil:
        """Log loss of the label, or squared loss of the targets.

        Of raw targets by the literal algorithm; else half of it, in units of their variances.
        """
        cdef double total = 0.0
        cdef int32_t i
        if not self.is_regression:
            return self._log_total(leaf) - self._output(leaf, label)
        for i in range(self.n_outputs):
            total += self.scaled_square(i, self._number(leaf, i) - target[i])
        return total

    cdef int32_t most_likely(self, int32_t leaf) noexcept nogil:
        """The class of the largest output; of the most weight, where nothing was learned."""
        cdef int32_t label, best = 0
        cdef bint is_new = self.nodes[leaf].stats.n_outputs == 0
        if self.n_outputs == 0:
            return -1
        for label in range(1, self.n_outputs):
            if is_new:
                if self.totals[2 * label] > self.totals[2 * best]:
                    best = label
            elif self._output(leaf, label) > self._output(leaf, best):
                best = label
        return best

    cdef void probabilities(self, int32_t leaf, double* out) noexcept nogil:
        """The softmax of the outputs; shares of the classes, where nothing was learned."""
        cdef int32_t label
        cdef double log_total
        if self.nodes[leaf].stats.n_outputs == 0:
            for label in range(self.n_outputs):
                out[label] = self.totals[2 * label] / self.total
            return
        log_total = self._log_total(leaf)
        for label in range(self.n_outputs):
            out[label] = exp(self._output(leaf, label) - log_total)

    cdef void numbers(self, int32_t leaf, double* out) noexcept nogil:
        """The prediction of every target."""
        cdef int32_t target
        for target in range(self.n_outputs):
            out[target] = self._number(leaf, target)

    # --------------------------------------------------------------------- inference

    cdef void find(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil:
        """The leaves of the largest loss - cost and of the largest - loss - cost.

        Among all leaves, or (fast) among those that one flipped split leads to. At a tie the
        leaf without a flip stays, then the one found first.
        """
        cdef int32_t home
        self._now += 1
        home = self._follow(ROOT, row)
        fear[0] = hope[0] = home
        fear_value[0] = self.loss(home, label, target)
        hope_value[0] = -fear_value[0]
        if self.exact:
            self._find_among_all(row, label, target, fear, hope, fear_value, hope_value)
        else:
            self._find_in_ball(row, label, target, fear, hope, fear_value, hope_value)

    cdef inline void _compare(
        self, int32_t leaf, double loss, double cost, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil:
        cdef double tie = 0.0 if self.is_regression else TIE
        if loss - cost > fear_value[0] + tie:
            fear_value[0] = loss - cost
            fear[0] = leaf
        if -loss - cost > hope_value[0] + tie:
            hope_value[0] = -loss - cost
            hope[0] = leaf

    cdef void _find_in_ball(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil:
        cdef int32_t node = ROOT, leaf
        cdef double score
        while self.shape.links[node].left >= 0:
            score = self._score_once(node, row)
            leaf = self._leaf_below(self._turn(node, -1.0 if score > 0.0 else 1.0), row)
            self._compare(
                leaf, self.loss(leaf, label, target), 2.0 * fabs(score),
                fear, hope, fear_value, hope_value,
            )
            node = self._turn(node, score)

    cdef void _find_among_all(
        self, Row row, int32_t label, const double* target, int32_t* fear, int32_t* hope,
        double* fear_value, double* hope_value
    ) noexcept nogil:
        cdef int32_t node = ROOT, depth = 0, parent
        cdef double score
        self._costs[0] = 0.0
        while node >= 0:
            if depth:
                parent = self.shape.links[node].parent
                score = self._score_once(parent, row)
                self._costs[depth] = self._costs[depth - 1]
                if self._turn(parent, score) != node:
                    self._costs[depth] += 2.0 * fabs(score)
            if self.shape.links[node].left < 0:
                self._compare(
                    node, self.loss(node, label, target), self._costs[depth],
                    fear, hope, fear_value, hope_value,
                )
            node = self.shape.next_in_preorder(node, &depth)

    # ----------------------------------------------------------------------- learning

    cdef int learn(
        self, Row row, int32_t label, const double* target, double weight
    ) except -1 nogil:
        """Count an example and take the step that it asks for."""
        if not self.is_regression:
            self.totals[2 * label] += weight
            self.total += weight
        elif not self.literal:
            self._count_targets(target, weight)
        if self.hold:
            self._round = self.n_learned // self.hold
        self.n_learned += 1
        return self.step(row, label, target, weight)

    cdef void set_rates(self) noexcept nogil:
        """The step size and the bound of |w|^2, in units of the rows as they now are."""
        self._rate, self._limit = self.learning_rate, self.max_norm
        if not self.literal:
            self._rate /= self.scaler.mean_norm + NORM_OFFSET
            self._limit /= self.scaler.mean_norm

    cdef int step(
        self, Row row, int32_t label, const double* target, double weight
    ) except -1 nogil:
        """One step of the surrogate, or from the fear leaf to the hope leaf."""
        cdef int32_t fear, hope, home
        cdef double fear_value, hope_value
        self.set_rates()
        self.find(row, label, target, &fear, &hope, &fear_value, &hope_value)
        home = self._follow(ROOT, row)
        if not self.hopes:
            hope = self._held_leaf(row) if self.hold else home
        # the outputs' gradients are those at the splits as they were
        if self.is_regression and not self.literal:
            self._average(home, target, weight)
        else:
            self._teach(fear, label, target, weight)
            if self.hopes and hope != fear:
                self._teach(hope, label, target, weight)
        if fear != hope:
            self._step_between(fear, hope, row, weight)
        self.in_batch += 1
        if self.in_batch >= self.batch_size:
            if self._moves():
                self._flush()
            self.in_batch = 0
        return 0

    cdef void _count_targets(self, const double* target, double weight) noexcept nogil:
        """Welford's mean and sum of squared deviations."""
        cdef double difference, share
        cdef int32_t i
        self.total += weight
        share = weight / self.total
        for i in range(self.n_outputs):
            difference = target[i] - self.totals[2 * i]
            self.totals[2 * i] += difference * share
            # a product that no rounding makes negative
            self.totals[2 * i + 1] += (1.0 - share) * weight * difference * difference

    cdef Py_ssize_t _path(self, int32_t leaf, int32_t* path) noexcept nogil:
        """The nodes from the root to a leaf; returns its depth."""
        cdef int32_t node = leaf
        cdef Py_ssize_t depth = 0, i
        while self.shape.links[node].parent >= 0:
            node = self.shape.links[node].parent
            depth += 1
        node = leaf
        for i in range(depth, -1, -1):
            path[i] = node
            node = self.shape.links[node].parent
        return depth

    cdef int _step_between(
        self, int32_t fear, int32_t hope, Row row, double weight
    ) except -1 nogil:
        """W <- W - eta (g - h) x: only the splits that tell the two leaves apart can move."""
        cdef Py_ssize_t n_fear = self._path(fear, self._fear_path)
        cdef Py_ssize_t n_hope = self._path(hope, self._hope_path)
        cdef Py_ssize_t i, fork = 0
        cdef double away = self.fear if self.hopes else 1.0
        while self._fear_path[fork + 1] == self._hope_path[fork + 1]:
            fork += 1
        # where the paths part one of them goes with the row; below they share no split
        for i in range(fork, n_fear):
            if self._disagrees(self._fear_path, i, row):
                self._step(
                    self._fear_path[i], row,
                    weight * away * self._flipped(self._fear_path[i], row),
                )
        for i in range(fork, n_hope):
            if self._disagrees(self._hope_path, i, row):
                self._step(
                    self._hope_path[i], row, -weight * self._flipped(self._hope_path[i], row)
                )
        return 0

    cdef inline bint _disagrees(self, const int32_t* path, Py_ssize_t i, Row row) noexcept nogil:
        """Whether a path leaves its i-th split on the side that the row does not take."""
        return self._turn(path[i], self._score_once(path[i], row)) != path[i + 1]

    cdef inline double _flipped(self, int32_t node, Row row) noexcept nogil:
        """The flipped decision less the decision: -2 or +2."""
        return -2.0 if self._score_once(node, row) > 0.0 else 2.0

    cdef int _step(self, int32_t node, Row row, double slope) except -1 nogil:
        """One step of a split along slope * x, and its projection."""
        cdef Node* split = &self.nodes[node]
        if self._moves():
            return self._add_gradient(node, row, slope)
        return self._step_now(split, row, slope)

    cdef int _step_now(self, Node* split, Row row, double slope) except -1 nogil:
        cdef int32_t* slots
        cdef double* records
        self._hold_split(split)
        slots = self._locate(&split.weights, row)
        records = split.weights.records
        split.stats.norm -= (
            touched_norm(records, slots, row.n) + split.stats.bias * split.stats.bias
        )
        if self.literal:
            sgd_step(
                &split.stats.bias, records, slots, row.values, row.n,
                slope, self._rate / split.stats.scale,
            )
        else:
            adagrad_step(
                &split.stats.bias, records, slots, row.values, row.n, row.steps,
                slope, self._rate / split.stats.scale, self.keep,
                SCORE_LIMIT / split.stats.scale,
            )
        split.stats.norm += (
            touched_norm(records, slots, row.n) + split.stats.bias * split.stats.bias
        )
        self._project(split)
        return 0

    cdef int _hold_split(self, Node* split) except -1 nogil:
        """Keep the split as it was when the round of stable SGD began."""
        if self.hold and split.stats.held_round != self._round:
            table_clone(&split.held, &split.weights, WIDTH)
            split.stats.held_bias = split.stats.bias
            split.stats.held_scale = split.stats.scale
            split.stats.held_round = self._round
        return 0

    cdef int32_t* _locate(self, Table* table, Row row) except? NULL nogil:
        """The slots of a row's columns, made where they are absent; NULL for 0, 1, 2, ..."""
        if table.keys == NULL and row.top < table.capacity:
            return NULL if row.is_full else <int32_t*> row.columns
        table_locate_all(table, WIDTH, row.columns, row.n, self.scaler.size, row.slots)
        return row.slots

    cdef int _project(self, Node* split) except -1 nogil:
        """Shorten the weights to |w|^2 <= limit, by their common scale."""
        cdef double size
        # rounding may leave a norm of nearly zero below it
        split.stats.norm = max(split.stats.norm, 0.0)
        size = split.stats.norm * split.stats.scale * split.stats.scale
        if not size <= self._limit:
            split.stats.scale *= sqrt(self._limit / size)
        if not split.stats.scale >= SMALLEST_SCALE:
            self._unscale(split)
        return 0

    cdef int _unscale(self, Node* split) except -1 nogil:
        """Multiply the scale into the weights; a split whose weights overflowed starts anew."""
        cdef Py_ssize_t i, n
        cdef double scale = split.stats.scale
        cdef double* weight
        cdef int32_t* slots
        if not isfinite(split.stats.norm) or not scale > 0.0:
            table_free(&split.weights)
            table_free(&split.moving)
            split.stats.bias = split.stats.bias_squares = split.stats.norm = 0.0
            split.stats.bias_velocity = split.stats.bias_pending = 0.0
            split.stats.scale = 1.0
            return 0
        split.stats.bias *= scale
        split.stats.norm = split.stats.bias * split.stats.bias
        slots = table_sorted_slots(&split.weights, WIDTH, &n)
        for i in range(n):
            weight = &split.weights.records[WIDTH * <Py_ssize_t> slots[i]]
            weight[0] *= scale
            split.stats.norm += weight[0] * weight[0]
        free(slots)
        split.stats.scale = 1.0
        return 0

    # ------------------------------------------------------------------------ outputs

    cdef int _teach(
        self, int32_t leaf, int32_t label, const double* target, double weight
    ) except -1 nogil:
        """One gradient step of a leaf's outputs on the loss."""
        cdef Node* node = &self.nodes[leaf]
        cdef double* gradient = self._gradient
        cdef double log_total
        cdef int32_t i
        self._open_outputs(leaf)
        node.stats.visits += weight
        if self.is_regression:
            for i in range(self.n_outputs):
                # a heavy example brings the output to its target, never past it
                gradient[i] = min(2.0 * weight, 1.0 / self._rate) * (
                    node.outputs[WIDTH * i] - target[i]
                )
        else:
            # what was 0 outside the sum is now in it
            self._sum_outputs(node)
            log_total = node.stats.log_sum
            for i in range(self.n_outputs):
                gradient[i] = weight * exp(node.outputs[WIDTH * i] - log_total)
            gradient[label] -= weight
        if self._moves():
            for i in range(self.n_outputs):
                node.moving_outputs[WIDTH * i + 1] += gradient[i]
            self._touch(leaf)
            return 0
        for i in range(self.n_outputs):
            self._move_output(node, i, gradient[i], gradient[i])
        self._sum_outputs(node)
        return 0

    cdef inline void _move_output(
        self, Node* node, int32_t i, double gradient, double step
    ) noexcept nogil:
        cdef double* output = &node.outputs[WIDTH * i]
        cdef double limit = OUTPUT_LIMIT if self.is_regression else LOGIT_LIMIT
        if self.literal:
            output[0] -= self._rate * step
        else:
            output[1] += gradient * gradient
            output[0] -= OUTPUT_RATE * step / sqrt(output[1] + 1e-12)
        # far outside what is sensible, but finite
        output[0] = min(max(output[0], -limit), limit)

    cdef void _sum_outputs(self, Node* node) noexcept nogil:
        """ln of the sum of exp(output)."""
        cdef double largest = node.outputs[0], total = 0.0
        cdef int64_t i
        if self.is_regression:
            return
        for i in range(1, node.stats.n_outputs):
            largest = max(largest, node.outputs[WIDTH * i])
        for i in range(node.stats.n_outputs):
            total += exp(node.outputs[WIDTH * i] - largest)
        node.stats.log_sum = largest + log(total)

    cdef int _average(self, int32_t leaf, const double* target, double weight) except -1 nogil:
        """The leaf's mean of every target, in which old examples fade."""
        cdef Node* node = &self.nodes[leaf]
        cdef int32_t i
        self._open_outputs(leaf)
        node.stats.visits = KEEP_MEAN * node.stats.visits + weight
        for i in range(self.n_outputs):
            node.outputs[WIDTH * i] += (
                weight / node.stats.visits * (target[i] - node.outputs[WIDTH * i])
            )
        return 0

    # ------------------------------------------------------ mini-batches and momentum

    cdef int _touch(self, int32_t node) except -1 nogil:
        """Note that a node has gradients that wait."""
        cdef Py_ssize_t i
        # a batch touches few nodes, mostly the last ones again
        for i in range(self._n_touched - 1, -1, -1):
            if self._touched[i] == node:
                return 0
        if self._n_touched == self._touched_capacity:
            self._touched = <int32_t*> regrown(
                self._touched, (2 * self._touched_capacity + 8) * sizeof(int32_t)
            )
            self._touched_capacity = 2 * self._touched_capacity + 8
        self._touched[self._n_touched] = node
        self._n_touched += 1
        return 0

    cdef int _add_gradient(self, int32_t node, Row row, double slope) except -1 nogil:
        cdef Node* split = &self.nodes[node]
        cdef int32_t* slots = self._locate(&split.moving, row)
        cdef double gradient
        cdef Py_ssize_t i
        for i in range(row.n):
            # two gradients that overflow to either side would add up to no number at all
            gradient = min(max(slope * row.values[i], -GRADIENT_LIMIT), GRADIENT_LIMIT)
            split.moving.records[
                WIDTH * <Py_ssize_t> (slots[i] if slots != NULL else i) + 1
            ] += gradient
        split.stats.bias_pending += slope
        return self._touch(node)

    cdef int _flush(self) except -1 nogil:
        """Take the step that the mini-batch's mean gradient and the velocities ask for.

        Only what the mini-batch touched moves: a velocity waits until its column comes again.
        """
        cdef Py_ssize_t i
        for i in range(self._n_touched):
            if self.shape.links[self._touched[i]].left >= 0:
                self._flush_split(&self.nodes[self._touched[i]])
            else:
                self._flush_leaf(&self.nodes[self._touched[i]])
        self._n_touched = 0
        return 0

    cdef int _flush_split(self, Node* split) except -1 nogil:
        cdef Py_ssize_t i, n
        cdef int32_t slot, key
        cdef double rate = self._rate / split.stats.scale
        cdef double* record
        self._hold_split(split)
        # in the order of the columns: sums must not depend on the layout of a table
        cdef int32_t* slots = table_sorted_slots(&split.moving, WIDTH, &n)
        try:
            for i in range(n):
                record = &split.moving.records[WIDTH * <Py_ssize_t> slots[i]]
                if record[1] == 0.0:
                    continue
                key = slots[i] if split.moving.keys == NULL else split.moving.keys[slots[i]]
                slot = table_insert(&split.weights, WIDTH, key, self.scaler.size)
                self._move_weight(
                    split, &split.weights.records[WIDTH * <Py_ssize_t> slot], record, rate
                )
        finally:
            free(slots)
        self._move_weight(split, &split.stats.bias, &split.stats.bias_velocity, rate)
        self._project(split)
        return 0

    cdef inline void _move_weight(
        self, Node* split, double* weight, double* moving, double rate
    ) noexcept nogil:
        """`weight` is followed by its squares, `moving` (the velocity) by the pending gradient."""
        cdef double gradient = moving[1] / self.batch_size
        moving[1] = 0.0
        moving[0] = self.momentum * moving[0] + gradient
        split.stats.norm -= weight[0] * weight[0]
        if self.literal:
            weight[0] -= rate * moving[0]
        else:
            weight[1] = self.keep * weight[1] + gradient * gradient
            weight[0] -= rate * moving[0] / sqrt(weight[1] + 1e-300)
        split.stats.norm += weight[0] * weight[0]

    cdef void _flush_leaf(self, Node* node) noexcept nogil:
        cdef double gradient
        cdef double* moving
        cdef int32_t i
        for i in range(<int32_t> node.stats.n_outputs):
            moving = &node.moving_outputs[WIDTH * i]
            gradient = moving[1] / self.batch_size
            moving[1] = 0.0
            moving[0] = self.momentum * moving[0] + gradient
            self._move_output(node, i, gradient, moving[0])
        self._sum_outputs(node)

    # ------------------------------------------------------- what a start is made with

    cdef double score(self, int32_t node, Row row) noexcept nogil:
        """w . x of a split, or of a leaf that is to become one."""
        cdef int32_t* slots
        cdef Py_ssize_t absent
        return self._score(node, row, &slots, &absent)

    cdef int set_split(
        self, int32_t node, int32_t column, double threshold, double factor
    ) except -1:
        """Make the split factor * (x_column - threshold), or all zero for a column of -1."""
        cdef Node* split = &self.nodes[node]
        cdef int32_t slot
        table_free(&split.weights)
        split.stats.bias = -factor * threshold
        split.stats.bias_squares = 0.0
        split.stats.scale = 1.0
        split.stats.norm = split.stats.bias * split.stats.bias
        if column >= 0:
            slot = table_insert(&split.weights, WIDTH, column, self.scaler.size)
            split.weights.records[WIDTH * <Py_ssize_t> slot] = factor
            split.stats.norm += factor * factor
        return self._project(split)

    cdef int push(self, int32_t node, Row row, double factor) except -1 nogil:
        """A step that moves a row further to its side; to the other side if `factor` < 0."""
        cdef int32_t* slots
        cdef Py_ssize_t absent
        cdef double score = self._score(node, row, &slots, &absent)
        return self._step_now(
            &self.nodes[node], row, factor * (-2.0 if score > 0.0 else 2.0)
        )

    cdef tuple split(self, int32_t node):
        """Give a leaf two children; returns them."""
        cdef int32_t left, right
        cdef double width = 0.5
        cdef int32_t above = node
        while self.shape.links[above].parent >= 0:
            above = self.shape.links[above].parent
            width *= 0.5
        self.reserve(self.shape.size + 2 + self.shape.size // 2)
        self.shape.reserve(self.shape.size + 2)
        left = self.shape.add(node)
        right = self.shape.add(node)
        self.shape.attach(node, left, right)
        self._clear(left)
        self._clear(right)
        # a split begins here; what CO2 did to make it is no part of a round of stable SGD
        table_free(&self.nodes[node].held)
        self.nodes[node].stats.held_round = -1
        self.nodes[left].stats.place = self.nodes[node].stats.place - 0.5 * width
        self.nodes[right].stats.place = self.nodes[node].stats.place + 0.5 * width
        self._hand_down(node, left)
        return left, right

    cdef int set_outputs(self, int32_t leaf, const double* sums) except -1:
        """Let a leaf predict what examples with these sums, the weight behind them, suggest."""
        cdef Node* node = &self.nodes[leaf]
        cdef double weight = sums[self.n_outputs], share
        cdef int32_t i
        if weight <= 0.0:
            return 0
        self._open_outputs(leaf)
        node.stats.visits = min(weight, 1.0 / (1.0 - KEEP_MEAN))
        for i in range(self.n_outputs):
            if self.is_regression:
                node.outputs[WIDTH * i] = sums[i] / weight
            else:
                share = (sums[i] + 1.0 / self.n_outputs) / (weight + 1.0)
                node.outputs[WIDTH * i] = log(share)
                # as if the examples had been learned one by one at these outputs
                node.outputs[WIDTH * i + 1] = weight * share * (1.0 - share)
        self._sum_outputs(node)
        return 0

    cdef double scaled_square(self, int32_t target, double difference) noexcept nogil:
        """The loss of a prediction that is off by `difference`."""
        cdef double deviation
        if self.literal:
            return difference * difference
        deviation = self._deviation(target)
        if deviation <= 0.0:
            return 0.0
        return 0.5 * (difference / deviation) * (difference / deviation)

    # -------------------------------------------------------------------------- state

    def snapshot(self):
        """The whole state as arrays and numbers; the same history gives the same one."""
        cdef int32_t i
        cdef Node* node
        cdef double[::1] view
        weights, moving, held = TableExport(WIDTH), TableExport(WIDTH), TableExport(WIDTH)
        outputs, moving_outputs = [np.empty(0)], [np.empty(0)]
        for i in range(self.shape.size):
            node = &self.nodes[i]
            (<TableExport> weights).add(&node.weights)
            (<TableExport> moving).add(&node.moving)
            (<TableExport> held).add(&node.held)
            for source, out in ((0, outputs), (1, moving_outputs)):
                if node.stats.n_outputs and (source == 0 or node.moving_outputs != NULL):
                    out.append(np.empty(node.stats.n_outputs * WIDTH))
                    view = out[len(out) - 1]
                    memcpy(
                        &view[0], node.moving_outputs if source else node.outputs,
                        node.stats.n_outputs * WIDTH * sizeof(double),
                    )
        totals = np.zeros((self.n_outputs, 2))
        if self.n_outputs:
            view = totals.reshape(-1)
            memcpy(&view[0], self.totals, self.n_outputs * 2 * sizeof(double))
        return {
            "links": self.shape.snapshot(),
            "nodes": self._stats(),
            "weights": weights.arrays(),
            "moving": moving.arrays(),
            "held": held.arrays(),
            "outputs": np.concatenate(outputs),
            "moving_outputs": np.concatenate(moving_outputs),
            "totals": totals,
            "total": self.total,
            "n_learned": self.n_learned,
            "in_batch": self.in_batch,
            "touched": [self._touched[i] for i in range(self._n_touched)],
        }

    def _stats(self):
        cdef ObliqueNode empty
        cdef ObliqueNode[::1] view
        cdef int32_t i
        memset(&empty, 0, sizeof(ObliqueNode))
        stats = np.zeros(self.shape.size, dtype=np.asarray(<ObliqueNode[:1]> &empty).dtype)
        view = stats
        for i in range(self.shape.size):
            view[i] = self.nodes[i].stats
        return stats

    def restore(self, state):
        """Take over what `snapshot` gave."""
        cdef const ObliqueNode[::1] stats = state["nodes"]
        cdef const double[::1] outputs = state["outputs"]
        cdef const double[::1] moving_outputs = state["moving_outputs"]
        cdef const double[:, ::1] totals = state["totals"]
        cdef Py_ssize_t at = 0, moving_at = 0, size
        cdef int32_t i
        cdef Node* node
        self.plant()
        self.shape.restore(state["links"])
        self.reserve(self.shape.size)
        self.reserve_outputs(<int32_t> totals.shape[0])
        if self.n_outputs:
            memcpy(self.totals, &totals[0, 0], self.n_outputs * 2 * sizeof(double))
        self.total = state["total"]
        self.n_learned = state["n_learned"]
        self.in_batch = state["in_batch"]
        for i in range(self.shape.size):
            node = &self.nodes[i]
            if stats[i].n_outputs:
                self._open_outputs(i)
                size = WIDTH * stats[i].n_outputs
                memcpy(node.outputs, &outputs[at], size * sizeof(double))
                at += size
                if node.moving_outputs != NULL:
                    memcpy(
                        node.moving_outputs, &moving_outputs[moving_at], size * sizeof(double)
                    )
                    moving_at += size
            node.stats = stats[i]
            import_table(&node.weights, WIDTH, self.scaler.size, state["weights"], i)
            import_table(&node.moving, WIDTH, self.scaler.size, state["moving"], i)
            import_table(&node.held, WIDTH, self.scaler.size, state["held"], i)
        for i in state["touched"]:
            self._touch(i)
