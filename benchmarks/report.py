"""What the benchmark programs share: sections, tables, goals, and loops over examples."""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from peers import PEERS, Job, OneByOne, Spread, present

DISTRIBUTIONS = (
    "streamtree-learn", "numpy", "scipy", "scikit-learn", "pandas", "river", "vowpalwabbit",
    "capymoa",
)


@dataclass
class Report:
    """Prints tables and goals, and counts the goals."""

    n_ok: int = 0
    missed: list[str] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    section: str = ""

    def begin(self, section: str, question: str) -> None:
        """Head a section."""
        self.section = section
        print(f"\n## {section}: {question}\n")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print aligned columns, the first to the left and the others to the right."""
        cells = [list(header), *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            first = line[0].ljust(widths[0])
            rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
            print("  ".join([first, *rest]).rstrip())
        print()

    def note(self, text: str) -> None:
        """Print a remark."""
        print(text)

    def skipped(self, absent: Mapping[str, str]) -> None:
        """Name the peers that could not take part."""
        for name, reason in absent.items():
            print(f"skipped {name}: {reason}")

    def goal(self, text: str, measured: str, is_met: bool | None) -> None:
        """Print a goal beside the measured value; None where there was nothing to measure."""
        if is_met is None:
            verdict = "not measured"
            self.unmeasured.append(f"{self.section}: {text}")
        elif is_met:
            verdict = "ok"
            self.n_ok += 1
        else:
            verdict = "MISS"
            self.missed.append(f"{self.section}: {text}")
        print(f"goal: {text}; measured: {measured}: {verdict}")

    def speed_goal(self, text: str, ratio: Spread | None, at_least: float) -> None:
        """A goal on how many times as fast we are; no ratio where the peer is absent."""
        text = f"{text}: >= {at_least:g}x as fast"
        if ratio is None:
            self.goal(text, "-", None)
        else:
            self.goal(text, times_text(ratio), ratio.median >= at_least)

    def error_goal(self, text: str, error: float, at_most: float) -> None:
        """A goal on a share of errors."""
        self.goal(f"{text} <= {at_most:.1%}", f"{error:.2%}", error <= at_most)

    def end(self) -> None:
        """Print the count of goals and the ones that were missed."""
        print(f"\n{self.n_ok} goals ok, {len(self.missed)} missed, ", end="")
        print(f"{len(self.unmeasured)} not measured")
        for goal in self.missed:
            print(f"MISS {goal}")
        for goal in self.unmeasured:
            print(f"not measured {goal}")


@dataclass(frozen=True)
class Run:
    """What every section is given: `folder` is for scratch files, `plots` for what stays."""

    report: Report
    repeats: int
    folder: Path
    plots: Path | None = None


def spread_text(spread: Spread, scale: float = 1.0) -> str:
    """The median [least, greatest], with three digits of the median."""
    return (
        f"{short(scale * spread.median)} [{short(scale * spread.low)}, "
        f"{short(scale * spread.high)}]"
    )


def times_text(ratio: Spread) -> str:
    """A ratio as 12.3x [11.0, 14.1]."""
    return f"{short(ratio.median)}x [{short(ratio.low)}, {short(ratio.high)}]"


def short(value: float) -> str:
    """Three digits, never in scientific notation."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(digits, 0), 6)}f}"


def megabytes(n_bytes: int | None) -> str:
    """A size in MB, - if it is not known."""
    return "-" if n_bytes is None else short(n_bytes / 1e6)


def memory_of(model: Any) -> int | None:
    """The size of a model that tells it as river's do."""
    return getattr(model, "_raw_memory_usage", None)


def error_rate(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    """The share of rows whose label is not the predicted one."""
    return float((predicted != y).mean())


def versions() -> str:
    """The machine and the versions of everything that is measured."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{machine}; {python}; {', '.join(found)}"


def learn_rows(model: OneByOne, rows: Sequence[dict[Any, Any]], labels: Sequence[Any]) -> None:
    """Learn examples one by one."""
    learn_one = model.learn_one
    for x, y in zip(rows, labels, strict=True):
        learn_one(x, y)


def each(function: Callable[[Any], object], arguments: Iterable[Any]) -> None:
    """Call a function with every argument."""
    for argument in arguments:
        function(argument)


def one_by_one(
    make: Callable[[], OneByOne],
    rows: Sequence[dict[Any, Any]],
    labels: Sequence[Any],
    n_before: int,
    n_timed: int,
) -> Job:
    """A job that learns n_before rows outside the clock, and times the n_timed that follow."""
    stop = n_before + n_timed

    def job() -> dict[str, Callable[[], object]]:
        model = make()
        learn_rows(model, rows[:n_before], labels[:n_before])
        return {
            "learn": lambda: learn_rows(model, rows[n_before:stop], labels[n_before:stop]),
            "predict": lambda: each(model.predict_one, rows[n_before:stop]),
        }

    return job


def run_sections(
    description: str,
    sections: Mapping[str, Callable[[Run], None]],
    arguments: Sequence[str] | None = None,
) -> None:
    """Run the sections that the command line names, all by default.

    Parameters
    ----------
    description
        What the program is about; its first line heads the help.
    sections
        By name, what takes a `Run` and prints its findings.
    arguments
        The command line; that of the process by default.

    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"one of {', '.join(sections)}"
    )
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of timings (5)")
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="where plots go; none are drawn without it"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.sections if name not in sections]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(sections)}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
    print(versions())
    report = Report()
    report.skipped(present(PEERS)[1])
    with tempfile.TemporaryDirectory() as folder:
        run = Run(report, options.repeats, Path(folder), options.plots)
        for name in options.sections or sections:
            sections[name](run)
    report.end()
