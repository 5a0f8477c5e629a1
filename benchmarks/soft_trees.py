"""The goals of SoftTreeClassifier and SoftTreeRegressor, measured against their peers.

    python benchmarks/soft_trees.py [section ...] [--repeats N]

Every section prints a table and, below it, each goal beside what was measured, with ok or MISS.
Peers that cannot run are named. The data sets are looked for in $STREAMTREE_DATA (see data.py).
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from data import Data, as_dicts, data_folder, load, stream_order
from numpy.typing import NDArray
from peers import PEERS, Job, MoaTree, Spread, Task, interleaved, present, ratios
from report import Report, each, learn_rows, spread_text, times_text, versions
from scipy import stats

from streamtree import NonGreedyTreeClassifier, SoftTreeClassifier, SoftTreeRegressor

OURS = "SoftTreeClassifier"
# accuracy of river's softmax (two classes: logistic) regression behind a StandardScaler
LINEAR_GOALS = {
    "pendigits": 0.870, "optdigits": 0.938, "segment": 0.822, "waveform5000": 0.853,
    "spambase": 0.906, "magic": 0.786,
}
R2_GOALS = {"kin8nm": 0.50, "puma8NH": 0.56, "cal_housing": 0.55}
NOISE_SEEDS = 20
NOISE_ROWS = 100_000
NODES = 15


# -------------------------------------------------------------------------------- speed


def grown(rows: Sequence[dict[Any, Any]], labels: Sequence[Any]) -> SoftTreeClassifier:
    """A tree of exactly NODES nodes that has learned the rows, as often as that takes."""
    # a permissive test, or a stream as simple as this would not fill the tree
    model = SoftTreeClassifier(max_nodes=NODES, delta=0.99, window=50)
    for _ in range(50):
        learn_rows(model, rows, labels)
        if model.n_nodes == NODES:
            return model
    raise RuntimeError(f"the tree has {model.n_nodes} nodes, not {NODES}")


def checkers(n: int, n_features: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two classes on the squares of a board in the first two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = (np.sign(np.sin(2.0 * X[:, 0])) * np.sign(np.sin(2.0 * X[:, 1])) > 0).astype(int)
    return X, y


def speed(report: Report, repeats: int) -> None:
    """Dicts of 10 numbers, a tree of 15 nodes."""
    n, n_features = 10_000, 10
    report.begin("speed", f"one dict at a time, {n_features} numbers, a tree of {NODES} nodes")
    X, y = checkers(n, n_features, seed=1)
    rows, labels = as_dicts(X, [f"x{j}" for j in range(n_features)]), y.tolist()
    peer = PEERS["river HoeffdingTree"]
    task = Task(2, list(rows[0]))

    def ours(routing: str) -> Mapping[str, Callable[[], object]]:
        model = grown(rows, labels)
        model.mutate({"routing": routing})
        return {
            "learn": lambda: learn_rows(model, rows, labels),
            "predict": lambda: each(model.predict_one, rows),
        }

    def theirs() -> Mapping[str, Callable[[], object]]:
        model = peer.make(task)
        return {
            "learn": lambda: learn_rows(model, rows, labels),
            "predict": lambda: each(model.predict_one, rows),
        }

    jobs: dict[str, Job] = {
        "ours, soft": partial(ours, "soft"), "ours, hard": partial(ours, "hard"), peer.name: theirs,
    }
    times = interleaved(jobs, repeats)
    table = []
    for name, phases in times.items():
        cells = []
        for phase in ("learn", "predict"):
            cells += [
                spread_text(Spread.of(phases[phase]), 1e6 / n),
                times_text(ratios(times[peer.name][phase], phases[phase])),
            ]
        table.append([name, *cells])
    report.table(["learner", "learn us", "river's to it", "predict us", "river's to it"], table)
    ratio = ratios(times[peer.name]["learn"], times["ours, soft"]["learn"])
    report.speed_goal(f"learn_one against {peer.name}'s", ratio, 15)


# ------------------------------------------------------------------------- prequential


def log_loss_of(shares: Mapping[Any, float], label: Any) -> float:
    """The log loss of one prediction; shares may not sum to 1, as MOA's do not."""
    total = sum(shares.values())
    share = shares.get(label, 0.0) / total if total > 0 else 0.0
    return -math.log(min(max(share, 1e-15), 1.0))


