"""The forests by their defaults, beside every other forest and beside batch learners.

    python benchmarks/accuracy.py run --learners "Forest*" forest batch ours
    python benchmarks/forests.py standings
    python benchmarks/forests.py loss members light trees series changes trials names threads
    python benchmarks/accuracy.py run --unseen
    python benchmarks/forests.py unseen

`standings` reads the table that `accuracy.py run` fills. `loss` measures log losses beside those of
the model tree, `members` what a forest is without each of its members, and with those that it has
not, `light` what one of few members is, `trees` accuracy and time by the number of randomised
trees; all over the first rows of every set that classifies, `members` and `light` of those of
numbers, too. `series` has numbers in the order of time, beside the last target, `changes` streams
in which all changes at once, `trials` the sets on which another model is tried, `names` users and
shops that go by numbers. `threads` times batches with one thread and with two, in turn. `unseen`
is about the tables of r_tables.py, which played no part in the making of the learners.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gate_streams as streams
import numpy as np
from accuracy import RESULTS, UNSEEN_RESULTS
from contestants import CONTESTANTS, MOA_FORESTS
from data import load, sensors, visits
from gate import Standings, strongest
from gate_runs import Result, marks
from numpy.typing import NDArray
from report import Report, short, versions
from river import datasets, forest, tree
from river.datasets import synth
from scores import read

from streamtree import (
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ForestClassifier,
    ForestRegressor,
    ModelTreeClassifier,
    NonGreedyTreeClassifier,
    NonGreedyTreeRegressor,
    SelfTerminatingTreeClassifier,
    SelfTerminatingTreeRegressor,
    SoftTreeClassifier,
    SoftTreeRegressor,
)

CLASSIFIER, REGRESSOR = "ForestClassifier", "ForestRegressor"
# by whether they classify
KINDS = {
    True: (
        ForestClassifier, ModelTreeClassifier, SoftTreeClassifier, NonGreedyTreeClassifier,
        SelfTerminatingTreeClassifier, ExtraTreeClassifier,
    ),
    False: (
        ForestRegressor, SoftTreeRegressor, NonGreedyTreeRegressor, SelfTerminatingTreeRegressor,
        ExtraTreeRegressor,
    ),
}
# so many rows where batch learners are compared, and where losses are measured
ROWS = 12_000

RIVALS = (
    *(f"MOA {name}(10)" for name in MOA_FORESTS), "river AMF(10)", "river ARF(10)",
)
LARGE_RIVALS = tuple(f"MOA {name}(100)" for name in MOA_FORESTS)

# by set: the accuracy to reach over all rows, of the last ones over the first 30,000
FLOORS = {
    "covtype_kaggle15k": 0.81, "letter": 0.90, "pendigits": 0.979, "segment": 0.957,
    "magic": 0.866, "banana": 0.892, "poker_train25k": 0.54, "nycflights13_dest": 0.975,
    "powersupply": 0.165, "kr_vs_kp": 0.977, "sick": 0.976, "skin_segmentation": 0.998,
    "elec2": 0.925, "nycflights13_delay": 0.705, "nursery": 0.983, "page_blocks": 0.968,
    "spambase": 0.938, "optdigits": 0.968, "splice": 0.947, "waveform5000": 0.855,
    "adult_train32k": 0.854, "connect4_2class": 0.84, "car": 0.943, "moving_squares": 0.95,
    "covtype100k": 0.90, "airlines": 0.735, "agrawal": 0.999,
}
R2_FLOORS = {
    "bike_sharing_hour": 0.91, "cal_housing": 0.752, "concrete": 0.812,
    "winequality_white": 0.42, "kin8nm": 0.735, "elevators": 0.866, "cpu_act": 0.96, "mv": 0.997,
    "diamonds": 0.97, "kings_county": 0.847, "abalone": 0.518, "puma8NH": 0.648,
    "ailerons": 0.83, "2dplanes": 0.942, "pol": 0.968,
}
# sets of which the floors are about so many rows
FIRST_ROWS = dict.fromkeys(("moving_squares", "covtype100k", "airlines", "agrawal"), 30_000)
R2_ROWS = 20_000
# members of forests that take little time
LIGHT: dict[type[Any], tuple[tuple[str, ...], ...]] = {
    ForestClassifier: (
        ("model", "recent_labels", "frequencies"),
        ("model", "contexts", "recent_labels", "frequencies"),
        ("model", "contexts", "neighbors", "recent_labels", "frequencies"),
    ),
    ForestRegressor: (
        ("additive", "soft", "last_targets"),
        ("additive", "soft", "neighbors", "last_targets"),
        ("additive", "soft", "contexts", "neighbors", "last_targets"),
    ),
}
# rows after which targets are known
LATE = (0, 1, 5, 24, 100)
# after so many rows all changes, or labels tell nothing for so many
CONCEPT_ROWS, LOST_ROWS = 10_000, 400
# with and without a second thread, so many times; the first rows are learned before
THREADED = ("letter", "magic", "covtype_kaggle15k", "adult_train32k", "pendigits", "elec2")
TURNS, WARM_ROWS = 7, 2_000


def second_half(result: Result) -> float:
    """The score over the later half of the first ROWS rows, of all where there are fewer."""
    at = marks(result.of)
    last = min(ROWS, result.of)
    half = min(at, key=lambda mark: abs(mark - last / 2))
    whole, before = result.at(last), result.at(half)
    return (whole * last - before * half) / (last - half)


def _ahead(
    report: Report, table: Standings, ours: str, rivals: Sequence[str], text: str, share: float,
    least: float = 0.0,
) -> None:
    """A table of leads over the best of some rivals, and on how many sets there is one."""
    rows, won = [], 0
    for name, results in table.by_set.items():
        found = strongest(results, ours, rivals)
        if found is None or results[ours].failure:
            continue
        rival, score, theirs = found
        won += score - theirs > least
        rows.append(
            [name, f"{score:.4f}", f"{theirs:.4f}", f"{score - theirs:+.4f}", rival]
        )
    rows.sort(key=lambda row: float(row[3]))
    report.table(["set", "ours", "theirs", "lead", "best rival"], rows)
    is_met = won >= share * len(rows) if rows else None
    report.goal(f"{text} on {share:.0%} of the sets", f"{won} of {len(rows)}", is_met)


def _of_group(table: Standings, ours: str, group: str) -> list[str]:
    return [
        one for one in table.learners if CONTESTANTS[one].group == group
        and not one.startswith("Forest") and one != ours
    ]


def _batches(report: Report, table: Standings, ours: str) -> None:
    """Beside batch learners that are trained again, over the second half of the first rows."""
    for rival in _of_group(table, ours, "batch"):
        leads = {
            name: second_half(results[ours]) - second_half(results[rival])
            for name, results in table.by_set.items()
            if rival in results and results[rival].rows >= min(ROWS, results[rival].of)
            and not results[ours].failure and not results[rival].failure
        }
        if not leads:
            report.goal(f"beside {rival}", "-", None)
            continue
        worst = sorted(leads.items(), key=lambda item: item[1])[:6]
        report.note(", ".join(f"{name} {lead:+.4f}" for name, lead in worst))
        ahead = sum(lead > 0 for lead in leads.values())
        near = sum(lead > -0.005 for lead in leads.values())
        mean = statistics.mean(leads.values())
        n = len(leads)
        if "RandomForest" in rival:
            report.goal(f"ahead of {rival} on 70 %", f"{ahead} of {n}", ahead >= 0.7 * n)
            report.goal(f"within .005 of {rival} on 88 %", f"{near} of {n}", near >= 0.88 * n)
            report.goal(f"mean lead over {rival} >= .015", f"{mean:+.4f}", mean >= 0.015)
        else:
            report.goal(
                f"not behind {rival} on the mean", f"{mean:+.4f}, ahead on {ahead} of {n}",
                mean >= 0.0,
            )


def _costs(report: Report, table: Standings) -> None:
    """Time and memory, and time as a share of other forests'."""
    time_of = partial(table.median, what="microseconds")
    ours = time_of(CLASSIFIER)
    if ours is None:
        report.goal("time", "-", None)
        return
    report.goal("median time <= 40 us a row", short(ours), ours <= 40)
    for rival, share in (("MOA SRP(10)", 1 / 5), ("river AMF(10)", 1 / 20)):
        theirs = time_of(rival)
        text = f"median time <= {share:g} of that of {rival}"
        if theirs is None:
            report.goal(text, "-", None)
        else:
            report.goal(text, f"{short(ours)} of {short(theirs)} us", ours <= share * theirs)
    size = table.median(CLASSIFIER, "bytes")
    report.goal("median size <= 20 MB", short((size or math.nan) / 1e6), (size or 9e9) <= 20e6)


