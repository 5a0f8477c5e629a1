"""An additive model by least squares in plain NumPy: sums over all rows, and a round of descent.

A row is a dict of numbers by name, as `numbers` of reference.scaling makes it.
"""

from typing import Any, NamedTuple

import numpy as np

from reference.contexts import hash_of
from reference.scaling import RunningScaler

KNOTS, MOST_PARTS, BEFORE_KNOTS = 8, 128, 30
LINEAR_PENALTY, KNOT_PENALTY, OUTLIER, MOST_REPEATS = 1.0, 5.0, 10.0, 10.0


class Knot(NamedTuple):
    """A part that is 1 at its place, and 0 from the next ones on."""

    name: Any
    place: int


class ReferenceAdditive:
    """Weights of parts: None is the bias, a name stands for the linear part of its column."""

    def __init__(self, half_life):
        self.half_life, self.scaler = half_life, RunningScaler()
        self.parts = [None]
        self.weights, self.sums = np.zeros(MOST_PARTS), np.zeros(MOST_PARTS)
        self.products = np.zeros((MOST_PARTS, MOST_PARTS))
        self.rows = self.total = self.mean = self.squares = 0.0
        self.low = self.high = 0.0

    @property
    def deviation(self):
        return np.sqrt(self.squares / self.total) if self.total else 0.0

    def read(self, row):
        """Parts and values of a scaled row: bias, linear parts, knots, in the order of names."""
        linear, knots = [(None, 1.0)], []
        for name in sorted(row, key=hash_of):
            value = row[name]
            if len(set(self.scaler.columns[name].nonzeros)) < 2:
                linear.append((name, 1.0 if value > 0 else value))
                continue
            linear.append((name, value))
            place = min(max((value + 2.1) / 0.6, 0.0), KNOTS - 1.0)
            knot = min(int(place), KNOTS - 2)
            knots += [(Knot(name, knot), knot + 1 - place), (Knot(name, knot + 1), place - knot)]
        return linear, knots

    def inputs(self, parts):
        """A vector, and the places in it that are not nought because they are not there."""
        x, places = np.zeros(MOST_PARTS), []
        for part, value in parts:
            if part in self.parts:
                places.append(self.parts.index(part))
                x[places[-1]] = value
        return x, places

    def predict(self, row):
        linear, knots = self.read(self.scaler.apply(row))
        x, _ = self.inputs(linear + knots)
        said = self.mean + self.deviation * (self.weights @ x)
        return min(max(said, self.low), self.high)

    def learn(self, row, target, weight=1.0):
        linear, knots = self.read(self.scaler.learn(row))
        for part, _ in linear + (knots if self.rows >= BEFORE_KNOTS else []):
            if part not in self.parts and len(self.parts) < MOST_PARTS:
                self.parts.append(part)
        x, places = self.inputs(linear + knots)
        self.low = min(self.low, target) if self.rows else target
        self.high = max(self.high, target) if self.rows else target
        self.total += weight
        before, self.mean = self.mean, self.mean + weight / self.total * (target - self.mean)
        self.squares += weight * (target - before) * (target - self.mean)
        self.rows += 1
        if self.rows % self.half_life == 0:
            self.sums, self.products = self.sums / 2, self.products / 2
        if self.deviation > 0:
            y = np.clip((target - self.mean) / self.deviation, -OUTLIER, OUTLIER)
            self.sums += min(weight, MOST_REPEATS) * y * x
            self.products += min(weight, MOST_REPEATS) * np.outer(x, x)
            self.descend(places)

    def descend(self, places):
        for i in places:
            penalty = KNOT_PENALTY if isinstance(self.parts[i], Knot) else LINEAR_PENALTY
            others = self.products[i] @ self.weights - self.products[i, i] * self.weights[i]
            self.weights[i] = (self.sums[i] - others) / (self.products[i, i] + penalty)
