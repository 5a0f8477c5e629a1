"""What the table of the accuracy gate says: scores, ranks and goals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from contestants import CONTESTANTS
from gate_runs import Result
from report import Report, short
from scores import Table

# the learners whose defaults the goals are about
CLASSIFIER = "ModelTreeClassifier"
REGRESSOR = "SoftTreeRegressor"

SINGLE_TREES = tuple(
    f"{library} {tree}"
    for library in ("river", "MOA")
    for tree in ("HoeffdingTree", "HoeffdingAdaptiveTree", "EFDT")
)
SHARE_OF_WINS = 0.85
RANKED_BELOW = ("river linear", "VW oaa", "VW recall_tree")

# by set: the accuracy to reach; and the best single tree of river and MOA, as measured once
ACCURACY_FLOORS = {
    "elec2": (0.89, 0.839), "letter": (0.76, 0.651), "pendigits": (0.955, 0.890),
    "optdigits": (0.955, 0.889), "spambase": (0.92, 0.848), "magic": (0.82, 0.817),
    "nursery": (0.925, 0.918), "connect4_2class": (0.815, 0.806),
    "covtype_kaggle15k": (0.70, 0.666), "segment": (0.90, 0.799),
    "nycflights13_delay": (0.67, 0.631), "page_blocks": (0.945, 0.935),
    "waveform5000": (0.845, 0.799), "kdd99_10pct": (0.998, 0.996),
}
# by set: the best R2 of a single peer, as measured once; None where it was not
R2_TO_BEAT = {
    "cal_housing": 0.542, "bike_sharing_hour": 0.609, "ailerons": 0.649, "elevators": 0.621,
    "kin8nm": 0.417, "puma8NH": 0.557, "abalone": 0.343, "mv": 0.927, "autompg": None,
    "cpu_act": None,
}
R2_WINS = 8


@dataclass(frozen=True)
class Standings:
    """The results of those who take classes, or of those who take numbers.

    Attributes
    ----------
    by_set
        Results by set and learner.
    learners
        Ours first.

    """

    by_set: Mapping[str, Mapping[str, Result]]
    learners: Sequence[str]

    @classmethod
    def of(cls, table: Table, classifies: bool) -> Standings:
        """Those of a table."""
        learners = [name for name, one in CONTESTANTS.items() if one.classifies == classifies]
        by_set: dict[str, dict[str, Result]] = {}
        for (name, learner), result in sorted(table.items()):
            if learner in learners:
                by_set.setdefault(name, {})[learner] = result
        present = {learner for results in by_set.values() for learner in results}
        return cls(by_set, [learner for learner in learners if learner in present])

    def ranks(self, name: str) -> dict[str, float]:
        """By learner, 1 for the best on a set; each two are compared over rows that both saw."""
        results = self.by_set[name]
        return {
            one: 1 + sum(_lost(results[one], results[other]) for other in results if other != one)
            for one in results
        }

    def mean_ranks(self) -> dict[str, float]:
        """By learner, over the sets that it ran on."""
        ranks = [self.ranks(name) for name in self.by_set]
        return {
            learner: statistics.mean(of_set[learner] for of_set in ranks if learner in of_set)
            for learner in self.learners
        }

    def median(self, learner: str, what: str) -> float | None:
        """Of the microseconds or bytes of a learner over its sets."""
        values = [getattr(of_set[learner], what) for of_set in self.by_set.values()
                  if learner in of_set and not of_set[learner].failure]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None


def duel(one: Result, other: Result) -> tuple[float, float]:
    """The scores of two learners over the rows that both saw."""
    if one.failure or other.failure:
        return _or_worst(one), _or_worst(other)
    rows = min(one.rows, other.rows)
    return one.at(rows), other.at(rows)


def _or_worst(result: Result) -> float:
    return -math.inf if result.failure else result.score


def _lost(one: Result, other: Result) -> float:
    """1 for a defeat, a half for a draw."""
    ours, theirs = duel(one, other)
    return 1.0 if theirs > ours else 0.5 if theirs == ours else 0.0


def strongest(
    results: Mapping[str, Result], ours: str, rivals: Iterable[str]
) -> tuple[str, float, float] | None:
    """The rival that comes closest or is furthest ahead, our score and its over the same rows."""
    duels = [(*duel(results[ours], results[rival]), rival) for rival in rivals if rival in results]
    if not duels or ours not in results:
        return None
    score, theirs, rival = min(duels, key=lambda each: (each[0] - each[1], each[2]))
    return rival, score, theirs


# ------------------------------------------------------------------------------ printing


def _scores(report: Report, standings: Standings, scale: float, digits: int) -> None:
    """All scores, * behind those of learners that were stopped."""

    def cell(result: Result | None) -> str:
        if result is None:
            return "."
        if result.failure:
            return "-"
        value = f"{max(scale * result.score, -99.99):.{digits}f}"
        return value + ("*" if result.stopped else "")

    for learners in _columns(standings.learners):
        report.table(
            ["set", *(short_name(learner) for learner in learners)],
            [
                [name, *(cell(results.get(learner)) for learner in learners)]
                for name, results in standings.by_set.items()
            ],
        )


def _columns(learners: Sequence[str]) -> list[list[str]]:
    """The learners by groups that fit a screen."""
    groups: dict[bool, list[str]] = {}
    for learner in learners:
        groups.setdefault(CONTESTANTS[learner].group == "forest", []).append(learner)
    return list(groups.values())


def short_name(learner: str) -> str:
    """A name that fits the head of a column."""
    for long, brief in (
        ("Classifier", ""), ("Regressor", ""), ("regressor", ""), ("SelfTerminating", "SelfT."),
        ("HoeffdingAdaptiveTree", "HAT"), ("HoeffdingTree", "HT"), ("regression", ""),
    ):
        learner = learner.replace(long, brief)
    return learner.strip()


def _summary(report: Report, standings: Standings, ours: str) -> None:
    """A line for every learner, the best first."""
    ranks = standings.mean_ranks()
    rows = []
    for learner in sorted(ranks, key=ranks.__getitem__):
        duels = [
            _lost(results[learner], results[ours])
            for results in standings.by_set.values() if learner in results and ours in results
        ]
        results = [of_set[learner] for of_set in standings.by_set.values() if learner in of_set]
        microseconds = standings.median(learner, "microseconds")
        size = standings.median(learner, "bytes")
        rows.append(
            [
                learner, f"{ranks[learner]:.2f}", str(len(results)),
                str(sum(result.stopped for result in results)),
                str(sum(bool(result.failure) for result in results)),
                "" if learner == ours else f"{sum(duels):g} of {len(duels)}",
                "-" if microseconds is None else short(microseconds),
                "-" if size is None else short(size / 1e3),
            ]
        )
    report.table(
        ["learner", "mean rank", "sets", "stopped", "failed", f"lost to {short_name(ours)}",
         "median us", "median kB"],
        rows,
    )


def _opens(
    report: Report, standings: Standings, ours: str, what: str, scale: int, digits: int
) -> bool:
    """Print the tables of one kind of task; returns whether ours is in them."""
    if not any(ours in results for results in standings.by_set.values()):
        report.goal(what, "nothing in the table", None)
        return False
    report.note("* stopped by its budget: compared over the same rows; - failed; . not run\n")
    _scores(report, standings, scale, digits)
    _summary(report, standings, ours)
    return True


def classification(report: Report, table: Table, ours: str = CLASSIFIER) -> None:
    """The tables and goals of those who take classes."""
    report.begin("classification", f"prequential accuracy in %, defaults; ours is {ours}")
    standings = Standings.of(table, classifies=True)
    if not _opens(report, standings, ours, "prequential accuracy", 100, 1):
        return
    _best_tree(report, standings, ours)
    ranks = standings.mean_ranks()
    for rival in RANKED_BELOW:
        text = f"better mean rank than {rival}"
        if rival in ranks:
            measured = f"{ranks[ours]:.2f} against {ranks[rival]:.2f}"
            report.goal(text, measured, ranks[ours] < ranks[rival])
        else:
            report.goal(text, "-", None)
    for name, (floor, tree) in ACCURACY_FLOORS.items():
        text = f"{name}: accuracy >= {floor:g} (best single tree {tree:g})"
        result = standings.by_set.get(name, {}).get(ours)
        if result is None or result.stopped:
            report.goal(text, "-", None)
        else:
            report.goal(text, f"{result.score:.4f}", result.score >= floor)


def _best_tree(report: Report, standings: Standings, ours: str) -> None:
    """Whether ours is more accurate than the best of the single trees of river and MOA."""
    rows, wins = [], []
    for name, results in standings.by_set.items():
        found = strongest(results, ours, SINGLE_TREES)
        if found is None:
            continue
        rival, score, theirs = found
        wins.append(score > theirs)
        n_trees = sum(rival in results for rival in SINGLE_TREES)
        rows.append(
            [name, f"{100 * score:.2f}", f"{100 * theirs:.2f}", f"{100 * (score - theirs):+.2f}",
             rival, n_trees, "" if wins[-1] else "behind"]
        )
    header = ["set", "ours", "tree", "lead", "strongest single tree", "trees run", ""]
    rows.sort(key=lambda row: float(row[3]))
    report.table(header, rows)
    share = sum(wins) / len(wins) if wins else math.nan
    report.goal(
        f"more accurate than the best of six single trees on {SHARE_OF_WINS:.0%} of the sets",
        f"{sum(wins)} of {len(wins)}, {share:.1%}" if wins else "-",
        share >= SHARE_OF_WINS if wins else None,
    )


def regression(report: Report, table: Table, ours: str = REGRESSOR) -> None:
    """The tables and goals of those who take numbers."""
    report.begin("regression", f"prequential R2, defaults; ours is {ours}")
    standings = Standings.of(table, classifies=False)
    if not _opens(report, standings, ours, "prequential R2", 1, 3):
        return
    singles = [
        learner for learner in standings.learners
        if CONTESTANTS[learner].group not in ("ours", "forest", "batch")
    ]
    rows, wins = [], 0
    for name, earlier in R2_TO_BEAT.items():
        found = strongest(standings.by_set.get(name, {}), ours, singles)
        if found is None:
            continue
        rival, score, theirs = found
        won = score > max(theirs, -math.inf if earlier is None else earlier)
        wins += won
        rows.append(
            [name, f"{score:.3f}", f"{theirs:.3f}", rival,
             "-" if earlier is None else f"{earlier:.3f}", "" if won else "behind"]
        )
    report.table(["set", "ours", "peer", "strongest single peer", "earlier", ""], rows)
    report.goal(
        f"R2 above the best single peer's, here and earlier, on {R2_WINS} of {len(R2_TO_BEAT)}",
        f"{wins} of {len(rows)}", wins >= R2_WINS if len(rows) == len(R2_TO_BEAT) else None,
    )
    worst, name = min((results[ours].score, name) for name, results in standings.by_set.items()
                      if ours in results)
    report.goal("R2 above 0 everywhere", f"lowest {worst:.3f} ({name})", worst > 0)
