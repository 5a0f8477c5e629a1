"""Randomised trees that are grown anew from a window, plainly: every tree is made of node objects.

A row is a list of cells, in the order of the hashes of their columns' names: a number in single
precision, NaN where it is missing, or a Category or None for a feature with categories. Labels are
0, 1, 2, ... in the order in which they appear; numbers are floats.
"""

import math
from typing import NamedTuple

import numpy as np

from reference.lomtree import splitmix64
from streamtree._core.stream.features import Category

MASK = 2**64 - 1
LARGEST = np.finfo(np.float32).max
MOST_KEPT = 16
FIRST_GROWTH = 40
HASTE, MOST_LEVELS, STEP, DRAWS, CHUNK, COUNT, DIVIDE = 5, 40, 64, 4, 512, 4, 3
REPLAYED, SEARCH = 8, 3
ROWS_BETWEEN = 4
MEMORY, DAMPING, LEAST_STRENGTH, MOST_STRENGTH, MOST_REPEATS = 500, 5, 0.01, 1000.0, 10
MOST_MOVE, LEAST_ERRORS = 0.1, 1e-4
FEW_ROWS, FAR_OUT = 16, 64
LEAST_PART = 1e-12


def name_hash(name):
    """By which the columns are ordered."""
    value = 2166136261
    for byte in repr(name).encode():
        value = ((value ^ byte) * 16777619) % 2**32
    return value


class Random:
    """The sequence of SplitMix64."""

    def __init__(self, state):
        self.state = state

    def word(self):
        found = splitmix64(self.state)
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return found


def below(word, n):
    return ((word >> 32) * n) >> 32


def fraction(word):
    return (word & 0xFFFFFFFF) / 2**32


class Buckets(NamedTuple):
    """A set of categories, as a set of the buckets in which they lie."""

    members: int
    salt: int
    unknown: int = 0  # buckets in which no row is

    def has(self, category):
        return bool(self.members >> bucket(category, self.salt) & 1)


def bucket(category, salt):
    """Rows without a category have the first to themselves."""
    if category is None:
        return 0
    kind = splitmix64(name_hash(category)) % 2**32
    word = (kind ^ salt * 0x85EBCA77 % 2**32) * 0x9E3779B1 % 2**32
    return 1 + (word >> 16) % 31


class Node:
    def __init__(self, parent=None):
        self.parent = parent
        self.children = None
        # column, threshold or category or buckets, whether missing ones go right
        self.test = None
        self.weight = np.float32(0)
        self.counts = {}
        self.mean = 0.0
        self.kept = []
        self.since = 255

    def goes_right(self, row):
        return side(row, *self.test)

    def keep(self, i):
        self.kept = [*self.kept, i][-MOST_KEPT:]


def narrowed(word, cells, low, high):
    """The range of four rows, if that of all is far larger."""
    found = []
    for _ in range(2):
        word = splitmix64(word)
        found += [cells[below(word, len(cells))], cells[int(fraction(word) * len(cells))]]
    found = [float(cell) for cell in found if cell == cell]
    if found and 0 < FAR_OUT * (max(found) - min(found)) < float(high) - float(low):
        return np.float32(min(found)), np.float32(max(found))
    return low, high


def side(row, column, threshold, missing_right):
    """Whether a row goes right."""
    cell = row[column]
    if isinstance(threshold, Buckets):
        return threshold.has(cell)
    if isinstance(threshold, Category):
        return cell == threshold
    return bool(cell > threshold or (missing_right and cell != cell))


class Strength:
    """How strongly estimates are shrunk; None: learned from what was said, and its derivative."""

    def __init__(self, value):
        self.is_learned = value is None
        self.value = 1.0 if self.is_learned else value
        self.curvature = self.errors = 0.0
        self.rows = 0
        # of numbers: their weight, mean, and weighted squares of distances from it
        self.weight = self.mean = self.squares = 0.0

    def learn_label(self, label, shares, derivatives, weight):
        self.move(np.eye(len(shares))[label] - shares, self.value * derivatives, weight)

    def learn_number(self, target, said, derivative, weight):
        variance = self.squares / self.weight if self.weight else 0.0
        distance, weight = target - self.mean, min(weight, MOST_REPEATS)
        self.weight += weight
        self.squares += (1 - weight / self.weight) * weight * distance**2
        self.mean += weight / self.weight * distance
        if variance > 0:
            pair = np.array([target - said, self.value * derivative]) / math.sqrt(variance)
            error, slope = np.clip(pair, -3, 3)
            self.move(np.array([error]), np.array([slope]), weight)

    def move(self, errors, slopes, weight):
        weight = min(weight, MOST_REPEATS)
        self.rows += 1
        self.errors += (errors @ errors - self.errors) / min(self.rows, MEMORY)
        self.curvature += weight * (slopes @ slopes) - self.curvature / MEMORY
        damping = DAMPING * max(self.errors, LEAST_ERRORS)
        moved = weight * (errors @ slopes) / (self.curvature + damping)
        moved = math.log(self.value) + min(max(moved, -MOST_MOVE), MOST_MOVE)
        self.value = min(max(math.exp(moved), LEAST_STRENGTH), MOST_STRENGTH)


