"""Gradient boosting from the rows of a window, plainly: every tree is made of node objects.

A row is a list of cells, in the order of the hashes of their columns' names, as the reference of
the randomised trees has them. Sums are in double precision here.
"""

import itertools

import numpy as np

from reference.extratree import Buckets, Random, below, bucket, fraction, side
from reference.lomtree import splitmix64
from streamtree._core.stream.features import Category

FIRST_GROWTH, LEAST_LEAF, MOST_LEAVES = 50, 10, 31
FIRST_WAIT, WAIT = 40, 75
BINS, SAMPLED, MOST_CHOSEN, BUCKETS, SALTS = 64, 512, 32, 32, 32
STRENGTH, STRENGTH_OF_SETS, SMOOTHING = 1.0, 10.0, 10.0
LEAST_CURVATURE, MOST_SAID, RATE, N_TREES = 1e-6, 8.0, 0.25, 60


def growths(n, window, seed):
    """Of every growth in n rows: the first row, the row that is to come, and its seed."""
    random, size = Random(splitmix64(seed)), FIRST_GROWTH
    while size <= n:
        rows = min(size, window)
        yield size - rows, size, random.word()
        size += rows * (FIRST_WAIT + (WAIT - FIRST_WAIT) * rows // window) // 100


class Node:
    """A leaf, as long as it has no test."""

    def __init__(self, rows):
        self.rows = rows
        self.test = None
        self.gain = 0.0
        self.children = ()
        self.values = None

    def leaf(self, row):
        return self.children[side(row, *self.test)].leaf(row) if self.children else self


class Split:
    """The best test of a leaf: of bins that go right, the rest is what files know."""

    def __init__(self):
        self.gain, self.column, self.right, self.test = 0.0, None, None, None

    def offer(self, gain, column, right, test):
        if gain > self.gain:
            self.gain, self.column, self.right, self.test = gain, column, right, test


def worth(slope, weight, strength=STRENGTH):
    return slope * slope / (weight + strength)


def gains(left, whole, strength=STRENGTH):
    """By how much the loss falls, twice, for sums of slopes and weights on the left."""
    parts = worth(*left, strength) + worth(*(whole - left), strength)
    return parts - worth(*whole)


class ReferenceBoosting:
    """The first of the trees that are grown from rows; `n_labels` is 0 for numbers."""

    def __init__(self, rows, targets, weights, n_labels, seed):
        self.random = Random(seed)
        self.n_labels = n_labels
        self.weights = np.clip(weights, 1e-6, 1e6).astype(np.float32).astype(float)
        self.base, self.unit, self.trees = self.first_scores(targets), 1.0, []
        if n_labels == 0:
            self.unit = np.sqrt(np.average((targets - self.base[0]) ** 2, weights=self.weights))
            self.truth = (targets - self.base[0]) / self.unit
        else:
            self.truth = np.eye(n_labels)[targets]
        self.scores = np.tile(np.zeros(1) if n_labels == 0 else self.base, (len(rows), 1))
        columns = list(zip(*rows, strict=True))
        self.salts, self.cuts = [], []
        for column in columns:
            is_number = not isinstance(column[0], (Category, type(None)))
            sample = self.sample(column)
            self.salts.append(0 if is_number else self.chosen_salt(sample))
            self.cuts.append(self.cut(np.array(sample)) if is_number else None)
        self.bins = np.array([self.binned(*parts) for parts in enumerate(columns)])

    def first_scores(self, targets):
        if self.n_labels == 0:
            return np.array([np.average(targets, weights=self.weights)])
        sums = 1.0 + np.bincount(targets, self.weights, self.n_labels)
        return np.log(sums[1:] / sums[0]) if self.n_labels == 2 else np.log(sums)

    # -------------------------------------------------------------------------------- bins

    def sample(self, column):
        """Some cells of a column, or all."""
        n = len(column)
        if n <= SAMPLED:
            return column
        return [column[below(self.random.word(), n)] for _ in range(SAMPLED)]

    def chosen_salt(self, sample):
        """The hash by which fewest categories lie in one bucket with others."""
        salts = [1 + below(self.random.word(), 255) for _ in range(SALTS)]
        known = [cell for cell in sample if cell is not None]
        return min(
            salts,
            key=lambda salt: np.sum(np.bincount([0, *(bucket(cell, salt) for cell in known)]) ** 2),
        )

    def cut(self, sample):
        """Where the bins of numbers end."""
        sample = np.sort(sample[sample == sample])
        least = 1
        if np.sum(sample[1:] > sample[:-1]) > BINS - 2:
            least = -(-len(sample) // (BINS - 2))
        cuts, since = [], 0
        for low, high in itertools.pairwise(sample):
            since += 1
            if since >= least and high > low:
                middle = low + (high - low) / np.float32(2)
                cuts.append(middle if middle < high else low)
                since = 0
        # above all that is there: what is missing against the rest
        return np.array([*cuts, np.finfo(np.float32).max], np.float32)

    def binned(self, column, cells):
        if self.salts[column]:
            return [bucket(cell, self.salts[column]) for cell in cells]
        places = 1 + np.searchsorted(self.cuts[column], cells)
        return np.where(np.isnan(cells), 0, places)

    # ------------------------------------------------------------------------------- trees

    def shares(self, scores):
        """Of scores by row: what they say."""
        if self.n_labels == 0:
            return scores
        if self.n_labels == 2:
            ones = 1.0 / (1.0 + np.exp(-scores))
            return np.hstack([1.0 - ones, ones])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, row):
        """The probabilities of all labels, or a number."""
        scores = self.base + self.unit * sum(tree.leaf(row).values for tree in self.trees)
        return self.shares(scores[None])[0]

    def add_tree(self):
        chosen = list(range(len(self.bins)))
        for i in range(MOST_CHOSEN if len(chosen) > MOST_CHOSEN else 0):
            j = i + below(self.random.word(), len(chosen) - i)
            chosen[i], chosen[j] = chosen[j], chosen[i]
        shares = self.shares(self.scores)
        if self.n_labels == 0:
            slopes, curvature = self.truth - self.scores[:, 0], 1.0
        else:
            target = 1 if self.n_labels == 2 else self.drawn(
                np.abs(self.truth - shares) * self.weights[:, None]
            )
            share = shares[:, target]
            slopes = self.truth[:, target] - share
            curvature = np.maximum(share * (1.0 - share), LEAST_CURVATURE)
        sums = np.array([slopes * self.weights, curvature * self.weights])
        root, leaves = self.grown(chosen[:MOST_CHOSEN], sums)
        for leaf in leaves:
            leaf.values = np.clip(self.said(leaf.rows, sums, shares), -MOST_SAID, MOST_SAID)
            self.scores[leaf.rows] += leaf.values
        self.trees.append(root)

    def drawn(self, missed):
        """A label, in proportion to what was missed of it."""
        missed = missed.sum(axis=0)
        drawn = missed.sum() * fraction(self.random.word())
        return int(np.argmax(np.cumsum(missed) > drawn))

    def said(self, rows, sums, shares):
        """The values of a leaf."""
        if self.n_labels < 3:
            slope, weight = sums[:, rows].sum(axis=1)
            return np.array([RATE * slope / (weight + STRENGTH)])
        weights, shares = self.weights[rows, None], shares[rows]
        slopes = np.sum(weights * (self.truth[rows] - shares), axis=0)
        curvature = np.sum(weights * shares * (1.0 - shares), axis=0)
        # one score of all could be spared
        return RATE * slopes / (curvature + STRENGTH) * (self.n_labels - 1) / self.n_labels

    def grown(self, chosen, sums):
        """A tree, leaf by leaf, the best split first; returns its root and its leaves."""
        root = Node(np.arange(len(self.weights)))
        leaves = {root: self.best_split(root.rows, chosen, sums)}
        while len(leaves) < MOST_LEAVES:
            node = max(leaves, key=lambda leaf: leaves[leaf].gain)
            split = leaves[node]
            if split.gain == 0.0:
                break
            del leaves[node]
            is_right = split.right[self.bins[split.column, node.rows]]
            node.gain, node.test = split.gain, split.test
            node.children = [Node(node.rows[~is_right]), Node(node.rows[is_right])]
            leaves |= {
                child: self.best_split(child.rows, chosen, sums) for child in node.children
            }
        return root, list(leaves)

    # ------------------------------------------------------------------------------ splits

    def best_split(self, rows, chosen, sums):
        best, whole = Split(), sums[:, rows].sum(axis=1)
        for column in chosen if len(rows) >= 2 * LEAST_LEAF else ():
            bins = self.bins[column, rows]
            counts = np.bincount(bins, minlength=BINS)
            found = np.array([np.bincount(bins, part[rows], BINS) for part in sums])
            if self.salts[column]:
                self.try_sets(best, column, counts, found, whole)
            else:
                self.try_thresholds(best, column, counts, found, whole)
        return best

    def try_thresholds(self, best, column, counts, found, whole):
        """Compare all thresholds; what is missing goes to either side."""
        n, cuts = counts.sum(), self.cuts[column]
        for missing_right in (True, False) if counts[0] else (None,):
            left, n_left = found[:, 0] * (not missing_right), counts[0] * (not missing_right)
            for place in range(1, len(cuts) + 1):
                left, n_left = left + found[:, place], n_left + counts[place]
                if not LEAST_LEAF <= n_left <= n - LEAST_LEAF:
                    continue
                to_right = 2 * n_left < n if missing_right is None else missing_right
                right = np.arange(BINS) > place
                right[0] = to_right
                test = column, cuts[place - 1], bool(to_right)
                best.offer(gains(left, whole), column, right, test)

    def try_sets(self, best, column, counts, found, whole):
        """Compare the sets of buckets of which less is to be said than of the others."""
        met = np.flatnonzero(counts[:BUCKETS])
        order = met[np.argsort(found[0, met] / (found[1, met] + SMOOTHING), kind="stable")]
        n, left, n_left, right = counts.sum(), np.zeros(2), 0, np.zeros(BINS, bool)
        right[met] = True
        for here in order[:-1]:
            left, n_left, right[here] = left + found[:, here], n_left + counts[here], False
            if not LEAST_LEAF <= n_left <= n - LEAST_LEAF:
                continue
            # what no row has goes where most do
            unknown = (counts == 0) & (2 * n_left < n)
            members = sum(1 << i for i in range(BUCKETS) if right[i] or unknown[i])
            test = column, Buckets(members, self.salts[column]), False
            best.offer(gains(left, whole, STRENGTH_OF_SETS), column, right.copy(), test)
