"""Whether a model stays within `max_bytes` under floods of everything that could make it grow.

    python benchmarks/memory.py [--rows 1000000] [--budgets 1 10 100] [--estimators NAME ...]
                                [--floods NAME ...] [--streams 1] [--jobs 2]

Every run has a process of its own. It learns a stream of six informative columns one row at a time,
as dicts, into which a flood is mixed: a new string a row, a new column a row, a new label every
other row, a concept that wants ever more splits, one of 100,000 categories, a timestamp a minute.
It is compared with the same model on the same stream without the flood. A score moves by as much as
its goal allows from one stream to the next: of several streams the highest peak, the median of
times and the mean of scores count.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import Report
from workers import Failed, finished

FLOODS = ("strings", "columns", "labels", "nodes", "one-hot", "timestamps")
CATEGORIES = 100_000
CHUNKS = 50             # of rows, that are timed each on its own
# what the goals allow
SHARE_ABOVE, BYTES_ABOVE = 1.10, 4_000_000
SLOWER, SCORE_LOST = 1.5, 0.02
PAGE_KB = 1024


@dataclass(frozen=True)
class Outcome:
    """What one run measured.

    Attributes
    ----------
    grown
        Bytes of the highest resident memory above that of the process before its model was made.
    microseconds
        Of processor time a row: in the first and in the last fifth of the rows.
    score
        Accuracy, or R2, over the second half, predicted before learned; of rows of the base stream.
    reported
        What `sys.getsizeof` says in the end.
    refused
        Rows that the model refused.

    """

    grown: int
    microseconds: tuple[float, float]
    score: float
    reported: int
    refused: int


def base_rows(
    rows: int, splits: bool, stream: int = 0,
) -> Iterator[tuple[dict[str, float], int, float]]:
    """Six columns; a class of three and a number that depend on them.

    With `splits` they depend on the cell of a grid of 32 x 32, which no model of a leaf can say.
    """
    rng = np.random.default_rng(stream)
    cells = rng.integers(3, size=(32, 32))
    done = 0
    while done < rows:
        n = min(1000, rows - done)
        X = rng.normal(size=(n, 6))
        if splits:
            at = np.clip(((X[:, :2] + 2) * 8).astype(int), 0, 31)
            labels = cells[at[:, 0], at[:, 1]]
        else:
            score = X[:, 0] + np.where(X[:, 1] > 0, X[:, 2], -X[:, 2])
            labels = np.digitize(score, [-0.7, 0.7])
        numbers = labels + 0.5 * X[:, 3] + 0.1 * rng.normal(size=n)
        wrong = rng.random(n) < 0.05
        labels = np.where(wrong, rng.integers(3, size=n), labels)
        names = [f"x{i}" for i in range(6)]
        for x, label, number in zip(X.tolist(), labels.tolist(), numbers.tolist(), strict=True):
            yield dict(zip(names, x, strict=True)), label, number
        done += n


def flooded(x: dict[str, Any], i: int, flood: str, rng: np.random.Generator) -> dict[str, Any]:
    """The i-th row with what a flood adds to it."""
    if flood == "strings":
        return {**x, "user": f"user {i}"}
    if flood == "columns":
        return {**x, f"column {i}": 1.0}
    if flood == "one-hot":
        return {**x, "category": f"category {rng.integers(CATEGORIES)}"}
    if flood == "timestamps":
        minute = i // 3
        return {**x, "time": f"2026-01-01 {minute // 1440:05d}d {minute // 60 % 24:02d}:"
                             f"{minute % 60:02d}"}
    return x


def measure(
    name: str, max_bytes: int | None, flood: str, mixes: bool, rows: int, stream: int,
) -> Outcome:
    """One run; without `mixes` only the base stream of the flood."""
    import streamtree

    estimator = getattr(streamtree, name)
    classifies = hasattr(estimator, "predict_proba_one")
    several = "MultiTarget" in name
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([1, stream])
    # what is imported on first use is no growth of the model
    warm = estimator()
    for x, label, number in base_rows(3000, False):
        y = label if classifies else {"a": number} if several else number
        warm.predict_one(x)
        warm.learn_one(x, y)
    del warm
    before = resident()
    model = estimator(max_bytes=max_bytes)
    times: list[float] = []
    hits = seen = refused = 0
    errors = squares = total = 0.0
    every = max(1, rows // CHUNKS)
    start = time.process_time()
    for i, (x, label, number) in enumerate(base_rows(rows, flood == "nodes", stream)):
        y: Any = label if classifies else {"a": number} if several else number
        if mixes:
            x = flooded(x, i, flood, rng)
        if 2 * i >= rows:
            said = model.predict_one(x)
            seen += 1
            hits += said == y
            if not classifies:
                value = said.get("a", 0.0) if several else said
                errors += (value - number) ** 2
                squares += number * number
                total += number
        model.learn_one(x, y)
        if mixes and flood == "labels" and classifies and i % 2:
            try:
                model.learn_one(x, f"label {i}")
            except ValueError:
                refused += 1
        if (i + 1) % every == 0:
            times.append((time.process_time() - start) / every * 1e6)
            start = time.process_time()
    score = hits / seen
    if not classifies:
        score = 1.0 - errors / (squares - total * total / seen)
    fifth = max(1, len(times) // 5)
    # predictions are timed in the second half only: the rows just before and the last ones differ
    half = len(times) // 2
    early, late = (sorted(part)[len(part) // 2] for part in (
        times[half:half + fifth], times[-fifth:]))
    grown = PAGE_KB * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Outcome(grown, (early, late), score, sys.getsizeof(model), refused)


def resident() -> int:
    """Bytes of this process that are in memory; its highest mark is set back to that."""
    # what was freed is no room that the model finds for nothing
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def judge(
    report: Report, task: tuple[Any, ...], floods: list[Outcome], calms: list[Outcome],
) -> list[str]:
    """A line of the table, and the goals; outcomes are by stream."""
    name, budget, kind = task[0], task[1], task[2]
    peak = max(flood.grown for flood in floods)
    early, late = np.median([flood.microseconds for flood in floods], axis=0)
    scores = np.array([[one.score for one in outcomes] for outcomes in (floods, calms)])
    gains = scores[0] - scores[1]
    spread = f" (+-{gains.std(ddof=1) / math.sqrt(len(gains)):.3f})" if len(gains) > 1 else ""
    allowed = int(SHARE_ABOVE * budget) + BYTES_ABOVE
    label = f"{name} {budget // 10**6} MB {kind}"
    report.goal(f"{label}: peak <= {allowed / 1e6:.1f} MB", f"{peak / 1e6:.1f} MB", peak <= allowed)
    report.goal(f"{label}: time a row flat", f"{late / early:.2f}x", late <= SLOWER * early)
    report.goal(f"{label}: score within {SCORE_LOST}", f"{gains.mean():+.3f}{spread}",
                -gains.mean() <= SCORE_LOST)
    return [
        name, str(budget // 10**6), kind, f"{peak / 1e6:.1f}",
        f"{max(flood.reported for flood in floods) / 1e6:.1f}", f"{early:.0f}", f"{late:.0f}",
        *(f"{score:.3f}" for score in scores.mean(axis=1)),
        str(max(flood.refused for flood in floods)),
    ]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    from streamtree.base import public_estimators

    names = sorted(
        name for name, kind in public_estimators().items() if "max_bytes" in kind()._get_params()
    )
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--budgets", type=int, nargs="+", default=[1, 10, 100], help="in MB")
    parser.add_argument("--estimators", nargs="+", default=names, choices=names)
    parser.add_argument("--floods", nargs="+", default=list(FLOODS), choices=FLOODS)
    parser.add_argument("--streams", type=int, default=1, help="of every flood")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns how many goals were missed."""
    options = parsed(arguments)
    pairs: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for name in options.estimators:
        for budget in options.budgets:
            for kind in options.floods:
                most = budget * 10**6
                # Most floods have one base stream. A tree that may take what it wants is what a
                # flood of nodes is held against.
                calm = (name, None, kind) if kind == "nodes" else (name, most, "strings")
                pairs.append(((name, most, kind, True, options.rows),
                              (*calm, False, options.rows)))
    streams = range(options.streams)
    tasks = dict.fromkeys((*task, i) for pair in pairs for task in pair for i in streams)
    report = Report()
    report.begin("memory", f"{options.rows} rows; MB, microseconds of processor time, scores")
    outcomes = dict(finished(measure, list(tasks), options.jobs, math.inf))
    lines = []
    for task, calm in pairs:
        answers = [[outcomes[*one, i] for i in streams] for one in (task, calm)]
        failed = [answer for part in answers for answer in part if isinstance(answer, Failed)]
        if failed:
            report.goal(f"{task[0]} {task[1] // 10**6} MB {task[2]}", str(failed[0]), False)
            continue
        lines.append(judge(report, task, *answers))
    report.table(
        ["estimator", "MB", "flood", "peak", "getsizeof", "us half", "us end", "score", "calm",
         "refused"],
        lines,
    )
    report.end()
    return len(report.missed)


if __name__ == "__main__":
    sys.exit(main() > 0)
