"""Soft decision trees after Irsoy, Yildiz & Alpaydin, as in the paper and for streams.

Notation of the paper: F_m(x) = g_m(x) F_L(x) + (1 - g_m(x)) F_R(x) the response of node m, g_m its
gate, the sigmoid of w_m x + w_m0, z a leaf's response, delta = d loss / d F at the root, and the
reach of a node the product of the gates' shares on the way to it. The objective of a gate is
(1 - lambda) loss + lambda |w|_1 or lambda |w|_2^2, where w counts the offset.
"""

import math

import numpy as np

from reference.lomtree import splitmix64
from reference.scaling import RunningScaler, numbers
from reference.shrinkage import Shrinkage

SCORE_LIMIT = 1e9
NORM_OFFSET = 4.0
PRIOR_NUMBER, PRIOR_CLASS, PRIOR_GATE = 3.0, 0.05, 1e-300
GATE_REACH, NUMBER_REACH = 1.0, 0.2
CONTEST_REACH = 0.2
PAIR_OFFSET, INHERITED = 0.1, 0.3
MIXTURE, MIN_COUNT, MAX_WINDOW, PATIENCE = 50.0, 50, 5_000, 1
TARGET_OUTLIER, TRUSTED_COUNT, REFRESH_PARTS = 10.0, 32, 16


def limited(score):
    return np.clip(score, -SCORE_LIMIT, SCORE_LIMIT)


def sigmoid(score):
    return 1.0 / (1.0 + math.exp(-score)) if score > -700 else 0.0


def softmax(logits):
    shares = np.exp(logits - np.max(logits))
    return shares / shares.sum()


def loss(response, target, is_number):
    """Of a response (a vector) against a number or a class; its slope with respect to each."""
    if is_number:
        return 0.5 * (response[0] - target) ** 2, np.array([response[0] - target])
    if len(response) == 1:
        share = sigmoid(response[0])
        sign = 1.0 if target == 1 else -1.0
        return float(np.logaddexp(0.0, -sign * response[0])), np.array([share - (target == 1)])
    shares = softmax(response)
    return -math.log(max(shares[target], 1e-300)), shares - (np.arange(len(shares)) == target)


def random_offset(seed, tries, node, output):
    """From 0.5 to 1.5 or the negative of that: a hash of its arguments."""
    place = splitmix64((seed + tries) % 2**64) ^ node
    word = splitmix64(place ^ (output << 32))
    offset = 0.5 + (word >> 11) * 2.0**-53
    return offset if word & 1 else -offset


class Linear:
    """A linear model of several outputs, with its sums of squared gradients."""

    def __init__(self, outputs):
        self.bias = np.zeros(outputs)
        self.bias_squares = np.zeros(outputs)
        self.weights = {}
        self.squares = {}

    def __call__(self, row):
        score = self.bias.copy()
        for feature, x in row.items():
            score += x * self.weights.get(feature, 0.0)
        return limited(score)

    def map(self, of_weights, of_squares):
        """Put every weight and every square through a function."""
        self.bias, self.bias_squares = of_weights(self.bias), of_squares(self.bias_squares)
        self.weights = {f: of_weights(w) for f, w in self.weights.items()}
        self.squares = {f: of_squares(s) for f, s in self.squares.items()}

    def copy(self):
        copied = Linear(len(self.bias))
        copied.bias, copied.bias_squares = self.bias.copy(), self.bias_squares.copy()
        copied.weights = {f: w.copy() for f, w in self.weights.items()}
        copied.squares = {f: s.copy() for f, s in self.squares.items()}
        return copied

    def plain_step(self, row, slopes, rate):
        """w <- w - rate * slope * x."""
        for feature, x in row.items():
            old = self.weights.get(feature, np.zeros(len(slopes)))
            self.weights[feature] = old - rate * slopes * x
        self.bias = self.bias - rate * slopes

    def adaptive_step(self, row, slopes, rate, prior, reach=math.inf):
        """AdaGrad; the step is shortened so that the response moves by <= reach."""
        steps, change = {}, 0.0
        zero = np.zeros(len(slopes))
        for feature, x in row.items():
            gradient = slopes * x
            self.squares[feature] = self.squares.get(feature, zero) + gradient**2
            steps[feature] = rate * gradient / np.sqrt(self.squares[feature] + prior)
            change = change + steps[feature] * x
        self.bias_squares = self.bias_squares + slopes**2
        bias_step = rate * slopes / np.sqrt(self.bias_squares + prior)
        change = abs(change + bias_step).max()
        shorten = min(1.0, reach / change) if change else 1.0
        for feature, step in steps.items():
            self.weights[feature] = self.weights.get(feature, zero) - shorten * step
        self.bias = self.bias - shorten * bias_step