def _floors(
    report: Report, table: Standings, ours: str, floors: Mapping[str, float],
    first_rows: Callable[[str], int],
) -> None:
    for name, floor in floors.items():
        result = table.by_set.get(name, {}).get(ours)
        text = f"{name} >= {floor:g}"
        if result is None or result.failure:
            report.goal(text, "-", None)
            continue
        score = result.at(min(result.rows, first_rows(name)))
        report.goal(text, f"{score:.4f}", score >= floor)


def standings(report: Report, options: argparse.Namespace) -> None:
    """What the table of the accuracy gate says of forests."""
    table = read(options.results)
    labels = Standings.of(table, classifies=True)
    report.begin("classification", "accuracy over the rows that both saw")
    _ahead(report, labels, CLASSIFIER, RIVALS, "ahead of the best forest of ten", 36 / 39)
    _ahead(report, labels, CLASSIFIER, LARGE_RIVALS, "ahead of MOA's forests of 100", 30 / 39)
    _ahead(
        report, labels, CLASSIFIER, _of_group(labels, CLASSIFIER, "ours"),
        "not behind our best tree by more than .003", 35 / 39, least=-0.003,
    )
    _batches(report, labels, CLASSIFIER)
    _floors(report, labels, CLASSIFIER, FLOORS, lambda name: FIRST_ROWS.get(name, 10**9))
    _costs(report, labels)
    numbers = Standings.of(table, classifies=False)
    report.begin("regression", "R2 over the rows that both saw")
    _ahead(
        report, numbers, REGRESSOR, _of_group(numbers, REGRESSOR, "ours"),
        "not behind the best member by more than .005", 18 / 20, least=-0.005,
    )
    peers = [one for one in numbers.learners if CONTESTANTS[one].group in ("tree", "forest")]
    _ahead(report, numbers, REGRESSOR, peers, "ahead of the best peer", 18 / 20)
    _batches(report, numbers, REGRESSOR)
    _floors(report, numbers, REGRESSOR, R2_FLOORS, lambda name: R2_ROWS)


