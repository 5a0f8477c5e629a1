"""Non-greedy oblique trees (Norouzi et al. 2015), as in the paper and for streams.

Notation of the paper: s = sgn(W x) are the decisions of the splits, f(h) is the leaf that the
decisions h lead to, theta its outputs, and the surrogate of a loss l is

    max_g [ g' W x + l(theta_f(g), y) ] - max_h [ h' W x ]

g is the fear, h the hope; a step is W <- W - eta (g - h) x', followed by a projection of every
row of W onto |w|^2 <= nu.
"""

import functools
import itertools
import math

import numpy as np

from reference.lomtree import splitmix64
from reference.scaling import RunningScaler, numbers
from reference.shrinkage import Shrinkage

BIAS = "the constant feature"
SCORE_LIMIT = 1e9
NORM_OFFSET = 4.0  # of the step size, by "stream"
MEAN_DECAY = 0.997  # of what a node has seen, an example
LEAST_PART = 1e-4  # of what is said that the nodes above are asked for
GUESS_SPREAD = 0.4 / 1.702
FIRST_BUILD = 32
GROWTH = 4
CO2_PASSES = 10
REPLAYS = 4
SMALLEST_GAIN = 1e-9


class Node:
    """A split or a leaf; a leaf has no children."""

    def __init__(self, number, parent=None):
        self.number = number
        self.parent = parent
        self.left = None
        self.right = None
        # of a split, by feature; the offset is the weight of a feature that is always 1
        self.weights = {BIAS: 0.0}
        self.squares = {BIAS: 0.0}
        self.velocity = {}
        self.pending = {}
        # of a leaf logits, by class; or means, by target; of another node means of both
        self.outputs = np.zeros(0)
        self.output_squares = np.zeros(0)
        self.output_velocity = np.zeros(0)
        self.output_pending = np.zeros(0)
        self.visits = 0.0

    @property
    def is_leaf(self):
        return self.left is None

    @property
    def path(self):
        """The nodes from the root to this one."""
        return [*(self.parent.path if self.parent else []), self]

    def sides(self):
        """{split: -1 or +1} on the way here."""
        above = self.path
        return {a: 1 if a.right is b else -1 for a, b in itertools.pairwise(above)}

    def leaves(self):
        """The leaves at or below, from left to right."""
        return [self] if self.is_leaf else self.left.leaves() + self.right.leaves()

    def score(self, row, weights=None):
        weights = self.weights if weights is None else weights
        score = math.fsum(weights.get(f, 0.0) * x for f, x in row.items())
        return max(-SCORE_LIMIT, min(score, SCORE_LIMIT))

    def side(self, row):
        """sgn(w . x); 0 goes left."""
        return 1 if self.score(row) > 0.0 else -1

    def child(self, side):
        return self.right if side > 0 else self.left


