"""The goals of the non-greedy oblique trees: figures 2 to 4 of the paper, streams and speed.

    python benchmarks/nongreedy_depth.py [section ...] [--repeats N] [--plots FOLDER]

Every section prints a table and, below it, each goal beside what was measured, with ok or MISS.
Only `time` and `speed` look at a clock: all other numbers are the same in every run. With
--plots, `depth`, `norm` and `time` also draw what they print. The data sets are looked for in
$STREAMTREE_DATA (see data.py). On two idle cores `depth` takes about half an hour, `norm`
and `stream` a few minutes each, `time` and `speed` less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data import Data, as_dicts, data_folder, load, noisy_halfspace, stream_order
from greedy import RandomObliqueTree
from numpy.typing import NDArray
from peers import (
    PEERS,
    OneByOne,
    Peer,
    Spread,
    Task,
    interleaved,
    prequential_accuracy,
    present,
    ratios,
)
from report import Run, error_rate, one_by_one, run_sections, spread_text, times_text
from river import dummy, metrics, stats, tree
from sklearn.tree import DecisionTreeClassifier

from streamtree import NonGreedyTreeClassifier, NonGreedyTreeRegressor
from streamtree.batches import Batch

OURS = "non-greedy"
DEPTHS = (6, 10, 14, 18)
PASSES = 20
# of a pass, after each of which the learning rate falls
PARTS = 10
# Tuning trains on at most so many rows, in so many passes, and is judged by a tenth of the training
# rows. Shorter trials mislead: on connect4_2class what leads after 8 passes over 15,000 rows ends
# behind CO2.
TUNING_ROWS, TUNING_PASSES = 60_000, PASSES
# joint training over the warm-up's rows, which counts as passes if they are all rows
WARM_UP_PASSES = 4

Settings = dict[str, Any]
Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


# --------------------------------------------------------------- depth, figure 2 of the paper


class CO2Tree(NonGreedyTreeClassifier):
    """The tree that the non-greedy one starts from: CO2 node by node, not trained jointly."""

    def _fixed_settings(self) -> Settings:
        return {**super()._fixed_settings(), "joins": False}


# Few, for tuning costs as many trainings. "warm_up": None stands for the number of
# training rows. A max_norm of 100 looks good in short training, but on connect4_2class longer
# training ends near the majority class.
CANDIDATES: dict[str, Sequence[Settings]] = {
    OURS: (
        {},
        {"learning_rate": 2.0, "max_norm": 1e4, "warm_up": None},
        {"forgetting": 0.1, "fear": 0.1},
        {"forgetting": 0.1, "fear": 0.1, "warm_up": None},
    ),
    "CO2 alone": ({"objective": "surrogate"}, {"objective": "hope_and_fear"}),
    "axis-aligned": ({"min_samples_leaf": 1}, {"min_samples_leaf": 5}, {"min_samples_leaf": 20}),
    "random oblique": ({},),
}


def splits() -> dict[str, Callable[[], Split]]:
    """X, y, X_test and y_test by the name of the set."""
    return {"mnist": mnist, "connect4_2class": connect4}


def mnist() -> Split:
    """The official split."""
    data = load("mnist")
    n = data.split
    return data.X[:n], data.y[:n], data.X[n:], data.y[n:]


def connect4() -> Split:
    """Four fifths and one fifth of the rows, a column for every code of every square."""
    data = load("connect4_2class")
    order = np.random.default_rng(0).permutation(len(data.y))
    X, y = one_hot(data.X)[order], data.y[order]
    n = 4 * len(y) // 5
    return X[:n], y[:n], X[n:], y[n:]


def one_hot(codes: NDArray[Any]) -> NDArray[np.uint8]:
    """A column of 0 and 1 for every code that a column holds."""
    columns = [column[:, None] == np.unique(column) for column in codes.T]
    return np.concatenate(columns, axis=1).astype(np.uint8)


def learned(
    X: NDArray[Any], y: NDArray[Any], passes: int, **settings: Any
) -> NonGreedyTreeClassifier:
    """A non-greedy tree after passes over shuffled rows, its learning rate falling to 0."""
    if settings.get("warm_up", 0) is None:
        settings["warm_up"] = len(y)
        passes = max(passes - WARM_UP_PASSES, 1)
    model = NonGreedyTreeClassifier(**settings)
    rng = np.random.default_rng(1)
    rates = model.learning_rate * np.linspace(1, 0, passes * PARTS, endpoint=False)
    for rates_of_pass in np.split(rates, passes):
        parts = np.array_split(rng.permutation(len(y)), PARTS)
        for rate, part in zip(rates_of_pass.tolist(), parts, strict=True):
            model.learning_rate = rate
            model.learn_many(X[part], y[part])
    return model


def co2(X: NDArray[Any], y: NDArray[Any], **settings: Any) -> CO2Tree:
    """A greedy oblique tree, grown when the last row has come."""
    model = CO2Tree(warm_up=len(y), **settings)
    order = np.random.default_rng(1).permutation(len(y))
    model.learn_many(X[order], y[order])
    return model


Predict = Callable[[NDArray[Any]], NDArray[Any]]


def trainers(passes: int) -> dict[str, Callable[..., Predict]]:
    """How to train each kind of tree on X, y, to a depth, with settings."""
    return {
        OURS: lambda X, y, depth, **settings: (
            learned(X, y, passes, depth=depth, **settings).predict_many
        ),
        "CO2 alone": lambda X, y, depth, **settings: (
            co2(X, y, depth=depth, **settings).predict_many
        ),
        "axis-aligned": lambda X, y, depth, **settings: (
            DecisionTreeClassifier(
                criterion="entropy", max_depth=depth, random_state=0, **settings
            ).fit(X, y).predict
        ),
        "random oblique": lambda X, y, depth, **settings: (
            RandomObliqueTree(depth, **settings).fit(X, y).predict
        ),
    }


def accuracy(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    """The share of rows whose label is the predicted one."""
    return 1 - error_rate(predicted, y)


def tuned(name: str, X: NDArray[Any], y: NDArray[Any], depth: int) -> Settings:
    """Of the candidates the best on the last tenth of the rows, the first of equals."""
    candidates = CANDIDATES[name]
    if len(candidates) == 1:
        return candidates[0]
    n = len(y) - len(y) // 10
    n_fit = min(n, TUNING_ROWS)
    train = trainers(TUNING_PASSES)[name]
    scores = [
        accuracy(train(X[:n_fit], y[:n_fit], depth, **settings)(X[n:]), y[n:])
        for settings in candidates
    ]
    return candidates[int(np.argmax(scores))]


def settings_text(settings: Settings) -> str:
    """Settings as one would write them in a call."""
    return ", ".join(
        f"{key}={'all rows' if value is None else value}" for key, value in settings.items()
    )


def depth(run: Run) -> None:
    """Test and training accuracy of four ways to train a tree, by depth."""
    run.report.begin("depth", "test and training accuracy of single trees, by depth (Fig. 2)")
    run.report.note(
        f"non-greedy: {PASSES} passes over shuffled rows, learning rate falling to 0 (those that "
        f"warm up on all rows: {WARM_UP_PASSES} of them there); axis-aligned: scikit-learn's "
        "DecisionTreeClassifier by entropy.\n"
        "Settings are chosen for each depth on the last tenth of the training rows, after training "
        f"on up to {TUNING_ROWS:,} others ({TUNING_PASSES} passes); the rest are defaults.\n"
    )
    results: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    for name, read in splits().items():
        X, y, X_test, y_test = read()
        results[name] = compare(run, name, X, y, X_test, y_test)
        if name == "mnist":
            model = learned(X, y, 1, depth=10)
            once = accuracy(model.predict_many(X_test), y_test)
            run.report.goal(
                "mnist, depth 10, one pass: test accuracy >= 91.0%", f"{once:.2%}", once >= 0.91
            )
            often = results[name][OURS].get(10, (0.0, 0.0))[0]
            run.report.goal(
                f"mnist, depth 10, {PASSES} passes: test accuracy >= 94.5%", f"{often:.2%}",
                often >= 0.945,
            )
    if run.plots is not None:
        draw_depth(results, run.plots / "nongreedy_depth.png")


def compare(
    run: Run, name: str, X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any],
    y_test: NDArray[Any],
) -> dict[str, dict[int, tuple[float, float]]]:
    """Test and training accuracy by method and depth; prints them."""
    scores: dict[str, dict[int, tuple[float, float]]] = {}
    rows: list[list[str]] = []
    for method, train in trainers(PASSES).items():
        for d in DEPTHS:
            settings = tuned(method, X, y, d)
            predict = train(X, y, d, **settings)
            pair = accuracy(predict(X_test), y_test), accuracy(predict(X), y)
            scores.setdefault(method, {})[d] = pair
            rows.append(
                [method, str(d), *(f"{value:.2%}" for value in pair), settings_text(settings)]
            )
    run.report.table([name, "depth", "test", "training", "chosen settings"], rows)
    for d in DEPTHS:
        best, other = max((scores[method][d][0], method) for method in scores if method != OURS)
        ours = scores[OURS][d][0]
        run.report.goal(
            f"{name}, depth {d}: the best on test", f"{ours:.2%} to {best:.2%} ({other})",
            ours > best,
        )
    return scores


def draw_depth(
    results: Mapping[str, Mapping[str, Mapping[int, tuple[float, float]]]], path: Path
) -> None:
    """Test accuracy above, training accuracy below, a column for every set."""
    figure, panels = new_figure(2, len(results))
    for column, (name, scores) in enumerate(results.items()):
        for line, which in enumerate(("test", "training")):
            panel = panels[line][column]
            for method, pairs in scores.items():
                panel.plot(list(pairs), [pair[line] for pair in pairs.values()], "o-", label=method)
            panel.set(title=name, xlabel="depth", ylabel=f"{which} accuracy", xticks=DEPTHS)
    panels[0][0].legend()
    figure.savefig(path)


def new_figure(n_lines: int, n_columns: int) -> tuple[Any, Any]:
    """A matplotlib figure that needs no screen, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * n_columns, 4 * n_lines), layout="constrained")
    return figure, figure.subplots(n_lines, n_columns, squeeze=False)


