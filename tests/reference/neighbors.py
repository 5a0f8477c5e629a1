"""Nearest neighbours in double precision, plainly: rows are arrays by field, in a list.

A row is a dict by feature: a number, or a Category; what is missing is not in it, or NaN. All
columns of numbers are there in most rows. Labels are 0, 1, 2, ... as they appear.

Columns of many whole numbers may be names of something, and are two fields: in the second one rows
have the same name or not.
"""

import math
from dataclasses import dataclass

import numpy as np

from reference.contexts import Targets, fields_of
from reference.scaling import RunningScaler
from streamtree._core.stream.features import Category

NEAREST, BEFORE_FIELDS, LOOK_ROWS, MOST_ROWS = 24, 16, 256, 8192
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 10.0
RATE, MEMORY, LEAST_SQUARES, MOST_LOG, LEAST_SLOPE = 0.2, 1000, 0.01, 8.0, 1e-5
FIRST_WEIGHT, FIRST_DOUBT, AGE, HALF = 10.0, 0.3, 4096, 0.5
VARIES, NOISE = 0.1, 0.03
NAMES_LOG, MOST_NAMES, SHOWN_ROWS, FEW_BITS, LOOKED_AT = -3.0, 8, 256, 30, 0.05
FAR = 4096


class Scale:
    """A number that is learned by its logarithm."""

    def __init__(self, log=0.0):
        self.log, self.squares = log, 0.0

    def move(self, slope, weight):
        self.squares = (1 - 1 / MEMORY) * self.squares + slope**2
        self.log -= RATE * weight * slope / np.sqrt(self.squares + LEAST_SQUARES)
        self.log = min(max(self.log, -MOST_LOG), MOST_LOG)


@dataclass(frozen=True)
class Field:
    """A column of numbers, a feature with categories, or, if it is exact, a column of names."""

    name: object
    is_feature: bool
    is_exact: bool = False

    @property
    def is_number(self):
        return not (self.is_feature or self.is_exact)


def name_of(value):
    """A number in single precision as a name, which is an integer from 1 on; 0 if it is missing."""
    if math.isnan(value):
        return 0
    return int((np.float32(value) + np.float32(0)).view(np.uint32)) or 1


class Values:
    """What a column of numbers has had: of a block of values, which places they set."""

    def __init__(self):
        self.places, self.n_rows, self.has_many, self.has_fractions = set(), 0, False, False

    def note(self, value):
        if self.has_fractions or math.isnan(value):
            return
        self.has_fractions = value != math.floor(value)
        self.places = self.places | {name_of(value) * 2654435761 % 2**32 >> 24}
        self.has_many |= len(self.places) > FEW_BITS
        self.n_rows += 1
        if self.n_rows == SHOWN_ROWS:
            self.places, self.n_rows = set(), 0

    def may_be_names(self):
        return self.has_many and not self.has_fractions


class Origins:
    """The first value of a column, where the first one that differs lies near to it."""

    def __init__(self):
        self.first, self.origins = {}, {}

    def learn(self, row):
        for name, value in row.items():
            if math.isnan(value) or name in self.origins:
                continue
            first = self.first.setdefault(name, value)
            if value != first:
                self.origins[name] = first if abs(value - first) * FAR < abs(first) else 0.0

    def apply(self, row, name):
        """In single precision; NaN where there is none."""
        return float(np.float32(row.get(name, math.nan) - self.origins.get(name, 0.0)))


class Kept:
    """A row that was learned, by field; `target` is its label or number."""

    def __init__(self, cells, target, weight):
        self.cells, self.target = cells, target
        self.weight = min(max(weight, LEAST_WEIGHT), MOST_WEIGHT)


class Found:
    """The rows that are nearest to one, what each has to say, and all together."""

    def __init__(self, cells, order, apart, ages, distances, says, total):
        self.cells = cells
        self.order = order  # their places among the rows, the nearest first
        self.apart = apart  # by row and field
        self.ages, self.distances, self.says, self.total = ages, distances, says, total
        self.left = total - says.sum()  # what all rows say


