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

from streamtree._core.store.links import check_links
from streamtree._core.store.state import check_finite, require
from streamtree._core.store.tables import check_tables

# Chosen over a dozen streams: how much of a leaf's mean of targets survives an example; the weight
# of a leaf's first guess, and how far the guesses spread.
cdef double MEAN_DECAY = 0.997
cdef double GUESS_WEIGHT = 10.0
cdef double GUESS_SPREAD = 0.4 / 1.702      # a logit of variance 1.702^2 is close to a normal

cdef ObliqueNode _blank
memset(&_blank, 0, sizeof(ObliqueNode))
STATS = np.asarray(<ObliqueNode[:1]> &_blank).dtype
cdef Moments _no_moments
memset(&_no_moments, 0, sizeof(Moments))
TOTALS = np.asarray(<Moments[:1]> &_no_moments).dtype


cdef class ObliqueNodes(Tree):
    """A binary tree of linear splits and what its leaves predict with."""

    def __cinit__(self, *, bint is_regression, bint is_paper, int32_t depth,
                  Py_ssize_t batch_size, double momentum, **settings):
        self.views = PLAIN if is_paper else STANDARD
        self.is_regression = is_regression
        self.is_paper = is_paper
        self.depth = depth
        self.batch_size = batch_size
        self.momentum = momentum
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
        self.nodes[ROOT].stats.place = 0.5
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
        cdef double width = 0.5
        cdef int32_t above = node
        while self.shape.links[above].parent >= 0:
            above = self.shape.links[above].parent
            width *= 0.5
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
        self.nodes[left].stats.place = self.nodes[node].stats.place - 0.5 * width
        self.nodes[right].stats.place = self.nodes[node].stats.place + 0.5 * width
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
        """Whether there is room for so many classes, were every leaf to know all of them."""
        cdef size_t per_output = WIDTH * sizeof(double) * (2 if self.moves() else 1)
        cdef size_t size = spacious(n_outputs)
        per_output <<= self.depth
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

    cdef inline double _guess(self, int32_t leaf, int32_t target) noexcept nogil:
        """What a leaf predicts of a target before it has seen any: the leaves' guesses spread."""
        cdef double place = self.nodes[leaf].stats.place
        if self.is_paper:
            return 0.0
        return self.totals[target].mean + (
            GUESS_SPREAD * log(place / (1.0 - place)) * self._deviation(target)
        )

    cdef inline double _deviation(self, int32_t target) noexcept nogil:
        return sqrt(moments_variance(&self.totals[target]))

    cdef inline double _number(self, int32_t leaf, int32_t target) noexcept nogil:
        """The prediction of a leaf for one target."""
        cdef const Node* node = &self.nodes[leaf]
        cdef double visits = node.stats.visits
        if self.is_paper:
            return node.outputs[WIDTH * target] if node.outputs != NULL else 0.0
        if visits == 0.0:
            return self._guess(leaf, target)
        return (
            visits * node.outputs[WIDTH * target] + GUESS_WEIGHT * self._guess(leaf, target)
        ) / (visits + GUESS_WEIGHT)

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

    cdef inline double _output(self, int32_t leaf, int32_t label) noexcept nogil:
        if label < self.nodes[leaf].stats.n_outputs:
            return self.nodes[leaf].outputs[WIDTH * label]
        return 0.0

    cdef double loss(self, int32_t leaf, const Example* example) noexcept nogil:
        """Log loss of the label, or squared loss of the targets.

        Of raw targets by the paper's algorithm; else half of it, in units of their variances.
        """
        cdef double total = 0.0
        cdef int32_t i
        if not self.is_regression:
            return self._log_total(leaf) - self._output(leaf, example.label)
        for i in range(self.n_outputs):
            total += self.scaled_square(i, self._number(leaf, i) - example.targets[i])
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
        cdef int32_t i
        if not self.is_regression:
            out.label = self._most_likely(leaf)
            if out.shares != NULL:
                self._write_shares(leaf, out.shares)
        elif out.shares != NULL:
            for i in range(self.n_outputs):
                out.shares[i] = self._number(leaf, i)
            for i in range(self.n_outputs, self.context.n_targets):
                out.shares[i] = 0.0

    cdef int32_t _most_likely(self, int32_t leaf) noexcept nogil:
        """The class of the largest output; of the most weight, where nothing was learned."""
        cdef int32_t label, best = 0
        cdef bint is_new = self.nodes[leaf].stats.n_outputs == 0
        if self.n_outputs == 0:
            return -1
        for label in range(1, self.n_outputs):
            if is_new:
                if self.totals[label].weight > self.totals[best].weight:
                    best = label
            elif self._output(leaf, label) > self._output(leaf, best):
                best = label
        return best

    cdef void _write_shares(self, int32_t leaf, double* out) noexcept nogil:
        """The softmax of the outputs; shares of the classes, where nothing was learned."""
        cdef int32_t label
        cdef double log_total = 0.0
        cdef bint is_new = self.nodes[leaf].stats.n_outputs == 0
        if not is_new:
            log_total = self._log_total(leaf)
        for label in range(self.n_outputs):
            if is_new:
                out[label] = self.totals[label].weight / self.total
            else:
                out[label] = exp(self._output(leaf, label) - log_total)
        for label in range(self.n_outputs, self.context.n_labels):
            out[label] = 0.0

    cdef int average(self, int32_t leaf, const Example* example) except -1 nogil:
        """Let an example into the leaf's mean of every target, in which old ones are forgotten."""
        cdef Node* node = &self.nodes[leaf]
        cdef int32_t i
        self.open_outputs(leaf)
        node.stats.visits = MEAN_DECAY * node.stats.visits + example.weight
        for i in range(self.n_outputs):
            node.outputs[WIDTH * i] += (
                example.weight / node.stats.visits
                * (example.targets[i] - node.outputs[WIDTH * i])
            )
        return 0

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

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        nodes, totals, known = state["nodes"], state["totals"], state["nodes"]["n_outputs"]
        depths = check_links(state["links"])
        require(len(nodes) == len(depths), "the number of nodes")
        # paths are kept in arrays of this length
        require(depths.max() <= self.depth, "the depth")
        for part in ("weights", "moving", "held"):
            check_tables(state[part], len(nodes), n_columns, WIDTH)
        require(len(totals) <= n_outputs, "the totals")
        check_finite(totals, "mean")
        check_finite(totals, "weight", at_least=0)
        check_finite(np.array(state["total"]), at_least=0)
        check_finite(nodes, "visits", at_least=0)
        for field in ("scale", "place"):
            require((nodes[field] > 0).all(), f"the {field} of a node")
        require((nodes["place"] < 1).all(), "the place of a node")
        require(((known >= 0) & (known <= len(totals))).all(), "the outputs of a node")
        if self.is_regression:
            require(len(totals) in (0, n_outputs), "the totals")
            require(((known == 0) | (known == len(totals))).all(), "the outputs of a node")
            require(((nodes["visits"] == 0) | (known > 0)).all(), "a visited node")
        for part, is_kept in (("outputs", True), ("moving_outputs", self.moves())):
            expected = WIDTH * int(known.sum()) if is_kept else 0
            require(len(state[part]) == expected, f"the {part.replace('_', ' ')}")
            check_finite(state[part])
