"""What a soft tree does: respond, follow the gradient, grow and collapse."""

cimport cython
from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int32_t, uint64_t

from streamtree._core.linear cimport dot, sgd_step
from streamtree._core.nodes cimport ROOT
from streamtree._core.responses cimport (
    Response, adagrad, adagrad_many, respond, respond_sgd, response_loss, sigmoid,
)
from streamtree._core.rng cimport splitmix64
from streamtree._core.softnodes cimport GATE_WIDTH, SoftNode, SoftNodes
from streamtree._core.tables cimport Table, table_locate, table_locate_all
from streamtree._core.types cimport Row

cdef enum:
    NO_PENALTY = 0
    L1 = 1
    L2 = 2

# scores beyond this carry no information; the bound keeps every sum finite
cdef double SCORE_LIMIT = 1e9
# What a row's squared norm is taken to be at least, see `learn`.
cdef double NORM_OFFSET = 4.0
# Sums of squared gradients start here rather than at 0: the first steps of AdaGrad are leaps.
cdef double PRIOR_NUMBER = 3.0
cdef double PRIOR_CLASS = 0.05
cdef double PRIOR_GATE = 1e-300
# How far one step may go: a gate's score, and a number as a share of the way to its target.
cdef double GATE_REACH = 1.0
cdef double NUMBER_REACH = 0.2
# Pairs are trained and leaves are judged on examples that reach them to this degree.
cdef double CONTEST_REACH = 0.2
# A pair starts as two copies of its leaf, this much to either side of it: from there the gate has
# a slope to follow.
cdef double PAIR_OFFSET = 0.1
# The bound of the contest is at its tightest near this count; below the second none is decided.
cdef double MIXTURE = 50.0
cdef double MIN_COUNT = 50.0
# A pair without a gain in a whole window is given up, but not in the first, when it is new.
cdef int32_t PATIENCE = 1
# windows double up to this length
cdef double MAX_WINDOW = 5_000.0


cdef inline double limited(double score) noexcept nogil:
    """A finite score; NaN, which only overflow can make, counts as 0."""
    if not score <= SCORE_LIMIT:
        return SCORE_LIMIT if score > 0 else 0.0
    return score if score >= -SCORE_LIMIT else -SCORE_LIMIT


cdef inline void divide(
    double reach, double gate, double threshold, double* to_left, double* to_right
) noexcept nogil:
    """Give a node's reach to its children; one that would get too little gets none."""
    to_left[0] = reach * gate
    to_right[0] = reach * (1.0 - gate)
    if min(to_left[0], to_right[0]) < threshold:
        if to_left[0] >= to_right[0]:
            to_left[0], to_right[0] = reach, 0.0
        else:
            to_left[0], to_right[0] = 0.0, reach


cdef inline int32_t* find_slots(const Table* table, Row row, Py_ssize_t* absent) noexcept nogil:
    """Where the records of a row are, in the form that the kernels take."""
    absent[0] = 0
    if table.keys == NULL and row.top < table.capacity:
        return NULL if row.is_full else <int32_t*> row.columns
    absent[0] = table_locate(table, row.columns, row.n, row.slots)
    return row.slots


cdef int make_slots(
    Table* table, int width, Row row, int32_t n_columns, int32_t** slots
) except -1 nogil:
    """As `find_slots`, after making the records that are absent."""
    cdef Py_ssize_t absent
    slots[0] = find_slots(table, row, &absent)
    if absent:
        table_locate_all(table, width, row.columns, row.n, n_columns, row.slots)
    return 0


cdef inline double random_offset(uint64_t place, int32_t output) noexcept nogil:
    """From 0.5 to 1.5 or the negative of that, always the same at the same place."""
    cdef uint64_t word = splitmix64(place ^ (<uint64_t> output << 32))
    cdef double offset = 0.5 + (word >> 11) * 2.0 ** -53
    return offset if word & 1 else -offset


