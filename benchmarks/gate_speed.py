"""How fast the default classifier is beside a Hoeffding tree of river, one of MOA, and VW."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data import noisy_halfspace
from gate_runs import ByDicts
from gate_streams import Stream, of_numbers, stream
from moa_streams import MoaClassifier
from peers import PEERS, Cache, Job, Spread, interleaved, present, ratios
from report import Report, short, spread_text

CHUNK = 1_000
# river's Hoeffding tree takes a millisecond on the sets of many classes
ROWS_OF_RIVER = 5_000
SETS = ("elec2", "letter", "pendigits", "magic", "generated")
RIVER, MOA = "river HoeffdingTree", "CapyMOA HoeffdingTree"
REDUCTIONS = ("log_multi", "oaa", "recall_tree")
# by peer: which of our ways is compared with it, and how many times as fast it is to be
AT_LEAST = {
    ("arrays", RIVER): 100.0, ("dicts", RIVER): 40.0, ("arrays", MOA): 10.0,
    **{("whole array, learn only", f"VW {reduction}"): 1.0 for reduction in REDUCTIONS},
}


def generated(n: int = 50_000) -> Stream:
    """Ten numbers, two classes."""
    X, y = noisy_halfspace(n, 10, seed=1)
    return of_numbers("generated", X, y)


def by_arrays(model: Any, X: Any, y: Any) -> None:
    """Predict every row just before it is learned, a chunk at a time."""
    for start in range(0, len(y), CHUNK):
        part = slice(start, start + CHUNK)
        model.test_then_learn_many(X[part], y[part])


def n_rows(source: Stream, job: str) -> int:
    """How many rows a job times."""
    return min(ROWS_OF_RIVER, len(source)) if job == RIVER else len(source)


def jobs_of(source: Stream, make: Callable[[], Any], cache: Cache | None) -> dict[str, Job]:
    """What to time, by name; peers that are absent are left out."""
    def job(start: Callable[[], Callable[[], object]]) -> Job:
        return lambda: {"all": start()}

    jobs: dict[str, Job] = {
        "arrays": job(lambda: partial(by_arrays, make(), source.X, source.y)),
        "whole array, learn only": job(lambda: partial(make().learn_many, source.X, source.y)),
        "dicts": job(lambda: partial(ByDicts(make(), source).block, 0, len(source))),
        RIVER: job(
            lambda: partial(
                ByDicts(PEERS[RIVER].make(source.task), source).block, 0, n_rows(source, RIVER)
            )
        ),
    }
    if PEERS[MOA].why_absent() is None:
        jobs[MOA] = job(
            lambda: partial(MoaClassifier("HoeffdingTree", source).block, 0, len(source))
        )
    if cache is not None:
        for reduction in REDUCTIONS:
            jobs[f"VW {reduction}"] = job(partial(partial, learn, cache, reduction))
    return jobs


def learn(cache: Cache, reduction: str) -> None:
    """VW over its cache."""
    cache.learn(reduction).finish()


def speed(
    report: Report, make: Callable[[], Any], repeats: int, names: Sequence[str] = ()
) -> None:
    """Microseconds per row to predict and learn, in turns."""
    report.begin("speed", f"{make().__class__.__name__}, microseconds per row")
    report.note(
        f"arrays: predict and learn {CHUNK:,} rows at a time; dicts, {RIVER} and {MOA}: predict "
        "and learn each row,\nMOA's inside its own machine from memory, river's over the first "
        f"{ROWS_OF_RIVER:,} rows; VW learns from its cache.\n"
    )
    _, absent = present([MOA, *(f"VW {reduction}" for reduction in REDUCTIONS)])
    report.skipped(absent)
    table, goals = [], []
    for name in names or SETS:
        source = generated() if name == "generated" else stream(name)
        with tempfile.TemporaryDirectory() as folder:
            cache = None
            if "VW oaa" not in absent:
                cache = Cache(
                    Path(folder) / "rows", np.nan_to_num(source.X), source.y, source.task.n_classes
                )
            times = interleaved(jobs_of(source, make, cache), repeats)
        seconds = {
            job: [s / n_rows(source, job) for s in phases["all"]] for job, phases in times.items()
        }
        table += [[name, job, spread_text(Spread.of(of_job), 1e6)]
                  for job, of_job in seconds.items()]
        for (way, peer), at_least in AT_LEAST.items():
            ratio = ratios(seconds[peer], seconds[way]) if peer in seconds else None
            goals.append((name, way, peer, ratio, at_least))
    report.table(["set", "learner", "us"], table)
    for name, way, peer, ratio, at_least in goals:
        report.speed_goal(f"{name}: {way} against {peer}", ratio, at_least)
    known = {(way, peer): [ratio.median for _, w, p, ratio, _ in goals if (w, p) == (way, peer)
                           and ratio is not None] for way, peer in AT_LEAST}
    for (way, peer), medians in known.items():
        if medians:
            report.note(f"{way} against {peer}: {short(min(medians))}x to {short(max(medians))}x")


