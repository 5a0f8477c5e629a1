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

from libc.math cimport exp, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from streamtree._core.kernels.linear cimport (
    NORM_OFFSET, SCORE_LIMIT, Inputs, StepRule, adagrad_step, adaptive_root, dot, sgd_step,
)
from streamtree._core.store.budget cimport counted, give_back, has_room
from streamtree._core.store.links cimport ROOT, turn
from streamtree._core.store.memory cimport regrown
from streamtree._core.store.tables cimport (
    table_bytes, table_clone, table_find, table_free, table_insert, table_key, table_sorted_slots,
)
from streamtree._core.stream.inputs cimport find_inputs, make_common_inputs, make_inputs
from streamtree._core.stream.row cimport Example
from streamtree._core.trees.oblique.nodes cimport WIDTH, Node, ObliqueNodes, split_score

cdef double OUTPUT_LIMIT = 1e100
cdef double GRADIENT_LIMIT = 1e150
# beyond this a logit changes no prediction, and the sum of exp would lose what sets two apart
cdef double LOGIT_LIMIT = 1e4
# log losses this close are equal: a leaf never taught and one taught to be even-handed tie
cdef double TIE = 1e-12
# a scale below this is multiplied into the weights, before they overflow
cdef double SMALLEST_SCALE = 1e-6
# Where sums of squared gradients start, of splits and of outputs: next to nothing.
cdef double PRIOR = 1e-300
cdef double OUTPUT_PRIOR = 1e-12
# the step of class outputs, chosen over a dozen streams
cdef double OUTPUT_RATE = 1.0


cdef double touched_norm(const double* records, const Inputs* inputs) noexcept nogil:
    """Sum of squared weights over the records of a row."""
    cdef const int32_t* slots = inputs.slots
    cdef double total = 0.0, weight
    cdef Py_ssize_t i
    for i in range(inputs.n):
        if inputs.n_absent and slots[i] < 0:
            continue
        weight = records[WIDTH * <Py_ssize_t> (slots[i] if slots != NULL else i)]
        total += weight * weight
    return total