class MoaShares(MoaTree):
    """A tree of MOA that gives probabilities."""

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[int, float]:
        """The shares of the classes, as MOA votes."""
        shares = self._model.predict_proba(self._instance(self._schema, self._array(x)))
        return {} if shares is None else dict(enumerate(np.asarray(shares).tolist()))


def prequential(
    model: Any, rows: Sequence[dict[Any, Any]], labels: Sequence[Any]
) -> tuple[float, float]:
    """Accuracy and mean log loss, each example predicted just before it is learned."""
    n_right, loss = 0, 0.0
    for x, y in zip(rows, labels, strict=True):
        shares = model.predict_proba_one(x)
        n_right += bool(shares) and max(shares, key=shares.__getitem__) == y
        loss += log_loss_of(shares, y)
        model.learn_one(x, y)
    return n_right / len(rows), loss / len(rows)


def classes(report: Report, repeats: int) -> None:
    """One pass over raw columns, accuracy and log loss."""
    report.begin("classes", "prequential accuracy and log loss, defaults, raw columns")
    moa = PEERS["CapyMOA HoeffdingTree"]
    absent = moa.why_absent()
    table, accuracies, goals = [], {}, []
    for name in LINEAR_GOALS:
        data = load(name)
        order = stream_order(name, len(data.y))
        rows = as_dicts(data.X[order], data.feature_names, data.categorical)
        labels = data.y[order].tolist()
        task = Task(data.n_classes, data.feature_names)
        model = SoftTreeClassifier()
        measured = {OURS: prequential(model, rows, labels)}
        peers = {
            "non-greedy": NonGreedyTreeClassifier(),
            "river HoeffdingTree": PEERS["river HoeffdingTree"].make(task),
        }
        peers["river linear"] = PEERS[
            "river scaler, softmax" if data.n_classes > 2 else "river scaler, logistic"
        ].make(task)
        if absent is None:
            peers["CapyMOA HoeffdingTree"] = MoaShares("HoeffdingTree", task)
        for peer, learner in peers.items():
            measured[peer] = prequential(learner, rows, labels)
        accuracies[name] = measured[OURS][0]
        table.append(
            [
                name, len(labels), model.n_nodes,
                *(
                    f"{measured[peer][0]:.3f} {measured[peer][1]:.3f}" if peer in measured else "-"
                    for peer in (OURS, "non-greedy", "river HoeffdingTree",
                                 "CapyMOA HoeffdingTree", "river linear")
                ),
            ]
        )
        for peer in ("river HoeffdingTree", "CapyMOA HoeffdingTree"):
            if peer not in measured:
                goals.append((f"{name} better than {peer}", "-", None))
                continue
            ours, theirs = measured[OURS], measured[peer]
            goals.append((
                f"{name} better than {peer}", f"accuracy {ours[0]:.3f} to {theirs[0]:.3f}, "
                f"log loss {ours[1]:.3f} to {theirs[1]:.3f}",
                ours[0] > theirs[0] and ours[1] < theirs[1],
            ))
    header = [
        "set", "rows", "our nodes", "ours", "non-greedy", "river HT", "MOA HT", "river linear"
    ]
    report.table(header, table)
    if absent is not None:
        report.skipped({moa.name: absent})
    for goal in goals:
        report.goal(*goal)
    n_above = sum(accuracies[name] > goal for name, goal in LINEAR_GOALS.items())
    report.goal(
        "accuracy above river's linear model with a scaler (.870 .938 .822 .853 .906 .786) on at "
        "least five of six", f"{n_above} of 6", n_above >= 5,
    )