class Neighbours:
    """What neighbours of labels and of numbers share; no more than `most_rows` rows are kept."""

    def __init__(self, most_rows=MOST_ROWS):
        self.scaler, self.most_rows, self.seen = RunningScaler(), most_rows, 0
        self.origins, self.values = Origins(), {}  # of values, by field of numbers
        self.columns = {}  # by name or category: the rows before it came, and those that had it
        self.codes = {}  # numbers of categories from 1 on
        self.rows, self.fields = [], []  # the oldest row first
        self.scales = {}  # by field
        self.common, self.age, self.doubt = Scale(), Scale(), Scale()

    # ------------------------------------------------------------------------- one example

    def cell(self, field, row, numbers):
        """A standardised number, that of a category that is known, or a name; or 0 for none."""
        if field.is_feature:
            return self.codes.get(row.get(field.name), 0)
        if field.is_exact:
            return name_of(self.origins.apply(numbers_of(row), field.name))
        return numbers.get(field.name, 0.0)

    def cells(self, row, numbers):
        """By field."""
        return np.array([self.cell(field, row, numbers) for field in self.fields], dtype=float)

    def weights(self):
        """What a difference in each field weighs."""
        first = FIRST_WEIGHT / max(len(self.fields), 1)
        logs = [self.common.log + self.scales[field].log for field in self.fields]
        return first * np.exp(logs)

    def are_looked_at(self):
        """By field, whether it counts where the nearest rows are looked for."""
        weights = self.weights()
        return weights >= LOOKED_AT * weights.mean() if len(weights) else weights > 0

    def age_weight(self):
        return np.exp(self.age.log) / AGE

    def apart(self, rows, cells):
        """How far rows are from one, by row and field: categories and names are the same or not."""
        found = np.abs(rows - cells)
        is_number = np.array([field.is_number for field in self.fields], dtype=bool)
        return np.where(is_number, found, found > 0)

    def find(self, row, numbers):
        """The nearest rows; numbers are standardised."""
        cells, doubt = self.cells(row, numbers), FIRST_DOUBT * np.exp(self.doubt.log)
        rows = np.array([kept.cells for kept in self.rows])
        rows = rows.reshape(len(self.rows), len(self.fields))
        apart, ages = self.apart(rows, cells), np.arange(len(rows), 0, -1)
        distances = apart @ (self.weights() * self.are_looked_at()) + self.age_weight() * ages
        order = np.argsort(distances, kind="stable")[:NEAREST]
        distances = distances[order]
        weights = np.array([self.rows[i].weight for i in order])
        says = weights * np.exp(distances[:1] - distances)
        return Found(
            cells, order, apart[order], ages[order], distances, says, doubt + says.sum()
        )

    def targets_of(self, found):
        return np.array([self.rows[i].target for i in found.order])

    def follow(self, found, slopes, by_doubt, weight):
        """Let the weights follow what is lost: `slopes` are those by distances.

        What a row has to say depends on how much farther than the first one it is.
        """
        weight = min(weight, MOST_WEIGHT)
        self.doubt.move(by_doubt, weight)
        slopes = np.where(np.abs(slopes) > LEAST_SLOPE, slopes, 0.0)
        slopes[0] = -slopes[1:].sum()
        slopes[0] *= abs(slopes[0]) > LEAST_SLOPE
        if not slopes.any():
            return
        by_field = self.weights() * (slopes @ found.apart)
        by_age = self.age_weight() * (slopes @ found.ages)
        for field, slope in zip(self.fields, by_field, strict=True):
            self.scales[field].move(slope, weight)
        self.common.move(by_field.sum(), weight)
        self.age.move(by_age, weight)

    def note(self, row):
        """Count the columns that a row has."""
        for column, cell in row.items():
            is_category = isinstance(cell, Category)
            counts = self.columns.setdefault(cell if is_category else column, [self.seen, 0])
            if is_category:
                self.codes.setdefault(cell, 1 + len(self.codes))
            counts[1] += is_category or not math.isnan(cell)

    def learn(self, row, target, weight):
        self.note(row)
        self.origins.learn(numbers_of(row))
        found = self.find(row, self.scaler.learn(numbers_of(row)))
        if len(found.order):
            self.move(found, target, weight)
        self.count(target, weight)
        self.seen += 1
        if self.fields:
            self.rows = [*self.rows, Kept(found.cells, target, weight)][-self.most_rows :]
        for field, values in self.values.items():
            values.note(self.origins.apply(numbers_of(row), field.name))
        early = (BEFORE_FIELDS, 2 * BEFORE_FIELDS, 4 * BEFORE_FIELDS, 8 * BEFORE_FIELDS)
        if self.seen % LOOK_ROWS == 0 or self.seen in early:
            self.take_fields()

    def count(self, target, weight):
        """Count what is known of a row besides its place among the others."""

    def take_fields(self):
        """Those that are not rare, by hashes of their names, and then those of names.

        New ones begin as average.
        """
        before = {field: f for f, field in enumerate(self.fields)}
        found = [Field(one.name, one.is_feature) for one in fields_of(self.columns, self.seen)]
        named = [
            field for field in found if field in self.values and self.values[field].may_be_names()
        ]
        self.fields = found + [Field(one.name, False, True) for one in named[:MOST_NAMES]]
        self.scales = {
            field: self.scales.get(field) or Scale(NAMES_LOG if field.is_exact else 0.0)
            for field in self.fields
        }
        self.values = {
            field: self.values.get(field) or Values() for field in found if field.is_number
        }
        self.rows = self.rows if self.fields else []
        sources = [before.get(field, -1) for field in self.fields]
        for kept in self.rows:
            kept.cells = np.append(kept.cells, 0.0)[sources]


