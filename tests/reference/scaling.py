"""Running standardisation of named columns, from the full list of what each one has shown."""

import math

import numpy as np

LIMIT = 5.0
DENSE_SHARE = 0.5
HEAD_START = 4
BIT_SHARE, BIT_KEPT, BIT_START = 0.25, 0.5, 12
OUTLIER = 10.0
LEAST_TRUSTED, TRUSTED_COUNT, GROSS = 8, 32, 50.0
REFRESH_PARTS = 16


def without_gross_outliers(values):
    """The first few values, gross outliers among them at the edge of what the others allow."""
    if len(values) < LEAST_TRUSTED:
        return values
    inner = sorted(values)[1:-1]
    mean, unit = np.mean(inner), np.std(inner)
    changes = sum(a != b for a, b in zip([0.0, *values], values, strict=False))
    if 2 * changes < len(values):
        unit = max(unit, abs(sorted(values[:3])[1]))
    if not max(mean - min(values), max(values) - mean) > GROSS * unit > 0.0:
        return values
    low, high = mean - OUTLIER * unit, mean + OUTLIER * unit
    return [min(max(value, low), high) for value in values]


class Column:
    """What one feature has shown, and the scale that was last derived from it.

    No stream of the tests that compare with it has a column whose unit changes.
    """

    def __init__(self, birth):
        self.birth = birth  # rows that came before the feature was first seen
        self.nonzeros = []
        self.zeros = 0
        self.center = 0.0
        self.factor = 0.0
        self.is_dense = False
        self.refresh_at = 0

    def within_reach(self, value):
        """The value, or the edge it lies beyond: what counts of an outlier."""
        scaled = (value - self.center) * self.factor
        if abs(scaled) <= OUTLIER:
            return value
        return self.center + math.copysign(OUTLIER, scaled) / self.factor

    def count(self, value, rows):
        """Take in a non-zero value; once the scale is trusted, one far out counts as the edge."""
        if len(self.nonzeros) >= TRUSTED_COUNT:
            value = self.within_reach(value)
        self.nonzeros.append(value)
        if len(self.nonzeros) == TRUSTED_COUNT:
            self.nonzeros = without_gross_outliers(self.nonzeros)
        if len(self.nonzeros) >= self.refresh_at:
            self.refresh(rows)

    def refresh(self, rows):
        """Derive center and factor anew; `rows` is how many rows there were, this one included."""
        n = len(self.nonzeros)
        self.refresh_at = n + 1 + n // REFRESH_PARTS
        nonzeros = self.nonzeros
        if n < TRUSTED_COUNT:
            nonzeros = without_gross_outliers(nonzeros)
        shown = np.array(nonzeros + [0.0] * self.zeros)
        rows -= self.birth
        if len(set(nonzeros)) == 1 and self.zeros:
            self.is_dense = n + self.zeros >= DENSE_SHARE * (rows + HEAD_START) and (
                n >= (BIT_KEPT if self.is_dense else 1.0) * BIT_SHARE * (rows + BIT_START)
            )
            if self.is_dense:
                self.center, self.factor = nonzeros[0] / 2, 2 / abs(nonzeros[0])
                return
        else:
            varies = len(set(nonzeros)) > 1
            self.is_dense = varies and n >= DENSE_SHARE * (rows + HEAD_START)
        if self.is_dense:
            self.center = float(np.mean(shown))
            self.factor = 1.0 / float(np.std(shown))
        else:
            self.center = 0.0
            self.factor = 1.0 / math.sqrt(np.mean(np.square(nonzeros)))


class RunningScaler:
    """Scales of all features; with enabled=False values pass as they are."""

    def __init__(self, enabled=True):
        self.enabled = enabled
        self.columns = {}
        self.rows = 0
        self.norms = []

    @property
    def mean_norm(self):
        """Mean over the rows of |scaled row|^2 + 1; the 1 is the offset's share."""
        return math.fsum(self.norms) / len(self.norms) if self.norms else 1.0

    def learn(self, row):
        """Count a row of {feature: number}, then return it scaled."""
        self.rows += 1
        for name, value in row.items():
            if math.isnan(value):
                continue
            column = self.columns.setdefault(name, Column(self.rows - 1))
            if value == 0.0:
                column.zeros += 1
                continue
            column.count(value, self.rows)
        scaled = self.apply(row)
        self.norms.append(1.0 + sum(value * value for value in scaled.values()))
        return scaled

    def apply(self, row):
        """A row scaled, without what is unknown, missing, or zero after scaling."""
        scaled = {}
        for name, value in row.items():
            column = self.columns.get(name)
            if column is None or math.isnan(value):
                continue
            if self.enabled:
                value = (value - column.center) * column.factor
                value = min(max(value, -LIMIT), LIMIT)
            if value != 0.0:
                scaled[name] = value
        return scaled


def numbers(x):
    """A row as numbers: a string is the feature (name, string) with value 1."""
    row = {}
    for name, value in x.items():
        if isinstance(value, str):
            row[name, value] = 1.0
        elif value is not None:
            row[name] = float(value)
    return row
