"""The nodes of an oblique tree: their memory, how a leaf predicts, their state."""

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from streamtree._core.kernels.losses cimport log_sum_exp, softplus
from streamtree._core.kernels.moments cimport Moments, moments_add, moments_variance
from streamtree._core.leaves.explanation cimport columns_of, pushing, weighted
from streamtree._core.store.links cimport ROOT, TreeLinks, turn
from streamtree._core.store.budget cimport (
    bytes_allowed, counted, counted_room, give_back, has_room, shrunk, spacious,
)
from streamtree._core.store.state cimport export_records, import_records
from streamtree._core.store.tables cimport TableExport, import_table, table_free
from streamtree._core.stream.context cimport Context
from streamtree._core.stream.row cimport PLAIN, STANDARD, Example, Prediction, Row, Scratch, View
from streamtree._core.trees.tree cimport Tree

import numpy as np

# how much of what a node has seen survives an example; chosen over a dozen streams
cdef double MEAN_DECAY = 0.997
# where less than this is left to the nodes above, they are not looked at
cdef double LEAST_PART = 1e-4
# how far the first guesses of leaves spread, in deviations
cdef double GUESS_SPREAD = 0.4 / 1.702      # a logit of variance 1.702^2 is close to a normal

cdef ObliqueNode _blank
STATS = np.asarray(<ObliqueNode[:1]> &_blank).dtype
cdef Moments _no_moments
TOTALS = np.asarray(<Moments[:1]> &_no_moments).dtype