# ---------------------------------------------------------------- norm, figure 3 of the paper

NORMS = (0.1, 1.0, 4.0, 10.0, 43.0, 100.0)
NORM_DEPTHS = (10, 13, 16)
NORM_ROWS, NORM_PASSES = 10_000, 3


def leaves(model: NonGreedyTreeClassifier, X: NDArray[Any]) -> NDArray[np.int32]:
    """The leaf of every row."""
    batch = Batch(X)
    return model._core.leaves_many(batch.rows(), batch.names)  # type: ignore[no-any-return]


def norm(run: Run) -> None:
    """How many leaves are left, by the bound on the norm of a split."""
    run.report.begin(
        "norm",
        f"leaves that training rows reach, by max_norm (Fig. 3), {NORM_ROWS:,} rows of mnist",
    )
    run.report.note(
        'algorithm="paper" (plain gradient steps) with hope and fear; one pass to grow the '
        f"axis-aligned tree, {NORM_PASSES} at a rate that falls to 0; rows of mean norm 1.\n"
    )
    X, y, X_test, y_test = mnist()
    order = np.random.default_rng(0).permutation(len(y))[:NORM_ROWS]
    size = np.sqrt((X[order].astype(float) ** 2).sum(axis=1).mean())
    X, y, X_test = X[order] / size, y[order], X_test / size
    rows, active = [], {}
    for d in NORM_DEPTHS:
        axis = DecisionTreeClassifier(criterion="entropy", max_depth=d, random_state=0).fit(X, y)
        n_axis = len(np.unique(axis.apply(X)))
        rows.append(
            [str(d), "axis-aligned", str(n_axis), f"{accuracy(axis.predict(X_test), y_test):.2%}"]
        )
        for bound in NORMS:
            model = learned(
                X, y, 1 + NORM_PASSES, depth=d, algorithm="paper", start="axis",
                warm_up=len(y), learning_rate=0.1, max_norm=bound,
            )
            active[d, bound] = len(np.unique(leaves(model, X)))
            test = accuracy(model.predict_many(X_test), y_test)
            rows.append([str(d), f"{bound:g}", str(active[d, bound]), f"{test:.2%}"])
        active[d, np.inf] = n_axis
    run.report.table(["depth", "max_norm", "active leaves", "test accuracy"], rows)
    for d in NORM_DEPTHS:
        counts = [active[d, bound] for bound in NORMS]
        run.report.goal(
            f"depth {d}: the smallest max_norm leaves fewer leaves than the largest, "
            "and than the axis-aligned tree",
            f"{counts[0]} to {counts[-1]} and {active[d, np.inf]}",
            counts[0] < min(counts[-1], active[d, np.inf]),
        )
    if run.plots is not None:
        figure, panels = new_figure(1, len(NORM_DEPTHS))
        for panel, d in zip(panels[0], NORM_DEPTHS, strict=True):
            panel.semilogx(NORMS, [active[d, bound] for bound in NORMS], "o-")
            panel.axhline(active[d, np.inf], linestyle=":", label="axis-aligned")
            panel.set(title=f"depth {d}", xlabel="max_norm", ylabel="active leaves")
        panels[0][0].legend()
        figure.savefig(run.plots / "nongreedy_norm.png")