class ReferenceExtraTree:
    """`numbers` says whether targets are numbers; a tree has seen `rows`, in this order."""

    def __init__(self, *, numbers, window=10_000, strength=None, seed=0):
        self.numbers = numbers
        self.window = window
        self.strength = strength if isinstance(strength, Strength) else Strength(strength)
        self.random = Random(splitmix64(seed))
        self.rows, self.targets, self.weights = [], [], []
        self.n_labels = 0
        self.root = Node()
        self.growth = None
        self.next_growth = int(FIRST_GROWTH * (1 + 0.9 * (seed * 0.6180339887498949 % 1.0)))

    # ------------------------------------------------------------------------- predictions

    def leaf(self, row, root=None):
        node = root or self.root
        while node.children:
            node = node.children[node.goes_right(row)]
        return node

    def predict(self, row):
        """The probabilities of all labels, or a number."""
        return self.said_of(self.leaf(row))[0]

    def said_of(self, leaf):
        """What a leaf says, and the derivative by the strength."""
        return self.mean_of(leaf) if self.numbers else self.shares_of(leaf)

    def mean_of(self, node):
        """Drawn to that of the node above, which is drawn to that above it, and so on."""
        if not node.parent:
            return node.mean, 0.0
        weight = float(node.weight)
        return self.drawn(weight, weight * node.mean, self.mean_of(node.parent), 1.0)

    def shares_of(self, node):
        """The same of probabilities."""
        above = np.full(self.n_labels, 1.0 / max(self.n_labels, 1)), np.zeros(self.n_labels)
        if node.parent:
            above = self.shares_of(node.parent)
        counts = np.zeros(self.n_labels)
        for label, count in node.counts.items():
            counts[label] = count
        surprise = 0.0
        if self.strength.is_learned and node.parent and node.counts:
            # the most frequent label against what the node above lets expect
            most = max(node.counts, key=node.counts.get)
            before = float(node.parent.counts.get(most, 0))
            expected = (before + 0.5) / (float(node.parent.weight) + 1)
            excess = max(counts[most] / counts.sum() - expected, 0)
            surprise = counts.sum() * excess**2 / (expected * (1 - expected))
        return self.drawn(counts.sum(), counts, above, 1 / max(1, surprise))

    def drawn(self, weight, own, above, part):
        """`part` of the strength draws."""
        said, derivative = above
        strength = part * self.strength.value
        total = weight + strength
        found = (own + strength * said) / total
        return found, (part * (said - found) + strength * derivative) / total

    def learn_strength(self, leaf, target, weight):
        """From what the leaf says of an example before it is counted."""
        learn = self.strength.learn_number if self.numbers else self.strength.learn_label
        learn(target, *self.said_of(leaf), weight)

    # ---------------------------------------------------------------------------- learning

    def learn(self, row, target, weight=1.0):
        node = self.leaf(row)
        self.rows.append(row)
        self.targets.append(target)
        self.weights.append(np.float32(min(max(weight, 1e-6), 1e6)))
        if not self.numbers:
            self.n_labels = max(self.n_labels, target + 1)
        if self.strength.is_learned:
            self.learn_strength(node, target, weight)
        self.grow(self.count(node, len(self.rows) - 1))

    def count_in(self, node, i):
        weight = self.weights[i]
        node.weight = np.float32(node.weight + weight)
        if self.numbers:
            node.mean += float(weight) * (self.targets[i] - node.mean) / float(node.weight)
        else:
            label = self.targets[i]
            node.counts[label] = np.float32(node.counts.get(label, np.float32(0)) + weight)

    def count(self, leaf, i):
        node = leaf
        while node:
            self.count_in(node, i)
            node = node.parent
        leaf.keep(i)
        return self.extend(leaf)

    def capacity(self):
        return self.window + (self.window + 3) // 4

    def extend(self, leaf):
        """Split a leaf by the rows that it has kept, if it is time; returns what it has cost."""
        leaf.since = min(leaf.since + 1, 255)
        if not self.numbers and len(leaf.counts) < 2:
            return 0
        if leaf.since < ROWS_BETWEEN or len(leaf.kept) < (10 if self.numbers else 6):
            return 0
        leaf.since = 0
        kept = [i for i in leaf.kept if i >= len(self.rows) - self.capacity()]
        if len(kept) < 2:
            return 0
        search = Search(self, kept)
        if search.is_pure:
            return 0
        cost = 0
        for _ in range(math.ceil(12 * math.sqrt(len(self.rows[0])))):
            if search.is_done:
                break
            search.consider(self.random, between_rows=self.numbers)
            cost += 2 * len(kept) + STEP
        if search.best:
            for child, part in self.split(leaf, search.best, kept):
                for i in part:
                    self.count_in(child, i)
                    child.keep(i)
        return cost

    def split(self, node, test, rows):
        """Make the children of a node; returns them, each with its rows."""
        node.test, node.kept = test, []
        node.children = [Node(node), Node(node)]
        parts = [[], []]
        for i in rows:
            parts[node.goes_right(self.rows[i])].append(i)
        return list(zip(node.children, parts, strict=True))

    # ----------------------------------------------------------------------------- growing

    def grow(self, spent):
        size = len(self.rows)
        if self.growth is None:
            if size >= self.next_growth:
                n = min(size, self.window)
                self.growth = Growth(self, list(range(size - n, size)))
                self.next_growth = size + n // 2
        elif self.growth.due is not None:
            self.growth.run(spent)
        else:
            effort = 0
            while effort < REPLAYED:
                if self.growth.next_row == size:
                    self.root, self.growth = self.growth.root, None
                    break
                i = self.growth.next_row
                searched = self.count(self.leaf(self.rows[i], self.growth.root), i) > 0
                effort += 1 + SEARCH * searched
                self.growth.next_row += 1