def unseen(report: Report, options: argparse.Namespace) -> None:
    """What a table of unseen sets says, beside every forest, every other peer, and our trees."""
    table = read(UNSEEN_RESULTS)
    for ours, classifies in ((CLASSIFIER, True), (REGRESSOR, False)):
        found = Standings.of(table, classifies)
        report.begin("unseen", f"{ours}, {len(found.by_set)} sets")
        # as of the sets of the folder; of the second there is no goal, but more often than not
        for text, groups, share, least in (
            ("ahead of other forests", ("forest",), 36 / 39, 0.0),
            ("ahead of other stream learners", ("tree", "linear", "floor"), 0.5, 0.0),
            ("not behind our best tree by more than .003", ("ours",), 35 / 39, -0.003),
        ):
            rivals = [one for group in groups for one in _of_group(found, ours, group)]
            report.note(f"{text}: {', '.join(rivals)}")
            _ahead(report, found, ours, rivals, text, share, least)
        _batches(report, found, ours)


def tested(model: Any, stream: streams.Stream, rows: int) -> tuple[float, float, float]:
    """Accuracy, log loss and microseconds a row of a classifier by dicts."""
    hits, losses, seconds = 0, 0.0, 0.0
    for x, y in zip(stream.rows[:rows], stream.targets, strict=False):
        began = time.perf_counter()
        shares = model.predict_proba_one(x)
        model.learn_one(x, y)
        seconds += time.perf_counter() - began
        if shares:
            hits += max(shares, key=shares.__getitem__) == y
        losses -= math.log(max(shares.get(y, 0.0), 1e-15)) if shares else math.log(1e-15)
    n = min(rows, len(stream))
    return hits / n, losses / n, 1e6 * seconds / n


