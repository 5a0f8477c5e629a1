"""Test, then learn: one learner over one stream, and what is kept of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gate_streams import Stream
from numpy.typing import NDArray
from peers import OneByOne, VowpalWabbit, VowpalWabbitRegressor
from report import memory_of

# a score is kept after so many rows, and a learner is only stopped there
FIRST_MARKS, STEP = (250, 500), 1_000


class Learner(Protocol):
    """One learner on its way through one stream."""

    def block(self, start: int, stop: int) -> tuple[Any, float]:
        """What it predicted for the rows that follow, each learned after, and the seconds."""


class ByDicts:
    """A learner of dicts, row by row."""

    def __init__(self, model: OneByOne, stream: Stream) -> None:
        self.model, self.rows, self.targets = model, stream.rows, stream.targets

    def block(self, start: int, stop: int) -> tuple[list[Any], float]:
        """See `Learner`."""
        predict, learn, predicted = self.model.predict_one, self.model.learn_one, []
        rows, targets = self.rows[start:stop], self.targets[start:stop]
        began = time.perf_counter()
        for x, y in zip(rows, targets, strict=True):
            predicted.append(predict(x))
            learn(x, y)
        return predicted, time.perf_counter() - began

    @property
    def _raw_memory_usage(self) -> int | None:
        return memory_of(self.model)


class ByLines:
    """Vowpal Wabbit, given lines of text that were made outside the clock."""

    def __init__(self, model: VowpalWabbit | VowpalWabbitRegressor, stream: Stream) -> None:
        self.model, self.lines = model, stream.lines

    def block(self, start: int, stop: int) -> tuple[list[Any], float]:
        """See `Learner`."""
        predict, learn, predicted = self.model.predict_line, self.model.learn_line, []
        learned, asked = (lines[start:stop] for lines in self.lines)
        began = time.perf_counter()
        for line, question in zip(learned, asked, strict=True):
            predicted.append(predict(question))
            learn(line)
        return predicted, time.perf_counter() - began

    @property
    def _raw_memory_usage(self) -> int:
        return self.model._raw_memory_usage


# ------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class Result:
    """What a learner did on a stream.

    Attributes
    ----------
    rows, of
        How many rows it saw before it was stopped, and how many there are.
    score
        Accuracy, or R2.
    microseconds
        Per row, to predict and learn it.
    bytes
        The size of the model; None if unknown.
    curve
        The score at each of `marks`.
    failure
        What ended it, if it was an error: then there is no score.

    """

    rows: int
    of: int
    score: float = math.nan
    microseconds: float = math.nan
    bytes: int | None = None
    curve: tuple[float, ...] = ()
    failure: str = ""

    @property
    def stopped(self) -> bool:
        """Whether it did not see all rows."""
        return self.rows < self.of

    def at(self, rows: int) -> float:
        """The score over the first rows, whose number is one of `marks`; -inf for a failure."""
        if self.failure:
            return -math.inf
        if rows == self.rows:
            return self.score
        return self.curve[marks(self.of).index(rows)]


def marks(n: int) -> list[int]:
    """After how many of n rows scores are kept."""
    inner = [*FIRST_MARKS, *range(STEP, n, STEP)]
    return [*(mark for mark in inner if mark < n), n]


class Accuracy:
    """The share of classes predicted rightly."""

    def __init__(self) -> None:
        self.n = self.hits = 0

    def update(self, predicted: Sequence[Any], targets: NDArray[Any]) -> None:
        """Count; no prediction is a wrong one."""
        self.n += len(targets)
        self.hits += sum(p == y for p, y in zip(predicted, targets.tolist(), strict=True))

    @property
    def value(self) -> float:
        """Over all rows so far."""
        return self.hits / self.n


class R2:
    """1 less the sum of squared errors as a share of that about the mean of the same rows."""

    def __init__(self) -> None:
        self.n = 0
        self.errors = self.total = self.squares = np.float64(0.0)

    def update(self, predicted: Sequence[Any], targets: NDArray[Any]) -> None:
        """Add; for want of a prediction the mean so far stands in."""
        given = np.array([np.nan if p is None else p for p in predicted], dtype=np.float64)
        y = targets.astype(np.float64)
        if self.n == 0:
            # sums about the first target lose no digits to a mean far from 0
            self.origin = y[0]
        before = np.cumsum(y - self.origin) - (y - self.origin) + self.total
        counts = self.n + np.arange(len(y))
        means = self.origin + before / np.maximum(counts, 1)
        if self.n == 0:
            means[0] = 0.0
        with np.errstate(over="ignore"):
            self.errors += np.sum((np.where(np.isnan(given), means, given) - y) ** 2)
        self.n += len(y)
        self.total += np.sum(y - self.origin)
        self.squares += np.sum((y - self.origin) ** 2)

    @property
    def value(self) -> float:
        """Over all rows so far."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(1 - self.errors / (self.squares - self.total**2 / self.n))


def prequential(learner: Learner, stream: Stream, budget: float = math.inf) -> Result:
    """Run a learner over a stream, or until it has used its budget of seconds."""
    score: Accuracy | R2 = Accuracy() if stream.classifies else R2()
    seconds, start, curve = 0.0, 0, []
    for stop in marks(len(stream)):
        predicted, elapsed = learner.block(start, stop)
        score.update(predicted, stream.y[start:stop])
        curve.append(score.value)
        seconds, start = seconds + elapsed, stop
        if seconds > budget:
            break
    return Result(
        rows=start, of=len(stream), score=score.value, microseconds=1e6 * seconds / start,
        bytes=memory_of(learner), curve=tuple(curve),
    )
