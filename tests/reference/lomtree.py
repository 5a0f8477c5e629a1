"""The LOMtree of Choromanska & Langford (2014), literally ("paper") and for streams ("stream").

Notation of the paper: l_v(y) votes, n_v(y) and m_v(y) count and score sum of the examples of
class y that trained the regressor of node v, E its mean score, e(y) its mean score for class y,
C_v the size of a leaf and the smallest size below an inner node, T the most inner nodes there
may be, R_S the swap resistance.
"""

import math
from statistics import NormalDist

from reference.scaling import RunningScaler, numbers

SCORE_LIMIT = 1e9
MIN_SIDE = 0.02


def loss_slope(loss, score, target):
    """d loss / d score for a target of -1 or +1."""
    if loss == "hinge":  # max(0, 1 - ts)
        return -target if target * score < 1.0 else 0.0
    if loss == "logistic":  # ln(1 + exp(-ts))
        return -target / (1.0 + math.exp(target * score))
    if loss == "squared":  # (s - t)^2 / 2
        return score - target
    return float((score > target) - (score < target))  # |s - t|


def loss_reach(loss, score, target):
    """How far an adaptive step may go: to the target, for the logistic loss 1 past it."""
    return abs(score - target) + (1.0 if loss == "logistic" else 0.0)