class Growth:
    """A tree that is grown a few steps at a time: `due` says what the next one costs."""

    def __init__(self, tree, rows):
        self.tree = tree
        self.n = len(rows)
        self.root = Node()
        self.next_row = self.end = len(tree.rows)
        self.random = Random(tree.random.word())
        self.credit = self.spent = 0
        self.steps = self.grown(rows)
        self.due = next(self.steps)

    def n_candidates(self):
        return math.ceil((12 if self.tree.numbers else 8) * math.sqrt(len(self.tree.rows[0])))

    def limit(self):
        return MOST_LEVELS * 2 * self.n_candidates() * self.n

    def run(self, spent_elsewhere):
        # twice as fast with every fifth of the rows that may come until these go
        late = 5 * (len(self.tree.rows) - self.end) // max(self.tree.capacity() - self.n, 1)
        haste = HASTE << min(max(late - 1, 0), 4)
        self.credit += haste * (self.limit() // self.n + 8) - spent_elsewhere
        while self.due is not None and self.credit >= self.due + STEP:
            cost, self.due = self.due, next(self.steps, None)
            self.spent += cost
            self.credit -= cost + STEP

    def grown(self, rows):
        """Batch growing, with a stop before every step, which says what it costs."""
        tree, m = self.tree, self.n_candidates()
        stack = [(self.root, rows)]
        while stack:
            node, rows = stack.pop()
            yield from chunks(rows, COUNT)
            search = Search(tree, rows)
            if tree.numbers:
                node.weight, node.mean = np.float32(search.total), search.mean
            else:
                node.counts = {k: np.float32(w) for k, w in search.weights.items()}
                for weight in node.counts.values():
                    node.weight = np.float32(node.weight + weight)
            if search.is_pure or len(rows) < 2 or self.spent > self.limit():
                node.kept = rows[-MOST_KEPT:]
                continue
            if len(rows) > CHUNK:
                yield COUNT * CHUNK
                search = Search(tree, sample(rows, self.random.word()))
            tried = drawn = 0
            while not search.is_done and tried < m and drawn < DRAWS * m:
                drawn += 1
                yield 2 * len(search.rows)
                tried += search.consider(self.random, between_rows=False)
            if search.best:
                yield from chunks(rows, DIVIDE)
            else:
                yield 0
            if search.best:
                stack += tree.split(node, search.best, rows)[::-1]
            else:
                node.kept = rows[-MOST_KEPT:]


def sample(rows, word):
    """One row of each of so many equal parts."""
    found = []
    for i in range(CHUNK):
        word = splitmix64(word)
        first, end = len(rows) * i // CHUNK, len(rows) * (i + 1) // CHUNK
        found.append(rows[first + below(word, end - first)])
    return found


def chunks(rows, cost):
    """What the steps over some rows cost."""
    for first in range(0, len(rows), CHUNK):
        yield cost * min(CHUNK, len(rows) - first)


class Search:
    """The best of random candidates over some rows."""

    def __init__(self, tree, rows):
        self.tree, self.rows = tree, rows
        self.best, self.score, self.is_done = None, -math.inf, False
        self.total, self.mean, self.weights = 0.0, 0.0, {}
        for i in rows:
            weight, target = float(tree.weights[i]), tree.targets[i]
            self.total += weight
            if not tree.numbers:
                self.weights[target] = self.weights.get(target, 0.0) + weight
        if tree.numbers:
            first = tree.targets[rows[0]]
            weighted = [(float(tree.weights[i]), tree.targets[i] - first) for i in rows]
            mean = sum(w * number for w, number in weighted) / self.total
            self.mean = first + mean
            self.excess = [w * (number - mean) for w, number in weighted]
        self.is_pure = len({tree.targets[i] for i in rows}) < 2

    def consider(self, random, between_rows):
        """Draw a candidate; returns whether it splits the rows."""
        choice = self.chosen(random)
        candidate = choice and self.drawn(*choice, random, between_rows)
        if candidate is None:
            return False
        self.compare(candidate)
        return True

    def compare(self, candidate):
        """Compare a candidate with the best so far."""
        score = self.score_of(candidate)
        column, threshold, missing_right, right_heavier = candidate
        if score > self.score:
            if missing_right is None:
                missing_right = right_heavier()
            if isinstance(threshold, Buckets):
                others = threshold.unknown if missing_right else 0
                threshold = Buckets(threshold.members | others, threshold.salt)
            self.best, self.score = (column, threshold, missing_right), score

    def cells(self, column):
        return [self.tree.rows[i][column] for i in self.rows]

    def chosen(self, random):
        """A column and maybe a category; the word that was drawn for it comes first."""
        word = random.word()
        column = below(word, len(self.tree.rows[0]))
        cells, category = self.cells(column), None
        if cells[0] is None or isinstance(cells[0], Category):
            two = random.word()
            drawn, first = below(two, len(cells)), int(fraction(two) * len(cells))
            category = cells[drawn]
            if category is None:
                return None
            if len(cells) > FEW_ROWS and word & 0x100 and word & 0xFF:
                category = self.set_like(drawn, first, cells, word & 0xFF)
        return word, column, category

    def set_like(self, drawn, first, cells, salt):
        """The buckets of which the first row is like the row that was drawn, or above it."""
        targets = [self.tree.targets[i] for i in self.rows]
        sides = {}
        for i in [*range(first, len(cells)), *range(first)]:
            is_above = targets[i] > targets[drawn]
            is_right = is_above if self.tree.numbers else targets[i] == targets[drawn]
            sides.setdefault(bucket(cells[i], salt), is_right)
        members = sum(1 << place for place, is_right in sides.items() if is_right)
        return Buckets(members, salt, sum(1 << i for i in range(32) if i not in sides))

    def drawn(self, word, column, category, random, between_rows):
        """A candidate for a column, None where it does not split the rows."""
        cells = self.cells(column)
        if category is not None:
            if len({side([cell], 0, category, False) for cell in cells}) < 2:
                return None
            return column, category, None, lambda: self.is_right_heavier(column, category)
        there = [cell for cell in cells if cell == cell]
        if not there:
            return None
        missing_right = None
        if len(there) < len(cells):
            way = below(random.word(), 3)
            missing_right = way > 0
            if way == 2:
                return column, LARGEST, True, None
        low, high = min(there), max(there)
        if between_rows:
            two = random.word()
            low, high = cells[below(two, len(cells))], cells[int(fraction(two) * len(cells))]
            if low > high:
                low, high = high, low
        if not low < high:
            return None
        if len(cells) > FEW_ROWS:
            low, high = narrowed(word, cells, low, high)
        threshold = np.float32(float(low) + fraction(word) * (float(high) - float(low)))
        threshold = threshold if threshold < high else low
        return column, threshold, missing_right, lambda: self.is_right_heavier(column, threshold)

    def is_right_heavier(self, column, threshold):
        right = sum(
            float(self.tree.weights[i]) for i in self.rows
            if side(self.tree.rows[i], column, threshold, False)
        )
        return right > self.total - right

    def score_of(self, candidate):
        column, threshold, missing_right, _ = candidate
        tree = self.tree
        right = [i for i in self.rows if side(tree.rows[i], column, threshold, missing_right)]
        right_weight = math.fsum(float(tree.weights[i]) for i in right)
        left_weight = self.total - right_weight
        if tree.numbers:
            # in four sums, which are then added
            sums = [0.0] * 4
            for place, i in enumerate(self.rows):
                is_whole = place < len(self.rows) - len(self.rows) % 4
                if side(tree.rows[i], column, threshold, missing_right):
                    sums[place % 4 if is_whole else 0] += self.excess[place]
            self.is_done = len(self.rows) == 2
            excess = (sums[0] + sums[1]) + (sums[2] + sums[3])
            return excess * excess * (1.0 / left_weight + 1.0 / right_weight)
        weights = dict.fromkeys(self.weights, 0.0)
        for i in right:
            weights[tree.targets[i]] += float(tree.weights[i])
        score = (
            sum((self.weights[k] - weights[k]) ** 2 for k in weights) / left_weight
            + sum(weights[k] ** 2 for k in weights) / right_weight
        )
        self.is_done = score >= self.total
        return score