cdef class ObliqueNodes(Tree):
    """A binary tree of linear splits and what its leaves predict with."""

    def __cinit__(self, *, bint is_regression, bint is_paper, int32_t depth,
                  Py_ssize_t batch_size, double momentum, start, **others):
        self.views = PLAIN if is_paper else STANDARD
        self.is_regression = is_regression
        self.is_paper = is_paper
        self.depth = depth
        self.batch_size = batch_size
        self.momentum = momentum
        # rows that all go one way would leave all leaves alike
        self.spreads = is_regression and not is_paper and start == "zeros"
        self.plant()

    cdef int bind(self, Context context) except -1:
        cdef bint is_new = self.context is None
        Tree.bind(self, context)
        if is_new:
            # the root, too, is counted from here on, as that of a tree that is planted anew
            give_back(self.nodes)
            self.nodes = NULL
            self.capacity = 0
            self.plant()
        return 0

    def __dealloc__(self):
        self._free_nodes()
        give_back(self.nodes)
        give_back(self.totals)

    # ------------------------------------------------------------------------- memory

    cdef int plant(self) except -1:
        """Forget every node and start with a single leaf."""
        cdef TreeLinks shape = TreeLinks()
        self._free_nodes()
        self.reserve(1)
        # what cannot fail; memory that was taken for others goes
        self.capacity = <int32_t> spacious(1)
        self.nodes = <Node*> shrunk(self.nodes, self.capacity * sizeof(Node))
        self.shape = self.frame = shape
        self._clear(ROOT)
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

    cdef tuple split(self, int32_t node):
        """Give a leaf two children; returns them."""
        cdef int32_t left, right
        self.reserve(self.shape.size + 2)
        self.shape.reserve(self.shape.size + 2)
        left = self.shape.add(node)
        right = self.shape.add(node)
        self.shape.attach(node, left, right)
        self._clear(left)
        self._clear(right)
        # a split begins here; what CO2 did to make it is no part of a round of stable SGD
        table_free(&self.nodes[node].held)
        self.nodes[node].stats.held_round = -1
        self._hand_down(node, left)
        return left, right

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

    cdef void _free_nodes(self) noexcept:
        cdef int32_t node
        for node in range(self.capacity):
            self._free_node(&self.nodes[node])

    cdef void _free_node(self, Node* node) noexcept nogil:
        table_free(&node.weights)
        table_free(&node.moving)
        table_free(&node.held)
        give_back(node.outputs)
        give_back(node.moving_outputs)
        memset(node, 0, sizeof(Node))

    cdef void _clear(self, int32_t node) noexcept nogil:
        self._free_node(&self.nodes[node])
        self.nodes[node].stats.scale = 1.0
        self.nodes[node].stats.held_round = -1

    cdef int reserve(self, int32_t n) except -1 nogil:
        """Room for that many nodes."""
        self.nodes = <Node*> counted_room(self.nodes, &self.capacity, n, sizeof(Node))
        return 0

    cdef int reserve_outputs(self, int32_t n_outputs) except -1 nogil:
        """Room for that many classes or targets."""
        self.totals = <Moments*> counted_room(
            self.totals, &self.n_totals, n_outputs, sizeof(Moments)
        )
        self.n_outputs = max(self.n_outputs, n_outputs)
        return 0

    cdef bint admits(self, int32_t n_outputs) noexcept nogil:
        """Whether there is room for so many classes, were every node to know all of them."""
        cdef size_t per_output = WIDTH * sizeof(double) * (2 if self.moves() else 1)
        cdef size_t size = spacious(n_outputs)
        per_output <<= self.depth + (not self.is_paper)
        # one there must be, or there would be nothing to say
        return n_outputs <= max(self.n_totals, 1) or (
            size * per_output <= bytes_allowed() // 2
            and has_room((size - self.n_totals) * per_output)
        )

    cdef int open_outputs(self, int32_t leaf) except -1 nogil:
        """Outputs of 0 for the classes or targets that the leaf does not know yet."""
        return self._open_outputs(&self.nodes[leaf], self.n_outputs)

    cdef int _open_outputs(self, Node* node, int64_t n_outputs) except -1 nogil:
        cdef int64_t n = node.n_allocated, n_allocated = spacious(n_outputs)
        cdef size_t size = n_allocated * WIDTH * sizeof(double)
        cdef size_t grown = (n_allocated - n) * WIDTH * sizeof(double)
        if n < n_outputs:
            node.outputs = <double*> counted(node.outputs, size)
            if self.moves():
                node.moving_outputs = <double*> counted(node.moving_outputs, size)
                memset(&node.moving_outputs[WIDTH * n], 0, grown)
            memset(&node.outputs[WIDTH * n], 0, grown)
            node.n_allocated = n_allocated
        node.stats.n_outputs = n_outputs
        return 0

    cdef bint moves(self) noexcept nogil:
        """Whether gradients wait for the end of a mini-batch, or go through velocities."""
        return self.batch_size > 1 or self.momentum > 0.0

    # -------------------------------------------------------------------------- paths

    cdef const View* view_of(self, const Row* row) noexcept nogil:
        return &row.plain if self.is_paper else &row.standard

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        return self.leaf_below(ROOT, self.view_of(row), scratch)

    cdef int32_t leaf_below(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil:
        """The leaf that a row falls into from a node on."""
        while self.shape.links[node].left >= 0:
            node = turn(self.shape.links, node, split_score(&self.nodes[node], x, scratch))
        return node

    cdef double test_score(self, int32_t node, const Row* row, Scratch* scratch) noexcept nogil:
        return split_score(&self.nodes[node], self.view_of(row), scratch)

    cdef double leaf_weight(self, int32_t node) noexcept nogil:
        return self.nodes[node].stats.visits

    cdef tuple pushes(self, int32_t node, double score, const Row* row, Scratch* scratch):
        cdef const View* x = self.view_of(row)
        parts = weighted(&self.nodes[node].weights, WIDTH, x, scratch)[:, 0]
        return columns_of(x), pushing(parts, score > 0.0)

    # -------------------------------------------------------------- how a leaf predicts

    cdef void count(self, const Example* example) noexcept nogil:
        """Count an example into the totals."""
        cdef int32_t i
        if not self.is_regression:
            self.totals[example.label].weight += example.weight
            self.total += example.weight
        elif not self.is_paper:
            for i in range(self.n_outputs):
                moments_add(&self.totals[i], example.targets[i], example.weight)

    cdef void weigh(self, int32_t leaf, Voices* voices) noexcept nogil:
        """What a leaf and the nodes above it count in what is said.

        Each is drawn to the node above, as if what that says had been seen `strength` times. Where
        guesses spread, a leaf is drawn to its own.
        """
        cdef double visits, rest
        cdef int32_t node = leaf
        voices.n, voices.rest = 0, 1.0
        while node >= 0 and voices.rest > LEAST_PART:
            visits = self.nodes[node].stats.visits
            if visits > 0.0:
                rest = voices.rest * (self.strength / (visits + self.strength))
                voices.nodes[voices.n] = node
                voices.parts[voices.n] = voices.rest - rest
                voices.n += 1
                voices.rest = rest
            node = self._above(node)
        voices.guess = self._first_guess(leaf) if self.spreads else 0.0
        if not self.is_regression:
            voices.log_total = self._log_total(leaf)

    cdef inline int32_t _above(self, int32_t node) noexcept nogil:
        """The node that one is drawn to, -1 for none."""
        return -1 if self.spreads else self.shape.links[node].parent

    cdef double _first_guess(self, int32_t leaf) noexcept nogil:
        """What a leaf says before it has seen any target, in deviations from the mean: those on the
        left less, those on the right more."""
        cdef double place = 0.5
        cdef int32_t parent = self.shape.links[leaf].parent
        while parent >= 0:
            place = 0.5 * (place + (self.shape.links[parent].left != leaf))
            leaf, parent = parent, self.shape.links[parent].parent
        return GUESS_SPREAD * log(place / (1.0 - place))

    cdef double blended(self, const Voices* voices, int32_t i) noexcept nogil:
        """The share of a class, or the number, that they say together."""
        cdef double total = voices.rest * self._prior(i, voices.guess)
        cdef int32_t k
        for k in range(voices.n):
            total += voices.parts[k] * self._own(voices.nodes[k], i, voices)
        return total

    cdef inline double _prior(self, int32_t i, double guess) noexcept nogil:
        """What is said where nothing was learned: how frequent a class is, or the mean."""
        if not self.is_regression:
            return self.totals[i].weight / self.total
        return self.totals[i].mean + (guess * self._deviation(i) if guess else 0.0)

    cdef inline double _deviation(self, int32_t target) noexcept nogil:
        return sqrt(moments_variance(&self.totals[target]))

    cdef inline double _own(self, int32_t node, int32_t i, const Voices* voices) noexcept nogil:
        """What a node by itself says of a class or target."""
        if not self.is_regression and self.shape.links[node].left < 0:
            return exp(self._output(node, i) - voices.log_total)
        return self._output(node, i)

    cdef inline double _log_total(self, int32_t leaf) noexcept nogil:
        """ln of the sum of exp(output) over all classes; those never met there have output 0."""
        cdef const ObliqueNode* stats = &self.nodes[leaf].stats
        cdef double others
        if stats.n_outputs == 0:
            return log(<double> self.n_outputs)
        if stats.n_outputs == self.n_outputs:
            return stats.log_sum
        others = log(<double> (self.n_outputs - stats.n_outputs))
        return max(others, stats.log_sum) + softplus(-fabs(others - stats.log_sum))

    cdef inline double _output(self, int32_t node, int32_t i) noexcept nogil:
        if i < self.nodes[node].stats.n_outputs:
            return self.nodes[node].outputs[WIDTH * i]
        return 0.0

    cdef double loss(self, int32_t leaf, const Example* example) noexcept nogil:
        """Log loss of the label, or squared loss of the targets.

        Of raw targets by the paper's algorithm; else half of it, in units of their variances.
        """
        cdef double total = 0.0
        cdef Voices voices
        cdef int32_t i
        if not self.is_regression:
            # of the leaf alone: where the nodes above join in, fewer predictions are right
            return self._log_total(leaf) - self._output(leaf, example.label)
        self.weigh(leaf, &voices)
        for i in range(self.n_outputs):
            total += self.scaled_square(i, self.blended(&voices, i) - example.targets[i])
        return total

    cdef double scaled_square(self, int32_t target, double difference) noexcept nogil:
        """The loss of a prediction that is off by `difference`."""
        cdef double deviation
        if self.is_paper:
            return difference * difference
        deviation = self._deviation(target)
        if deviation <= 0.0:
            return 0.0
        return 0.5 * (difference / deviation) * (difference / deviation)

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        self.answer(self.leaf_below(node, self.view_of(row), scratch), out)

    cdef void answer(self, int32_t leaf, Prediction* out) noexcept nogil:
        """Write what a leaf predicts."""
        cdef double said, most = -1.0
        cdef Voices voices
        cdef int32_t i
        out.label = -1
        if not self.is_regression and self.total == 0.0:
            # memory ran out in the first row: nothing was learned of its label
            out.label = 0
            for i in range(self.context.n_labels if out.shares != NULL else 0):
                out.shares[i] = 1.0 / self.context.n_labels
            return
        self.weigh(leaf, &voices)
        for i in range(self.n_outputs):
            said = self.blended(&voices, i)
            if not self.is_regression and said > most:
                out.label, most = i, said
            if out.shares != NULL:
                out.shares[i] = said
        if out.shares != NULL:
            for i in range(self.n_outputs, max(self.context.n_labels, self.context.n_targets)):
                out.shares[i] = 0.0

    cdef int count_in(self, int32_t leaf, const Example* example) except -1 nogil:
        """Count an example in its leaf and the nodes above, and let it into their means.

        Old ones fade. A leaf of classes has logits in place of means.
        """
        cdef Node* node
        cdef double share, target
        cdef bint has_means
        cdef int32_t at = leaf, i
        while at >= 0:
            node = &self.nodes[at]
            has_means = self.is_regression or at != leaf
            if has_means:
                self._open_outputs(node, self.n_outputs)
            node.stats.visits = MEAN_DECAY * node.stats.visits + example.weight
            share = example.weight / node.stats.visits
            for i in range(self.n_outputs if has_means else 0):
                target = example.targets[i] if self.is_regression else i == example.label
                node.outputs[WIDTH * i] += share * (target - node.outputs[WIDTH * i])
            at = self._above(at)
        return 0

    cdef void count_anew(self) noexcept nogil:
        """Forget how many examples came to the nodes."""
        cdef int32_t node
        for node in range(self.shape.size):
            self.nodes[node].stats.visits = 0.0

    cdef void sum_outputs(self, Node* node) noexcept nogil:
        """Note ln of the sum of exp(output), of a leaf of classes."""
        if not self.is_regression:
            node.stats.log_sum = log_sum_exp(node.outputs, WIDTH, node.stats.n_outputs)

    cdef int set_outputs(self, int32_t leaf, const double* sums) except -1:
        """Let a leaf predict what examples with these sums, the weight behind them, suggest."""
        cdef Node* node = &self.nodes[leaf]
        cdef double weight = sums[self.n_outputs], share
        cdef int32_t i
        if weight <= 0.0:
            return 0
        self.open_outputs(leaf)
        # no more than the mean remembers
        node.stats.visits = min(weight, 1.0 / (1.0 - MEAN_DECAY))
        for i in range(self.n_outputs):
            if self.is_regression:
                node.outputs[WIDTH * i] = sums[i] / weight
            else:
                share = (sums[i] + 1.0 / self.n_outputs) / (weight + 1.0)
                node.outputs[WIDTH * i] = log(share)
                # as if the examples had been learned one by one at these outputs
                node.outputs[WIDTH * i + 1] = weight * share * (1.0 - share)
        self.sum_outputs(node)
        return 0

    # -------------------------------------------------------------------------- state

    cdef object _all_outputs(self, bint are_moving):
        """The outputs of all nodes, or their velocities, in one array."""
        cdef int32_t i
        cdef Py_ssize_t n, at = 0
        cdef double* values
        cdef double[::1] room
        # with room for one at least, so that there is an address
        for i in range(self.shape.size):
            at += WIDTH * self.nodes[i].stats.n_outputs
        found = np.empty(at + 1)
        room, at = found, 0
        for i in range(self.shape.size):
            n = WIDTH * self.nodes[i].stats.n_outputs
            values = self.nodes[i].moving_outputs if are_moving else self.nodes[i].outputs
            if n and values != NULL:
                memcpy(&room[at], values, n * sizeof(double))
                at += n
        return found[:at].copy()

    cdef dict state(self):
        cdef int32_t i
        cdef Node* node
        cdef TableExport weights = TableExport(WIDTH)
        cdef TableExport moving = TableExport(WIDTH)
        cdef TableExport held = TableExport(WIDTH)
        for i in range(self.shape.size):
            node = &self.nodes[i]
            weights.add(&node.weights)
            moving.add(&node.moving)
            held.add(&node.held)
        return {
            "links": self.shape.state(),
            "nodes": export_records(
                &self.nodes[0].stats, sizeof(Node), self.shape.size, STATS
            ),
            "weights": weights.arrays(),
            "moving": moving.arrays(),
            "held": held.arrays(),
            "outputs": self._all_outputs(False),
            "moving_outputs": self._all_outputs(True),
            "totals": export_records(self.totals, sizeof(Moments), self.n_outputs, TOTALS),
            "total": self.total,
        }

    cdef int take_state(self, dict state) except -1:
        cdef const double[::1] outputs = state["outputs"]
        cdef const double[::1] moving_outputs = state["moving_outputs"]
        cdef const int64_t[::1] known = np.ascontiguousarray(state["nodes"]["n_outputs"])
        cdef Py_ssize_t at = 0
        cdef int32_t i, n_columns = self.context.n_columns
        cdef Node* node
        self.plant()
        self.shape.take_state(state["links"])
        self.reserve(self.shape.size)
        self.reserve_outputs(<int32_t> len(state["totals"]))
        import_records(self.totals, sizeof(Moments), state["totals"])
        self.total = state["total"]
        for i in range(self.shape.size):
            node = &self.nodes[i]
            if known[i]:
                self._open_outputs(node, known[i])
                memcpy(node.outputs, &outputs[at], WIDTH * known[i] * sizeof(double))
                if node.moving_outputs != NULL:
                    memcpy(
                        node.moving_outputs, &moving_outputs[at],
                        WIDTH * known[i] * sizeof(double),
                    )
                at += WIDTH * known[i]
            import_table(&node.weights, WIDTH, n_columns, state["weights"], i)
            import_table(&node.moving, WIDTH, n_columns, state["moving"], i)
            import_table(&node.held, WIDTH, n_columns, state["held"], i)
        return import_records(&self.nodes[0].stats, sizeof(Node), state["nodes"])