class Node:
    """A leaf, and once it is split a gate with two children."""

    def __init__(self, number, depth, outputs):
        self.number = number
        self.depth = depth
        self.parent = None
        self.leaf = Linear(outputs)
        self.gate = Linear(1)
        self.pair = None  # children, or candidates for them
        self.is_split = False
        self.gains = []  # of the window: loss by the leaf less loss by the pair, times weight
        self.windows = 0
        self.tries = 0

    @property
    def is_last_split(self):
        return self.is_split and not (self.pair[0].is_split or self.pair[1].is_split)

    def begin_contest(self):
        self.gains, self.windows = [], 0


class Visit:
    """A node that an example reaches."""

    def __init__(self, node, reach):
        self.node = node
        self.reach = reach
        self.children = []  # visits of the children that get a share
        self.share = None  # the left child's

    def response(self, row):
        """F_m(x), over the paths that are taken."""
        if not self.node.is_split:
            return self.node.leaf(row)
        if len(self.children) == 1:
            return self.children[0].response(row)
        left, right = self.children
        return self.share * left.response(row) + (1.0 - self.share) * right.response(row)


class ReferenceSoftTree:
    """Learns dicts of {feature: number or string}, one at a time."""

    def __init__(
        self, is_number, learning_rate, penalty, penalty_share, max_nodes, max_depth, delta, window,
        min_reach, routing, leaf, update, algorithm, seed,
    ):
        self.is_number = is_number
        if learning_rate is None:
            learning_rate = 0.1 if algorithm == "paper" else 3.0 if is_number else 5.0
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.share = penalty_share
        self.max_nodes = max_nodes
        self.max_depth = max_depth
        self.delta = delta
        self.window = window
        self.min_reach = min_reach
        self.routing = routing
        self.is_paper = algorithm == "paper"
        self.is_linear = (leaf or ("constant" if self.is_paper else "linear")) == "linear"
        self.is_joint = (update or ("newest" if self.is_paper else "all")) == "all"
        self.seed = seed or 0
        self.scaler = RunningScaler(enabled=not self.is_paper)
        self.labels = []
        self.outputs = 1
        self.root = Node(0, 0, 1)
        self.pool = {0: self.root}
        self.free = []
        self.newest = self.root
        self.n_splits = self.n_collapses = 0
        self.targets = []  # as counted
        self.low, self.high = math.inf, -math.inf
        self.mean, self.deviation, self.refresh_at = 0.0, float(self.is_paper), 0
        self.shrinkage = Shrinkage()

    # ------------------------------------------------------------------ the response

    def leaf_row(self, row):
        """What a leaf looks at."""
        return row if self.is_linear else {}

    def walk(self, row, min_reach):
        """All nodes that get a share of the example, parents before children, left before right."""
        visits, waiting = [], [Visit(self.root, 1.0)]
        while waiting:
            visit = waiting.pop()
            visits.append(visit)
            if not visit.node.is_split:
                continue
            visit.share = sigmoid(visit.node.gate(row)[0])
            shares = [visit.reach * visit.share, visit.reach * (1.0 - visit.share)]
            if min(shares) < min_reach:
                larger = 0 if shares[0] >= shares[1] else 1
                shares = [0.0, 0.0]
                shares[larger] = visit.reach
            for child, share in zip(visit.node.pair, shares, strict=True):
                if share > 0.0:
                    visit.children.append(Visit(child, share))
            waiting += reversed(visit.children)
        return visits

    def respond(self, row):
        visits = self.walk(row, 2.0 if self.routing == "hard" else self.min_reach)
        leaf_row = self.leaf_row(row)
        return sum(v.reach * v.node.leaf(leaf_row) for v in visits if not v.node.is_split)

    # ---------------------------------------------------------------------- learning

    def learn_one(self, x, y, w=1.0):
        if w == 0.0:
            return
        if self.is_number and not self.is_paper:
            self.shrinkage.learn(self.number(self.scaler.apply(numbers(x))), float(y), w)
        row = self.scaler.learn(numbers(x))
        if self.is_number:
            self.learn_row(row, self.standardised(float(y)), w)
            return
        if y not in self.labels:
            self.labels.append(y)
            self.add_output()
        self.learn_row(row, self.labels.index(y), w)

    def add_output(self):
        if len(self.labels) < 3:
            return
        old, self.outputs = self.outputs, len(self.labels)
        for node in self.pool.values():
            if old == 1:  # from one logit s to -s/2 and s/2, which give the same shares
                node.leaf.map(
                    lambda w: np.array([-w[0] / 2, w[0] / 2, 0.0]),
                    lambda s: np.array([s[0], s[0], 0.0]),
                )
            else:
                node.leaf.map(lambda w: np.append(w, 0.0), lambda s: np.append(s, 0.0))

    def learn_row(self, row, target, weight):
        rate = self.learning_rate
        if not self.is_paper:
            rate /= self.scaler.mean_norm + NORM_OFFSET
        elif self.is_number:
            weight = min(weight, 1.0 / rate)
        visits = self.walk(row, self.min_reach)
        leaf_row = self.leaf_row(row)
        total = sum(v.reach * v.node.leaf(leaf_row) for v in visits if not v.node.is_split)
        value, delta = loss(total, target, self.is_number)
        # all slopes before the first step
        steps = []
        for visit in visits:
            node = visit.node
            if not node.is_split:
                steps.append((visit, None))
            elif len(visit.children) == 2:
                left, right = (child.response(leaf_row) for child in visit.children)
                slope = visit.reach * visit.share * (1.0 - visit.share) * delta @ (left - right)
                steps.append((visit, slope))
        contested = [visit for visit in visits if visit.reach >= CONTEST_REACH]
        for visit in contested:
            if visit.node.is_last_split:
                self.contest_leaf(visit, row, total, value, target, weight, rate)
            elif not visit.node.is_split and visit.node.pair:
                self.contest_pair(visit, row, total, value, target, weight, rate)
        for visit, slope in steps:
            node = visit.node
            is_newest = self.newest in ((node,) if node.is_split else (node, node.parent))
            if not (self.is_joint or is_newest):
                continue
            if slope is None:
                self.step_leaf(node, row, weight * visit.reach * delta, total, target, rate)
            else:
                self.step_gate(node, row, slope, weight, rate)
        for visit in contested:
            if self.decide(visit.node):
                return
        for visit in contested:
            node = visit.node
            if not node.is_split and not node.pair and self.may_split(node):
                self.start_pair(node)
                return

    def step_leaf(self, node, row, slopes, response, target, rate):
        """`slopes`: those of the loss with respect to the leaf's response."""
        slopes = (1.0 - self.share) * slopes
        row = self.leaf_row(row)
        if not slopes.any():
            return
        if self.is_paper:
            node.leaf.plain_step(row, slopes, rate)
        elif self.is_number:
            reach = NUMBER_REACH * abs(response[0] - target)
            node.leaf.adaptive_step(row, slopes, rate, PRIOR_NUMBER, reach)
        elif self.outputs == 1:
            reach = abs(response[0] - (2.0 * target - 1.0)) + 1.0
            node.leaf.adaptive_step(row, slopes, rate, PRIOR_CLASS, reach)
        else:
            node.leaf.adaptive_step(row, slopes, rate, PRIOR_CLASS)

    def step_gate(self, node, row, slope, weight, rate):
        gate = node.gate
        slopes = np.array([(1.0 - self.share) * weight * slope])
        amount = rate * weight * self.share
        if self.is_paper:
            gate.plain_step(row, slopes, rate)
            if self.share:
                gate.bias = self.shrunk(gate.bias, amount)
                gate.weights = {f: self.shrunk(w, amount) for f, w in gate.weights.items()}
            return
        if slopes.any():
            gate.adaptive_step(row, slopes, rate, PRIOR_GATE, GATE_REACH)
        if self.share:
            # the columns that are there
            for feature in row:
                w, s = gate.weights.get(feature, np.zeros(1)), gate.squares.get(feature, 0.0)
                gate.weights[feature] = self.shrunk(w, amount / np.sqrt(s + PRIOR_GATE))
            gate.bias = self.shrunk(gate.bias, amount / np.sqrt(gate.bias_squares + PRIOR_GATE))

    def shrunk(self, weight, amount):
        if self.penalty == "l1":
            return np.sign(weight) * np.maximum(np.abs(weight) - amount, 0.0)
        if self.is_paper:
            return weight * np.maximum(1.0 - 2.0 * amount, 0.0)
        return weight / (1.0 + 2.0 * amount)

    # ------------------------------------------------------------ growth and collapse

    def contest_pair(self, visit, row, total, value, target, weight, rate):
        """Leaf in the tree, pair in the background."""
        node, leaf_row = visit.node, self.leaf_row(row)
        left, right = (child.leaf(leaf_row) for child in node.pair)
        share = sigmoid(node.gate(row)[0])
        rival = total + visit.reach * (share * left + (1.0 - share) * right - node.leaf(leaf_row))
        rival_value, delta = loss(rival, target, self.is_number)
        node.gains.append(weight * (value - rival_value))
        reach = weight * visit.reach
        self.step_leaf(node.pair[0], row, reach * share * delta, rival, target, rate)
        self.step_leaf(node.pair[1], row, reach * (1.0 - share) * delta, rival, target, rate)
        slope = visit.reach * share * (1.0 - share) * delta @ (left - right)
        self.step_gate(node, row, slope, weight, rate)

    def contest_leaf(self, visit, row, total, value, target, weight, rate):
        """Pair in the tree, leaf in the background."""
        node, leaf_row = visit.node, self.leaf_row(row)
        rival = total + visit.reach * (node.leaf(leaf_row) - visit.response(leaf_row))
        rival_value, delta = loss(rival, target, self.is_number)
        node.gains.append(weight * (rival_value - value))
        self.step_leaf(node, row, weight * visit.reach * delta, rival, target, rate)

    def decide(self, node):
        """Robbins' normal mixture bound on the sum of gains, at a level for each window."""
        if (node.is_split and not node.is_last_split) or not node.pair:
            return False
        if not node.is_split and not self.may_split(node):
            self.drop_pair(node)
            return False
        n = len(node.gains)
        if n < MIN_COUNT:
            return False
        gains = np.array(node.gains)
        total, variance = gains.sum(), np.sum((gains - gains.mean()) ** 2)  # n times a variance
        level = self.delta / ((node.windows + 1) * (node.windows + 2))
        bound = (n + MIXTURE) / n * variance * (
            math.log((n + MIXTURE) / MIXTURE) - 2.0 * math.log(level)
        )
        wanted = total < 0.0 if node.is_split else total >= 0.0
        if wanted and total**2 > max(bound, 8.0 * variance):
            if node.is_split:
                self.collapse(node)
            else:
                self.split(node)
            return True
        if n >= min(self.window * 2**node.windows, MAX_WINDOW):
            if total <= 0.0 and node.windows >= PATIENCE:
                if node.is_split:
                    self.collapse(node)
                    return True
                self.drop_pair(node)
            node.windows += 1
            node.gains = []
        return False

    @property
    def n_nodes(self):
        return 1 + 2 * (self.n_splits - self.n_collapses)

    def may_split(self, node):
        return self.n_nodes + 2 <= self.max_nodes and node.depth < self.max_depth

    def start_pair(self, node):
        number = self.free.pop() if self.free else len(self.pool)
        pair = []
        for side, sign in enumerate((1.0, -1.0)):
            child = Node(number + side, node.depth + 1, self.outputs)
            child.parent = node
            child.leaf = node.leaf.copy()
            child.leaf.map(lambda w: w, lambda s: INHERITED * s)
            for c in range(self.outputs):
                offset = random_offset(self.seed, node.tries, node.number, c)
                child.leaf.bias[c] += sign * PAIR_OFFSET * offset
            self.pool[number + side] = child
            pair.append(child)
        node.pair = tuple(pair)
        node.tries += 1

    def drop_pair(self, node):
        if not node.pair:
            return
        for child in node.pair:
            self.pool[child.number] = Node(child.number, -1, self.outputs)
        self.free.append(node.pair[0].number)
        node.pair, node.gate, node.gains = None, Linear(1), []

    def split(self, node):
        node.is_split = True
        node.begin_contest()
        self.n_splits += 1
        self.newest = node

    def collapse(self, node):
        for child in node.pair:
            self.drop_pair(child)
        node.is_split = False
        self.drop_pair(node)
        node.begin_contest()
        if node.parent:
            node.parent.begin_contest()
        self.n_collapses += 1
        self.newest = node

    # ------------------------------------------------------------------------ targets

    def standardised(self, target):
        """A target in standard deviations from the mean of those so far."""
        self.low, self.high = min(self.low, target), max(self.high, target)
        if self.is_paper:
            self.targets.append(target)
            return target
        if not self.targets:
            self.mean = target  # what leaves that know nothing predict
        counted = target
        if len(self.targets) >= TRUSTED_COUNT and self.deviation > 0.0:
            edge = TARGET_OUTLIER * self.deviation
            counted = min(max(target, self.mean - edge), self.mean + edge)
        self.targets.append(counted)
        n = len(self.targets)
        if n >= self.refresh_at or not self.deviation:
            self.refresh_at = n + 1 + n // REFRESH_PARTS
            mean, deviation = float(np.mean(self.targets)), float(np.std(self.targets))
            self.rescale(mean, deviation or self.deviation)
        scaled = (target - self.mean) / (self.deviation or 1.0)
        return min(max(scaled, -TARGET_OUTLIER), TARGET_OUTLIER)

    def rescale(self, mean, deviation):
        """A new scale, and all responses in it."""
        nodes = self.pool.values()
        if self.deviation == 0.0:
            nodes, self.deviation = [], deviation  # so far no leaf has learned anything
        a, b = self.deviation / (deviation or 1.0), (self.mean - mean) / (deviation or 1.0)
        for node in nodes:
            node.leaf.map(lambda w: a * w, lambda s: a**2 * s)
            node.leaf.bias = node.leaf.bias + b
            node.gate.map(lambda w: w, lambda s: a**4 * s)
            node.gains = [a**2 * gain for gain in node.gains]
        self.mean, self.deviation = mean, deviation

    # --------------------------------------------------------------------- prediction

    def number(self, row):
        """What the tree predicts."""
        if not self.targets:
            return 0.0
        predicted = self.mean + self.deviation * self.respond(row)[0]
        return min(max(predicted, self.low), self.high)

    def predict_one(self, x):
        if self.is_number:
            number = self.number(self.scaler.apply(numbers(x)))
            return number if self.is_paper else self.shrinkage(number)
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.get) if shares else None

    def predict_proba_one(self, x):
        if len(self.labels) < 2:
            return dict.fromkeys(self.labels, 1.0)
        response = self.respond(self.scaler.apply(numbers(x)))
        if len(self.labels) == 2:
            right = sigmoid(response[0])
            return dict(zip(self.labels, [1.0 - right, right], strict=True))
        return dict(zip(self.labels, softmax(response).tolist(), strict=True))