def run_on_numbers(
    model: Any, stream: streams.Stream, rows: int, delay: int = 0
) -> tuple[float, float]:
    """R2 and microseconds a row of a regressor by dicts that learns a target `delay` rows late.

    Before the first target nothing is known.
    """
    seconds, said = 0.0, []
    for i, x in enumerate(stream.rows[:rows]):
        began = time.perf_counter()
        said.append(model.predict_one(x))
        if i >= delay:
            model.learn_one(stream.rows[i - delay], stream.targets[i - delay])
        seconds += time.perf_counter() - began
    targets = stream.y[1 + delay:rows]
    missed = np.mean((targets - np.array(said[1 + delay:])) ** 2)
    return 1.0 - missed / np.var(targets), 1e6 * seconds / len(said)


def means_over(
    makers: Mapping[str, Callable[[], Any]], sets: Sequence[str], rows: int,
    test: Callable[[Any, streams.Stream, int], tuple[float, ...]] = tested,
) -> dict[str, NDArray[Any]]:
    """By name, the means over sets of what a test gives."""
    found: dict[str, list[Any]] = {name: [] for name in makers}
    for one in sets:
        stream = streams.stream(one)
        for name, make in makers.items():
            found[name].append(test(make(), stream, rows))
    return {name: np.mean(each, axis=0) for name, each in found.items()}


def loss(report: Report, options: argparse.Namespace) -> None:
    """Log losses beside those of the model tree, and how much longer a forest takes."""
    report.begin("loss", f"means over {len(options.sets)} sets, first {options.rows:,} rows")
    makers = {"ModelTreeClassifier": ModelTreeClassifier, CLASSIFIER: ForestClassifier}
    by_set = [means_over(makers, [one], options.rows) for one in options.sets]
    found = {name: np.mean([scores[name] for scores in by_set], axis=0) for name in makers}
    report.table(
        ["learner", "accuracy", "log loss"],
        [[name, f"{score[0]:.4f}", f"{score[1]:.4f}"] for name, score in found.items()],
    )
    times = [scores[CLASSIFIER][2] / scores["ModelTreeClassifier"][2] for scores in by_set]
    deciles = np.quantile(times, (0.1, 0.5, 0.9))
    report.table(
        ["time of the model tree's", "first decile", "median", "last decile"],
        [[CLASSIFIER, *(short(part) for part in deciles.tolist())]],
    )
    ratio = found[CLASSIFIER][1] / found["ModelTreeClassifier"][1]
    report.goal("mean log loss <= .78 of the model tree's", f"{ratio:.3f}", ratio <= 0.78)


def with_and_without(kind: type[Any]) -> dict[str, Callable[[], Any]]:
    """A forest with all members, those without each, and those with one of another family."""
    names = kind._defaults
    return {"all": kind} | {
        f"without {one}": partial(kind, members=tuple(name for name in names if name != one))
        for one in names
    } | {
        f"with {one}": partial(kind, members=(*names, one))
        for one in kind._families if one not in names
    }


def _means(
    report: Report, section: str, options: argparse.Namespace,
    makers: Callable[[type[Any]], Mapping[str, Callable[[], Any]]],
) -> None:
    """Tables of the means of forests of labels and of numbers."""
    n = f"first {options.rows:,} rows"
    report.begin(section, f"means over {len(options.sets)} sets, {n}")
    found = means_over(makers(ForestClassifier), options.sets, options.rows)
    report.table(
        ["members", "accuracy", "log loss", "us a row"],
        [
            [name, f"{score[0]:.4f}", f"{score[1]:.4f}", short(score[2])]
            for name, score in found.items()
        ],
    )
    report.begin(section, f"{len(streams.NUMBERS)} sets of numbers, {n}")
    found = means_over(makers(ForestRegressor), streams.NUMBERS, options.rows, run_on_numbers)
    report.table(
        ["members", "R2", "us a row"],
        [[name, f"{score[0]:.4f}", short(score[1])] for name, score in found.items()],
    )


def members(report: Report, options: argparse.Namespace) -> None:
    """What the members of a forest are worth."""
    _means(report, "members", options, with_and_without)


def few_members(kind: type[Any]) -> dict[str, Callable[[], Any]]:
    """A forest with all members, one in which none rests, and those of few members."""
    resting = {"all, none rests": partial(kind, rests=False)} if kind is ForestClassifier else {}
    return {"all": kind} | resting | {
        ", ".join(names): partial(kind, members=names) for names in LIGHT[kind]
    }


