"""What a soft tree does: respond, follow the gradient, grow and collapse."""

cimport cython
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy

from streamtree._core.kernels.linear cimport (
    NORM_OFFSET, Inputs, StepRule, adagrad_step, adagrad_steps, dot, limited, respond, sgd_step,
    sgd_steps,
)
from streamtree._core.kernels.losses cimport (
    LOGITS, NUMBER, argmax, response_loss, sigmoid, softmax,
)
from streamtree._core.kernels.rng cimport splitmix64
from streamtree._core.kernels.significance cimport level_of_look, mixture_bound
from streamtree._core.leaves.explanation cimport (
    Explanation, closed, columns_of, pushing, softmax_parts, weighted, within_range,
)
from streamtree._core.store.budget cimport bytes_allowed, bytes_used, may_grow, spacious
from streamtree._core.store.links cimport ROOT
from streamtree._core.store.tables cimport Table, table_bytes
from streamtree._core.stream.inputs cimport find_inputs, make_common_inputs
from streamtree._core.stream.row cimport PLAIN, STANDARD, Example, Prediction, Row, Scratch, View
from streamtree._core.stream.scales cimport OUTLIER
from streamtree._core.trees.soft.nodes cimport (
    GATE_WIDTH, MAX_DEPTH, Node, SoftNode, SoftNodes, Visit,
)

import numpy as np

from streamtree._core.trees.soft.checks import check_soft

cdef enum:
    NO_PENALTY = 0
    L1 = 1
    L2 = 2

cdef enum:
    # what the vectors of one number an output hold while an example is learned
    TOTAL           # the response of the tree, and the slopes of its loss
    SLOPES
    SCALED          # slopes times the weight of a step
    RIVAL           # the response of the tree with its rival in place, and the slopes
    RIVAL_SLOPES
    LEFT            # responses of two leaves
    RIGHT

# no path has this reach, so that every gate sends all to one side
cdef double HARD = 2.0
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
# a gain is no matter of a few examples if it is so many of its variances
cdef double MIN_VARIANCES = 8.0
# A pair without a gain in a whole window is given up, but not in the first, when it is new.
cdef int32_t PATIENCE = 1
# windows double up to this length
cdef double MAX_WINDOW = 5_000.0


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


cdef inline double random_offset(uint64_t place, int32_t output) noexcept nogil:
    """From 0.5 to 1.5 or the negative of that, always the same at the same place."""
    cdef uint64_t word = splitmix64(place ^ (<uint64_t> output << 32))
    cdef double offset = 0.5 + (word >> 11) * 2.0 ** -53
    return offset if word & 1 else -offset


cdef inline void count_gain(SoftNode* stats, double gain) noexcept nogil:
    stats.count += 1.0
    stats.gain_sum += gain
    stats.gain_squares += gain * gain


