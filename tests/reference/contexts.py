"""A mixture of contexts in double precision, plainly: records are objects in a list of slots.

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
BEFORE_FIELDS, FIRST_CUT, BLOCK, TURN, LEAST_VALUES = 16, 64, 256, 4, 16
BINS, MOST_EXACT, MOST_CUTS = 16, 32, 63
PROBES, FIRST_SLOTS, LEAST_SLOTS, GROWTH, MOST_BYTES = 4, 1024, 64, 4, 2**22
RATES = np.array([1 / 30, 1 / 300, 1 / 3000, 1 / 100_000])
RATE, KEPT, MOST_WEIGHT, MOST_REPEATS, FIRST_WEIGHT = 0.05, 0.9999, 8.0, 10.0, 0.5
MOST_DEVIATIONS = 3.0


def hash_of(name):
    """Of a column of numbers, or of one category."""
    return splitmix64(name_hash(name)) % 2**32


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
    """How often labels came with a context, by label and speed; `labels` are those that did."""

    def __init__(self, key, last):
        self.key, self.last, self.labels = key, last, set()
        self.counts = np.zeros((MOST_LABELS, len(RATES)))


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
        n_places = max(2 if n_labels <= 2 else -(-n_labels // 4) * 4, self.n_places)
        n_slots, size = max(len(self.slots), FIRST_SLOTS), 16 + 16 * n_places
        if 4 * (len(self.records) + n_more) > 3 * n_slots and GROWTH * n_slots * size <= MOST_BYTES:
            n_slots *= GROWTH
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

    def __init__(self, first):
        self.weights, self.squares = np.full(len(RATES), first), np.zeros(len(RATES))


class ReferenceContexts:
    has_labels = True

    def __init__(self):
        self.rows, self.seen, self.most_pairs, self.last = 0, 0, 0, [-1, -1]
        self.columns = {}  # by name or category: the rows before it came, and those that had it
        self.fields, self.contexts = [], []  # a context is its fields and its name
        self.table, self.weights = Table(), {}  # of weights by the name of a context
        self.labels = np.zeros((MOST_LABELS, len(RATES)))

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

    def scales(self, n):
        """One over the share of every label in all rows, by speed."""
        return (self.labels[:n].sum(axis=0) + n / 2) / (self.labels[:n] + 0.5)

    def evidence(self, row, n):
        """What every context says, by label and speed, and the labels that came with it."""
        found = []
        for key in self.keys(row):
            record = self.table.find(key, self.rows) or Record(key, self.rows)
            faded = record.counts[:n] * np.exp(-(self.rows - record.last) * RATES)
            found.append((np.log1p(faded * self.scales(n)), record.labels))
        return found

    def shares(self, evidence, n):
        scores = -np.log(self.scales(n)[:, 0])
        for (_, name), (said, _) in zip(self.contexts, evidence, strict=True):
            scores += said @ self.weights[name].weights
        odds = np.exp(scores - scores.max())
        return odds / odds.sum()

    def predict(self, row, n):
        """The probabilities of n labels."""
        if not self.contexts or not 1 < n <= MOST_LABELS:
            return np.full(n, 1 / n)
        return self.shares(self.evidence(row, n), n)

    def learn(self, row, label, weight, n):
        """Learn a row; there are n labels, its own among them."""
        weight = min(weight, MOST_REPEATS)
        self.note(row)
        if n > MOST_LABELS:
            self.table.slots = []
            return
        if self.contexts:
            self.table.make_room(n, len(self.contexts), self.rows)
            evidence = self.evidence(row, n)
            self.move(evidence, label, weight, n)
            self.count(self.keys(row), label, weight)
        self.labels *= np.exp(-RATES)
        self.labels[label] += weight
        self.rows += 1
        self.last = [label, self.last[0]]
        self.push(row, n)

    def note(self, row):
        """Count the columns that a row has."""
        for name in (cell if isinstance(cell, Category) else name for name, cell in row.items()):
            self.columns.setdefault(name, [self.rows, 0])[1] += 1

    def move(self, evidence, label, weight, n):
        """Let the weights follow the log loss."""
        shares = self.shares(evidence, n)
        for (_, name), (said, labels) in zip(self.contexts, evidence, strict=True):
            if not labels:
                continue
            part, slopes = self.weights[name], said[label] - shares @ said
            part.squares = KEPT * part.squares + slopes**2
            steps = RATE * weight * slopes / np.sqrt(part.squares + 0.1)
            part.weights = np.clip(part.weights + steps, -MOST_WEIGHT, MOST_WEIGHT)

    def count(self, keys, label, weight):
        """Contexts of the same fields count in the same record, each of them.

        Those that are there come first: they are not to go for others of the same row.
        """
        for key in sorted(keys, key=lambda key: self.table.find(key, self.rows) is None):
            record = self.table.find_or_add(key, self.rows)
            record.counts *= np.exp(-(self.rows - record.last) * RATES)
            record.counts[label] += weight
            record.labels.add(label)
            record.last = self.rows

    # ----------------------------------------------------------------- fields and contexts

    def push(self, row, n):
        """Keep what a row has of the fields; columns take turns to be cut anew."""
        place = self.seen % BLOCK
        for field in self.fields:
            field.block.append(row.get(field.name))
        self.seen += 1
        for f, field in enumerate(self.fields):
            if self.seen == FIRST_CUT or (self.seen > BLOCK and place == TURN * f):
                field.look()
        if self.seen % BLOCK and (self.fields or self.seen != BEFORE_FIELDS):
            return
        known = {(field.hash, field.is_feature): field for field in self.fields}
        names = list(known)
        self.fields = [known.get((field.hash, field.is_feature), field) for field in self.found()]
        pairs = FEW_PAIRS if n > MANY_LABELS else MOST_PAIRS
        are_others = names != [(field.hash, field.is_feature) for field in self.fields]
        are_others |= [field for field in self.fields if field.is_named] != self.named()
        if are_others or pairs != self.most_pairs:
            self.most_pairs, self.seen = pairs, 0
            for field in self.fields:
                field.block = []
            self.choose()

    def found(self):
        """Numbers and features that are not rare, in the order of the hashes of their names."""
        fields = {}
        for name, (birth, shown) in self.columns.items():
            if 32 * shown >= self.rows - birth + 256:
                is_feature = isinstance(name, Category)
                field = Field(name.name if is_feature else name, is_feature)
                fields[field.name, is_feature] = field
        return sorted(fields.values(), key=lambda field: field.place)[:MOST_FIELDS]

    def first_weight(self, n):
        return FIRST_WEIGHT / np.sqrt(n)

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
            ]  # fmt: skip
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
        ]  # fmt: skip
        triples = [(triples[word], word) for word in triples]
        self.contexts = singles + pairs + triples + after + exact
        first = self.first_weight(max(len(self.contexts), 1) * len(RATES))
        self.weights = {
            name: self.weights.get(name) or Weights(0.0 if (fields, name) in exact else first)
            for fields, name in self.contexts
        }


class ReferenceMeans(ReferenceContexts):
    """The same of a number: a record has sums of weights and of weighted deviations, in its first
    two places."""

    has_labels = False

    def __init__(self):
        super().__init__()
        self.weight = self.mean = self.squares = 0.0  # of the targets

    @property
    def deviation(self):
        return np.sqrt(self.squares / self.weight) if self.weight else 0.0

    def first_weight(self, n):
        return 1 / n

    def evidence(self, row):
        """What every context says, by speed, in deviations; None where it has no record."""
        found = []
        for key in self.keys(row):
            record = self.table.find(key, self.rows)
            if record is None:
                found.append(None)
                continue
            weights, sums = record.counts[:2] * np.exp(-(self.rows - record.last) * RATES)
            found.append(sums / (weights + 1))
        return found

    def said(self, evidence):
        parts = [
            said @ self.weights[name].weights
            for (_, name), said in zip(self.contexts, evidence, strict=True) if said is not None
        ]  # fmt: skip
        return np.clip(sum(parts), -MOST_DEVIATIONS, MOST_DEVIATIONS)

    def predict(self, row):
        return self.mean + self.deviation * self.said(self.evidence(row))

    def learn(self, row, target, weight):
        repeats, far = min(weight, MOST_REPEATS), 0.0
        if self.deviation > 0:
            far = (target - self.mean) / self.deviation
            far = np.clip(far, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        self.note(row)
        if self.contexts:
            self.table.make_room(2, len(self.contexts), self.rows)
            evidence = self.evidence(row)
            error = far - self.said(evidence)
            for (_, name), said in zip(self.contexts, evidence, strict=True):
                if said is not None:
                    part, slopes = self.weights[name], error * said
                    part.squares = KEPT * part.squares + slopes**2
                    steps = RATE * repeats * slopes / np.sqrt(part.squares + 0.1)
                    part.weights = np.clip(part.weights + steps, -MOST_WEIGHT, MOST_WEIGHT)
            keys = self.keys(row)
            for key in sorted(keys, key=lambda key: self.table.find(key, self.rows) is None):
                record = self.table.find_or_add(key, self.rows)
                record.counts *= np.exp(-(self.rows - record.last) * RATES)
                record.counts[:2] += np.array([[repeats], [repeats * far]])
                record.labels = {0, 1}
                record.last = self.rows
        self.weight += weight
        share, distance = weight / self.weight, target - self.mean
        self.mean += share * distance
        self.squares += (1 - share) * weight * distance**2
        self.rows += 1
        self.push(row, 0)
