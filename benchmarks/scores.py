"""The table of the accuracy gate: a CSV file, sorted and without times of day."""

from __future__ import annotations

import csv
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gate_runs import Result

__all__ = ["Table", "read", "replace"]

HEADER = ("set", "learner", "rows", "of", "score", "microseconds", "bytes", "failure", "curve")

# Results by set and learner.
Table = dict[tuple[str, str], Result]


def read(path: Path) -> Table:
    """The results in a file, none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {(line["set"], line["learner"]): _result(line) for line in csv.DictReader(file)}


def _result(line: Mapping[str, str]) -> Result:
    return Result(
        rows=int(line["rows"]), of=int(line["of"]), score=float(line["score"]),
        microseconds=float(line["microseconds"]), bytes=int(line["bytes"] or 0) or None,
        failure=line["failure"], curve=tuple(map(float, line["curve"].split())),
    )


def replace(path: Path, name: str, learner: str, result: Result) -> None:
    """Put one result into a file, which other processes may be writing to as well."""
    with _alone(path.parent):
        table = {**read(path), (name, learner): result}
        fresh = path.with_suffix(".new")
        with fresh.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            for key in sorted(table):
                writer.writerow([*key, *_cells(table[key])])
        os.replace(fresh, path)


def _cells(result: Result) -> list[object]:
    return [
        result.rows, result.of, f"{result.score:.5f}", f"{result.microseconds:.2f}",
        result.bytes or "", result.failure, " ".join(f"{score:.4f}" for score in result.curve),
    ]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