def numbers_of(row):
    return {name: cell for name, cell in row.items() if not isinstance(cell, Category)}


class ReferenceNeighbours(Neighbours):
    """The shares of labels among the nearest rows."""

    def shares(self, n):
        """Of n labels in all rows."""
        labels = np.array([row.target for row in self.rows], dtype=int)
        return (np.bincount(labels, minlength=n) + HALF) / (len(labels) + HALF * n)

    def predict(self, row, n):
        """The probabilities of n labels."""
        found = self.find(row, self.scaler.apply(numbers_of(row)))
        said = found.left * self.shares(n)
        np.add.at(said, self.targets_of(found).astype(int), found.says)
        return said / found.total

    def learn(self, row, label, weight, n):
        """Learn a row; there are n labels, its own among them."""
        self.n_labels = n
        super().learn(row, label, weight)

    def move(self, found, label, weight):
        """By the slopes of the log loss."""
        is_same, share = self.targets_of(found) == label, self.shares(self.n_labels)[label]
        same = found.says[is_same].sum() + found.left * share
        slopes = is_same * found.says / same - found.says / found.total
        by_doubt = found.left / found.total - found.left * share / same
        self.follow(found, slopes, by_doubt, weight)


class ReferenceMeans(Targets, Neighbours):
    """The mean of the numbers of the nearest rows, and what kriging makes of it."""

    def plain(self, found):
        """As a distance from the mean of all."""
        return found.says @ (self.targets_of(found) - self.mean) / found.total

    def krige(self, found):
        """Ordinary kriging; the mean is drawn to that of all as if by `left` numbers."""
        if not len(found.order):
            return 0.0
        near = [self.rows[i] for i in found.order]
        rows = np.array([kept.cells for kept in near])
        between = self.age_weight() * np.abs(found.ages[:, None] - found.ages)
        between += np.array([self.apart(rows, cells) @ self.weights() for cells in rows])
        noise = np.array([NOISE / row.weight for row in near])
        covariances = np.exp(-VARIES * between) + np.diag(noise)
        numbers, ones = self.targets_of(found) - self.mean, np.ones(len(near))
        of_ones = np.linalg.solve(covariances, ones)
        mean = of_ones @ numbers / (of_ones.sum() + found.left)
        to_row = np.exp(-VARIES * found.distances)
        return mean + to_row @ np.linalg.solve(covariances, numbers - mean)

    def predict(self, row):
        found = self.find(row, self.scaler.apply(numbers_of(row)))
        plain = self.plain(found)
        return self.mean + plain + self.trust() * (self.krige(found) - plain)

    def move(self, found, target, weight):
        """By the slopes of half the squared error, in deviations; errors are no larger than 3."""
        if not self.deviation:
            return
        plain = self.plain(found)
        error = self.in_deviations(self.mean + plain - target)
        self.learn_trust(-error, self.in_deviations(self.krige(found) - plain))
        others = self.in_deviations(self.targets_of(found) - self.mean - plain)
        slopes = -error * found.says / found.total * others
        by_doubt = error * found.left / found.total * self.in_deviations(-plain)
        self.follow(found, slopes, by_doubt, weight)