def light(report: Report, options: argparse.Namespace) -> None:
    """What forests of few members are worth."""
    _means(report, "light", options, few_members)


def trees(report: Report, options: argparse.Namespace) -> None:
    """Accuracy by time."""
    report.begin("trees", f"means over {len(options.sets)} sets, first {options.rows:,} rows")
    makers = {str(n): partial(ForestClassifier, n_trees=n) for n in (0, 3, 10, 30, 100)}
    report.table(
        ["n_trees", "accuracy", "log loss", "us a row"],
        [
            [name, f"{score[0]:.4f}", f"{score[1]:.4f}", short(score[2])]
            for name, score in means_over(makers, options.sets, options.rows).items()
        ],
    )


class LastTarget:
    """What came last comes again."""

    def __init__(self) -> None:
        self.last = 0.0

    def predict_one(self, x: Any) -> float:
        """The last target."""
        return self.last

    def learn_one(self, x: Any, y: float) -> None:
        """Take a target."""
        self.last = y


def column_of(name: str, column: str) -> streams.Stream:
    """A column of a set as the target of the others, in the order of the file."""
    data = load(name)
    at = data.feature_names.index(column)
    return streams.of_numbers(
        f"{name}, {column}", np.delete(data.X, at, axis=1).astype(float),
        data.X[:, at].astype(float),
    )


def by_the_hour(name: str, pairs: Any) -> streams.Stream:
    """A set of river's that has nothing but the time."""
    times, y = zip(*[(x["Time"], y) for x, y in pairs], strict=True)
    X = np.array([[time.hour, time.weekday()] for time in times], dtype=float)
    return streams.of_numbers(name, X, np.array(y))


def in_time() -> list[streams.Stream]:
    """Numbers that come in the order of time."""
    bikes = load("bike_sharing_hour")
    return [
        streams.of_numbers("bike_sharing_hour", bikes.X.astype(float), bikes.y.astype(float)),
        column_of("elec2", "nswprice"),
        column_of("elec2", "nswdemand"),
        streams.stream("river TrumpApproval"),
        by_the_hour("river WaterFlow", datasets.WaterFlow()),
    ]


def series(report: Report, options: argparse.Namespace) -> None:
    """Numbers in the order of time, and what is left where targets are known late."""
    without = 'without "last_targets"'
    forests: dict[str, Callable[[], Any]] = {
        "all": ForestRegressor,
        without: partial(ForestRegressor, members=tuple(
            name for name in ForestRegressor._defaults if name != "last_targets"
        )),
    }
    makers: dict[str, Callable[[], Any]] = {
        **forests,
        "light": partial(ForestRegressor, members=LIGHT[ForestRegressor][1]),
        "SoftTreeRegressor": SoftTreeRegressor,
        "river ARFRegressor": partial(forest.ARFRegressor, seed=1),
        "last target": LastTarget,
    }
    series = in_time()

    def scores(
        one: streams.Stream, makers: Mapping[str, Callable[[], Any]], late: int
    ) -> list[str]:
        return [
            f"{run_on_numbers(make(), one, options.rows, late)[0]:.4f}"
            for make in makers.values()
        ]

    report.begin("series", f"R2 in the order of time, first {options.rows:,} rows")
    report.table(["set", *makers], [[one.name, *scores(one, makers, 0)] for one in series])
    report.begin("series", "the same where targets are known some rows late")
    report.table(
        ["set", "rows late", *forests],
        [[one.name, late, *scores(one, forests, late)] for one in series[:3] for late in LATE],
    )


Rows = list[tuple[dict[Any, Any], Any]]


def concepts(make: Callable[[int], Any]) -> Rows:
    """Four concepts of one of river's generators, each for as many rows."""
    return [pair for k in range(4) for pair in make(k).take(CONCEPT_ROWS)]