def prequential_r2(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """R2 of one pass; the first example, of which nothing is known, does not count."""
    return r2(model.test_then_learn_many(X, y)[1:], y[1:])


def r2(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    """1 - squared error / squared deviation from the mean."""
    return 1.0 - float(((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def large_regression_sets(at_least: int = 1_000) -> list[Data]:
    """All regression sets of the folder with more rows than that."""
    found = []
    for path in sorted(data_folder().glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            is_number = "X" in file.files and file["y"].dtype.kind == "f"
            if is_number and len(file["y"]) > at_least:
                found.append(path.stem)
    return [load(name) for name in found]


def numbers(report: Report, repeats: int) -> None:
    """One pass over raw columns and targets, R2."""
    report.begin("numbers", "prequential R2, defaults, raw columns and targets")
    table, scores = [], {}
    for data in large_regression_sets():
        order = stream_order(data.name, len(data.y))
        X, y = data.X[order].astype(np.float64), data.y[order].astype(np.float64)
        model = SoftTreeRegressor()
        scores[data.name] = prequential_r2(model, X, y)
        means = np.r_[0.0, np.cumsum(y)[:-1] / np.arange(1, len(y))]
        table.append(
            [data.name, len(y), X.shape[1], f"{scores[data.name]:.3f}",
             f"{r2(means[1:], y[1:]):.3f}", model.n_nodes]
        )
    report.table(["set", "rows", "columns", "ours", "mean so far", "nodes"], table)
    for name, goal in R2_GOALS.items():
        if name in scores:
            report.goal(f"{name} >= {goal}", f"{scores[name]:.3f}", scores[name] >= goal)
    worst = min(scores, key=scores.__getitem__)
    report.goal("above 0 on every set", f"{worst} {scores[worst]:.3f}", scores[worst] > 0)


# ------------------------------------------------------------------------------- growth


def noise(report: Report, repeats: int) -> None:
    """Random labels: nothing to learn."""
    report.begin("noise", f"splits on {NOISE_ROWS:,} random targets, {NOISE_SEEDS} seeds")
    table = []
    for kind in ("2 classes", "5 classes", "number"):
        splits, nodes = [], []
        for seed in range(NOISE_SEEDS):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(NOISE_ROWS, 10))
            if kind == "number":
                model: Any = SoftTreeRegressor()
                model.learn_many(X, rng.normal(size=NOISE_ROWS))
            else:
                model = SoftTreeClassifier()
                model.learn_many(X, rng.integers(int(kind[0]), size=NOISE_ROWS))
            splits.append(model.n_splits)
            nodes.append(model.n_nodes)
        table.append([kind, splits.count(0), nodes.count(1), max(splits)])
    report.table(["target", "seeds never split", "single leaf at the end", "most splits"], table)
    for kind, never, _, _ in table[:2]:
        goal = math.ceil(0.95 * NOISE_SEEDS)
        report.goal(
            f"{kind}: a single leaf throughout in at least {goal} of {NOISE_SEEDS} seeds",
            str(never), int(never) >= goal,
        )


def zeros(report: Report, repeats: int) -> None:
    """What the penalties do to the gates."""
    shares = (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    n_seeds = 10
    report.begin(
        "zeros", "share of gate weights that are exactly 0, nodes and accuracy on the rows "
        f"learned, by penalty and lambda; 2 of 10 features matter, means of {n_seeds} seeds",
    )
    found = []
    table = []
    for share in shares:
        row = [f"{share:g}"]
        for penalty in ("l1", "l2"):
            results = [sparse_gates(seed, penalty, share) for seed in range(n_seeds)]
            zero, nodes, accuracy = np.mean(results, axis=0)
            row += [f"{zero:.1%}", f"{nodes:.1f}", f"{accuracy:.1%}"]
            if penalty == "l1":
                found.append(float(zero))
        table.append(row)
    report.table(
        ["lambda", "L1 zeros", "nodes", "accuracy", "L2 zeros", "nodes", "accuracy"], table
    )
    report.goal(
        "with L1 the share of zeros grows with lambda", " ".join(f"{zero:.3f}" for zero in found),
        all(a <= b for a, b in itertools.pairwise(found)) and found[-1] > found[0],
    )


def sparse_gates(seed: int, penalty: str, share: float) -> tuple[float, int, float]:
    """Zero share, nodes and accuracy of `algorithm="paper"` on a noisy halfspace."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10_000, 10))
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    model = SoftTreeClassifier(
        penalty=penalty, penalty_share=share, algorithm="paper", update="all", learning_rate=0.1,
        max_nodes=15, delta=0.5,
    )
    model.learn_many(X, y)
    return model.zero_share, model.n_nodes, float((model.predict_many(X) == y).mean())


# ---------------------------------------------------------------------- the paper's table

SMALL_SETS = (
    "balance_scale", "banana", "breast_w", "car", "cmc", "credit_a", "credit_g", "dermatology",
    "ecoli", "glass", "heart_statlog", "ionosphere", "iris", "optdigits", "page_blocks",
    "pendigits", "pima_diabetes", "segment", "sonar", "spambase", "tic_tac_toe", "twonorm",
    "vehicle", "vote", "waveform21", "wdbc", "wine", "yeast",
)
LAMBDAS = (1e-4, 1e-3, 1e-2)
MOST_ROWS = 1_500
METHODS = ("hard", "linear", "soft", "soft L1", "soft L2")
# Plain gradient steps, constant leaves, the penalties as published; but all gates learn jointly.
LITERAL: dict[str, Any] = {
    "algorithm": "paper", "update": "all", "learning_rate": 0.3, "max_nodes": 31,
}
# linear leaves, AdaGrad
DEFAULTS: dict[str, Any] = {"max_nodes": 31}
EPOCHS = {"paper": 30, "paper_defaults": 10}


def design(data: Data, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers and indicators of the categories; what is missing is the column's mean."""
    columns = []
    for j in range(data.X.shape[1]):
        column = data.X[rows, j].astype(np.float64)
        if data.categorical[j]:
            values = np.unique(column[~np.isnan(column)])
            columns += [(column == value).astype(np.float64) for value in values]
        else:
            known = ~np.isnan(column)
            columns.append(np.where(known, column, column[known].mean() if known.any() else 0.0))
    return np.column_stack(columns)


class Fold:
    """Training, validation and test rows, in standard deviations of the training rows."""

    def __init__(self, X: NDArray[Any], y: NDArray[Any], *parts: NDArray[Any]) -> None:
        train = X[parts[0]]
        deviation = train.std(axis=0)
        scaled = (X - train.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        self.train, self.validation, self.test = ((scaled[part], y[part]) for part in parts)


def hard_tree(fold: Fold) -> tuple[float, int]:
    """CART, pruned to the complexity that is best on the validation rows."""
    from sklearn.tree import DecisionTreeClassifier

    path = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(*fold.train)
    alphas = np.unique(np.clip(path.ccp_alphas, 0.0, None))
    if len(alphas) > 20:
        alphas = np.quantile(alphas, np.linspace(0, 1, 20))
    best = max(
        (DecisionTreeClassifier(ccp_alpha=a, random_state=0).fit(*fold.train) for a in alphas),
        key=lambda tree: (tree.score(*fold.validation), -tree.tree_.node_count),
    )
    return float(best.score(*fold.test)), int(best.tree_.node_count)


def linear_discriminant(fold: Fold) -> tuple[float, int]:
    """Fisher's; it has no nodes but the root."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
    with warnings.catch_warnings():
        # of a class with a single row, which some halves of the small sets have
        warnings.filterwarnings("ignore", "Only one sample available")
        model.fit(*fold.train)
    return float(model.score(*fold.test)), 1


def soft_tree(
    fold: Fold, epochs: int, params: Mapping[str, Any]
) -> tuple[SoftTreeClassifier, float]:
    """A soft tree after some epochs over the training rows, and its validation accuracy."""
    model = SoftTreeClassifier(**params)
    rng = np.random.default_rng(0)
    X, y = fold.train
    for _ in range(epochs):
        order = rng.permutation(len(y))
        model.learn_many(X[order], y[order])
    return model, float((model.predict_many(fold.validation[0]) == fold.validation[1]).mean())


def tuned_soft_tree(
    fold: Fold, epochs: int, params: Mapping[str, Any], penalty: str | None
) -> tuple[float, int]:
    """A soft tree with the lambda that is best on the validation rows; of equals the largest."""
    if penalty is None:
        model, _ = soft_tree(fold, epochs, params)
    else:
        tried = [
            soft_tree(fold, epochs, {**params, "penalty": penalty, "penalty_share": share})
            for share in LAMBDAS
        ]
        model = max(enumerate(tried), key=lambda item: (item[1][1], item[0]))[1][0]
    return float((model.predict_many(fold.test[0]) == fold.test[1]).mean()), model.n_nodes


def folds(data: Data) -> Iterable[Fold]:
    """1/3 of the rows to test; five times the rest in two halves, each once to train."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.y))[:MOST_ROWS]
    X, y = design(data, rows), data.y[rows]
    places = np.arange(len(rows))
    n_test = len(rows) // 3
    for _ in range(5):
        rest = rng.permutation(places[n_test:])
        halves = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        for a, b in (halves, halves[::-1]):
            yield Fold(X, y, a, b, places[:n_test])


def compare(
    data: Data, epochs: int, params: Mapping[str, Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Test accuracies and node counts of shape (10 folds, methods)."""
    accuracy, nodes = [], []
    for fold in folds(data):
        results = [
            hard_tree(fold),
            linear_discriminant(fold),
            *(tuned_soft_tree(fold, epochs, params, penalty) for penalty in (None, "l1", "l2")),
        ]
        accuracy.append([result[0] for result in results])
        nodes.append([result[1] for result in results])
    return np.array(accuracy), np.array(nodes)


def f_test(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Alpaydin's 5x2 cv F test: the p-value of two methods' ten results being alike."""
    differences = (a - b).reshape(5, 2)
    variances = ((differences - differences.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    if not differences.any():
        return 1.0
    if not variances.any():
        return 0.0
    return float(stats.f.sf((differences**2).sum() / (2.0 * variances.sum()), 10, 5))


def wins(results: Sequence[NDArray[Any]], sign: float) -> NDArray[np.int64]:
    """How often the row's method is better than the column's, by the F test at 5 %."""
    n = len(METHODS)
    counts = np.zeros((n, n), dtype=np.int64)
    for values in results:
        for i, j in itertools.permutations(range(n), 2):
            better = sign * (values[:, i].mean() - values[:, j].mean()) > 0
            counts[i, j] += better and f_test(values[:, i], values[:, j]) < 0.05
    return counts


def mean_ranks(results: Sequence[NDArray[Any]], sign: float) -> tuple[NDArray[Any], float]:
    """The methods' mean ranks over the sets, 1 the best, and Nemenyi's critical difference."""
    ranks = [stats.rankdata(-sign * values.mean(axis=0)) for values in results]
    n = len(METHODS)
    q = stats.studentized_range.ppf(0.95, n, np.inf) / math.sqrt(2.0)
    return np.mean(ranks, axis=0), float(q * math.sqrt(n * (n + 1) / (6.0 * len(results))))


def paper(report: Report, repeats: int) -> None:
    """The comparison of Yildiz & Alpaydin (2013), with their leaves, steps and penalties."""
    comparison(report, "paper", LITERAL)


def paper_defaults(report: Report, repeats: int) -> None:
    """The same with the default leaves and steps."""
    comparison(report, "paper_defaults", DEFAULTS)


def comparison(report: Report, section: str, params: Mapping[str, Any]) -> None:
    """Accuracies, nodes, wins and ranks over the small sets."""
    epochs = EPOCHS[section]
    report.begin(
        section, f"5x2 cross-validation, {epochs} epochs, lambda of {LAMBDAS}, "
        f"at most {MOST_ROWS} rows a set; accuracy (nodes); soft: {dict(params)}",
    )
    accuracies, nodes, table = [], [], []
    for name in SMALL_SETS:
        accuracy, count = compare(load(name), epochs, params)
        accuracies.append(accuracy)
        nodes.append(count)
        table.append(
            [name, *(f"{a:.1%} ({c:.1f})" for a, c in
                     zip(accuracy.mean(axis=0), count.mean(axis=0), strict=True))]
        )
    report.table(["set", *METHODS], table)
    for what, results, sign in (("accuracy", accuracies, 1.0), ("nodes", nodes, -1.0)):
        counts = wins(results, sign)
        report.note(f"sets on which the row is better than the column in {what}, F test at 5 %")
        report.table(["", *METHODS], [[METHODS[i], *counts[i]] for i in range(len(METHODS))])
        ranks, difference = mean_ranks(results, sign)
        shown = ", ".join(f"{m} {r:.2f}" for m, r in zip(METHODS, ranks, strict=True))
        report.note(f"mean ranks: {shown}; Nemenyi's critical difference {difference:.2f}\n")
        if what == "accuracy":
            lost = int(counts[0, 2])
            report.goal(
                "soft wins or ties with hard on most sets", f"{int(counts[2, 0])} won, {lost} lost "
                f"of {len(results)}", lost < len(results) / 2,
            )
    plain, l1, l2 = (float(np.mean([n[:, i].mean() for n in nodes])) for i in (2, 3, 4))
    report.goal(
        "the penalties cut nodes", f"soft {plain:.1f}, L1 {l1:.1f}, L2 {l2:.1f} on average",
        l1 < plain and l2 < plain,
    )


# --------------------------------------------------------------------------------- main


SECTIONS: dict[str, Callable[[Report, int], None]] = {
    section.__name__: section
    for section in (speed, classes, numbers, noise, zeros, paper, paper_defaults)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen sections, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"one of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of timings (5)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    print(versions())
    report = Report()
    report.skipped(present(["CapyMOA HoeffdingTree"])[1])
    for name in options.sections or SECTIONS:
        SECTIONS[name](report, options.repeats)
    report.end()


if __name__ == "__main__":
    main()
