"""The test error of the default classifier on customary splits, beside VW's."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from data import Data, load
from peers import Cache, present
from report import Report, error_rate, megabytes, memory_of

from streamtree import LOMTreeClassifier

LONG = 20
# with more classes than the models of leaves hold, the learner is the one made for many
MOST_CLASSES = 256


@dataclass(frozen=True)
class Split:
    """A set with a customary split, and what is to be reached on it.

    Attributes
    ----------
    name
        The set.
    goals
        The test error, by passes, that ours must not exceed; in the order of difficulty.
    reductions
        Those of VW that run beside.
    microseconds
        What a row may cost; None for whatever it does.

    """

    name: str
    goals: tuple[tuple[int, float], ...]
    reductions: tuple[str, ...] = ("recall_tree", "oaa")
    microseconds: float | None = None


SPLITS = (
    Split("isolet", ((1, 0.064), (LONG, 0.048))),
    Split("mnist", ((1, 0.06),)),
    Split("clinc150", ((1, 0.169), (1, 0.082))),
    Split("banking77", ((1, 0.184), (1, 0.108))),
    Split("newsgroups20", ((1, 0.233),)),
    # one against all takes 44 seconds there
    Split("wikitext2_nextword", ((1, 0.857),), ("recall_tree",), 12.0),
)


def error_after(data: Data, model: Any, passes: int) -> tuple[float, float]:
    """The test error of a model after passes over the training rows, and microseconds per row."""
    n = data.split
    X, y = data.X[:n], data.y[:n]
    start = time.perf_counter()
    for _ in range(passes):
        model.learn_many(X, y)
    microseconds = 1e6 * (time.perf_counter() - start) / (passes * n)
    return error_rate(model.predict_many(data.X[n:]), data.y[n:]), microseconds


def vw_error(data: Data, reduction: str, passes: int) -> tuple[float, float]:
    """The same for VW at its own learning rate."""
    n = data.split
    # its own 18 bits where they hold all weights, or collisions would blur the comparison
    n_weights = data.n_classes * data.X.shape[1]
    bits = int(np.clip(np.ceil(np.log2(n_weights)) + 1, 18, 26))
    with tempfile.TemporaryDirectory() as folder:
        train, test = (
            Cache(Path(folder) / name, data.X[part], data.y[part], data.n_classes, bits)
            for name, part in (("train", slice(None, n)), ("test", slice(n, None)))
        )
        start = time.perf_counter()
        workspace = train.learn(reduction, passes=passes)
        microseconds = 1e6 * (time.perf_counter() - start) / (passes * n)
        error = error_rate(test.predict(workspace), data.y[n:])
        workspace.finish()
    return error, microseconds


def splits(report: Report, make: Callable[[], Any], names: Sequence[str] = ()) -> None:
    """Test errors and the time they cost, and each goal."""
    report.begin("splits", f"test error of {type(make()).__name__} on customary splits, defaults")
    report.note(f"LOMTreeClassifier where there are more than {MOST_CLASSES} classes\n")
    absent = present(["VW recall_tree", "VW oaa"])[1]
    report.skipped(absent)
    table, goals = [], []
    for split in SPLITS:
        if names and split.name not in names:
            continue
        data = load(split.name)
        errors: dict[int, tuple[float, float]] = {}
        for passes in dict(split.goals):
            model = make() if data.n_classes <= MOST_CLASSES else LOMTreeClassifier()
            errors[passes] = error_after(data, model, passes)
            table.append(
                [split.name, type(model).__name__, passes, f"{errors[passes][0]:.2%}",
                 f"{errors[passes][1]:.2f}", megabytes(memory_of(model))]
            )
            for reduction in split.reductions:
                if f"VW {reduction}" not in absent:
                    error, microseconds = vw_error(data, reduction, passes)
                    table.append(
                        [split.name, f"VW {reduction}", passes, f"{error:.2%}",
                         f"{microseconds:.2f}", "-"]
                    )
        goals += [(split, passes, goal, *errors[passes]) for passes, goal in split.goals]
    report.table(["set", "learner", "passes", "test error", "us per row", "MB"], table)
    for split, passes, goal, error, _ in goals:
        report.error_goal(f"{split.name}, passes {passes}: test error", error, goal)
    for split, passes, _, _, microseconds in goals:
        if split.microseconds is not None:
            report.goal(
                f"{split.name}, passes {passes}: <= {split.microseconds:g} us per row",
                f"{microseconds:.2f}", microseconds <= split.microseconds,
            )