def changing() -> dict[str, Rows]:
    """Streams in which what rows tell of labels changes, at once or slowly."""
    return {
        "Agrawal": concepts(lambda k: synth.Agrawal((0, 4, 7, 2)[k], seed=k, perturbation=0.05)),
        "Mixed": concepts(lambda k: synth.Mixed(k % 2, seed=k)),
        "RandomRBF": concepts(lambda k: synth.RandomRBF(k, k, n_classes=4)),
        "RandomTree": concepts(lambda k: synth.RandomTree(
            k, k, n_classes=4, n_num_features=5, n_cat_features=3
        )),
        "SEA": concepts(lambda k: synth.SEA(k, seed=k, noise=0.1)),
        "Sine": concepts(lambda k: synth.Sine(k, seed=k)),
        "Hyperplane, slowly": list(
            synth.Hyperplane(seed=1, n_drift_features=5, mag_change=0.001).take(4 * CONCEPT_ROWS)
        ),
        "RandomRBF, slowly": list(synth.RandomRBFDrift(
            1, 1, n_classes=4, change_speed=0.002, n_drift_centroids=30
        ).take(4 * CONCEPT_ROWS)),
    }


def _said(model: Any, rows: Rows) -> NDArray[Any]:
    """What a model said of every row before it learned it."""
    said = []
    for x, y in rows:
        said.append(model.predict_one(x))
        model.learn_one(x, y)
    return np.array(said)


def _targets(rows: Rows) -> NDArray[Any]:
    return np.array([y for _, y in rows])


def _score(kind: type[Any], said: NDArray[Any], y: NDArray[Any]) -> float:
    """The accuracy of a classifier, R2 of a regressor."""
    return float(np.mean(said == y)) if kind in KINDS[True] else _r2(said, y)


def _both(kind: type[Any], rows: Rows, which: slice = slice(None)) -> str:
    """The score on some rows by default, and where nothing begins anew."""
    return " ".join(
        f"{_score(kind, _said(kind(restarts=restarts), rows)[which], _targets(rows)[which]):.4f}"
        for restarts in (True, False)
    )


def changes(report: Report, options: argparse.Namespace) -> None:
    """Streams in which all changes at once, and where labels tell nothing for a while."""
    kinds = KINDS[True]
    rivals: dict[str, Callable[[], Any]] = {
        "river ARF(10)": partial(forest.ARFClassifier, n_models=10, seed=1),
        "river HoeffdingAdaptiveTree": partial(tree.HoeffdingAdaptiveTreeClassifier, seed=1),
    }
    report.begin("changes", f"another concept every {CONCEPT_ROWS:,} rows of {4 * CONCEPT_ROWS:,}")
    report.note("by default, and with restarts=False")
    report.table(["stream", *(kind.__name__ for kind in kinds), *rivals], [
        [name, *(_both(kind, rows) for kind in kinds), *(
            f"{np.mean(_said(make(), rows) == _targets(rows)):.4f}" for make in rivals.values()
        )]
        for name, rows in changing().items()
    ])
    report.begin("changes", f"3,000 rows after {LOST_ROWS} whose labels are those of others")
    lines = []
    for name in ("elec2", "letter", "magic"):
        stream = streams.stream(name)
        rows = list(zip(stream.rows[:16_000], stream.targets[:16_000], strict=True))
        lost = slice(CONCEPT_ROWS, CONCEPT_ROWS + LOST_ROWS)
        labels = np.random.default_rng(0).permutation([y for _, y in rows]).tolist()
        rows[lost] = [(x, y) for (x, _), y in zip(rows[lost], labels, strict=False)]
        late = slice(lost.stop, lost.stop + 3_000)
        lines.append([name, *(_both(kind, rows, late) for kind in kinds)])
    report.table(["stream", *(kind.__name__ for kind in kinds)], lines)
    report.begin("changes", "R2 on 32,000 rows of river's FriedmanDrift")
    lines = []
    for name, changed in (
        ("lea", (8_000, 16_000, 24_000)), ("gra", (10_000, 20_000)), ("gsg", (10_000, 20_000)),
    ):
        drifting = synth.FriedmanDrift(name, changed, transition_window=1_000, seed=1)
        rows = list(drifting.take(32_000))
        lines.append([name, *(_both(kind, rows) for kind in KINDS[False])])
    report.table(["drift", *(kind.__name__ for kind in KINDS[False])], lines)


