"""Batch learners that are trained again and again on all rows so far, as many people do it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gate_streams import Stream

# trained again whenever the rows have doubled, from the first so many on, and every so many rows
FIRST, EVERY = 125, 4_000


def is_due(rows: int) -> bool:
    """Whether a learner is trained again after so many rows."""
    doublings = rows / FIRST
    return rows >= FIRST and (
        rows % EVERY == 0 or doublings == 2 ** round(np.log2(doublings))
    )


class TrainedAgain:
    """A batch learner over a stream: predicts with what was trained last.

    Categories are given as codes. A missing cell is one more value, below all others, for those
    that know no missing ones.
    """

    def __init__(self, make: Callable[[Stream], Any], stream: Stream) -> None:
        self.make, self.stream = make, stream
        self.model: Any = None
        self.targets = stream.y
        self.X = stream.X.astype(np.float64)
        if isinstance(self.X, np.ndarray) and np.isnan(self.X).any():
            lowest = np.nanmin(self.X, axis=0, initial=0.0)
            self.X = np.where(np.isnan(self.X), lowest - 1.0, self.X)

    def block(self, start: int, stop: int) -> tuple[list[Any], float]:
        """Predict rows, training whenever it is due; see `gate_runs.Learner`."""
        began = time.perf_counter()
        predicted: list[Any] = []
        ends = [row for row in range(start + 1, stop) if is_due(row)]
        for first, last in zip([start, *ends], [*ends, stop], strict=True):
            if is_due(first):
                self._train(first)
            predicted += self._predict(first, last)
        return predicted, time.perf_counter() - began

    def _train(self, rows: int) -> None:
        y = self.targets[:rows]
        if self.stream.classifies and len(np.unique(y)) < 2:
            return
        self.model = self.make(self.stream)
        self.model.fit(self.X[:rows], y)

    def _predict(self, first: int, last: int) -> list[Any]:
        """What the model says, or the most frequent class so far; None stands for the mean."""
        if self.model is not None:
            return self.model.predict(self.X[first:last]).tolist()  # type: ignore[no-any-return]
        value = None
        if self.stream.classifies:
            value = np.bincount(self.targets[:first], minlength=1).argmax()
        return [value] * (last - first)


def random_forest(stream: Stream) -> Any:
    """Scikit-learn's, of a hundred trees."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if stream.classifies else RandomForestRegressor
    return kind(n_estimators=100, random_state=0, n_jobs=1)


def light_gbm(stream: Stream) -> Any:
    """LightGBM by its defaults, told which columns are categories."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if stream.classifies else LGBMRegressor
    model = kind(random_state=0, n_jobs=1, verbose=-1)
    categories = np.flatnonzero(stream.categorical).tolist()
    if categories:
        model.set_params(categorical_feature=categories)
    return model