class ReferenceNonGreedyTree:
    """Learns dicts of {feature: number or string}, one at a time.

    `task` is "classes" (targets are labels), "number" or "numbers" (dicts of numbers).
    """

    def __init__(
        self, task, depth, max_norm, learning_rate, objective, fear, forgetting, inference, start,
        warm_up, momentum, batch_size, hold, algorithm, max_bytes=None,
        nominal_attributes=None, shrinkage=5.0, restarts=False,
    ):
        self.task = task
        self.depth = depth
        self.max_norm = max_norm
        self.learning_rate = learning_rate
        self.hopes = objective == "hope_and_fear"
        self.fear = fear if self.hopes else 1.0
        self.decay = 1.0 - forgetting
        self.exact = inference == "exact"
        self.refines = start == "co2"
        self.momentum = momentum
        self.batch_size = batch_size
        self.hold = hold
        self.is_paper = algorithm == "paper"
        self.strength = 0.0 if self.is_paper else shrinkage
        self.spreads = start == "zeros" and task != "classes" and not self.is_paper
        self.scaler = RunningScaler(enabled=not self.is_paper)
        self.names = [0] if task == "number" else []  # of the classes or targets
        self.class_weights = np.zeros(0)
        self.shown = []  # (target, weight) of every example, of a regressor
        self.mean = self.deviation = np.zeros(len(self.names))
        self.shrinkage = [Shrinkage() for _ in self.names]
        self.n_learned = 0
        self.in_batch = 0
        self.touched = []
        self.held = {}
        self.plant()
        self.warm_up = 0 if start == "zeros" else warm_up
        self.due_at = min(FIRST_BUILD, warm_up)
        self.buffer = []
        if start == "zeros":
            self.complete()

    @property
    def learns_classes(self):
        return self.task == "classes"

    @property
    def waits(self):
        """Whether gradients wait for the end of a mini-batch or go through velocities."""
        return self.batch_size > 1 or self.momentum > 0.0

    # ------------------------------------------------------------------ one example

    def target_of(self, y):
        """The number of a label, or the vector of the targets."""
        if self.task == "numbers":
            return np.array([float(y[name]) for name in self.names])
        return self.names.index(y) if self.learns_classes else np.array([float(y)])

    def learn_one(self, x, y, w=1.0):
        if w == 0.0:
            return
        if self.learns_classes and y not in self.names:
            self.names.append(y)
            self.class_weights = np.append(self.class_weights, 0.0)
        if self.task == "numbers" and not self.names:
            self.names = list(y)
            self.shrinkage = [Shrinkage() for _ in y]
        target = self.target_of(y)
        if not self.learns_classes:
            self.judge(x, target, w)
        row = {**self.scaler.learn(numbers(x)), BIAS: 1.0}
        if self.warm_up:
            self.buffer.append((row, target, w))
        if self.learns_classes:
            self.class_weights[target] += w
        else:
            self.shown.append((target, w))
            self.mean, self.deviation = self.moments()
        if self.hold and self.n_learned % self.hold == 0:
            self.hold_splits()
        self.n_learned += 1
        self.step(row, target, w)
        if self.warm_up and len(self.buffer) >= self.due_at:
            self.build()

    def rates(self):
        """The step size and the bound of |w|^2."""
        if self.is_paper:
            return self.learning_rate, self.max_norm
        mean_norm = self.scaler.mean_norm
        return self.learning_rate / (mean_norm + NORM_OFFSET), self.max_norm / mean_norm

    def step(self, row, target, w):
        """One step of the surrogate, or from the fear leaf to the hope leaf."""
        fear, hope, _, _ = self.find(row, target)
        home = self.leaf_of(row)
        if not self.hopes:
            hope = self.held_leaf(row) if self.hold else home
        slopes = self.slopes(fear, hope, row, w)
        if not self.is_paper:
            self.count_in(home, target, w)
        if self.learns_classes or self.is_paper:
            self.teach(fear, target, w)
            if self.hopes and hope is not fear:
                self.teach(hope, target, w)
        for split, slope in slopes.items():
            self.move(split, row, slope)
        self.in_batch += 1
        if self.in_batch == self.batch_size:
            self.flush()
            self.in_batch = 0

    # -------------------------------------------------------------------- inference

    def leaf_of(self, row):
        node = self.nodes[0]
        while not node.is_leaf:
            node = node.child(node.side(row))
        return node

    @staticmethod
    def cost(leaf, score):
        """What the decisions on the way to a leaf lack of the best ones: 2 |s| a flip."""
        return sum(
            2.0 * abs(score(split))
            for split, side in leaf.sides().items()
            if side != (1 if score(split) > 0.0 else -1)
        )

    def find(self, row, target):
        """The leaves of the largest loss - cost and of the largest - loss - cost.

        The row's own leaf wins a tie, then the first of all leaves (exact), or of those that one
        flipped split leads to.
        """
        home = self.leaf_of(row)
        candidates = [home]
        if self.exact:
            candidates += self.nodes[0].leaves()
        else:
            for split, side in home.sides().items():
                node = split.child(-side)
                while not node.is_leaf:
                    node = node.child(node.side(row))
                candidates.append(node)
        score = functools.cache(lambda split: split.score(row))
        losses = {leaf: self.loss(leaf, target) for leaf in candidates}
        costs = {leaf: self.cost(leaf, score) for leaf in candidates}
        fears = {leaf: losses[leaf] - costs[leaf] for leaf in candidates}
        hopes = {leaf: -losses[leaf] - costs[leaf] for leaf in candidates}
        fear, hope = self.first_largest(fears), self.first_largest(hopes)
        return fear, hope, fears[fear], hopes[hope]

    def first_largest(self, values):
        """The key of the largest value; log losses that differ by rounding are equal."""
        tie = 1e-12 if self.learns_classes else 0.0
        best, *others = values
        for key in others:
            if values[key] > values[best] + tie:
                best = key
        return best

    def loss(self, leaf, target):
        """Log loss, or squared loss; half of it in units of the variances by "stream"."""
        if self.learns_classes:
            logits = self.logits(leaf)
            return log_sum_exp(logits) - logits[target]
        return self.squared_loss(self.prediction(leaf) - target)

    def squared_loss(self, difference):
        if self.is_paper:
            return float(np.sum(difference**2))
        varies = self.deviation > 0.0
        return float(np.sum(0.5 * (difference[varies] / self.deviation[varies]) ** 2))

    def slopes(self, fear, hope, row, w):
        """w (g - h) of every split where the two differ; a push weighs `fear` times a pull."""
        g, h = fear.sides(), hope.sides()
        slopes = {}
        for split in {**g, **h}:
            s = split.side(row)
            difference = g.get(split, s) - h.get(split, s)
            if difference:
                is_push = g.get(split, s) != s
                slopes[split] = w * difference * (self.fear if is_push else 1.0)
        return slopes

    # ---------------------------------------------------------------- splits that move

    def move(self, split, row, slope):
        """One step along slope * x, now or at the end of the mini-batch."""
        gradient = {f: slope * x for f, x in row.items()}
        if self.waits:
            for f, slope in gradient.items():
                split.pending[f] = split.pending.get(f, 0.0) + slope
            self.touch(split)
        else:
            self.descend(split, gradient, gradient)

    def descend(self, split, gradient, direction):
        """A gradient step, by "stream" an AdaGrad step with fading memory; and the projection."""
        rate, limit = self.rates()
        for f, g in gradient.items():
            step = rate * direction[f]
            if not self.is_paper:
                split.squares[f] = self.decay * split.squares.get(f, 0.0) + g**2
                step = step / math.sqrt(split.squares[f]) if split.squares[f] else 0.0
            split.weights[f] = split.weights.get(f, 0.0) - step
        self.project(split, limit)

    @staticmethod
    def project(split, limit):
        norm = math.fsum(weight**2 for weight in split.weights.values())
        if norm > limit:
            for f in split.weights:
                split.weights[f] *= math.sqrt(limit / norm)

    def touch(self, node):
        if node not in self.touched:
            self.touched.append(node)

    def flush(self):
        """Velocity <- momentum * velocity + mean gradient of the mini-batch, of what it touched."""
        for node in self.touched:
            if node.is_leaf:
                gradient = node.output_pending / self.batch_size
                node.output_velocity = self.momentum * node.output_velocity + gradient
                self.move_outputs(node, gradient, node.output_velocity)
                node.output_pending = np.zeros(len(node.outputs))
                continue
            # gradients that cancel are none, but for the constant feature
            gradient = {
                f: g / self.batch_size for f, g in node.pending.items() if g != 0.0 or f == BIAS
            }
            for f, g in gradient.items():
                node.velocity[f] = self.momentum * node.velocity.get(f, 0.0) + g
            self.descend(node, gradient, node.velocity)
            node.pending = {}
        self.touched = []

    def hold_splits(self):
        """Stable SGD: what the splits are when a round begins."""
        self.held = {node: dict(node.weights) for node in self.nodes}

    def held_leaf(self, row):
        node = self.nodes[0]
        while not node.is_leaf:
            node = node.child(1 if node.score(row, self.held[node]) > 0.0 else -1)
        return node

    # ------------------------------------------------------------------------ leaves

    def opened(self, leaf):
        """Give a leaf an output of 0 for every class or target that it does not know yet."""
        missing = len(self.names) - len(leaf.outputs)
        if not missing:
            return
        for part in ("outputs", "output_squares", "output_velocity", "output_pending"):
            setattr(leaf, part, np.append(getattr(leaf, part), np.zeros(missing)))

    def logits(self, leaf):
        missing = len(self.names) - len(leaf.outputs)
        return np.append(leaf.outputs, np.zeros(missing)) if missing else leaf.outputs

    def teach(self, leaf, target, w):
        """One gradient step of the outputs on the loss."""
        self.opened(leaf)
        if self.is_paper:
            leaf.visits += w
        if self.learns_classes:
            gradient = w * np.exp(leaf.outputs - log_sum_exp(leaf.outputs))
            gradient[target] -= w
        else:
            # to the target, never past it
            gradient = min(2.0 * w, 1.0 / self.learning_rate) * (leaf.outputs - target)
        if self.waits:
            leaf.output_pending += gradient
            self.touch(leaf)
        else:
            self.move_outputs(leaf, gradient, gradient)

    def move_outputs(self, leaf, gradient, direction):
        if self.is_paper:
            leaf.outputs = leaf.outputs - self.learning_rate * direction
        else:
            leaf.output_squares = leaf.output_squares + gradient**2
            leaf.outputs = leaf.outputs - direction / np.sqrt(leaf.output_squares + 1e-12)

    def drawn_to(self, leaf):
        """A leaf and the nodes above it that have a say, from it up."""
        return [leaf] if self.spreads else leaf.path[::-1]

    def count_in(self, leaf, target, w):
        """Into the means of a leaf and the nodes above, in which old ones fade."""
        came = np.arange(len(self.names)) == target if self.learns_classes else target
        for node in self.drawn_to(leaf):
            node.visits = MEAN_DECAY * node.visits + w
            if node is not leaf or not self.learns_classes:
                self.opened(node)
                node.outputs = node.outputs + w / node.visits * (came - node.outputs)

    def moments(self):
        """Mean and standard deviation of every target so far."""
        weights = [w for _, w in self.shown]
        pivot = self.shown[0][0]  # so that equal targets deviate by exactly 0
        targets = np.array([target for target, _ in self.shown]) - pivot
        mean = np.average(targets, axis=0, weights=weights)
        variance = np.average((targets - mean) ** 2, axis=0, weights=weights)
        return pivot + mean, np.sqrt(variance)

    def prediction(self, leaf):
        """The shares or numbers of a leaf, drawn to what the nodes above have seen."""
        if self.learns_classes:
            said = self.class_weights / self.class_weights.sum()
        else:
            said = np.zeros(len(self.names)) if self.is_paper else self.mean
        if self.spreads:
            # from the left to the right of the tree
            place = 0.5 + sum(side * 0.25 / 2**i for i, side in enumerate(leaf.sides().values()))
            said = said + GUESS_SPREAD * math.log(place / (1.0 - place)) * self.deviation
        total, rest = 0.0, 1.0
        for node in self.drawn_to(leaf):
            if rest > LEAST_PART and node.visits > 0.0:
                own = self.logits(node)
                if self.learns_classes and node is leaf:
                    own = np.exp(own - log_sum_exp(own))
                kept = self.strength / (node.visits + self.strength)
                total, rest = total + rest * (1.0 - kept) * own, rest * kept
        return total + rest * said

    def judge(self, x, target, w):
        """See how far the tree is right, before it learns a row."""
        predicted = np.zeros(len(target))
        if self.n_learned:
            predicted = self.prediction(self.home_of(x))
        for judge, said, y in zip(self.shrinkage, predicted, target, strict=True):
            judge.learn(said, y, w)

    # -------------------------------------------------------------------- prediction

    def home_of(self, x):
        return self.leaf_of({**self.scaler.apply(numbers(x)), BIAS: 1.0})

    def predict_proba_one(self, x):
        leaf = self.home_of(x)
        if not self.names:
            return {}
        return dict(zip(self.names, self.prediction(leaf).tolist(), strict=True))

    def predict_one(self, x):
        if self.learns_classes:
            shares = self.predict_proba_one(x)
            return max(shares, key=shares.get, default=None)
        numbers = self.prediction(self.home_of(x)).tolist()
        if not self.is_paper:
            numbers = [f(number) for f, number in zip(self.shrinkage, numbers, strict=True)]
        return numbers[0] if self.task == "number" else dict(zip(self.names, numbers, strict=True))

    # ----------------------------------------------------------------- trees to start from

    def plant(self):
        self.nodes = [Node(0)]
        self.touched = []
        self.in_batch = 0

    def split(self, leaf):
        """Two children; the left one takes over what the leaf has learned."""
        leaf.left = Node(len(self.nodes), leaf)
        leaf.right = Node(len(self.nodes) + 1, leaf)
        self.nodes += [leaf.left, leaf.right]
        for part in ("outputs", "output_squares", "output_velocity", "output_pending", "visits"):
            setattr(leaf.left, part, getattr(leaf, part))
            setattr(leaf, part, getattr(leaf.right, part))

    def complete(self):
        """Splits of weight zero wherever the tree is not full."""
        for node in self.nodes:  # grows meanwhile
            if node.is_leaf and len(node.path) <= self.depth:
                self.split(node)

    def build(self):
        """Grow the tree anew from the rows kept so far, and let them go when they are enough."""
        self.plant()
        level = {self.nodes[0]: self.buffer}
        while level:
            below = {}
            for node, examples in level.items():
                if len(node.path) > self.depth or not self.grow(node, examples):
                    self.set_outputs(node, examples)
                    continue
                self.split(node)
                for child, side in ((node.left, -1), (node.right, 1)):
                    below[child] = [e for e in examples if node.side(e[0]) == side]
            level = below
        if not self.is_paper:
            self.complete()
        self.hold_splits()
        if not self.is_paper:
            for _ in range(REPLAYS):
                for row, target, w in self.buffer:
                    self.step(row, target, w)
            # of all that, every row counts once
            for node in self.nodes:
                node.visits = 0.0
            for row, target, w in self.buffer:
                self.count_in(self.leaf_of(row), target, w)
        if len(self.buffer) >= self.warm_up:
            self.warm_up, self.buffer = 0, []
        else:
            self.due_at = min(GROWTH * self.due_at, self.warm_up)

    def grow(self, node, examples):
        """Make the best split of some examples; False if there is none."""
        plain = self.best_axis_split(examples)
        if plain is None:
            return False
        feature, threshold = plain
        distances = [abs(row.get(feature, 0.0) - threshold) for row, _, _ in examples]
        factor = len(examples) / sum(distances)
        axis = {BIAS: -factor * threshold, feature: factor}
        limit = self.rates()[1]
        node.weights = dict(axis)
        self.project(node, limit)
        purity = self.purity_of_split(node, examples)
        if len({node.side(row) for row, _, _ in examples}) < 2:
            node.weights = {BIAS: 0.0}
            return False
        if self.refines:
            self.refine(node, examples)
            if self.purity_of_split(node, examples) < purity:
                node.weights, node.squares = dict(axis), {BIAS: 0.0}
                self.project(node, limit)
        return True

    def best_axis_split(self, examples):
        """(feature, threshold) of the largest gain; of equal ones that of the lesser hash."""
        whole = self.sums(examples)
        best, margin = self.purity(whole), SMALLEST_GAIN * (1.0 + whole[-1])
        found = None
        rows = [(example[0], self.sums([example])) for example in examples]
        for feature in sorted({f for row, _ in rows for f in row} - {BIAS}, key=hash_of):
            ordered = sorted(rows, key=lambda row: row[0].get(feature, 0.0))
            left = np.zeros(len(whole))
            for (before, sums), (after, _) in itertools.pairwise(ordered):
                left = left + sums
                low, high = before.get(feature, 0.0), after.get(feature, 0.0)
                purity = self.purity(left) + self.purity(whole - left)
                if low < high and purity > best + margin:
                    best, found = purity, (feature, 0.5 * (low + high))
        return found

    def standard(self, target):
        """Targets about their mean, in units of their deviations; by "paper" of the largest."""
        unit = self.units()
        return np.where(unit > 0.0, (target - self.mean) / np.where(unit > 0.0, unit, 1.0), 0.0)

    def units(self):
        return np.full(len(self.names), self.deviation.max()) if self.is_paper else self.deviation

    def sums(self, examples):
        """Weight of every class, or weighted sum of every target, and last the whole weight."""
        sums = np.zeros(len(self.names) + 1)
        for _, target, w in examples:
            if self.learns_classes:
                sums[target] += w
            else:
                sums[:-1] += w * self.standard(target)
            sums[-1] += w
        return sums

    def purity(self, sums):
        """What a split raises: minus the weighted entropy, or the explained sum of squares."""
        if sums[-1] <= 0.0:
            return 0.0
        if self.learns_classes:
            return sum(x * math.log(x) for x in sums[:-1] if x > 0.0) - sums[-1] * math.log(
                sums[-1]
            )
        return float(np.sum(sums[:-1] ** 2)) / sums[-1]

    def purity_of_split(self, node, examples):
        return sum(
            self.purity(self.sums([e for e in examples if node.side(e[0]) == side]))
            for side in (-1, 1)
        )

    def refine(self, node, examples):
        """CO2: the same steps for a tree of this one split.

        Its two leaves are set once a pass, by the sides on which the examples were last met.
        """
        sides = [node.side(row) for row, _, _ in examples]
        for _ in range(CO2_PASSES):
            sums = {
                side: self.sums([e for e, s in zip(examples, sides, strict=True) if s == side])
                for side in (-1, 1)
            }
            for i, (row, target, w) in enumerate(examples):
                side, cost = node.side(row), 2.0 * abs(node.score(row))
                sides[i] = side
                here, there = (self.smoothed_loss(sums[s], target) for s in (side, -side))
                if there - cost > here:
                    slope = -2.0 * side * w * self.fear
                elif self.hopes and there + cost < here:
                    slope = 2.0 * side * w
                else:
                    continue
                gradient = {f: slope * x for f, x in row.items()}
                self.descend(node, gradient, gradient)

    def smoothed_loss(self, sums, target):
        """The loss in a leaf of examples with these sums."""
        if self.learns_classes:
            return -math.log((sums[target] + 1.0 / len(self.names)) / (sums[-1] + 1.0))
        mean = sums[:-1] / sums[-1] if sums[-1] else np.zeros(len(self.names))
        return self.squared_loss((self.standard(target) - mean) * self.units())

    def set_outputs(self, leaf, examples):
        """Let a leaf predict what its examples suggest."""
        sums = self.sums(examples)
        self.opened(leaf)
        leaf.visits = min(sums[-1], 1.0 / (1.0 - MEAN_DECAY))
        if self.learns_classes:
            shares = (sums[:-1] + 1.0 / len(self.names)) / (sums[-1] + 1.0)
            leaf.outputs = np.log(shares)
            leaf.output_squares = sums[-1] * shares * (1.0 - shares)
        else:
            weights = [w for _, _, w in examples]
            leaf.outputs = np.average([t for _, t, _ in examples], axis=0, weights=weights)


def log_sum_exp(logits):
    largest = float(np.max(logits))
    return largest + math.log(math.fsum(np.exp(logits - largest)))


def hash_of(feature):
    """32 bits of a name, mixed from the FNV-1a hash of its representation."""
    value = 2166136261
    for byte in repr(feature).encode():
        value = (value ^ byte) * 16777619 % 2**32
    return splitmix64(value) % 2**32