def _is_tried(model: Any, rows: Rows) -> bool:
    """Whether another model learns beside this one at any time."""
    for x, y in rows:
        model.learn_one(x, y)
        if model._core.challenger is not None:
            return True
    return False


def trials(report: Report, options: argparse.Namespace) -> None:
    """The sets on which another model is tried beside the first, and what that brings."""
    everything = [*map(streams.stream, (*options.sets, *streams.NUMBERS)), *in_time()]
    report.begin("trials", f"{len(everything)} sets and series, first {options.rows:,} rows")
    lines = []
    for stream in everything:
        rows = list(zip(stream.rows[:options.rows], stream.targets, strict=False))
        lines += [
            [stream.name, kind.__name__, _both(kind, rows)]
            for kind in KINDS[stream.classifies] if _is_tried(kind(), rows)
        ]
    report.table(["another one is tried on", "by", "by default, with restarts=False"], lines)


def names(report: Report, options: argparse.Namespace) -> None:
    """Users, shops and sensors that go by numbers, as they are and as strings."""
    lines = []
    for what, stream, noise, named in (
        ("users, shops", visits, 0.7, [3, 4]), ("sensors", sensors, 0.3, [2]),
    ):
        X, mean, y = stream(40_000, seed=1)
        late, labels = slice(len(y) // 2, None), (y > 0).astype(int)
        for kind, columns in (("numbers", None), ("strings", named)):
            told = ForestClassifier(nominal_attributes=columns).test_then_learn_many(X, labels)
            said = ForestRegressor(nominal_attributes=columns).test_then_learn_many(X, y)
            accuracy, r2 = np.mean(told[late] == labels[late]), _r2(said[late], y[late])
            lines.append([what, kind, f"{accuracy:.4f}", f"{r2:.4f}"])
        chance = np.array([math.erfc(-m / noise / 2**0.5) / 2 for m in mean])
        accuracy = np.mean(np.maximum(chance, 1 - chance)[late])
        lines.append([what, "at best", f"{accuracy:.4f}", f"{_r2(mean[late], y[late]):.4f}"])
    report.begin("names", "3,000 users and 500 shops, 300 sensors; later half of 40,000 rows")
    report.table(["stream", "names are", "accuracy", "R2"], lines)


def _r2(said: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(1 - np.mean((said - y) ** 2) / np.var(y))


def seconds_to_learn(stream: streams.Stream, rows: int, n_jobs: int, rests: bool) -> float:
    """Of the rows of a batch after the first ones."""
    model = ForestClassifier(rests=rests)
    model.n_jobs = n_jobs
    model.learn_many(stream.X[:WARM_ROWS], stream.y[:WARM_ROWS])
    began = time.perf_counter()
    model.learn_many(stream.X[WARM_ROWS:rows], stream.y[WARM_ROWS:rows])
    return time.perf_counter() - began


def threads(report: Report, options: argparse.Namespace) -> None:
    """How much faster two threads learn a batch than one, by the best of some turns."""
    report.begin("threads", f"learn_many, first {options.rows:,} rows, one and two threads")
    columns = "set", "members", "us a row", "with two threads", "times as fast"
    for rests, members in ((True, "may rest"), (False, "do not rest")):
        lines, ratios = [], []
        for name in THREADED:
            stream = streams.stream(name)
            rows = min(options.rows, len(stream))
            alone, both = 1e6 / (rows - WARM_ROWS) * np.min([
                [seconds_to_learn(stream, rows, n_jobs, rests) for n_jobs in (1, 2)]
                for _ in range(TURNS)
            ], axis=0)
            ratios.append(alone / both)
            lines.append([name, members, short(alone), short(both), f"{ratios[-1]:.2f}"])
        report.table(columns, lines)
        ratio = statistics.median(ratios)
        report.goal(
            f"median >= 1.7 times as fast where members {members}", f"{ratio:.2f}", ratio >= 1.7
        )


SECTIONS = {
    section.__name__: section
    for section in (
        standings, loss, members, light, trees, series, changes, trials, names, threads, unseen,
    )
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sections that the command line names, all by default."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--sets", nargs="+", default=list(streams.CLASSES), metavar="NAME")
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    print(versions())
    report = Report()
    for name in options.sections or SECTIONS:
        SECTIONS[name](report, options)
    report.end()


if __name__ == "__main__":
    main()
