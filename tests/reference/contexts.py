"""A mixture of contexts in double precision, plainly: records are objects in a list of slots.

It corrects what others say. Before it learns a row it is told what all together said of that, with
the whole correction; or None, where nobody said anything of the label: then it counts nothing.

A row is a dict by feature: a number in single precision, or a Category; what is missing is not in
it. All columns of numbers are there in most rows. Labels are 0, 1, 2, ... as they appear.
"""

import itertools

import numpy as np

from reference.extratree import MASK, name_hash
from reference.lomtree import splitmix64
from streamtree._core.stream.features import Category

MOST_FIELDS, MOST_LABELS, MOST_PAIRS, FEW_PAIRS, MANY_LABELS = 64, 32, 45, 15, 12
PAIRS_A_TRIPLE, MOST_AFTER, MOST_NAMED = 5, 6, 8
BEFORE_FIELDS, BLOCK, TURN, LEAST_VALUES = 16, 256, 4, 16
BINS, MOST_EXACT, MOST_CUTS = 24, 32, 63
PROBES, FIRST_SLOTS, LEAST_SLOTS, GROWTH, MOST_BYTES = 4, 1024, 64, 4, 2**22
RATES = np.array([1 / 3000, 1 / 100_000])
LOSSES_OF_NUMBERS = np.array([0.4, 0.0])
PRIORS, PRIOR_ROWS, LEAST_SHARE = np.array([2.0, 0.5]), np.array([5.0, 1.0]), 0.001
RATE, KEPT, MOST_WEIGHT, MOST_REPEATS = 0.05, 0.9999, 8.0, 10.0
MOST_DEVIATIONS, MEMORY, FIRST_SPREAD = 3.0, 1000, 0.001


def hash_of(name):
    """Of a column of numbers, or of one category."""
    return splitmix64(name_hash(name)) % 2**32


def is_known(birth, shown, rows):
    """Whether so many rows are not few of those since a column came."""
    return 32 * shown >= rows - birth + 256


def fields_of(columns, rows):
    """Numbers and features that are not rare, of {name or category: (birth, shown)} in order.

    Categories count together, since the first of their feature came.
    """
    births, shown = {}, {}
    for name, (birth, n) in columns.items():
        key = (name.name, True) if isinstance(name, Category) else (name, False)
        births.setdefault(key, birth)
        shown[key] = shown.get(key, 0) + n
    fields = [Field(*key) for key in births if is_known(births[key], shown[key], rows)]
    return sorted(fields, key=lambda field: field.place)


def cut(values):
    """Where bins of sorted values end: few values have a bin each, others share them by ranks."""
    found, counts = np.unique(values, return_counts=True)
    cuts, since = [], 0
    neighbours = zip(itertools.pairwise(found), itertools.pairwise(counts), strict=True)
    for (low, high), (before, after) in neighbours:
        since += before
        if len(found) <= MOST_EXACT or BINS * max(since, after) >= len(values):
            middle = low + (high - low) / np.float32(2)
            cuts.append(middle if low <= middle < high else low)
            since = 0
    return cuts[:MOST_CUTS]


def largest(values, cuts):
    """The rows in the largest bin of several values."""
    bins = np.searchsorted(cuts, values)
    groups = [values[bins == one] for one in set(bins)]
    return max((len(group) for group in groups if len(set(group)) > 1), default=0)


class Field:
    """A column of numbers, or a feature with categories."""

    def __init__(self, name, is_feature):
        self.name, self.is_feature = name, is_feature
        self.hash = name_hash(name) if is_feature else hash_of(name)
        self.place = splitmix64(self.hash + 1)
        self.cuts, self.n_changes, self.block = [], 0, []  # the block ends with the last rows
        self.has_many = self.has_fractions = self.is_named = False

    def code(self, cell, categories):
        """The hash of the bin, or of the category if it is known."""
        if self.is_feature:
            word = hash_of(cell) if cell in categories else 0
        else:
            bin = 0 if cell is None else 1 + int(np.searchsorted(self.cuts, cell))
            word = self.n_changes << 8 | bin
        return splitmix64(self.hash << 32 ^ word)

    def exact_code(self, cell):
        """The hash of the exact value."""
        bits = 0xFFFFFFFF if cell is None else int((cell + np.float32(0)).view(np.uint32))
        return splitmix64(splitmix64(self.hash << 32 ^ bits))

    def look(self):
        """Cut anew where a bin is too large, and cuts become much better."""
        values = np.sort([cell for cell in self.block[-BLOCK:] if cell is not None])
        if self.is_feature or len(values) < LEAST_VALUES:
            return
        self.has_fractions |= bool((values != np.floor(values)).any())
        self.has_many |= MOST_EXACT < len(set(values)) < len(values)
        crowd = largest(values, self.cuts)
        cuts = cut(values)
        if 8 * crowd > len(values) and 4 * largest(values, cuts) <= 3 * crowd:
            self.cuts, self.n_changes = cuts, self.n_changes + 1


