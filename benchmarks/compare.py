"""This version of streamtree beside another one: scores over the gate's streams, and times.

    python benchmarks/compare.py --other PATH/bin/python [accuracy] [speed] [--sets ...]

PATH is an environment in which the other version is installed; numpy, scipy and river go with it.
Each version runs in an interpreter of its own, by compare_worker.py.

`accuracy` (the default) sends every learner over every stream of the accuracy gate, dict by dict,
each predicted before it is learned, and prints accuracy or R2 of both, the largest differences
first; "same" marks predictions that agree to the last bit. With `--names 6` a score is the mean of
six runs, in each of which the columns have other names, and its deviation stands behind it: names
are what learners draw columns by, and one draw says little where trees are. With `--shuffled` the
rows come in another order, too, in all runs but the first. Both versions see the same runs: behind
the difference stands its standard error.

`speed` prints how many times as fast this version is, the median [least, greatest] of the ratios
of runs that take turns: by dicts (predict and learn each row), by arrays (learn_many), and by
test_then_learn_many, for which an older version predicts and learns a thousand rows at a time.

The data sets are looked for in $STREAMTREE_DATA (see data.py).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from data import data_folder
from gate_streams import CLASSES, NUMBERS, ROWS
from peers import ratios
from report import Report, times_text

WORKER = Path(__file__).resolve().parent / "compare_worker.py"
DEFAULTS = (
    "ModelTreeClassifier", "SoftTreeClassifier", "SelfTerminatingTreeClassifier",
    "NonGreedyTreeClassifier", "SoftTreeRegressor", "SelfTerminatingTreeRegressor",
    "NonGreedyTreeRegressor",
)
# by label: the learner of this version and its parameters, which both versions must have
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in DEFAULTS},
    "LOMTreeClassifier, majority": ("LOMTreeClassifier", {"leaf_model": "majority"}),
}
SPEED_SETS = ("elec2", "magic", "letter", "pendigits", "adult_train32k", "banking77")
WAYS = ("dicts", "arrays", "test_then_learn_many")


class Version:
    """A version of streamtree in an interpreter that runs as long as it is asked.

    Parameters
    ----------
    python
        The interpreter.
    is_other
        Whether it is that of another environment, where $PYTHONPATH would lead astray.

    """

    def __init__(self, python: str, is_other: bool) -> None:
        drop = {"PYTHONPATH"} if is_other else set()
        self._process = subprocess.Popen(
            [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={name: value for name, value in os.environ.items() if name not in drop},
        )
        self.name: str = self.answer()

    def ask(self, task: dict[str, Any]) -> None:
        """Let it begin a task."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer to what was asked."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} has ended; its own message stands above")
        return json.loads(line)

    def end(self) -> None:
        """Let the interpreter end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that any of the patterns fits, all if there is none."""
    return [
        name for name in names
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def tasks(sets: Sequence[str], options: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """What to do but for the way, with the label of the learner: set by set."""
    found = []
    for name in matching(sets, options.sets):
        if not (data_folder() / f"{name}.npz").is_file():
            print(f"skipped {name}: it is not in {data_folder()}")
            continue
        for label in matching(list(LEARNERS), options.learners):
            learner, params = LEARNERS[label]
            if learner.endswith("Classifier") == (name not in NUMBERS):
                task = {"set": name, "learner": learner, "params": params, "rows": options.rows}
                found.append((label, task))
    return found


def accuracy(report: Report, ours: Version, other: Version, options: argparse.Namespace) -> None:
    """Scores of both versions, the largest differences first."""
    report.begin("accuracy", "prequential accuracy or R2 by dicts")
    found = []
    for label, task in tasks([*CLASSES, *NUMBERS], options):
        for version in (ours, other):
            version.ask({
                **task, "way": "dicts", "names": options.names, "shuffled": options.shuffled
            })
        found.append((task["set"], label, ours.answer(), other.answer()))
        name, _, a, b = found[-1]
        print(
            f"{name}, {label}: {np.mean(a['scores']):.4f}, other {np.mean(b['scores']):.4f}",
            file=sys.stderr,
        )
    found.sort(key=lambda line: -abs(np.mean(line[2]["scores"]) - np.mean(line[3]["scores"])))
    report.table(
        ["set", "learner", "ours", "sd", "other", "sd", "difference", "+-", ""],
        [
            [name, label, *cells(a["scores"], b["scores"]),
             "same" if a["digest"] == b["digest"] else ""]
            for name, label, a, b in found
        ],
    )


def cells(ours: list[float], other: list[float]) -> list[str]:
    """Means and deviations of the scores, their mean difference and its standard error."""
    gains = np.subtract(ours, other)
    error = f"{gains.std(ddof=1) / len(gains) ** 0.5:.4f}" if len(gains) > 1 else ""
    both = [f"{of(scores):.4f}" for scores in (ours, other) for of in (np.mean, np.std)]
    return [*both, f"{gains.mean():+.4f}", error]


def speed(report: Report, ours: Version, other: Version, options: argparse.Namespace) -> None:
    """How many times as fast this version is, run by run in turns."""
    report.begin("speed", "the other version's processor time over ours")
    lines = []
    for label, task in tasks(SPEED_SETS, options):
        cells = []
        for way in WAYS:
            seconds: dict[Version, list[float]] = {ours: [], other: []}
            for _ in range(options.repeats):
                for version, times in seconds.items():
                    version.ask({**task, "way": way})
                    times.append(version.answer()["seconds"])
            cells.append(times_text(ratios(seconds[other], seconds[ours])))
        lines.append([task["set"], label, *cells])
        print(*lines[-1], sep=", ", file=sys.stderr)
    report.table(["set", "learner", *WAYS], lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sections that the command line names."""
    sections = {"accuracy": accuracy, "speed": speed}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help="accuracy (default), speed")
    parser.add_argument("--other", required=True, metavar="PYTHON", help="the other interpreter")
    parser.add_argument("--sets", nargs="+", default=[], metavar="PATTERN")
    parser.add_argument("--learners", nargs="+", default=[], metavar="PATTERN")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"of a set at the most ({ROWS:,})")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of timings (5)")
    parser.add_argument("--names", type=int, default=1, help="namings of the columns (1)")
    parser.add_argument("--shuffled", action="store_true", help="and other orders of the rows")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.sections if name not in sections]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(sections)}")
    if min(options.rows, options.repeats, options.names) < 1:
        parser.error("--rows, --repeats and --names must be at least 1")
    ours, other = Version(sys.executable, False), Version(options.other, True)
    print(f"ours: {ours.name}\nother: {other.name}")
    report = Report()
    for name in options.sections or ["accuracy"]:
        sections[name](report, ours, other, options)
    for version in (ours, other):
        version.end()


if __name__ == "__main__":
    main()
