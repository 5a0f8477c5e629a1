"""Scores of predictions that are made one after the other, in memory that does not grow."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassScore", "Curve", "NumberScore", "TargetsScore"]

MIN_PROBABILITY = 1e-15  # a label thought impossible would make the mean log loss infinite
CURVE_POINTS = 4096  # more than a picture shows


class Curve:
    """The mean of a stream of numbers over time, as means of blocks of equal length."""

    def __init__(self) -> None:
        self.block = 1  # rows behind a point; doubles when there are too many points
        self._sums: NDArray[np.float64] = np.zeros(0)
        self._n = 0

    def add(self, values: NDArray[np.float64]) -> None:
        """Take in the next numbers."""
        while (self._n + len(values)) // self.block >= CURVE_POINTS:
            self._sums = np.add.reduceat(self._sums, range(0, len(self._sums), 2))
            self.block *= 2
        blocks = (self._n + np.arange(len(values))) // self.block
        self._n += len(values)
        sums = np.zeros(-(-self._n // self.block))
        sums[: len(self._sums)] = self._sums
        np.add.at(sums, blocks, values)
        self._sums = sums

    def points(self, window: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers of rows, and the means of about the last `window` rows before each."""
        n_blocks = self._n // self.block
        width = min(max(window // self.block, 1), max(n_blocks, 1))
        totals = np.concatenate([[0.0], np.cumsum(self._sums[:n_blocks])])
        ends = np.arange(width, n_blocks + 1)
        return ends * self.block, (totals[ends] - totals[ends - width]) / (width * self.block)


class ClassScore:
    """Accuracy, macro F1 and log loss."""

    unit = "accuracy"

    def __init__(self) -> None:
        self.curve = Curve()
        self.n = 0
        self._true: Counter[Any] = Counter()
        self._said: Counter[Any] = Counter()
        self._right: Counter[Any] = Counter()
        self._loss = 0.0
        self._n_losses = 0

    def update(self, y: Sequence[Any], said: Sequence[Any]) -> None:
        """Count labels and what was said of them, None where nothing was known."""
        self.n += len(y)
        # few pairs, many rows
        for (true, label), times in Counter(zip(y, said, strict=True)).items():
            self._true[true] += times
            self._said[label] += times
            if true == label:
                self._right[true] += times
        self.curve.add(np.array(list(map(operator.eq, y, said)), dtype=np.float64))

    def update_loss(self, probabilities: NDArray[np.float64]) -> None:
        """Count the probabilities that were given to the true labels."""
        clipped = np.clip(probabilities, MIN_PROBABILITY, 1.0)
        self._loss -= float(np.log(clipped).sum())
        self._n_losses += len(probabilities)

    def values(self) -> dict[str, float]:
        """The scores by name."""
        # where nothing was known no class was named: it is no class of its own
        labels = [label for label in {*self._true, *self._said} if label is not None]
        f1 = [
            2 * self._right[label] / (self._true[label] + self._said[label]) for label in labels
        ]
        values = {
            "accuracy": self._right.total() / self.n if self.n else 0.0,
            "macro_f1": sum(f1) / len(f1) if f1 else 0.0,
        }
        if self._n_losses:
            values["log_loss"] = self._loss / self._n_losses
        return values


class NumberScore:
    """Mean absolute error, root mean squared error and R2."""

    unit = "mean absolute error"

    def __init__(self) -> None:
        self.curve = Curve()
        self.n = 0
        self._absolute = 0.0
        self._squared = 0.0
        self._mean = 0.0
        self._spread = 0.0

    def update(self, y: NDArray[np.float64], said: NDArray[np.float64]) -> None:
        """Count numbers and what was said of them."""
        errors = np.abs(y - said)
        self._absolute += float(errors.sum())
        self._squared += float((errors**2).sum())
        # Chan's formula: the spread about the mean, in one pass
        n, mean = len(y), float(y.mean())
        shift = mean - self._mean
        self._spread += float(((y - mean) ** 2).sum()) + shift**2 * self.n * n / (self.n + n)
        self.n += n
        self._mean += shift * n / self.n
        self.curve.add(errors)

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers so far."""
        return math.sqrt(self._spread / self.n) if self.n else 0.0

    def values(self) -> dict[str, float]:
        """The scores by name."""
        if not self.n:
            return {"mae": 0.0, "rmse": 0.0, "r2": 0.0}
        return {
            "mae": self._absolute / self.n,
            "rmse": math.sqrt(self._squared / self.n),
            "r2": 1.0 - self._squared / self._spread if self._spread else 0.0,
        }


class TargetsScore:
    """R2 of several numbers: that of each, and their mean."""

    unit = "mean absolute error, in deviations"

    def __init__(self, names: Sequence[str]) -> None:
        self.curve = Curve()
        self.n = 0
        self._scores = {name: NumberScore() for name in names}

    def update(self, y: NDArray[np.float64], said: NDArray[np.float64]) -> None:
        """Count numbers and what was said of them, shape (n_rows, n_targets)."""
        self.n += len(y)
        errors = np.zeros(len(y))
        for i, score in enumerate(self._scores.values()):
            score.update(y[:, i], said[:, i])
            errors += np.abs(y[:, i] - said[:, i]) / (score.deviation or 1.0)
        self.curve.add(errors / len(self._scores))

    def values(self) -> dict[str, float]:
        """The scores by name."""
        each = {name: score.values()["r2"] for name, score in self._scores.items()}
        mean = sum(each.values()) / len(each)
        return {"r2": mean, **{f"r2 {name}": value for name, value in each.items()}}