# ---------------------------------------------------------------- time, figure 4 of the paper

TIME_DEPTHS = (6, 8, 10, 12, 14, 16, 18)


def learning_job(
    inference: str, d: int, X: NDArray[Any], y: NDArray[Any], n_timed: int
) -> Callable[[], dict[str, Callable[[], object]]]:
    """A job that times rows learned by a tree of full depth; its warm-up is outside the clock."""
    def job() -> dict[str, Callable[[], object]]:
        model = NonGreedyTreeClassifier(depth=d, inference=inference, warm_up=32)
        model.learn_many(X[:64], y[:64])
        timed = slice(64, 64 + n_timed)
        return {"learn": lambda: model.learn_many(X[timed], y[timed])}

    return job


def time(run: Run) -> None:
    """What an example costs by the exact and by the fast inference."""
    run.report.begin("time", "time to learn an example of connect4_2class, by depth (Fig. 4)")
    X, y, _, _ = connect4()
    # the exact inference looks at every leaf: fewer rows where there are more of them
    n_timed = {
        ("exact", d): int(np.clip(2.0 ** (18 - d) * 10, 10, 1_000)) for d in TIME_DEPTHS
    }
    n_timed |= {("fast", d): 2_000 for d in TIME_DEPTHS}
    names = {f"{inference} {d}": (inference, d) for inference, d in n_timed}
    jobs = {
        name: learning_job(inference, d, X, y, n_timed[inference, d])
        for name, (inference, d) in names.items()
    }
    measured = interleaved(jobs, run.repeats)
    seconds = {
        key: [value / n_timed[key] for value in measured[name]["learn"]]
        for name, key in names.items()
    }
    run.report.table(
        ["depth", "leaves", "exact us", "fast us", "exact to fast"],
        [
            [
                str(d), f"{2**d:,}", spread_text(Spread.of(seconds["exact", d]), 1e6),
                spread_text(Spread.of(seconds["fast", d]), 1e6),
                times_text(ratios(seconds["exact", d], seconds["fast", d])),
            ]
            for d in TIME_DEPTHS
        ],
    )
    medians = {key: float(np.median(values)) for key, values in seconds.items()}
    deep = [d for d in TIME_DEPTHS if d >= 10]
    doubling = growth(deep, [np.log2(medians["exact", d]) for d in deep])
    exponent = growth(
        np.log(TIME_DEPTHS), [np.log(medians["fast", d]) for d in TIME_DEPTHS]
    )
    run.report.goal(
        "the exact inference grows with 2^depth: doublings a level, from depth 10 on, 0.7 to 1.3",
        f"{doubling:.2f}", 0.7 <= doubling <= 1.3,
    )
    run.report.goal(
        "the fast inference grows about with depth^2: exponent of the depth <= 2.5",
        f"{exponent:.2f}", exponent <= 2.5,
    )
    if run.plots is not None:
        figure, panels = new_figure(1, 1)
        for inference in ("exact", "fast"):
            panels[0][0].semilogy(
                TIME_DEPTHS, [1e6 * medians[inference, d] for d in TIME_DEPTHS], "o-",
                label=inference,
            )
        panels[0][0].set(xlabel="depth", ylabel="us an example")
        panels[0][0].legend()
        figure.savefig(run.plots / "nongreedy_time.png")