cdef class ObliqueSteps(ObliqueNodes):
    """An oblique tree that takes steps."""

    def __cinit__(self, *, bint hopes, bint exact, int32_t depth, int64_t hold, **others):
        self.hopes = hopes
        self.exact = exact
        self.hold = hold
        self._fear_path = <int32_t*> counted(NULL, (depth + 1) * sizeof(int32_t))
        self._hope_path = <int32_t*> counted(NULL, (depth + 1) * sizeof(int32_t))
        self._costs = <double*> counted(NULL, (depth + 2) * sizeof(double))

    def __dealloc__(self):
        give_back(self._gradient)
        free(self._touched)
        give_back(self._scores)
        give_back(self._scored_at)
        give_back(self._fear_path)
        give_back(self._hope_path)
        give_back(self._costs)

    cdef int plant(self) except -1:
        ObliqueNodes.plant(self)
        self.in_batch = 0
        self._n_touched = 0
        give_back(self._scores)
        give_back(self._scored_at)
        self._scores = NULL
        self._scored_at = NULL
        self._n_scores = 0
        return 0

    cdef int reserve_steps(self) except -1 nogil:
        """Room for the scores of all nodes and the gradients of all outputs."""
        cdef int32_t n = self._n_scores
        if n < self.capacity:
            self._scores = <double*> counted(self._scores, self.capacity * sizeof(double))
            self._scored_at = <int64_t*> counted(
                self._scored_at, self.capacity * sizeof(int64_t)
            )
            memset(&self._scored_at[n], 0, (self.capacity - n) * sizeof(int64_t))
            self._n_scores = self.capacity
        if self._n_gradient < self.n_outputs:
            self._gradient = <double*> counted(
                self._gradient, self.n_totals * sizeof(double)
            )
            self._n_gradient = self.n_totals
        return 0

    # ----------------------------------------------------------------------- scores

    cdef inline double _score(self, int32_t node, const Step* step) noexcept nogil:
        """w . x of a split, computed once an example."""
        if self._scored_at[node] != self._now:
            self._scores[node] = split_score(&self.nodes[node], step.x, step.scratch)
            self._scored_at[node] = self._now
        return self._scores[node]

    cdef int32_t begin(self, const Step* step) except -1 nogil:
        """Forget the scores of the example before; returns the leaf of this one."""
        cdef int32_t node = ROOT
        self.reserve_steps()
        self._now += 1
        while self.shape.links[node].left >= 0:
            node = turn(self.shape.links, node, self._score(node, step))
        return node

    cdef int32_t _held_leaf(self, const Step* step) noexcept nogil:
        """The leaf that a row fell into when the present round began."""
        cdef int32_t node = ROOT
        cdef double score
        cdef Node* split
        cdef Inputs inputs
        while self.shape.links[node].left >= 0:
            split = &self.nodes[node]
            if split.stats.held_round == self._round:
                inputs = find_inputs(&split.held, step.x, step.scratch)
                score = split.stats.held_bias + dot(split.held.records, &inputs)
                score *= split.stats.held_scale
            else:
                score = self._score(node, step)
            node = turn(self.shape.links, node, score)
        return node

    # --------------------------------------------------------------------- inference

    cdef void find(self, const Step* step, int32_t home, Extremes* found) noexcept nogil:
        """The leaves of the largest loss - cost and of the largest - loss - cost.

        Among all leaves, or (fast) among those that one flipped split leads to. At a tie the
        leaf without a flip stays, then the one found first.
        """
        found.fear = found.hope = home
        found.fear_value = self.loss(home, step.example)
        found.hope_value = -found.fear_value
        if self.exact:
            self._find_among_all(step, found)
        else:
            self._find_in_ball(step, found)

    cdef inline void _compare(
        self, int32_t leaf, double loss, double cost, Extremes* found
    ) noexcept nogil:
        cdef double tie = 0.0 if self.is_regression else TIE
        if loss - cost > found.fear_value + tie:
            found.fear_value = loss - cost
            found.fear = leaf
        if -loss - cost > found.hope_value + tie:
            found.hope_value = -loss - cost
            found.hope = leaf

    cdef void _find_in_ball(self, const Step* step, Extremes* found) noexcept nogil:
        cdef int32_t node = ROOT, leaf
        cdef double score
        while self.shape.links[node].left >= 0:
            score = self._score(node, step)
            leaf = turn(self.shape.links, node, -1.0 if score > 0.0 else 1.0)
            leaf = self.leaf_below(leaf, step.x, step.scratch)
            self._compare(leaf, self.loss(leaf, step.example), 2.0 * fabs(score), found)
            node = turn(self.shape.links, node, score)

    cdef void _find_among_all(self, const Step* step, Extremes* found) noexcept nogil:
        cdef int32_t node = ROOT, depth = 0, parent
        cdef double score
        self._costs[0] = 0.0
        while node >= 0:
            if depth:
                parent = self.shape.links[node].parent
                score = self._score(parent, step)
                self._costs[depth] = self._costs[depth - 1]
                if turn(self.shape.links, parent, score) != node:
                    self._costs[depth] += 2.0 * fabs(score)
            if self.shape.links[node].left < 0:
                self._compare(node, self.loss(node, step.example), self._costs[depth], found)
            node = self.shape.next_in_preorder(node, &depth)

    # ----------------------------------------------------------------------- learning

    cdef void set_rates(self) noexcept nogil:
        """The step size and the bound of |w|^2, in units of the rows as they now are."""
        cdef double mean_norm
        self._rate, self._limit = self.learning_rate, self.max_norm
        if not self.is_paper:
            mean_norm = self.context.scaler.mean_norm
            self._rate /= mean_norm + NORM_OFFSET
            self._limit /= mean_norm

    cdef int step(self, const Step* step, int32_t home) except -1 nogil:
        """One step of the surrogate, or from the fear leaf to the hope leaf; after `begin`."""
        cdef Extremes found
        self.set_rates()
        self.find(step, home, &found)
        if not self.hopes:
            found.hope = self._held_leaf(step) if self.hold else home
        # the outputs' gradients are those at the splits as they were
        if not self.is_paper:
            self.count_in(home, step.example)
        if self.is_paper or not self.is_regression:
            self._teach(found.fear, step.example)
            if self.hopes and found.hope != found.fear:
                self._teach(found.hope, step.example)
        if found.fear != found.hope:
            self._step_between(&found, step)
        self.in_batch += 1
        if self.in_batch >= self.batch_size:
            self.in_batch = 0
            if self.moves():
                self._flush()
        return 0

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

    cdef int _step_between(self, const Extremes* found, const Step* step) except -1 nogil:
        """W <- W - eta (g - h) x: only the splits that tell the two leaves apart can move."""
        cdef int32_t* fear_path = self._fear_path
        cdef int32_t* hope_path = self._hope_path
        cdef Py_ssize_t n_fear = self._path(found.fear, fear_path)
        cdef Py_ssize_t n_hope = self._path(found.hope, hope_path)
        cdef Py_ssize_t i, fork = 0
        cdef double weight = step.example.weight
        cdef double away = weight * self.fear if self.hopes else weight
        while fear_path[fork + 1] == hope_path[fork + 1]:
            fork += 1
        # where the paths part one of them goes with the row; below they share no split
        for i in range(fork, n_fear):
            if self._disagrees(fear_path, i, step):
                self._step_split(fear_path[i], step, away * self._flipped(fear_path[i], step))
        for i in range(fork, n_hope):
            if self._disagrees(hope_path, i, step):
                self._step_split(hope_path[i], step, -weight * self._flipped(hope_path[i], step))
        return 0

    cdef inline bint _disagrees(
        self, const int32_t* path, Py_ssize_t i, const Step* step
    ) noexcept nogil:
        """Whether a path leaves its i-th split on the side that the row does not take."""
        return turn(self.shape.links, path[i], self._score(path[i], step)) != path[i + 1]

    cdef inline double _flipped(self, int32_t node, const Step* step) noexcept nogil:
        """The flipped decision less the decision: -2 or +2."""
        return -2.0 if self._score(node, step) > 0.0 else 2.0

    cdef int _step_split(self, int32_t node, const Step* step, double slope) except -1 nogil:
        """One step of a split along slope * x, and its projection."""
        if self.moves():
            return self._add_gradient(node, step, slope)
        return self._step_now(node, step, slope)

    cdef int _step_now(self, int32_t node, const Step* step, double slope) except -1 nogil:
        cdef Node* split = &self.nodes[node]
        cdef double rate = self._rate / split.stats.scale
        cdef double* bias = &split.stats.bias
        cdef double* records
        cdef Inputs inputs
        cdef StepRule rule
        self._hold_split(split)
        make_common_inputs(
            &split.weights, WIDTH, self.context, step.x, step.scratch, &inputs
        )
        records = split.weights.records
        split.stats.norm -= touched_norm(records, &inputs) + bias[0] * bias[0]
        if self.is_paper:
            sgd_step(bias, records, &inputs, slope, rate)
        else:
            rule = StepRule(rate, self.decay, PRIOR, SCORE_LIMIT / split.stats.scale)
            adagrad_step(bias, records, &inputs, slope, &rule)
        split.stats.norm += touched_norm(records, &inputs) + bias[0] * bias[0]
        return self._project(split)

    cdef int _hold_split(self, Node* split) except -1 nogil:
        """Keep the split as it was when the round of stable SGD began."""
        if self.hold and split.stats.held_round != self._round and has_room(
            table_bytes(&split.weights, WIDTH)
        ):
            table_clone(&split.held, &split.weights, WIDTH)
            split.stats.held_bias = split.stats.bias
            split.stats.held_scale = split.stats.scale
            split.stats.held_round = self._round
        return 0

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
        slots = table_sorted_slots(&split.weights, WIDTH, &n)
        split.stats.bias *= scale
        split.stats.norm = split.stats.bias * split.stats.bias
        for i in range(n):
            weight = &split.weights.records[WIDTH * <Py_ssize_t> slots[i]]
            weight[0] *= scale
            split.stats.norm += weight[0] * weight[0]
        free(slots)
        split.stats.scale = 1.0
        return 0

    # ------------------------------------------------------------------------ outputs

    cdef int _teach(self, int32_t leaf, const Example* example) except -1 nogil:
        """One gradient step of a leaf's outputs on the loss."""
        cdef Node* node = &self.nodes[leaf]
        cdef double* gradient = self._gradient
        cdef double weight = example.weight
        cdef int32_t i
        self.open_outputs(leaf)
        if self.is_paper:
            node.stats.visits += weight
        if self.is_regression:
            # a heavy example brings the output to its target, never past it
            weight = min(2.0 * weight, 1.0 / self._rate)
            for i in range(self.n_outputs):
                gradient[i] = weight * (node.outputs[WIDTH * i] - example.targets[i])
        else:
            # what was 0 outside the sum is now in it
            self.sum_outputs(node)
            for i in range(self.n_outputs):
                gradient[i] = weight * exp(node.outputs[WIDTH * i] - node.stats.log_sum)
            gradient[example.label] -= weight
        if self.moves():
            for i in range(self.n_outputs):
                node.moving_outputs[WIDTH * i + 1] += gradient[i]
            return self._touch(leaf)
        for i in range(self.n_outputs):
            self._move_output(node, i, gradient[i], gradient[i])
        self.sum_outputs(node)
        return 0

    cdef inline void _move_output(
        self, Node* node, int32_t i, double gradient, double step
    ) noexcept nogil:
        cdef double* output = &node.outputs[WIDTH * i]
        cdef double limit = OUTPUT_LIMIT if self.is_regression else LOGIT_LIMIT
        if self.is_paper:
            output[0] -= self._rate * step
        else:
            output[0] -= OUTPUT_RATE * step / adaptive_root(
                &output[1], gradient, 1.0, OUTPUT_PRIOR
            )
        # far outside what is sensible, but finite
        output[0] = min(max(output[0], -limit), limit)

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

    cdef int _add_gradient(self, int32_t node, const Step* step, double slope) except -1 nogil:
        cdef Node* split = &self.nodes[node]
        cdef Inputs inputs
        cdef double gradient
        cdef Py_ssize_t i
        make_inputs(
            &split.moving, WIDTH, self.context.n_columns, step.x, step.scratch, &inputs
        )
        for i in range(inputs.n):
            if inputs.n_absent and inputs.slots[i] < 0:
                continue
            # two gradients that overflow to either side would add up to no number at all
            gradient = min(max(slope * inputs.values[i], -GRADIENT_LIMIT), GRADIENT_LIMIT)
            split.moving.records[
                WIDTH * <Py_ssize_t> (inputs.slots[i] if inputs.slots != NULL else i) + 1
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
                key = table_key(&split.moving, slots[i])
                if table_find(&split.weights, key) < 0 and not has_room(
                    2 * table_bytes(&split.weights, WIDTH)
                ):
                    record[1] = 0.0
                    continue
                slot = table_insert(&split.weights, WIDTH, key, self.context.n_columns)
                self._move_weight(
                    split, &split.weights.records[WIDTH * <Py_ssize_t> slot], record, rate
                )
        finally:
            free(slots)
        self._move_weight(split, &split.stats.bias, &split.stats.bias_velocity, rate)
        return self._project(split)

    cdef inline void _move_weight(
        self, Node* split, double* weight, double* moving, double rate
    ) noexcept nogil:
        """`weight` is followed by its squares, `moving` (the velocity) by the pending gradient."""
        cdef double gradient = moving[1] / self.batch_size
        moving[1] = 0.0
        moving[0] = self.momentum * moving[0] + gradient
        split.stats.norm -= weight[0] * weight[0]
        if self.is_paper:
            weight[0] -= rate * moving[0]
        else:
            weight[0] -= rate * moving[0] / adaptive_root(
                &weight[1], gradient, self.decay, PRIOR
            )
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
        self.sum_outputs(node)

    # ------------------------------------------------------- what a start is made with

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
            slot = table_insert(&split.weights, WIDTH, column, self.context.n_columns)
            split.weights.records[WIDTH * <Py_ssize_t> slot] = factor
            split.stats.norm += factor * factor
        return self._project(split)

    cdef int push(self, int32_t node, const Step* step, double factor) except -1 nogil:
        """A step that moves a row further to its side; to the other side if `factor` < 0."""
        cdef double score = split_score(&self.nodes[node], step.x, step.scratch)
        return self._step_now(node, step, factor * (-2.0 if score > 0.0 else 2.0))

    # -------------------------------------------------------------------------- state

    cdef dict state(self):
        return {
            **ObliqueNodes.state(self),
            "n_learned": self.n_learned,
            "in_batch": self.in_batch,
            "touched": [self._touched[i] for i in range(self._n_touched)],
        }

    cdef int take_state(self, dict state) except -1:
        cdef int32_t node
        ObliqueNodes.take_state(self, state)
        self.n_learned = state["n_learned"]
        self.in_batch = state["in_batch"]
        for node in state["touched"]:
            self._touch(node)
        # the first example asks for it
        return self.reserve_steps() if self.n_learned else 0