def splitmix64(word):
    """One step of SplitMix64 on a 64-bit word."""
    mask = 2**64 - 1
    word = (word + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def random_sign(seed, node, label):
    """-1 or +1 from a hash of its arguments."""
    return 1.0 if splitmix64(splitmix64(seed ^ (node << 32)) ^ label) >> 63 else -1.0


class Node:
    """A leaf or an inner node; a leaf has no children."""

    def __init__(self, number, parent=None, majority=None, grace_period=0.0):
        self.number = number
        self.parent = parent
        self.left = None
        self.right = None
        self.bias = 0.0
        self.bias_squares = 0.0
        self.weights = {}  # by feature
        self.squares = {}  # sum of squared gradients, by feature
        self.votes = {}  # l(y)
        self.trained = {}  # n(y)
        self.score_sum = {}  # m(y)
        self.went_right = {}  # weight of class y whose score, as counted, was positive
        self.leaf_size = 0.0  # C of a leaf
        self.majority = majority
        self.next_test = grace_period
        self.n_classes = 0  # met by the last growth test

    @property
    def is_leaf(self):
        return self.left is None

    @property
    def size(self):
        """C: of a leaf its own, of an inner node the smallest below."""
        return self.leaf_size if self.is_leaf else min(self.left.size, self.right.size)

    @property
    def sibling(self):
        return self.parent.right if self.parent.left is self else self.parent.left

    def score(self, row):
        score = self.bias + math.fsum(self.weights.get(f, 0.0) * x for f, x in row.items())
        return max(-SCORE_LIMIT, min(score, SCORE_LIMIT))

    def vote(self, label, weight):
        self.votes[label] = self.votes.get(label, 0.0) + weight
        if self.votes[label] >= max(self.votes.values()):
            self.majority = label


class ReferenceLOMTree:
    """Learns dicts of {feature: number or string}, one at a time."""

    def __init__(
        self, max_splits, swap_resistance, learning_rate, loss, forgetting, grace_period, delta,
        algorithm, seed, leaf_model="majority", **of_leaf_models,
    ):
        assert leaf_model == "majority"
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.learning_rate = learning_rate
        self.loss = loss
        self.keep = 1.0 - forgetting
        self.grace_period = grace_period
        self.split_z = NormalDist().inv_cdf(1.0 - delta)
        self.is_paper = algorithm == "paper"
        self.seed = seed
        self.scaler = RunningScaler(enabled=not self.is_paper)
        self.labels = []
        self.nodes = [Node(0, grace_period=grace_period)]
        self.root = self.nodes[0]
        self.n_splits = 0
        self.n_swaps = 0

    # ------------------------------------------------------------------ one example

    def learn_one(self, x, label, w=1.0):
        if w == 0.0:
            return
        if label not in self.labels:
            self.labels.append(label)
        row = self.scaler.learn(numbers(x))
        if self.is_paper:
            self.learn_as_published(row, label, w)
        else:
            self.learn_as_stream(row, label, w)

    def learn_as_published(self, row, label, w):
        """Algorithm 1: an inner node trains and routes, a leaf counts and may become inner."""
        node = self.root
        while True:
            if node.is_leaf:
                node.vote(label, w)
                if len(node.votes) < 2 or not self.split(node):
                    node.leaf_size += w
                    return
            node = self.train(node, row, label, w)

    def learn_as_stream(self, row, label, w):
        """Leaves train too, and split when their regressor is seen to separate the classes."""
        node = self.root
        while not node.is_leaf:
            node = self.train(node, row, label, w)
        node.vote(label, w)
        node.leaf_size = sum(node.votes.values())
        if self.n_splits >= self.max_splits and not self.deserves_place_of(node, self.root.size):
            return  # no split to be had: what its regressor would learn is of no use
        self.train(node, row, label, w)
        if sum(node.trained.values()) >= node.next_test:
            node.next_test = sum(node.trained.values()) + max(
                self.grace_period, 0.25 * node.n_classes
            )
            node.n_classes = len(node.trained)
            if self.separates_classes(node):
                self.split(node)

    def train(self, node, row, label, w):
        """One step of the node's regressor; returns the child the example goes to, if any."""
        score = node.score(row)
        n, m = node.trained.get(label, 0.0), node.score_sum.get(label, 0.0)
        total = sum(node.trained.values())
        mean = sum(node.score_sum.values()) / total if total else 0.0  # E
        label_mean = m / n if n else 0.0  # e(y)
        target = -1.0 if mean > label_mean else 1.0
        if self.seed is not None and not n:
            target = random_sign(self.seed, node.number, self.labels.index(label))
        slope = w * loss_slope(self.loss, score, target)
        updated = score
        if slope != 0.0 and self.is_paper:
            updated += self.plain_step(node, row, slope)
        elif slope != 0.0:
            updated += self.adaptive_step(node, row, slope, loss_reach(self.loss, score, target))
        # the paper counts the score after the step
        counted = updated if self.is_paper else score
        node.trained[label] = n + w
        node.score_sum[label] = m + w * counted
        node.went_right[label] = node.went_right.get(label, 0.0) + (w if counted > 0.0 else 0.0)
        return node.right if updated > 0.0 else node.left

    def plain_step(self, node, row, slope):
        """w <- w - rate * slope * x; returns by how much the score changes."""
        for feature, x in row.items():
            node.weights[feature] = (
                node.weights.get(feature, 0.0) - self.learning_rate * slope * x
            )
        node.bias -= self.learning_rate * slope
        return -self.learning_rate * slope * (1.0 + sum(x * x for x in row.values()))

    def adaptive_step(self, node, row, slope, reach):
        """AdaGrad with fading memory, the step shortened so that the score moves <= reach."""
        rate = self.learning_rate / (self.scaler.mean_norm + 4.0)
        steps = {}
        for feature, x in row.items():
            gradient = slope * x
            node.squares[feature] = self.keep * node.squares.get(feature, 0.0) + gradient**2
            steps[feature] = rate * gradient / math.sqrt(node.squares[feature])
        node.bias_squares = self.keep * node.bias_squares + slope**2
        bias_step = rate * slope / math.sqrt(node.bias_squares)
        change = bias_step + sum(steps[feature] * x for feature, x in row.items())
        shorten = min(1.0, reach / abs(change))
        for feature, step in steps.items():
            node.weights[feature] = node.weights.get(feature, 0.0) - shorten * step
        node.bias -= shorten * bias_step
        return -shorten * change

    # ------------------------------------------------------------- growth and swaps

    def separates_classes(self, node):
        """G-test of independence between class and side; quantile by Wilson & Hilferty."""
        total = sum(node.trained.values())
        right = sum(node.went_right.values())
        freedom = len(node.trained) - 1
        if freedom < 1 or not MIN_SIDE * total < right < (1.0 - MIN_SIDE) * total:
            return False
        statistic = 0.0
        for label, n in node.trained.items():
            for observed, share in (
                (node.went_right[label], right / total),
                (n - node.went_right[label], 1.0 - right / total),
            ):
                if observed > 0.0:
                    statistic += 2.0 * observed * math.log(observed / (n * share))
        cube_root = 1.0 - 2.0 / (9.0 * freedom) + self.split_z * math.sqrt(2.0 / (9.0 * freedom))
        return statistic > freedom * cube_root**3

    def deserves_place_of(self, node, size):
        """C_j - max_i l_j(i) > R_S (C_s + 1)."""
        return node.leaf_size - max(node.votes.values()) > self.swap_resistance * (size + 1.0)

    def smallest_leaf(self):
        """Descend to the smaller C, but never to a child of the root that is a leaf.

        Such a leaf has no grandparent to adopt its sibling: the root would be lost.
        """
        if self.root.is_leaf:
            return None
        candidates = [c for c in (self.root.left, self.root.right) if not c.is_leaf]
        if not candidates:
            return None
        node = min(candidates, key=lambda child: child.size)  # min: the left one of equals
        while not node.is_leaf:
            node = min(node.left, node.right, key=lambda child: child.size)
        return node

    def split(self, node):
        """Make a leaf an inner node, by two new leaves or two recycled nodes, if it may."""
        if self.n_splits < self.max_splits:
            left, right = len(self.nodes), len(self.nodes) + 1
            self.nodes += [None, None]
            self.n_splits += 1
        else:
            smallest = self.smallest_leaf()
            if smallest is None or not self.deserves_place_of(node, smallest.size):
                return False
            parent, sibling = smallest.parent, smallest.sibling
            grandparent = parent.parent
            if grandparent.left is parent:
                grandparent.left = sibling
            else:
                grandparent.right = sibling
            sibling.parent = grandparent
            left, right = smallest.number, parent.number
            self.n_swaps += 1
        node.left = Node(left, node, node.majority, self.grace_period)
        node.right = Node(right, node, node.majority, self.grace_period)
        self.nodes[left], self.nodes[right] = node.left, node.right
        if self.is_paper:
            node.left.leaf_size = float(math.floor(0.5 * node.leaf_size))
            node.right.leaf_size = node.leaf_size - node.left.leaf_size
        else:
            self.bequeath(node)
        return True

    def bequeath(self, node):
        """The votes of each class, divided as its examples went; unmet ones to the larger side."""
        overall = sum(node.went_right.values()) / sum(node.trained.values())
        for label in self.labels:
            if label not in node.votes:
                continue
            if node.trained.get(label, 0.0) > 0.0:
                share = node.went_right[label] / node.trained[label]
            else:
                share = 1.0 if overall >= 0.5 else 0.0
            if share > 0.0:
                node.right.vote(label, share * node.votes[label])
            if share < 1.0:
                node.left.vote(label, (1.0 - share) * node.votes[label])
        node.left.leaf_size = sum(node.left.votes.values())
        node.right.leaf_size = sum(node.right.votes.values())

    # ------------------------------------------------------------------- prediction

    def leaf_of(self, x):
        row = self.scaler.apply(numbers(x))
        node = self.root
        while not node.is_leaf:
            node = node.right if node.score(row) > 0.0 else node.left
        return node

    def predict_one(self, x):
        return self.leaf_of(x).majority

    def predict_proba_one(self, x):
        """Class shares and a pseudo-vote: half the majority's, half spread over all."""
        if not self.labels:
            return {}
        leaf = self.leaf_of(x)
        total = sum(leaf.votes.values()) + 1.0
        return {
            label: (
                leaf.votes.get(label, 0.0)
                + 0.5 / len(self.labels)
                + (0.5 if label == leaf.majority else 0.0)
            )
            / total
            for label in self.labels
        }