@cython.final
cdef class SoftTree(SoftNodes):
    """A tree of gates and leaves in a pool of nodes.

    Every leaf may have a *pair*: two nodes in the shade that learn what its children would be.
    Leaf and pair predict each example before they learn it; a pair that wins takes the leaf's
    place. The leaf then stays behind and goes on learning for as long as its children are leaves,
    and takes the place back when it wins.
    """

    def start(self, *, int kind, bint literal, bint linear, bint jointly, uint64_t seed):
        """Set what never changes, and plant the root."""
        self.kind = kind
        self.literal = literal
        self.linear = linear
        self.jointly = jointly
        self.seed = seed
        self._reserve(1)
        self._clear(ROOT, 0)

    def configure(self, *, int penalty, double strength, double learning_rate, double threshold,
                  double window, double delta, int32_t max_nodes, int32_t max_depth):
        """Set what may change while the tree grows."""
        self.penalty = penalty if strength > 0.0 else NO_PENALTY
        self.strength = strength
        self.learning_rate = learning_rate
        self.threshold = threshold
        self.window = window
        self.delta = delta
        self.max_nodes = max_nodes
        self.max_depth = max_depth

    # --------------------------------------------------------------------- the response

    cdef inline double _gate(self, int32_t node, Row row) noexcept nogil:
        return sigmoid(self._gate_score(node, row))

    cdef inline double _gate_score(self, int32_t node, Row row) noexcept nogil:
        cdef Py_ssize_t absent
        cdef const int32_t* slots = find_slots(&self.nodes[node].gate, row, &absent)
        return limited(
            self.nodes[node].stats.gate_bias
            + dot(self.nodes[node].gate.records, slots, row.values, row.n)
        )

    cdef list path(self, Row row):
        """The nodes on the most probable path, each with its gate's score, None at the leaf."""
        cdef int32_t node = ROOT
        cdef double score
        nodes = []
        while self.tree.links[node].left >= 0:
            score = self._gate_score(node, row)
            nodes.append((node, score))
            node = self.tree.links[node].left if score >= 0.0 else self.tree.links[node].right
        return [*nodes, (node, None)]

    cdef inline const int32_t* _leaf_slots(self, int32_t node, Row row) noexcept nogil:
        cdef Py_ssize_t absent
        return find_slots(&self.nodes[node].leaf, row, &absent) if self.linear else NULL

    cdef inline void _leaf(self, int32_t node, Row row, const int32_t* slots, int32_t first,
                           int32_t n, double* out) noexcept nogil:
        """The responses first, ..., first + n - 1 of a leaf."""
        cdef int32_t c
        respond(
            &self.nodes[node].bias[first], &self.nodes[node].leaf.records[first],
            2 * self.output_capacity, slots, row.values, row.n if self.linear else 0, n, out,
        )
        for c in range(n):
            out[c] = limited(out[c])

    cdef int32_t _visit(self, Row row, double threshold, double* total) noexcept nogil:
        """Walk all paths whose reach is not below the threshold, parents before children.

        Where it is below for one child, the other gets all of the reach. Fills `visits` and
        `responses`, writes the response of the tree; returns the number of visits.
        """
        cdef int32_t n = 1, i = 0, c, left, right
        cdef double to_left, to_right
        cdef Visit* visit
        cdef double* response
        for c in range(self.outputs):
            total[c] = 0.0
        self.visits[0] = Visit(1.0, 0.0, 0.0, ROOT, -1, -1, 0)
        while i < n:
            visit = &self.visits[i]
            left = self.tree.links[visit.node].left
            if left < 0:
                response = &self.responses[i * self.outputs]
                self._leaf(
                    visit.node, row, self._leaf_slots(visit.node, row), 0, self.outputs, response
                )
                for c in range(self.outputs):
                    total[c] += visit.reach * response[c]
                i += 1
                continue
            right = self.tree.links[visit.node].right
            visit.gate = self._gate(visit.node, row)
            divide(visit.reach, visit.gate, threshold, &to_left, &to_right)
            if to_left > 0.0:
                visit.left = n
                self.visits[n] = Visit(to_left, 0.0, 0.0, left, -1, -1, 0)
                n += 1
            if to_right > 0.0:
                visit.right = n
                self.visits[n] = Visit(to_right, 0.0, 0.0, right, -1, -1, 0)
                n += 1
            i += 1
        return n

    cdef void respond_to(self, Row row, double threshold, int32_t first, int32_t n,
                         double* out) noexcept nogil:
        """Write the responses first, ..., first + n - 1; leaves the tree alone, for readers."""
        cdef double reaches[MAX_DEPTH + 2]
        cdef int32_t waiting[MAX_DEPTH + 2]
        cdef int32_t node, c, size = 1
        cdef double reach, to_left, to_right
        waiting[0] = ROOT
        reaches[0] = 1.0
        for c in range(n):
            out[c] = 0.0
        while size:
            size -= 1
            node = waiting[size]
            reach = reaches[size]
            if self.tree.links[node].left < 0:
                self._add_leaf(node, row, reach, first, n, out)
                continue
            divide(reach, self._gate(node, row), threshold, &to_left, &to_right)
            if to_right > 0.0:
                waiting[size] = self.tree.links[node].right
                reaches[size] = to_right
                size += 1
            if to_left > 0.0:
                waiting[size] = self.tree.links[node].left
                reaches[size] = to_left
                size += 1

    cdef inline void _add_leaf(self, int32_t node, Row row, double reach, int32_t first, int32_t n,
                               double* out) noexcept nogil:
        """Add a leaf's responses, a block at a time, times the reach."""
        cdef double block[BLOCK]
        cdef const int32_t* slots = self._leaf_slots(node, row)
        cdef int32_t start = 0, size, c
        while start < n:
            size = min(BLOCK, n - start)
            self._leaf(node, row, slots, first + start, size, block)
            for c in range(size):
                out[start + c] += reach * block[c]
            start += BLOCK

    # ------------------------------------------------------------------------- learning

    cdef int learn(self, Row row, int32_t n_columns, double target, double weight,
                   double norm) except -1 nogil:
        """Predict, compare, take one step; `norm` is the mean squared norm of the rows."""
        cdef double* total = self._room(0)
        cdef double* slopes = self._room(1)
        cdef int32_t n = self._visit(row, self.threshold, total)
        cdef int32_t i
        cdef double loss, rate = self.learning_rate
        if not self.literal:
            # longer rows take smaller steps, short ones not much larger
            rate /= norm + NORM_OFFSET
        elif self.kind == Response.NUMBER:
            # a plain step towards a number ends at the number, whatever the example weighs
            weight = min(weight, 1.0 / rate)
        loss = response_loss(self.kind, total, self.outputs, target, slopes)
        for i in range(n):
            if self.visits[i].reach >= CONTEST_REACH:
                self._learn_in_shade(
                    &self.visits[i], i, row, n_columns, target, weight, rate, loss
                )
        self._value_subtrees(n, slopes)
        for i in range(n):
            self._step(&self.visits[i], row, n_columns, slopes, total, target, weight, rate)
        self._change_shape(n)
        return 0

    cdef void _value_subtrees(self, int32_t n, const double* slopes) noexcept nogil:
        """<slopes, response> of every subtree visited, children before parents."""
        cdef Visit* visit
        cdef int32_t i, c
        for i in range(n - 1, -1, -1):
            visit = &self.visits[i]
            if visit.left < 0 and visit.right < 0:
                visit.value = 0.0
                for c in range(self.outputs):
                    visit.value += slopes[c] * self.responses[i * self.outputs + c]
            elif visit.left < 0:
                visit.value = self.visits[visit.right].value
            elif visit.right < 0:
                visit.value = self.visits[visit.left].value
            else:
                visit.value = (
                    visit.gate * self.visits[visit.left].value
                    + (1.0 - visit.gate) * self.visits[visit.right].value
                )

    cdef int _step(
        self, const Visit* visit, Row row, int32_t n_columns, const double* slopes,
        const double* total, double target, double weight, double rate
    ) except -1 nogil:
        """One step of a node of the tree, if it is one that learns."""
        cdef int32_t node = visit.node
        cdef bint is_leaf = self.tree.links[node].left < 0
        if not (
            self.jointly or node == self.newest
            or is_leaf and self.tree.links[node].parent == self.newest
        ):
            return 0
        if is_leaf:
            self._step_leaf(
                node, row, n_columns, slopes, weight * visit.reach, total, target, rate
            )
        elif visit.left >= 0 and visit.right >= 0:
            self._step_gate(
                node, row, n_columns, visit.reach * visit.gate * (1.0 - visit.gate)
                * (self.visits[visit.left].value - self.visits[visit.right].value),
                weight, rate,
            )
        return 0

    cdef int _change_shape(self, int32_t n) except -1 nogil:
        """At most one split, collapse or new pair; it may move nodes and visits."""
        cdef int32_t i, node
        for i in range(n):
            if self.visits[i].reach >= CONTEST_REACH and self._decide(self.visits[i].node):
                return 0
        for i in range(n):
            node = self.visits[i].node
            if (
                self.visits[i].reach >= CONTEST_REACH and self.tree.links[node].left < 0
                and self.nodes[node].stats.pair < 0 and self._may_split(node)
            ):
                self._start_pair(node)
                return 0
        return 0

    cdef int _step_leaf(self, int32_t node, Row row, int32_t n_columns, const double* slopes,
                        double weight, const double* response, double target,
                        double rate) except -1 nogil:
        """One step of a leaf down the slopes times the weight."""
        cdef double* scaled = self._room(2)
        cdef double* bias = self.nodes[node].bias
        cdef Table* table = &self.nodes[node].leaf
        cdef Py_ssize_t n = row.n if self.linear else 0
        cdef int32_t* slots = NULL
        cdef int32_t c
        cdef double reach, prior
        cdef bint steps = False
        for c in range(self.outputs):
            scaled[c] = (1.0 - self.strength) * weight * slopes[c]
            steps |= scaled[c] != 0.0
        if not steps:
            return 0
        if self.linear:
            make_slots(table, 2 * self.output_capacity, row, n_columns, &slots)
        if self.literal:
            respond_sgd(bias, table.records, 2 * self.output_capacity, slots, row.values, n,
                        self.outputs, scaled, rate)
        elif self.output_capacity == 1:
            if self.kind == Response.NUMBER:
                reach = NUMBER_REACH * fabs(response[0] - target)
                prior = PRIOR_NUMBER
            else:
                # at most 1 past the logit +-1 of the class
                reach = fabs(response[0] - (2.0 * target - 1.0)) + 1.0
                prior = PRIOR_CLASS
            adagrad(bias, table.records, slots, row.values, n, row.steps, scaled[0], rate,
                    prior, reach)
        else:
            adagrad_many(bias, table.records, 2 * self.output_capacity, slots, row.values, n,
                         self.outputs, scaled, rate, PRIOR_CLASS)
        return 0

    cdef int _step_gate(self, int32_t node, Row row, int32_t n_columns, double slope,
                        double weight, double rate) except -1 nogil:
        """One step of a gate down the slope of (1 - strength) loss + strength penalty."""
        cdef Table* table = &self.nodes[node].gate
        cdef SoftNode* stats = &self.nodes[node].stats
        cdef int32_t* slots
        cdef int32_t slot
        cdef Py_ssize_t i
        cdef double* record
        cdef double shrink
        slope = limited(weight * (1.0 - self.strength) * slope)
        make_slots(table, GATE_WIDTH, row, n_columns, &slots)
        shrink = rate * weight * self.strength
        if self.literal:
            if slope != 0.0:
                sgd_step(&stats.gate_bias, table.records, slots, row.values, row.n, slope, rate)
            if self.penalty != NO_PENALTY:
                # every weight, whether its column is there or not
                for slot in range(table.capacity):
                    record = &table.records[2 * <size_t> slot]
                    record[0] = self._shrunk(record[0], shrink)
                stats.gate_bias = self._shrunk(stats.gate_bias, shrink)
            return 0
        if slope != 0.0:
            adagrad(&stats.gate_bias, table.records, slots, row.values, row.n, row.steps,
                    slope, rate, PRIOR_GATE, GATE_REACH)
        if self.penalty != NO_PENALTY:
            for i in range(row.n):
                record = &table.records[2 * <size_t> (slots[i] if slots != NULL else i)]
                record[0] = self._shrunk(record[0], shrink / sqrt(record[1] + PRIOR_GATE))
            stats.gate_bias = self._shrunk(
                stats.gate_bias, shrink / sqrt(stats.gate_squares + PRIOR_GATE)
            )
        return 0

    cdef inline double _shrunk(self, double weight, double amount) noexcept nogil:
        """A weight after the penalty's part of a step: |w| or w^2 times `amount`."""
        cdef double size
        if self.penalty == L1:
            # proximal: what would cross zero stays there
            size = fabs(weight) - amount
            if not size > 0.0:
                return 0.0
            return size if weight > 0.0 else -size
        if self.literal:
            return weight * max(1.0 - 2.0 * amount, 0.0)
        return weight / (1.0 + 2.0 * amount)

    # --------------------------------------------------------------- growth and collapse

    cdef bint _is_last_split(self, int32_t node) noexcept nogil:
        """Whether both children are leaves."""
        cdef int32_t left = self.tree.links[node].left
        return (
            left >= 0 and self.tree.links[left].left < 0
            and self.tree.links[self.tree.links[node].right].left < 0
        )

    cdef int _learn_in_shade(self, Visit* visit, int32_t i, Row row, int32_t n_columns,
                             double target, double weight, double rate,
                             double loss) except -1 nogil:
        """Let the rival of what stands in the tree predict, and then learn, the example."""
        cdef int32_t node = visit.node, pair, c
        cdef double* total = self._room(0)
        cdef double* slopes = self._room(3)
        cdef double* rival = self._room(4)
        cdef double* left = self._room(5)
        cdef double* right = self._room(6)
        cdef double gate, value, rival_loss
        cdef SoftNode* stats = &self.nodes[node].stats
        if self.tree.links[node].left < 0:
            pair = stats.pair
            if pair < 0:
                return 0
            gate = self._gate(node, row)
            self._leaf(pair, row, self._leaf_slots(pair, row), 0, self.outputs, left)
            self._leaf(pair + 1, row, self._leaf_slots(pair + 1, row), 0, self.outputs, right)
            for c in range(self.outputs):
                rival[c] = total[c] + visit.reach * (
                    gate * left[c] + (1.0 - gate) * right[c]
                    - self.responses[i * self.outputs + c]
                )
            rival_loss = response_loss(self.kind, rival, self.outputs, target, slopes)
            self._count(stats, weight * (loss - rival_loss))
            value = 0.0
            for c in range(self.outputs):
                value += slopes[c] * (left[c] - right[c])
            self._step_leaf(pair, row, n_columns, slopes, weight * visit.reach * gate,
                            rival, target, rate)
            self._step_leaf(pair + 1, row, n_columns, slopes,
                            weight * visit.reach * (1.0 - gate), rival, target, rate)
            self._step_gate(node, row, n_columns,
                            visit.reach * gate * (1.0 - gate) * value, weight, rate)
            return 0
        if not self._is_last_split(node):
            return 0
        self._leaf(node, row, self._leaf_slots(node, row), 0, self.outputs, left)
        for c in range(self.outputs):
            rival[c] = total[c] + visit.reach * left[c]
            if visit.left >= 0:
                rival[c] -= self.visits[visit.left].reach * (
                    self.responses[visit.left * self.outputs + c]
                )
            if visit.right >= 0:
                rival[c] -= self.visits[visit.right].reach * (
                    self.responses[visit.right * self.outputs + c]
                )
        rival_loss = response_loss(self.kind, rival, self.outputs, target, slopes)
        self._count(stats, weight * (rival_loss - loss))
        self._step_leaf(node, row, n_columns, slopes, weight * visit.reach, rival, target, rate)
        return 0

    cdef inline void _count(self, SoftNode* stats, double gain) noexcept nogil:
        stats.count += 1.0
        stats.gain_sum += gain
        stats.gain_squares += gain * gain

    cdef bint _may_split(self, int32_t node) noexcept nogil:
        return (
            self.n_nodes + 2 <= self.max_nodes
            and self.nodes[node].stats.depth < self.max_depth
        )

    cdef int _start_pair(self, int32_t node) except -1 nogil:
        """Make candidates for a leaf's children."""
        cdef int32_t pair = self._new_pair(self.nodes[node].stats.depth + 1)
        cdef SoftNode* stats = &self.nodes[node].stats
        cdef uint64_t place = splitmix64(self.seed + <uint64_t> stats.tries) ^ <uint64_t> node
        cdef double offset
        cdef int32_t c
        stats.pair = pair
        stats.tries += 1
        self._copy_leaf(node, pair)
        self._copy_leaf(node, pair + 1)
        for c in range(self.outputs):
            offset = PAIR_OFFSET * random_offset(place, c)
            self.nodes[pair].bias[c] += offset
            self.nodes[pair + 1].bias[c] -= offset
        return 0

    cdef bint _decide(self, int32_t node) except -1 nogil:
        """Split, collapse or go on; returns whether the shape of the tree has changed."""
        cdef SoftNode* stats = &self.nodes[node].stats
        cdef double variance, level, bound
        cdef bint is_split = self.tree.links[node].left >= 0
        if is_split and not self._is_last_split(node) or stats.pair < 0:
            return False
        if not is_split and not self._may_split(node):
            self._free_pair(node)
            return False
        if stats.count < MIN_COUNT:
            return False
        variance = stats.gain_squares - stats.gain_sum * stats.gain_sum / stats.count
        if (stats.gain_sum < 0.0) == is_split and (
            stats.gain_sum * stats.gain_sum > 8.0 * variance
        ):
            level = self.delta / ((stats.windows + 1.0) * (stats.windows + 2.0))
            bound = (stats.count + MIXTURE) / stats.count * variance * (
                log((stats.count + MIXTURE) / MIXTURE) - 2.0 * log(level)
            )
            if stats.gain_sum * stats.gain_sum > bound:
                if is_split:
                    self._collapse(node)
                else:
                    self._split(node)
                return True
        if stats.count >= min(self.window * 2.0 ** stats.windows, MAX_WINDOW):
            if stats.gain_sum <= 0.0 and stats.windows >= PATIENCE:
                # a long time without a gain
                if is_split:
                    self._collapse(node)
                    return True
                self._free_pair(node)
            stats.windows += 1
            self._begin_window(node)
        return False

    cdef void _begin_contest(self, int32_t node) noexcept nogil:
        self.nodes[node].stats.windows = 0
        self._begin_window(node)

    cdef void _split(self, int32_t node) noexcept nogil:
        """The pair takes the leaf's place; a parent's leaf is out of the contest for now."""
        cdef int32_t pair = self.nodes[node].stats.pair
        self.tree.attach(node, pair, pair + 1)
        self._begin_contest(node)
        self.n_nodes += 2
        self.n_splits += 1
        self.newest = node

    cdef void _collapse(self, int32_t node) noexcept nogil:
        """The leaf takes its place back, and soon starts a new pair."""
        cdef int32_t left = self.tree.links[node].left
        cdef int32_t parent = self.tree.links[node].parent
        self._free_pair(left)
        self._free_pair(left + 1)
        self.tree.links[node].left = self.tree.links[node].right = -1
        self._free_pair(node)
        self._begin_contest(node)
        if parent >= 0:
            self._begin_contest(parent)
        self.n_nodes -= 2
        self.n_collapses += 1
        self.newest = node