@cython.final
cdef class SoftTree(SoftNodes):
    """A tree of gates and leaves, of classes or of one number.

    Every leaf may have a *pair*: two nodes beside the tree that learn what its children would be.
    Leaf and pair predict each example before they learn it; a pair that wins takes the leaf's
    place. The leaf then stays and goes on learning in the background for as long as its children
    are leaves, and takes the place back when it wins.
    """

    def __cinit__(self, *, bint is_regression, bint is_paper, bint is_linear, bint is_joint,
                  uint64_t seed, **settings):
        self.views = PLAIN if is_paper else STANDARD
        self.is_paper = is_paper
        self.is_linear = self.has_leaf_models = is_linear
        self.is_joint = is_joint
        self.seed = seed
        self.configure(**settings)

    def configure(self, *, int penalty, double strength, double learning_rate, double threshold,
                  bint is_hard, double window, double delta, int32_t max_nodes,
                  int32_t max_depth):
        """Set what may change while the tree grows."""
        self.penalty = penalty if strength > 0.0 else NO_PENALTY
        self.strength = strength
        self.learning_rate = learning_rate
        self.threshold = threshold
        self.routing_threshold = HARD if is_hard else threshold
        self.window = window
        self.delta = delta
        self.max_nodes = max_nodes
        self.max_depth = max_depth

    def check_state(self, dict state, Py_ssize_t n_columns, Py_ssize_t n_outputs):
        check_soft(state, n_columns, n_outputs, self.is_regression)

    # --------------------------------------------------------------------- the response

    cdef inline const View* _view(self, const Row* row) noexcept nogil:
        return &row.plain if self.is_paper else &row.standard

    cdef inline double* _room(self, int i) noexcept nogil:
        return &self._rooms[i * self.output_capacity]

    cdef inline double _gate_score(
        self, int32_t node, const View* x, Scratch* scratch
    ) noexcept nogil:
        cdef Inputs inputs = find_inputs(&self.nodes[node].gate, x, scratch)
        return limited(
            self.nodes[node].stats.gate_bias + dot(self.nodes[node].gate.records, &inputs)
        )

    cdef inline int32_t _likelier_child(self, int32_t node, double score) noexcept nogil:
        return self.shape.links[node].left if score >= 0.0 else self.shape.links[node].right

    cdef int32_t leaf(self, const Row* row, Scratch* scratch) noexcept nogil:
        """The leaf at the end of the most probable path."""
        cdef int32_t node = ROOT
        while self.shape.links[node].left >= 0:
            node = self._likelier_child(
                node, self._gate_score(node, self._view(row), scratch)
            )
        return node

    cdef list path(self, const Row* row, Scratch* scratch):
        """The nodes on the most probable path, each with its gate's score, None at the leaf."""
        cdef int32_t node = ROOT
        cdef double score
        nodes = []
        while self.shape.links[node].left >= 0:
            score = self._gate_score(node, self._view(row), scratch)
            nodes.append((node, score))
            node = self._likelier_child(node, score)
        return [*nodes, (node, None)]

    cdef inline Inputs _leaf_inputs(
        self, int32_t node, const View* x, Scratch* scratch
    ) noexcept nogil:
        """What a leaf looks at."""
        cdef Inputs inputs
        if self.is_linear:
            return find_inputs(&self.nodes[node].leaf, x, scratch)
        inputs.values = inputs.steps = NULL
        inputs.slots = NULL
        inputs.n = inputs.n_absent = 0
        return inputs

    cdef inline void _respond(
        self, int32_t node, const Inputs* inputs, int32_t first, int32_t n, double* out
    ) noexcept nogil:
        """The responses first, ..., first + n - 1 of a leaf."""
        cdef int32_t c
        respond(
            &self.nodes[node].bias[first], &self.nodes[node].leaf.records[first],
            2 * self.output_capacity, inputs, n, out,
        )
        for c in range(n):
            out[c] = limited(out[c])

    cdef inline void _leaf_response(
        self, int32_t node, const Step* step, double* out
    ) noexcept nogil:
        cdef Inputs inputs = self._leaf_inputs(node, step.x, step.scratch)
        self._respond(node, &inputs, 0, self.outputs, out)

    cdef int32_t _visit(self, const View* x, Scratch* scratch, double* total) noexcept nogil:
        """Walk all paths whose reach is not below the threshold, left before right.

        Where it is below for one child, the other gets all of the reach. Fills `visits` and
        `responses`, writes the response of the tree; returns the number of visits.
        """
        cdef Waiting waiting[MAX_DEPTH + 2]
        cdef Waiting here
        cdef int32_t n = 0, size = 1, c
        cdef double to_left, to_right
        cdef Visit* visit
        cdef double* response
        cdef Inputs inputs
        for c in range(self.outputs):
            total[c] = 0.0
        waiting[0] = Waiting(1.0, ROOT, -1)
        while size:
            size -= 1
            here = waiting[size]
            visit = &self.visits[n]
            visit[0] = Visit(here.reach, 0.0, 0.0, here.node, -1, -1)
            if here.parent >= 0:
                if self.shape.links[self.visits[here.parent].node].left == here.node:
                    self.visits[here.parent].left = n
                else:
                    self.visits[here.parent].right = n
            if self.shape.links[here.node].left < 0:
                response = &self.responses[n * self.outputs]
                inputs = self._leaf_inputs(here.node, x, scratch)
                self._respond(here.node, &inputs, 0, self.outputs, response)
                for c in range(self.outputs):
                    total[c] += here.reach * response[c]
            else:
                visit.gate = sigmoid(self._gate_score(here.node, x, scratch))
                divide(here.reach, visit.gate, self.threshold, &to_left, &to_right)
                if to_right > 0.0:
                    waiting[size] = Waiting(to_right, self.shape.links[here.node].right, n)
                    size += 1
                if to_left > 0.0:
                    waiting[size] = Waiting(to_left, self.shape.links[here.node].left, n)
                    size += 1
            n += 1
        return n

    cdef void _respond_to(
        self, int32_t node, const View* x, Scratch* scratch, int32_t first, int32_t n, double* out
    ) noexcept nogil:
        """Write the responses first, ..., first + n - 1 below a node; the sums are `_visit`'s."""
        cdef Waiting waiting[MAX_DEPTH + 2]
        cdef Waiting here
        cdef int32_t c, size = 1
        cdef double gate, to_left, to_right
        for c in range(n):
            out[c] = 0.0
        waiting[0] = Waiting(1.0, node, -1)
        while size:
            size -= 1
            here = waiting[size]
            if self.shape.links[here.node].left < 0:
                self._add_leaf(&here, x, scratch, first, n, out)
                continue
            gate = sigmoid(self._gate_score(here.node, x, scratch))
            divide(here.reach, gate, self.routing_threshold, &to_left, &to_right)
            if to_right > 0.0:
                waiting[size] = Waiting(to_right, self.shape.links[here.node].right, -1)
                size += 1
            if to_left > 0.0:
                waiting[size] = Waiting(to_left, self.shape.links[here.node].left, -1)
                size += 1

    cdef inline void _add_leaf(
        self, const Waiting* here, const View* x, Scratch* scratch, int32_t first, int32_t n,
        double* out
    ) noexcept nogil:
        """Add a leaf's responses, a block at a time, times the reach."""
        cdef double block[BLOCK]
        cdef Inputs inputs = self._leaf_inputs(here.node, x, scratch)
        cdef int32_t start = 0, size, c
        while start < n:
            size = min(BLOCK, n - start)
            self._respond(here.node, &inputs, first + start, size, block)
            for c in range(size):
                out[start + c] += here.reach * block[c]
            start += BLOCK

    # ----------------------------------------------------------------------- prediction

    cdef void predict(self, const Row* row, Scratch* scratch, Prediction* out) noexcept nogil:
        self.predict_below(ROOT, row, scratch, out)

    cdef void predict_below(self, int32_t node, const Row* row, Scratch* scratch,
                            Prediction* out) noexcept nogil:
        cdef double response = 0.0
        if self.is_regression or self.n_classes <= 2:
            self._respond_to(node, self._view(row), scratch, 0, 1, &response)
            self._answer(&response, out)
        elif out.shares == NULL:
            out.label = self._most_likely(node, self._view(row), scratch)
        else:
            self._respond_to(node, self._view(row), scratch, 0, self.n_classes, out.shares)
            self._answer(out.shares, out)

    cdef void _answer(self, const double* response, Prediction* out) noexcept nogil:
        """Turn the tree's response, which may lie in `out`, into a prediction."""
        if self.is_regression:
            if out.shares != NULL:
                out.shares[0] = self._number(response[0])
            return
        if self.n_classes <= 2:
            out.label = self.n_classes == 2 and response[0] > 0.0
        else:
            out.label = argmax(response, self.n_classes)
        if out.shares == NULL:
            return
        if self.n_classes < 2:
            # of none that were learned the first
            out.shares[0] = 1.0
        elif self.n_classes == 2:
            out.shares[1] = sigmoid(response[0])
            out.shares[0] = 1.0 - out.shares[1]
        else:
            if out.shares != response:
                memcpy(out.shares, response, self.n_classes * sizeof(double))
            softmax(out.shares, self.n_classes)
        for c in range(max(self.n_classes, 1), self.context.n_labels):
            out.shares[c] = 0.0

    cdef int32_t _most_likely(self, int32_t node, const View* x, Scratch* scratch) noexcept nogil:
        """The class of the largest of many logits."""
        cdef double block[BLOCK]
        cdef double largest = 0.0
        cdef int32_t best = -1, first = 0, n, c
        while first < self.n_classes:
            n = min(BLOCK, self.n_classes - first)
            self._respond_to(node, x, scratch, first, n, block)
            for c in range(n):
                if best < 0 or block[c] > largest:
                    best = first + c
                    largest = block[c]
            first += BLOCK
        return best

    cdef double _number(self, double response) noexcept nogil:
        """A response in the unit of the targets, never beyond those seen."""
        cdef double number
        if self.is_paper:
            number = response
        else:
            number = self.unit.center
            if self.unit.factor > 0.0:
                number += response / self.unit.factor
        return min(max(number, self.low), self.high)

    # --------------------------------------------------------------------- explanation

    cdef list ways(self, const Row* row, Scratch* scratch):
        cdef Waiting waiting[MAX_DEPTH + 2]
        cdef Waiting here
        cdef int32_t size = 1
        cdef double score, to_left, to_right
        nodes = []
        waiting[0] = Waiting(1.0, ROOT, -1)
        while size:
            size -= 1
            here = waiting[size]
            if self.shape.links[here.node].left < 0:
                nodes.append((here.node, None, here.reach))
                continue
            score = self._gate_score(here.node, self._view(row), scratch)
            nodes.append((here.node, score, here.reach))
            divide(here.reach, sigmoid(score), self.routing_threshold, &to_left, &to_right)
            if to_right > 0.0:
                waiting[size] = Waiting(to_right, self.shape.links[here.node].right, -1)
                size += 1
            if to_left > 0.0:
                waiting[size] = Waiting(to_left, self.shape.links[here.node].left, -1)
                size += 1
        return nodes

    cdef object _blank_response(self, int32_t node, Explanation out):
        """The response below a node to a row without values."""
        response = np.zeros(self.outputs)
        cdef double[::1] view = response
        self._respond_to(
            node, self._view(out.blank), out.blank_scratch, 0, self.outputs, &view[0]
        )
        return response

    cdef object _gate_parts(self, int32_t node, double score, double reach, const Row* row,
                            Scratch* scratch, Explanation out):
        """What the values of a row change in the share that a gate sends to the left."""
        cdef double blank = self._gate_score(node, self._view(out.blank), out.blank_scratch)
        cdef double gate = sigmoid(score), blank_gate = sigmoid(blank)
        cdef double to_left, blank_to_left, to_right
        divide(reach, gate, self.routing_threshold, &to_left, &to_right)
        divide(reach, blank_gate, self.routing_threshold, &blank_to_left, &to_right)
        if to_left == blank_to_left:
            return 0.0
        parts = weighted(&self.nodes[node].gate, GATE_WIDTH, self._view(row), scratch)[:, 0]
        if self.routing_threshold == HARD:
            # of a gate that turns over, those that turned it
            parts = pushing(parts, to_left > blank_to_left)
        elif score != blank:
            parts = parts * (reach * (gate - blank_gate) / (score - blank))
        parts = within_range(parts)
        return closed(parts, to_left - blank_to_left) if parts.any() else 0.0

    cdef int explain(self, const Row* row, Scratch* scratch, Explanation out) except -1:
        """Gates and leaves add to the response of the tree, and that to what it predicts."""
        cdef int32_t node, left
        cdef const View* x = self._view(row)
        cdef double before = self.output_below(ROOT, out.blank, out.blank_scratch, out)
        cdef double after = self.output_below(ROOT, row, scratch, out)
        out.add_bias(before)
        if not x.n or before == after:
            return out.add_bias(after - before)
        base = self._blank_response(ROOT, out)
        parts = np.zeros((x.n, self.outputs))
        for node, score, reach in self.ways(row, scratch):
            if score is not None:
                left = self.shape.links[node].left
                change = self._blank_response(left, out)
                change -= self._blank_response(self.shape.links[node].right, out)
                gates = self._gate_parts(node, score, reach, row, scratch, out)
                parts += np.multiply.outer(gates, change)
            elif self.is_linear:
                products = weighted(&self.nodes[node].leaf, 2 * self.output_capacity, x, scratch)
                # steps as they are may lead anywhere
                parts += reach * within_range(products[:, :self.outputs])
        if self.is_regression:
            parts = parts[:, 0] / (1.0 if self.is_paper else self.unit.factor or 1.0)
        elif self.outputs == 1:
            parts = softmax_parts(
                np.append(0.0, base), np.pad(parts, ((0, 0), (1, 0))), out.output
            )
        else:
            parts = softmax_parts(base, parts, out.output)
        return out.spread(columns_of(x), parts, after - before)

    # ------------------------------------------------------------------------- learning

    cdef int learn(self, const Row* row, const Example* example, Scratch* scratch,
                   Prediction* out) except -1 nogil:
        """Predict, compare, take one step."""
        cdef Step step
        cdef int32_t n
        cdef bint is_new = not self.is_regression and example.label >= self.n_classes
        if out != NULL and (is_new or self.routing_threshold != self.threshold):
            self.predict(row, scratch, out)
            out = NULL
        if is_new:
            self._add_class(example.label)
        step.x = self._view(row)
        step.scratch = scratch
        step.weight = example.weight
        # there may be classes that found no room: they count as the last one
        step.target = min(example.label, self.n_classes - 1)
        step.rate = self.learning_rate
        if not self.is_paper:
            # longer rows take smaller steps, short ones not much larger
            step.rate /= self.context.scaler.mean_norm + NORM_OFFSET
        n = self._visit(step.x, scratch, self._room(TOTAL))
        if out != NULL:
            self._answer(self._room(TOTAL), out)
        if self.is_regression:
            step.target = example.targets[0]
            self._widen_range(step.target)
            if self.is_paper:
                # a plain step towards a number ends at the number, whatever the example weighs
                step.weight = min(step.weight, 1.0 / step.rate)
            else:
                if self._follow(self.context.target_scales):
                    n = self._visit(step.x, scratch, self._room(TOTAL))
                step.target = (step.target - self.unit.center) * self.unit.factor
                step.target = min(max(step.target, -OUTLIER), OUTLIER)
        return self._learn(&step, n)

    cdef int _add_class(self, int32_t label) except -1 nogil:
        """Labels are numbered as they come: this one is the first of its class.

        It gets an output if there is room for that.
        """
        cdef size_t capacity = spacious(label + 1)
        if label >= 2:
            # nearly all that a tree takes is in proportion to its outputs
            if capacity > <size_t> self.output_capacity and (
                bytes_used() // self.output_capacity > bytes_allowed() // capacity
            ):
                # of a tree that begins late it may be the first label of all
                self.n_classes = max(self.n_classes, 1)
                return 0
            self._set_outputs(label + 1)
        self.n_classes = label + 1
        return 0

    cdef int _learn(self, Step* step, int32_t n) except -1 nogil:
        """One step of all nodes that were visited, and of what rivals with them."""
        cdef double* slopes = self._room(SLOPES)
        cdef int32_t i
        step.loss = response_loss(
            self.response, self._room(TOTAL), self.outputs, step.target, slopes
        )
        for i in range(n):
            if self.visits[i].reach >= CONTEST_REACH:
                if self.shape.links[self.visits[i].node].left < 0:
                    self._learn_pair(i, step)
                else:
                    self._learn_leaf(i, step)
        self._value_subtrees(n, slopes)
        for i in range(n):
            self._step(&self.visits[i], step, slopes)
        return self._change_shape(n)

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
        self, const Visit* visit, const Step* step, const double* slopes
    ) except -1 nogil:
        """One step of a node of the tree, if it is one that learns."""
        cdef int32_t node = visit.node
        cdef bint is_leaf = self.shape.links[node].left < 0
        if not (
            self.is_joint or node == self.newest
            or is_leaf and self.shape.links[node].parent == self.newest
        ):
            return 0
        if is_leaf:
            self._step_leaf(
                node, step, self._room(TOTAL), slopes, step.weight * visit.reach
            )
        elif visit.left >= 0 and visit.right >= 0:
            self._step_gate(
                node, step, visit.reach * visit.gate * (1.0 - visit.gate)
                * (self.visits[visit.left].value - self.visits[visit.right].value)
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
                self.visits[i].reach >= CONTEST_REACH and self.shape.links[node].left < 0
                and self.nodes[node].stats.pair < 0 and self._may_split(node)
                and may_grow(2 * self._leaf_bytes(node))
            ):
                self._start_pair(node)
                return 0
        return 0

    cdef int _step_leaf(
        self, int32_t node, const Step* step, const double* response, const double* slopes,
        double weight
    ) except -1 nogil:
        """One step of a leaf down the slopes, those at a response, times the weight."""
        cdef double* scaled = self._room(SCALED)
        cdef double* bias = self.nodes[node].bias
        cdef Table* table = &self.nodes[node].leaf
        cdef Py_ssize_t width = 2 * self.output_capacity
        cdef Inputs inputs
        cdef StepRule rule
        cdef int32_t c
        cdef bint steps = False
        for c in range(self.outputs):
            scaled[c] = (1.0 - self.strength) * weight * slopes[c]
            steps |= scaled[c] != 0.0
        if not steps:
            return 0
        if self.is_linear:
            make_common_inputs(
                table, <int> width, self.context, step.x, step.scratch, &inputs
            )
        else:
            inputs = self._leaf_inputs(node, step.x, step.scratch)
        if self.is_paper:
            sgd_steps(bias, table.records, width, &inputs, self.outputs, scaled, step.rate)
            return 0
        rule = StepRule(step.rate, 1.0, PRIOR_CLASS, 0.0)
        if self.response == LOGITS:
            adagrad_steps(bias, table.records, width, &inputs, self.outputs, scaled, &rule)
            return 0
        if self.response == NUMBER:
            rule.prior = PRIOR_NUMBER
            rule.reach = NUMBER_REACH * fabs(response[0] - step.target)
        else:
            # at most 1 past the logit +-1 of the class
            rule.reach = fabs(response[0] - (2.0 * step.target - 1.0)) + 1.0
        adagrad_step(bias, table.records, &inputs, scaled[0], &rule)
        return 0

    cdef int _step_gate(self, int32_t node, const Step* step, double slope) except -1 nogil:
        """One step of a gate down the slope of (1 - strength) loss + strength penalty."""
        cdef Table* table = &self.nodes[node].gate
        cdef double* bias = &self.nodes[node].stats.gate_bias
        cdef Inputs inputs
        cdef StepRule rule
        slope = limited(step.weight * (1.0 - self.strength) * slope)
        make_common_inputs(table, GATE_WIDTH, self.context, step.x, step.scratch, &inputs)
        if slope != 0.0:
            if self.is_paper:
                sgd_step(bias, table.records, &inputs, slope, step.rate)
            else:
                rule = StepRule(step.rate, 1.0, PRIOR_GATE, GATE_REACH)
                adagrad_step(bias, table.records, &inputs, slope, &rule)
        if self.penalty != NO_PENALTY:
            self._shrink_weights(
                &self.nodes[node], &inputs, step.rate * step.weight * self.strength
            )
        return 0

    cdef void _shrink_weights(
        self, Node* node, const Inputs* inputs, double shrink
    ) noexcept nogil:
        """The penalty's part of a step of a gate."""
        cdef SoftNode* stats = &node.stats
        cdef double* record
        cdef int32_t slot
        cdef Py_ssize_t i
        if self.is_paper:
            # every weight, whether its column is there or not
            for slot in range(node.gate.capacity):
                record = &node.gate.records[GATE_WIDTH * <size_t> slot]
                record[0] = self._shrunk(record[0], shrink)
            stats.gate_bias = self._shrunk(stats.gate_bias, shrink)
            return
        for i in range(inputs.n):
            if inputs.n_absent and inputs.slots[i] < 0:
                continue
            record = &node.gate.records[
                GATE_WIDTH * <Py_ssize_t> (inputs.slots[i] if inputs.slots != NULL else i)
            ]
            record[0] = self._shrunk(record[0], shrink / sqrt(record[1] + PRIOR_GATE))
        stats.gate_bias = self._shrunk(
            stats.gate_bias, shrink / sqrt(stats.gate_squares + PRIOR_GATE)
        )

    cdef inline double _shrunk(self, double weight, double amount) noexcept nogil:
        """A weight after the penalty's part of a step: |w| or w^2 times `amount`."""
        cdef double size
        if self.penalty == L1:
            # proximal: what would cross zero stays there
            size = fabs(weight) - amount
            if not size > 0.0:
                return 0.0
            return size if weight > 0.0 else -size
        if self.is_paper:
            return weight * max(1.0 - 2.0 * amount, 0.0)
        return weight / (1.0 + 2.0 * amount)

    # ------------------------------------------------------------------------ contests

    cdef bint _is_last_split(self, int32_t node) noexcept nogil:
        """Whether both children are leaves."""
        cdef int32_t left = self.shape.links[node].left
        return (
            left >= 0 and self.shape.links[left].left < 0
            and self.shape.links[self.shape.links[node].right].left < 0
        )

    cdef int _learn_pair(self, int32_t i, const Step* step) except -1 nogil:
        """Let the pair of a leaf predict, and then learn, the example."""
        cdef const Visit* visit = &self.visits[i]
        cdef SoftNode* stats = &self.nodes[visit.node].stats
        cdef const double* total = self._room(TOTAL)
        cdef double* rival = self._room(RIVAL)
        cdef double* slopes = self._room(RIVAL_SLOPES)
        cdef double* left = self._room(LEFT)
        cdef double* right = self._room(RIGHT)
        cdef double gate, loss, weight = step.weight * visit.reach, value = 0.0
        cdef int32_t c, pair = stats.pair
        if pair < 0:
            return 0
        gate = sigmoid(self._gate_score(visit.node, step.x, step.scratch))
        self._leaf_response(pair, step, left)
        self._leaf_response(pair + 1, step, right)
        for c in range(self.outputs):
            rival[c] = total[c] + visit.reach * (
                gate * left[c] + (1.0 - gate) * right[c] - self.responses[i * self.outputs + c]
            )
        loss = response_loss(self.response, rival, self.outputs, step.target, slopes)
        count_gain(stats, step.weight * (step.loss - loss))
        for c in range(self.outputs):
            value += slopes[c] * (left[c] - right[c])
        self._step_leaf(pair, step, rival, slopes, weight * gate)
        self._step_leaf(pair + 1, step, rival, slopes, weight * (1.0 - gate))
        return self._step_gate(visit.node, step, visit.reach * gate * (1.0 - gate) * value)

    cdef int _learn_leaf(self, int32_t i, const Step* step) except -1 nogil:
        """Let the leaf that a node was, if both of its children are leaves, do the same."""
        cdef const Visit* visit = &self.visits[i]
        cdef const double* total = self._room(TOTAL)
        cdef double* rival = self._room(RIVAL)
        cdef double* slopes = self._room(RIVAL_SLOPES)
        cdef double* response = self._room(LEFT)
        cdef double loss
        cdef int32_t c
        if not self._is_last_split(visit.node):
            return 0
        self._leaf_response(visit.node, step, response)
        for c in range(self.outputs):
            rival[c] = total[c] + visit.reach * response[c]
            if visit.left >= 0:
                rival[c] -= self.visits[visit.left].reach * (
                    self.responses[visit.left * self.outputs + c]
                )
            if visit.right >= 0:
                rival[c] -= self.visits[visit.right].reach * (
                    self.responses[visit.right * self.outputs + c]
                )
        loss = response_loss(self.response, rival, self.outputs, step.target, slopes)
        count_gain(&self.nodes[visit.node].stats, step.weight * (loss - step.loss))
        return self._step_leaf(visit.node, step, rival, slopes, step.weight * visit.reach)

    # --------------------------------------------------------------- growth and collapse

    cdef bint _may_split(self, int32_t node) noexcept nogil:
        return (
            self.n_reached + 2 <= self.max_nodes
            and self.nodes[node].stats.depth < self.max_depth
        )

    cdef size_t _leaf_bytes(self, int32_t node) noexcept nogil:
        """What a copy of a leaf takes, with the gate that it may get."""
        cdef const Node* leaf = &self.nodes[node]
        return (
            sizeof(Node) + table_bytes(&leaf.leaf, 2 * self.output_capacity)
            + table_bytes(&leaf.leaf, GATE_WIDTH) + 3 * self.output_capacity * sizeof(double)
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

    cdef bint _is_decided(self, const SoftNode* stats, bint is_split) noexcept nogil:
        """Whether the one that is not in the tree has won, for sure."""
        cdef double squared = stats.gain_sum * stats.gain_sum
        cdef double variance = stats.gain_squares - squared / stats.count
        if (stats.gain_sum < 0.0) != is_split or not squared > MIN_VARIANCES * variance:
            return False
        return squared > mixture_bound(
            stats.count, variance, MIXTURE, level_of_look(self.delta, stats.windows + 1)
        )

    cdef bint _decide(self, int32_t node) except -1 nogil:
        """Split, collapse or go on; returns whether the shape of the tree has changed."""
        cdef SoftNode* stats = &self.nodes[node].stats
        cdef bint is_split = self.shape.links[node].left >= 0
        if is_split and not self._is_last_split(node) or stats.pair < 0:
            return False
        if not is_split and not self._may_split(node):
            self._free_pair(node)
            return False
        if stats.count < MIN_COUNT:
            return False
        if self._is_decided(stats, is_split):
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
        self.shape.attach(node, pair, pair + 1)
        self._begin_contest(node)
        self.n_reached += 2
        self.n_splits += 1
        self.newest = node

    cdef void _collapse(self, int32_t node) noexcept nogil:
        """The leaf takes its place back, and soon starts a new pair."""
        cdef int32_t left = self.shape.links[node].left
        cdef int32_t parent = self.shape.links[node].parent
        self._free_pair(left)
        self._free_pair(left + 1)
        self.shape.links[node].left = self.shape.links[node].right = -1
        self._free_pair(node)
        self._begin_contest(node)
        if parent >= 0:
            self._begin_contest(parent)
        self.n_reached -= 2
        self.n_collapses += 1
        self.newest = node
