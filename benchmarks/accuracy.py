"""The accuracy gate: every learner of the package by its defaults, beside every peer.

    python benchmarks/accuracy.py run [--learners ours] [--sets letter elec2] [--jobs 2]
    python benchmarks/accuracy.py gate

`run` sends each learner once over each stream, asked before it learns each row, and keeps what
came of it in a table, benchmarks/results/accuracy.csv, after every run of a learner over a set:
with --missing an interrupted run goes on, without it the results that are named are replaced.
Learners are named by patterns such as "VW *", or by their groups: ours, tree, linear, vw, floor,
forest, and peers for all but ours. Peers are stopped when they have used their budget of seconds.
With --unseen it is about the tables of r_tables.py, which played no part in the making of the
learners, and the results are kept in unseen.csv beside that.
`gate` reads the table, and prints it, the ranks, and the goals beside what was measured.

`speed` and `splits` measure what the table cannot tell: times side by side, and test errors on
the customary splits. The data sets are looked for in $STREAMTREE_DATA (see data.py). `expected`
writes anew what tests/tools/test_accuracy.py expects, after a change that is meant.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import gate as standings
import gate_speed
import gate_splits
import gate_streams as streams
from contestants import CONTESTANTS, Contestant
from gate_runs import Result, prequential
from report import Report, versions
from scores import read, replace
from workers import Failed, finished

import streamtree

RESULTS = Path(__file__).resolve().parent / "results" / "accuracy.csv"
UNSEEN_RESULTS = RESULTS.with_name("unseen.csv")
EXPECTED = Path(__file__).resolve().parents[1] / "tests" / "tools" / "accuracy.csv"
# what the tests run: the bundled sets, and some of the data folder's
FAST = (*streams.BUNDLED, "kr_vs_kp", "spambase", "abalone", "autompg")
# seconds for a peer on a set, and the shares of it that are not 1: single trees are the ones to be
# beaten, forests are there for comparison
BUDGET = 60.0
SHARES = {"ours": math.inf, "tree": 2.0, "forest": 0.5}
# beyond the budget: to read the set, to finish a block of rows, to weigh the model
PATIENCE = 900.0


def chosen(patterns: Sequence[str]) -> list[Contestant]:
    """The contestants that any of the patterns names, all if there is none, cheap ones first."""
    found = [
        contestant for contestant in CONTESTANTS.values()
        if not patterns or any(_names(pattern, contestant) for pattern in patterns)
    ]
    return sorted(found, key=lambda contestant: contestant.cost)


def _names(pattern: str, contestant: Contestant) -> bool:
    return (
        pattern == contestant.group
        or (pattern == "peers" and contestant.group != "ours")
        or fnmatchcase(contestant.name, pattern)
    )


def tasks(
    contestants: Sequence[Contestant], sets: Sequence[str], budget: float
) -> list[tuple[str, str, float]]:
    """Set, learner and seconds of each run: by cost, then by set."""
    found = []
    for cost in sorted({contestant.cost for contestant in contestants}):
        for name in sets:
            for one in contestants:
                if one.cost == cost and one.classifies == streams.has_classes(name):
                    found.append((name, one.name, budget * SHARES.get(one.group, 1.0)))
    return found


def run_one(name: str, learner: str, budget: float) -> Result:
    """One learner over one stream."""
    stream = streams.stream(name)
    return prequential(CONTESTANTS[learner].start(stream), stream, budget)


def run(options: argparse.Namespace) -> None:
    """Fill the table."""
    contestants = []
    for contestant in chosen(options.learners):
        reason = contestant.why_absent
        if reason is None:
            contestants.append(contestant)
        else:
            print(f"skipped {contestant.name}: {reason}")
    everything = streams.UNSEEN if options.unseen else (*streams.CLASSES, *streams.NUMBERS)
    sets = [
        name for name in everything
        if not options.sets or any(fnmatchcase(name, pattern) for pattern in options.sets)
    ]
    todo = tasks(contestants, sets, options.budget)
    if options.missing:
        there = read(options.results)
        todo = [task for task in todo if task[:2] not in there]
    limit = 2 * options.budget + PATIENCE
    for number, (task, answer) in enumerate(finished(run_one, todo, options.jobs, limit), 1):
        name, learner, _ = task
        if isinstance(answer, Failed):
            answer = Result(rows=0, of=0, failure=str(answer))
        replace(options.results, name, learner, answer)
        print(f"{number}/{len(todo)} {name}, {learner}: {_told(answer)}", flush=True)


def _told(result: Result) -> str:
    if result.failure:
        return result.failure
    stopped = f", stopped after {result.rows:,} of {result.of:,} rows" if result.stopped else ""
    return f"{result.score:.4f}, {result.microseconds:.1f} us{stopped}"


def of_ours(options: argparse.Namespace, classifies: bool) -> str:
    """The learner of the package that --learners names, else the one the goals are about."""
    named = chosen(options.learners) if options.learners else []
    ours = [one.name for one in named if one.group == "ours" and one.classifies == classifies]
    default = standings.CLASSIFIER if classifies else standings.REGRESSOR
    return ours[0] if len(ours) == 1 else default


def gate(options: argparse.Namespace) -> None:
    """Print what the table says."""
    table, report = read(options.results), Report()
    standings.classification(report, table, of_ours(options, classifies=True))
    standings.regression(report, table, of_ours(options, classifies=False))
    report.end()


def speed(options: argparse.Namespace) -> None:
    """Times side by side."""
    print(versions())
    report = Report()
    make = getattr(streamtree, of_ours(options, classifies=True))
    gate_speed.speed(report, make, options.repeats, options.sets)
    report.end()


def splits(options: argparse.Namespace) -> None:
    """Test errors on customary splits."""
    print(versions())
    report = Report()
    make = getattr(streamtree, of_ours(options, classifies=True))
    gate_splits.splits(report, make, options.sets)
    report.end()


def expected(options: argparse.Namespace) -> None:
    """Write what the tests expect of our learners on the fast sets."""
    with EXPECTED.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["set", "learner", "score"])
        for name in FAST:
            for learner in learners_for(name):
                score = run_one(name, learner, math.inf).score
                writer.writerow([name, learner, f"{score:.4f}"])
    print(f"wrote {EXPECTED}")


def learners_for(name: str) -> list[str]:
    """The learners of the package that take the targets of a stream."""
    classifies = streams.stream(name).classifies
    return [
        one.name for one in CONTESTANTS.values()
        if one.group == "ours" and one.classifies == classifies
    ]


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    section.__name__: section for section in (run, gate, speed, splits, expected)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sections that the command line names; the gate by default."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"one of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--learners", nargs="+", default=[], metavar="PATTERN")
    parser.add_argument("--sets", nargs="+", default=[], metavar="PATTERN")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of timings (5)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, metavar="SECONDS",
        help=f"of a peer on a set ({BUDGET:.0f}; trees have twice, forests half as many)",
    )
    parser.add_argument("--missing", action="store_true", help="only what the table lacks")
    parser.add_argument("--unseen", action="store_true", help="the tables of r_tables.py")
    parser.add_argument("--results", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    options.results = options.results or (UNSEEN_RESULTS if options.unseen else RESULTS)
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    if min(options.jobs, options.repeats) < 1:
        parser.error("--jobs and --repeats must be at least 1")
    for name in options.sections or ["gate"]:
        SECTIONS[name](options)


if __name__ == "__main__":
    main()
