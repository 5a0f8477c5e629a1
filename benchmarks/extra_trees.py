"""What randomised trees are to show: alone, and ten of them over one window.

    python benchmarks/extra_trees.py [section ...]

Rows are predicted before they are learned, in the order of `data.stream_order`, codes of categories
taken as numbers. `accuracy`, `thirty` and `numbers` take the first 12,000 rows of known sets, and
the mean of twelve forests of other seeds, for one alone moves by some .003. `apart` is the mean of
ten trees that know nothing of each other, three times, with a shrinkage of 1 and with what each of
them learns.
`intervals` counts how often 90 % intervals of a single tree hold the target. `speed` has forests of
others beside ours in the same run. `steady` looks for the slowest of 1,000 calls of `learn_one`:
the same stream is learned several times, and a call counts as its fastest time, so that what other
programs do is left out. `noise` has labels that nothing tells, `budget` a bound on memory.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from contestants import MOA_FORESTS
from data import load, stream_order
from gate_runs import R2, ByDicts
from gate_streams import Stream, of_numbers
from moa_streams import MoaClassifier, with_ensemble
from numpy.typing import NDArray
from peers import why_absent
from report import Run, megabytes, run_sections, short
from river import forest

from streamtree import ExtraTreeClassifier, ExtraTreeRegressor
from streamtree._core.ensembles.extratrees import ExtraTrees
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.regressor import Regressor
from streamtree._core.stream.window import Window
from streamtree._core.trees.extra.strength import Strength
from streamtree._core.trees.extra.tree import ExtraTree

Array = NDArray[Any]

ROWS = 12_000
N_TREES = 10
# scores are means over them: of poker_train25k one forest's moves by .004
SEEDS = range(0, 12_000, 1_000)
# a plain loop over trees takes long
SEEDS_APART = SEEDS[:3]
# what ten trees are to reach on the first rows, and how far a measurement may fall short: the mean
# moves by about as much from one set of seeds to another
ACCURACY = {
    "covtype_kaggle15k": 0.805, "letter": 0.868, "segment": 0.957, "banana": 0.885,
    "magic": 0.860, "pendigits": 0.973, "nursery": 0.982, "page_blocks": 0.966,
    "kr_vs_kp": 0.977, "sick": 0.976, "connect4_2class": 0.819, "nycflights13_dest": 0.975,
    "spambase": 0.932, "car": 0.948, "adult_train32k": 0.843, "poker_train25k": 0.538,
    "elec2": 0.892,
}
THIRTY = {"letter": 0.888, "covtype_kaggle15k": 0.81}
NUMBERS = {
    "bike_sharing_hour": 0.895, "concrete": 0.81, "winequality_white": 0.42, "cpu_act": 0.96,
    "cal_housing": 0.73, "elevators": 0.76, "kin8nm": 0.63,
}
COVERED = [*NUMBERS, "abalone", "airfoil", "puma8NH"]
LEVEL = 0.9
SLACK = 0.0005
# microseconds a row and tree, predicting and learning
SPEED = {"magic": 2.0, "letter": 4.0, "isolet": 12.0}
PEER_ROWS = 1_500
STEADY_ROWS, STEADY_CALLS, STEADY_RATIO, STEADY_RUNS = 100_000, 1_000, 20.0, 4
NOISE_ROWS, NOISE_LOSS = 100_000, 0.03
BUDGET_ROWS, BUDGET_BYTES, BUDGET_LOSS = 1_000_000, 10_000_000, 0.005
CHUNK = 1_000


def trees(n: int, numbers: bool = False, max_bytes: int | None = None, seed: int = 0) -> Any:
    """A forest of n trees over one window, whose mean is what it says."""
    window, strength = Window(10_000), Strength(None)
    members = [
        ExtraTree(
            has_numbers=numbers, seed=seed + i, strength=strength, stagger=i / n, window=window
        )
        for i in range(n)
    ]
    tree = ExtraTrees(members, window=window, strength=strength, has_numbers=numbers)
    model: Any = ExtraTreeRegressor() if numbers else ExtraTreeClassifier()
    # as in a forest, nothing is shrunk but the trees
    model._core = (
        Regressor(tree, shrinks=False, max_bytes=max_bytes) if numbers
        else Classifier(tree, max_bytes=max_bytes)
    )
    return model


def first_rows(name: str) -> tuple[Array, Array]:
    """The rows of a set that are learned, and their targets."""
    data = load(name)
    order = stream_order(name, len(data.y), ROWS)
    return np.asarray(data.X[order], dtype=np.float64), data.y[order]


def accuracy_of(model: Any, X: Array, y: Array) -> float:
    """The share of labels predicted rightly before they were learned."""
    said = model.test_then_learn_many(X, y.tolist())
    return float(np.mean([p == label for p, label in zip(said, y.tolist(), strict=True)][1:]))


def explained_by(model: Any, X: Array, y: Array) -> float:
    """The R2 of numbers predicted before they were learned."""
    score = R2()
    score.update(model.test_then_learn_many(X, y.astype(float)), y)
    return score.value


def _scores(run: Run, goals: dict[str, float], n_trees: int, has_numbers: bool = False) -> None:
    rows = []
    score = explained_by if has_numbers else accuracy_of
    for name, goal in goals.items():
        X, y = first_rows(name)
        found = [score(trees(n_trees, has_numbers, seed=seed), X, y) for seed in SEEDS]
        mean, error = float(np.mean(found)), float(np.std(found, ddof=1)) / len(found) ** 0.5
        rows.append((name, f"{mean:.4f}", f"{error:.4f}", goal, f"{mean - goal:+.4f}"))
        run.report.goal(f"{n_trees} trees, {name}: {goal}", f"{mean:.4f}", mean >= goal - SLACK)
    what = "R2" if has_numbers else "accuracy"
    run.report.table(["set", what, "standard error", "goal", "difference"], rows)


def accuracy(run: Run) -> None:
    """Ten trees on labels."""
    run.report.begin("accuracy", f"how often is the mean of {N_TREES} trees right?")
    _scores(run, ACCURACY, N_TREES)


def thirty(run: Run) -> None:
    """Thirty trees."""
    run.report.begin("thirty", "what are three times as many trees worth?")
    _scores(run, THIRTY, 3 * N_TREES)


def numbers(run: Run) -> None:
    """Ten trees on numbers."""
    run.report.begin("numbers", f"how much of the variance do {N_TREES} trees explain?")
    _scores(run, NUMBERS, N_TREES, has_numbers=True)


def score_apart(name: str, shrinkage: float | None) -> float:
    """The accuracy, or the R2, of the mean of ten trees by a loop over their seeds."""
    X, y = first_rows(name)
    kind = ExtraTreeRegressor if name in NUMBERS else ExtraTreeClassifier
    scores = []
    for first in SEEDS_APART:
        models = [kind(seed=first + i, shrinkage=shrinkage) for i in range(N_TREES)]
        if name in NUMBERS:
            said = np.mean([m.test_then_learn_many(X, y.astype(float)) for m in models], axis=0)
            score = R2()
            score.update(said, y)
            scores.append(score.value)
        else:
            said = np.mean([
                m.test_then_learn_many(X, y.tolist(), proba=True) for m in models
            ], axis=0)
            scores.append(np.mean(np.array(models[0].labels)[said.argmax(axis=1)][1:] == y[1:]))
    return float(np.mean(scores))


def apart(run: Run) -> None:
    """Ten trees by a plain loop."""
    run.report.begin("apart", f"what does the mean of {N_TREES} trees say that learn apart?")
    rows = []
    for name, goal in (ACCURACY | NUMBERS).items():
        given, learned = score_apart(name, 1.0), score_apart(name, None)
        rows.append((name, f"{given:.4f}", f"{learned:.4f}", goal, f"{given - goal:+.4f}"))
    run.report.table(
        ["set", "shrinkage of 1", "each learns its own", "goal", "the first less the goal"], rows
    )


def coverage(X: Array, y: Array) -> float:
    """How often intervals hold the target, of every fourth row once there are some."""
    model, hits = ExtraTreeRegressor(), []
    for i, (row, target) in enumerate(zip(X.tolist(), y.astype(float).tolist(), strict=True)):
        x = dict(enumerate(row))
        if i >= len(y) // 12 and i % 4 == 0:
            hits.append(target in model.predict_one(x, with_interval=True, confidence_level=LEVEL))
        model.learn_one(x, target)
    return float(np.mean(hits))


def intervals(run: Run) -> None:
    """Intervals of single trees."""
    run.report.begin("intervals", f"how often do intervals of {LEVEL:.0%} hold the target?")
    found = {name: coverage(*first_rows(name)) for name in COVERED}
    run.report.table(["set", "held"], [(name, f"{share:.1%}") for name, share in found.items()])
    mean = float(np.mean(list(found.values())))
    run.report.goal(
        "mean between 88 % and 92 %", f"{mean:.1%}", LEVEL - 0.02 <= mean <= LEVEL + 0.02
    )


def _microseconds(X: Array, labels: list[Any]) -> float:
    """Of CPU a row for ten trees."""
    gc.collect()
    model, began = trees(N_TREES), time.process_time()
    model.test_then_learn_many(X, labels)
    return 1e6 * (time.process_time() - began) / len(labels)


def _peer_times(stream: Stream) -> dict[str, float | None]:
    """River's and MOA's forests of ten trees, a row: by the clock, for MOA runs in threads."""
    amf = ByDicts(forest.AMFClassifier(n_estimators=N_TREES, seed=1), stream)
    found: dict[str, float | None] = {
        "river AMF": 1e6 * amf.block(0, len(stream))[1] / len(stream), "MOA ARF": None,
    }
    if why_absent("capymoa.classifier") is None:
        arf = MoaClassifier(with_ensemble(MOA_FORESTS["ARF"], N_TREES), stream)
        found["MOA ARF"] = 1e6 * arf.block(0, len(stream))[1] / len(stream)
    return found


def speed(run: Run) -> None:
    """The time of ten trees by arrays, predicting and learning, growing included."""
    run.report.begin("speed", "what does a row cost?")
    rows = []
    for name, goal in SPEED.items():
        X, y = first_rows(name)
        ours = min(_microseconds(X, y.tolist()) for _ in range(run.repeats)) / N_TREES
        peers = _peer_times(of_numbers(name, X[:PEER_ROWS], y[:PEER_ROWS]))
        rows.append((name, X.shape[1], short(ours), *[
            "-" if each is None else f"{each / N_TREES / ours:.0f}x" for each in peers.values()
        ]))
        run.report.goal(f"{name}: {goal} us a row and tree", short(ours), ours <= goal)
    run.report.table(["set", "columns", "us a row and tree", "river AMF", "MOA ARF"], rows)


def tangled(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Ten columns, and two labels that a product of two of them moves."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0).astype(int)


def times_of_calls(make: Callable[[], Any], rows: Sequence[Any], labels: Sequence[Any]) -> Array:
    """Nanoseconds of every call of `learn_one`."""
    learn, clock = make().learn_one, time.perf_counter_ns
    times = np.empty(len(rows))
    gc.collect()
    gc.disable()
    for i, (x, y) in enumerate(zip(rows, labels, strict=True)):
        began = clock()
        learn(x, y)
        times[i] = clock() - began
    gc.enable()
    return times


def worst_ratio(times: Array) -> tuple[float, int]:
    """The slowest of consecutive calls over their median, and where it is worst."""
    blocks = times[:len(times) // STEADY_CALLS * STEADY_CALLS].reshape(-1, STEADY_CALLS)
    ratios = blocks.max(axis=1) / np.median(blocks, axis=1)
    return float(ratios.max()), int(ratios.argmax()) * STEADY_CALLS


def steady(run: Run) -> None:
    """The slowest calls along a stream."""
    run.report.begin("steady", f"how slow is the slowest of {STEADY_CALLS} calls?")
    X, y = tangled(STEADY_ROWS)
    rows, labels = [dict(enumerate(row)) for row in X.tolist()], y.tolist()
    makes = {"one tree": ExtraTreeClassifier, f"{N_TREES} trees": functools.partial(trees, N_TREES)}
    table = []
    for name, make in makes.items():
        runs = [times_of_calls(make, rows, labels) for _ in range(STEADY_RUNS)]
        times = functools.reduce(np.minimum, runs)
        # the first call of all makes everything that there is
        ratio, place = worst_ratio(np.concatenate([[np.median(times)], times[1:]]))
        table.append((
            name, short(np.median(times) / 1e3), f"{ratio:.1f}x", place, f"{times[0] / 1e3:.0f}"
        ))
        run.report.goal(
            f"{name}: at most {STEADY_RATIO:g} times the median", f"{ratio:.1f}x",
            ratio <= STEADY_RATIO,
        )
    run.report.table(["", "median us", "slowest", "in the rows from", "first call, us"], table)


def noise(run: Run) -> None:
    """Labels that no column tells."""
    run.report.begin("noise", "what does it cost that there is nothing to learn?")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(NOISE_ROWS, 10)), rng.integers(2, size=NOISE_ROWS)
    said = trees(N_TREES).test_then_learn_many(X, y.tolist(), proba=True)
    said = np.asarray(said[[0, 1]] if hasattr(said, "columns") else said)
    # labels are numbered by their first appearance
    column = (y != y[0]).astype(int)
    ours = np.clip(said[np.arange(len(y)), column], 1e-15, None)
    before = np.cumsum(column) - column
    shares = (before + 0.5) / (np.arange(len(y)) + 1.0)
    frequencies = np.where(column == 1, shares, 1.0 - shares)
    excess = float(np.mean(np.log(frequencies[1:]) - np.log(ours[1:])))
    run.report.goal(
        f"log loss at most {NOISE_LOSS} above the class frequencies'", f"{excess:.4f}",
        excess <= NOISE_LOSS,
    )


def resident() -> int:
    """Bytes of the process that lie in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def budgeted(max_bytes: int | None) -> tuple[float, int, int]:
    """Accuracy, the most bytes that ten trees held, and by how much the process grew at most.

    The rows are those of magic drawn again and again, with a little noise.
    """
    data = load("magic")
    rng = np.random.default_rng(0)
    deviations = 0.05 * data.X.std(axis=0)
    model = trees(N_TREES, max_bytes=max_bytes)
    hits = held = grown = 0
    before = None
    for first in range(0, BUDGET_ROWS, CHUNK):
        picked = rng.integers(len(data.y), size=min(CHUNK, BUDGET_ROWS - first))
        X = data.X[picked] + deviations * rng.normal(size=(len(picked), data.X.shape[1]))
        y = data.y[picked].tolist()
        before = resident() if before is None else before
        said = model.test_then_learn_many(X, y)
        hits += sum(p == label for p, label in zip(said, y, strict=True))
        held, grown = max(held, sys.getsizeof(model)), max(grown, resident() - before)
    return hits / BUDGET_ROWS, held, grown


def budget(run: Run) -> None:
    """A bound on memory, and none; the bounded trees come first, in a process that is small."""
    run.report.begin("budget", f"what do {megabytes(BUDGET_BYTES)} MB for {N_TREES} trees cost?")
    bounded, free = budgeted(BUDGET_BYTES), budgeted(None)
    run.report.table(
        ["bound", "accuracy", "held at most, MB", "process grew by, MB"],
        [(name, f"{found[0]:.4f}", megabytes(found[1]), megabytes(found[2]))
         for name, found in (("10 MB", bounded), ("none", free))],
    )
    run.report.goal(
        f"never above {megabytes(BUDGET_BYTES)} MB", megabytes(max(bounded[1:])),
        max(bounded[1:]) <= BUDGET_BYTES,
    )
    run.report.goal(
        f"at most {BUDGET_LOSS:.1%} below unbounded trees", f"{free[0] - bounded[0]:+.4f}",
        bounded[0] >= free[0] - BUDGET_LOSS,
    )


SECTIONS = {
    section.__name__: section
    for section in (accuracy, thirty, numbers, apart, intervals, speed, steady, noise, budget)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line names."""
    run_sections(__doc__ or "", SECTIONS, arguments)


if __name__ == "__main__":
    main()