def growth(x: Sequence[float] | NDArray[Any], y: Sequence[float]) -> float:
    """The slope of the line through points."""
    return float(np.polyfit(x, y, 1)[0])


# -------------------------------------------------------------------------------- stream

# the best of river's and MOA's Hoeffding trees, as published with the goals
ACCURACY_GOALS = {
    "letter": 0.631, "pendigits": 0.890, "optdigits": 0.889, "segment": 0.778,
    "waveform5000": 0.799, "elec2": 0.817,
}
R2_GOALS = {
    "kin8nm": 0.45, "puma8NH": 0.50, "cal_housing": 0.54, "ailerons": 0.65, "elevators": 0.60,
}
FEWEST_ROWS = 1_000


def stream_of(data: Data) -> tuple[list[dict[Any, Any]], list[Any]]:
    """A set as a stream of raw dicts and its targets."""
    order = stream_order(data.name, len(data.y))
    rows = as_dicts(data.X[order], data.feature_names, data.categorical)
    return rows, data.y[order].tolist()


def regression_sets() -> list[str]:
    """The regression sets of the folder with over 1,000 rows."""
    names = []
    for path in sorted(data_folder().glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            y = file["y"]
        if y.dtype.kind == "f" and len(y) > FEWEST_ROWS:
            names.append(path.stem)
    return names


def prequential_r2(
    model: Any, rows: Iterable[dict[Any, Any]], targets: Iterable[float]
) -> float:
    """R^2 of predictions that were made just before each example was learned.

    The first example, before which there is nothing to know, is only learned: where targets lie
    far from 0, as in quake, the 0 that every regressor answers to it would outweigh all others.
    """
    metric = metrics.R2()
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        if i > 0:
            metric.update(y, model.predict_one(x))
        model.learn_one(x, y)
    return float(metric.get())


def task_of(data: Data, rows: Sequence[dict[Any, Any]]) -> Task:
    """What MOA must know beforehand."""
    categories = {
        name: sorted({x[name] for x in rows if name in x})
        for name, is_one in zip(data.feature_names, data.categorical, strict=True)
        if is_one
    }
    return Task(data.n_classes, data.feature_names, categories)


def stream(run: Run) -> None:
    """One pass with defaults over raw columns."""
    run.report.begin("stream", "prequential, one pass, defaults, raw columns")
    peers, absent = present(["river HoeffdingTree", "CapyMOA HoeffdingTree"])
    classify(run, peers)
    run.report.skipped(absent)
    regress(run)


def classify(run: Run, peers: Sequence[Peer]) -> None:
    """Accuracy beside the Hoeffding trees'."""
    table, ahead = [], []
    for name, goal in ACCURACY_GOALS.items():
        data = load(name)
        rows, labels = stream_of(data)
        task = task_of(data, rows)
        ours = prequential_accuracy(NonGreedyTreeClassifier(), rows, labels)
        theirs = [prequential_accuracy(peer.make(task), rows, labels) for peer in peers]
        ahead.append(ours > max([goal, *theirs]))
        table.append([name, f"{ours:.2%}", *(f"{value:.2%}" for value in theirs), f"{goal:.1%}"])
    run.report.table(["accuracy", OURS, *(peer.name for peer in peers), "best published"], table)
    run.report.goal(
        "above all Hoeffding trees, run here and published, on at least 5 of 6",
        f"{sum(ahead)} of {len(ahead)}", sum(ahead) >= 5,
    )


def regress(run: Run) -> None:
    """R^2 beside river's Hoeffding tree with mean leaves, and beside the running mean."""
    table, scores = [], {}
    for name in regression_sets():
        rows, targets = stream_of(load(name))
        values = [
            prequential_r2(model, rows, targets)
            for model in (
                NonGreedyTreeRegressor(),
                tree.HoeffdingTreeRegressor(leaf_prediction="mean"),
                dummy.StatisticRegressor(stats.Mean()),
            )
        ]
        scores[name] = values[0]
        goal = f"{R2_GOALS[name]:.2f}" if name in R2_GOALS else "-"
        table.append([name, f"{len(rows):,}", *(f"{value:.4f}" for value in values), goal])
    run.report.table(
        ["R^2", "rows", OURS, "river HoeffdingTree, means", "running mean", "goal"], table
    )
    run.report.note("R^2 leaves out the first example, before which there is nothing to know.")
    for name, goal in R2_GOALS.items():
        if name in scores:
            run.report.goal(
                f"{name}: R^2 >= {goal}", f"{scores[name]:.3f}", scores[name] >= goal
            )
        else:
            run.report.goal(f"{name}: R^2 >= {goal}", "-", None)
    if scores:
        lowest, name = min((score, name) for name, score in scores.items())
        run.report.goal(
            f"above 0 on every regression set with over {FEWEST_ROWS:,} rows",
            f"{lowest:.4f} at the least ({name})", lowest > 0,
        )


# --------------------------------------------------------------------------------- speed


def speed(run: Run, n: int = 20_000, n_warm: int = 4_000) -> None:
    """One dict of 10 numbers at a time, 2 classes."""
    run.report.begin("speed", f"learn_one, 10 numbers, 2 classes, depth 8, {n:,} rows")
    X, y = noisy_halfspace(n, 10, seed=1)
    rows, labels = as_dicts(X, [f"x{j}" for j in range(10)]), y.tolist()
    makers: dict[str, Callable[[], OneByOne]] = {
        OURS: partial(NonGreedyTreeClassifier, depth=8),
        "river HoeffdingTree": partial(PEERS["river HoeffdingTree"].make, Task(2, list(rows[0]))),
    }
    table = []
    goals: list[Spread] = []
    spans = {"from the start": (0, n), "past the warm-up": (n_warm, n - n_warm)}
    for span, (n_before, n_timed) in spans.items():
        measured = interleaved(
            {
                name: one_by_one(make, rows, labels, n_before, n_timed)
                for name, make in makers.items()
            },
            run.repeats,
        )
        for name, phases in measured.items():
            row = [f"{name}, {span}", f"{n_timed:,}"]
            for phase in ("learn", "predict"):
                ratio = ratios(phases[phase], measured[OURS][phase])
                row += [
                    spread_text(Spread.of(phases[phase]), 1e6 / n_timed),
                    "1x" if name == OURS else times_text(ratio),
                ]
                if name != OURS and phase == "learn":
                    goals.append(ratio)
            table.append(row)
    run.report.table(["learner", "rows", "learn us", "to ours", "predict us", "to ours"], table)
    for span, ratio in zip(spans, goals, strict=True):
        run.report.speed_goal(f"learn_one against river HoeffdingTree's, {span}", ratio, 15)


# ---------------------------------------------------------------------------------- main


SECTIONS: dict[str, Callable[[Run], None]] = {
    section.__name__: section for section in (depth, norm, time, stream, speed)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen sections, all by default."""
    run_sections(__doc__, SECTIONS, arguments)


if __name__ == "__main__":
    main()