class Record:
    """Of a context: what came and what was expected, by label and speed.

    `labels` are those that came or were looked for. Of numbers, label 0 has the weights and what
    was missing.
    """

    def __init__(self, key, last):
        self.key, self.last, self.labels = key, last, set()
        self.came, self.expected = np.zeros((2, MOST_LABELS, len(RATES)))

    def fade(self, row, losses):
        if self.last == row:
            return
        fading = np.exp(-(row - self.last) * RATES - losses)
        self.came, self.expected, self.last = self.came * fading, self.expected * fading, row


class Table:
    """A record lies in one of a few slots; a new one takes the place of the oldest there."""

    def __init__(self):
        self.slots, self.n_places = [], 0

    @property
    def records(self):
        return [record for record in self.slots if record is not None]

    def place_of(self, key, row):
        """The slot of a record, or the one that it is to take."""
        near = [((key >> 1) + i) % len(self.slots) for i in range(PROBES)]
        for slot in near:
            if self.slots[slot] is None or self.slots[slot].key == key:
                return slot
        return max(near, key=lambda slot: row - self.slots[slot].last)

    def find(self, key, row):
        record = self.slots[self.place_of(key, row)] if self.slots else None
        return record if record is not None and record.key == key else None

    def find_or_add(self, key, row):
        slot = self.place_of(key, row)
        if self.slots[slot] is None or self.slots[slot].key != key:
            self.slots[slot] = Record(key, row)
        return self.slots[slot]

    def make_room(self, n_labels, n_more, row):
        """Lay the table anew for more labels or contexts; fewer slots where it becomes too large.
        """
        n_places = max(n_labels if n_labels <= 2 else -(-n_labels // 4) * 4, self.n_places)
        n_slots, size = max(len(self.slots), FIRST_SLOTS), 16 + 16 * n_places
        if 4 * (len(self.records) + n_more) > 3 * n_slots:
            n_slots *= next(t for t in (GROWTH, 2, 1) if t * n_slots * size <= MOST_BYTES or t == 1)
        while n_slots > LEAST_SLOTS and n_slots * size > MOST_BYTES:
            n_slots //= 2
        if (n_slots, n_places) == (len(self.slots), self.n_places):
            return
        records, self.n_places, self.slots = self.records, n_places, [None] * n_slots
        for record in records:
            slot = self.place_of(record.key, row)
            if self.slots[slot] is None or self.slots[slot].last <= record.last:
                self.slots[slot] = record


class Weights:
    """Of one context."""

    def __init__(self):
        self.weights, self.squares = np.zeros((2, len(RATES)))

    def move(self, slopes, repeats):
        self.squares = KEPT * self.squares + slopes**2
        steps = RATE * repeats * slopes / np.sqrt(self.squares + 0.1)
        self.weights = np.clip(self.weights + steps, -MOST_WEIGHT, MOST_WEIGHT)


class Contexts:
    """What mixtures of labels and of numbers share."""

    has_labels = True
    losses = np.zeros(len(RATES))  # of the logarithm of sums, whenever their context comes

    def __init__(self):
        self.rows, self.seen, self.most_pairs, self.last = 0, 0, 0, [-1, -1]
        self.columns = {}  # by name or category: the rows before it came, and those that had it
        self.fields, self.contexts = [], []  # a context is its fields and its name
        self.table, self.weights = Table(), {}  # of weights by the name of a context

    # ------------------------------------------------------------------------- one example

    def keys(self, row):
        """The hashes of the contexts that a row is in."""
        codes = [field.code(row.get(field.name), self.columns) for field in self.fields]
        word = 0
        for label in self.last:
            word = splitmix64(word + label + 2)
            codes.append(word)
        for field in self.fields:
            codes.append(field.exact_code(row.get(field.name)) if field.is_named else 0)
        sums = [sum(codes[f] for f in fields) & MASK for fields, _ in self.contexts]
        return [splitmix64(word) >> 32 | 1 for word in sums]

    def evidence(self, row, n):
        """What every context says of n labels, by speed, and which of them its record knows.

        Of others it says nothing: as much came as was expected.
        """
        blank = Record(0, self.rows)
        found = [self.table.find(key, self.rows) or blank for key in self.keys(row)]
        ages = self.rows - np.array([record.last for record in found])
        fading = np.exp(-ages[:, None, None] * RATES - self.losses)
        came = np.array([record.came[:n] for record in found]) * fading
        expected = np.array([record.expected[:n] for record in found]) * fading
        known = np.array([[label in record.labels for label in range(n)] for record in found])
        return self.says(came, expected), known

    def add_up(self, evidence):
        """What all contexts together say of the labels."""
        weights = [self.weights[name].weights for _, name in self.contexts]
        return np.einsum("cls,cs->l", evidence, weights)

    def move(self, slopes, are_moved, repeats):
        """Let weights of contexts follow their slopes."""
        for (_, name), one, is_moved in zip(self.contexts, slopes, are_moved, strict=True):
            if is_moved:
                self.weights[name].move(one, repeats)

    def note(self, row):
        """Count the columns that a row has."""
        for name in (cell if isinstance(cell, Category) else name for name, cell in row.items()):
            self.columns.setdefault(name, [self.rows, 0])[1] += 1

    def records(self, row):
        """Those of a row, with what is left of them; new ones come last.

        Contexts of the same fields have the same record, and it comes for each of them. Those that
        are there are not to go for others of the same row.
        """
        for key in sorted(self.keys(row), key=lambda key: self.table.find(key, self.rows) is None):
            record = self.table.find_or_add(key, self.rows)
            record.fade(self.rows, self.losses)
            yield record

    # ----------------------------------------------------------------- fields and contexts

    def push(self, row, n):
        """Keep what a row has of the fields; columns take turns to be cut anew."""
        place = self.seen % BLOCK
        for field in self.fields:
            field.block.append(row.get(field.name))
        self.seen += 1
        for f, field in enumerate(self.fields):
            if self.seen == BLOCK or (self.seen > BLOCK and place == TURN * f):
                field.look()
        if self.seen % BLOCK and (self.fields or self.seen != BEFORE_FIELDS):
            return
        known = {(field.hash, field.is_feature): field for field in self.fields}
        names, found = list(known), fields_of(self.columns, self.rows)[:MOST_FIELDS]
        self.fields = [known.get((field.hash, field.is_feature), field) for field in found]
        pairs = FEW_PAIRS if n > MANY_LABELS else MOST_PAIRS
        are_others = names != [(field.hash, field.is_feature) for field in self.fields]
        are_others |= [field for field in self.fields if field.is_named] != self.named()
        if are_others or pairs != self.most_pairs:
            self.most_pairs, self.seen = pairs, 0
            for field in self.fields:
                field.block = []
            self.choose()

    def named(self):
        """The first columns of many whole numbers."""
        whole = [field for field in self.fields if field.has_many and not field.has_fractions]
        return whole[:MOST_NAMED]

    def choose(self):
        """All fields alone, pairs of them by hashes, and the first pairs with one field more."""
        places = [field.place for field in self.fields]
        singles = [((f,), place) for f, place in enumerate(places)]
        pairs = [
            (pair, splitmix64(sum(places[f] for f in pair) & MASK))
            for pair in itertools.combinations(range(len(places)), 2)
        ]
        pairs = sorted(pairs, key=lambda pair: pair[1])[: self.most_pairs]
        triples = {}
        for pair, _ in pairs[: self.most_pairs // PAIRS_A_TRIPLE]:
            others = [
                (splitmix64(sum(places[g] for g in (*pair, f)) & MASK), f)
                for f in range(len(places)) if f not in pair
            ]
            if others:
                word, third = max(others)
                triples.setdefault(word, (*pair, third))
        end = len(places)
        after = []
        if places and self.has_labels:
            after = [((end,), splitmix64(0)), ((end + 1,), splitmix64(1))]
            after += [((end, f), splitmix64(place)) for f, place in enumerate(places[:MOST_AFTER])]
        for field in self.fields:
            field.is_named = field in self.named()
        exact = [
            ((end + 2 + f,), splitmix64(field.place + 1))
            for f, field in enumerate(self.fields) if field.is_named
        ]
        triples = [(triples[word], word) for word in triples]
        self.contexts = singles + pairs + triples + after + exact
        self.weights = {
            name: self.weights.get(name) or Weights() for _, name in self.contexts
        }


class ReferenceContexts(Contexts):
    """Where the logarithms of the labels' shares are wrong."""

    @staticmethod
    def says(came, expected):
        return np.log((came + PRIORS) / (expected + PRIORS))

    def predict(self, row, n):
        """The correction of n labels."""
        if not self.contexts or not 1 < n <= MOST_LABELS:
            return np.zeros(n)
        return self.add_up(self.evidence(row, n)[0])

    @staticmethod
    def in_full(pooled, left, correction):
        """The shares that all said, with the part of the correction that is left."""
        odds = pooled * np.exp(left * correction)
        return odds / odds.sum()

    def learn(self, row, label, weight, n, shares):
        """Learn a row; there are n labels, its own among them; `shares` are what it is told."""
        self.note(row)
        if n > MOST_LABELS:
            self.table = Table()
            return
        weight = min(weight, MOST_REPEATS)
        if self.contexts and shares is not None:
            looked_for = shares >= LEAST_SHARE
            looked_for[label] = True
            self.table.make_room(n, len(self.contexts), self.rows)
            evidence, known = self.evidence(row, n)
            distances = (np.arange(n) == label) - shares * looked_for
            slopes = np.einsum("l,cls->cs", distances, evidence)
            self.move(slopes, (known & looked_for).any(axis=1), weight)
            expected = (weight * shares * looked_for)[:, None]
            for record in self.records(row):
                record.came[label] += weight
                record.expected[:n] += expected
                record.labels |= set(np.flatnonzero(looked_for).tolist())
        self.rows += 1
        self.last = [label, self.last[0]]
        self.push(row, n)


class Targets:
    """Their mean and deviation, and how far what is added to a number is followed."""

    def __init__(self, *args):
        super().__init__(*args)
        self.weight = self.mean = self.squares = 0.0
        self.product = self.spread = 0.0  # what additions are worth

    @property
    def deviation(self):
        return np.sqrt(self.squares / self.weight) if self.weight else 0.0

    def in_deviations(self, distance):
        return np.clip(distance / self.deviation, -MOST_DEVIATIONS, MOST_DEVIATIONS)

    def count(self, target, weight):
        self.weight += weight
        share, distance = weight / self.weight, target - self.mean
        self.mean += share * distance
        self.squares += (1 - share) * weight * distance**2

    def trust(self):
        """Which part of it is added."""
        slope = (self.product + FIRST_SPREAD / 2) / (self.spread + FIRST_SPREAD)
        return min(max(slope, 0.0), 1.0)

    def learn_trust(self, missing, added):
        self.product += (missing * added - self.product) / MEMORY
        self.spread += (added**2 - self.spread) / MEMORY


class ReferenceMeans(Targets, Contexts):
    """Where a number is wrong, in deviations of the targets."""

    has_labels = False
    losses = LOSSES_OF_NUMBERS

    @staticmethod
    def says(weights, missing):
        return missing / (weights + PRIOR_ROWS)

    def predict(self, row):
        """The correction."""
        if not self.contexts:
            return 0.0
        said = self.add_up(self.evidence(row, 1)[0])[0]
        return self.deviation * np.clip(said, -MOST_DEVIATIONS, MOST_DEVIATIONS)

    def judge(self, pooled, added, target):
        """Learn how far a correction is to be followed that was added to a number in part."""
        if self.deviation:
            missing = self.in_deviations(target - pooled + self.trust() * added)
            self.learn_trust(missing, self.in_deviations(added))

    def learn(self, row, target, weight, others):
        """Learn a row, of which the others said a number."""
        repeats = min(weight, MOST_REPEATS)
        missing = self.in_deviations(target - others) if self.deviation else 0.0
        self.note(row)
        if self.contexts:
            self.table.make_room(1, len(self.contexts), self.rows)
            evidence, known = self.evidence(row, 1)
            said = self.add_up(evidence)[0]
            error = missing - np.clip(said, -MOST_DEVIATIONS, MOST_DEVIATIONS)
            self.move(error * evidence[:, 0], known[:, 0], repeats)
            for record in self.records(row):
                record.came[0] += repeats
                record.expected[0] += repeats * missing
                record.labels = {0}
        self.count(target, weight)
        self.rows += 1
        self.push(row, 0)
