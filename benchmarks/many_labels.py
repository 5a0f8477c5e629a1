"""Trees of many labels: LOMTreeClassifier beside our other trees, Vowpal Wabbit and napkinXC.

    python benchmarks/many_labels.py [section ...] [--repeats N]

`words` is the next word of a text, `sets` data sets of 20 to 3,700 labels, `growth` made streams
of 100 to 100,000 labels, `orders` the same labels in other orders of arrival, `arrivals` labels
that come one after the other, `turnover` labels that come and go. Times are processor
time, one pass, learners one after the other; VW reads caches that are made outside the clock. What
is not installed is left out. The data sets are looked for in $STREAMTREE_DATA.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from data import load
from numpy.typing import NDArray
from peers import Cache, vw_weight_bytes, why_absent
from report import Run, error_rate, megabytes, memory_of, run_sections
from scipy import sparse

from streamtree import (
    ExtraTreeClassifier,
    ForestClassifier,
    LOMTreeClassifier,
    ModelTreeClassifier,
)

Maker = Callable[[], Any]
LEARNERS: dict[str, Maker] = {
    "LOMTree": LOMTreeClassifier,
    "LOMTree, beam 1": partial(LOMTreeClassifier, beam=1),
    "LOMTree, majority": partial(LOMTreeClassifier, leaf_model="majority"),
    "ModelTree": ModelTreeClassifier,
}
# of data sets only: these are many times slower
FORESTS: dict[str, Maker] = {"ExtraTree": ExtraTreeClassifier, "Forest": ForestClassifier}
SETS = (
    "newsgroups20", "isolet", "letter", "banking77", "clinc150", "omniglot_small",
    "geonames_admin1",
)
# of made streams, up to which our other tree is measured as well
MANY_LABELS = 1000
VW_REDUCTIONS = ("recall_tree", "log_multi", "oaa")
# its default table is far too small for nodes x features
VW_BITS = 24
# of napkinXC: hierarchical softmax in one pass, the probabilistic label tree, not online, and the
# online one, for which its Python part has no class of its own
NAPKINXC = {
    "HSM": {"optimizer": "adagrad", "epochs": 1}, "PLT": {},
    "OPLT": {
        "model": "oplt", "tree_type": "onlineRandom", "tree_structure": None,
        "optimizer": "adagrad", "epochs": 1,
    },
}
# A set without a test part of its own is cut here.
TRAIN_SHARE = 0.75
HEADER = ["learner", "learn us", "predict us", "test error", "MB", "leaves", "height"]


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a call, and what it returns."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def top_error(model: Any, rows: Any, y: NDArray[Any], count: int) -> tuple[float, float]:
    """How often a label is not among the `count` most likely ones, and the log loss."""
    missed, loss = 0, 0.0
    names = list(range(rows.shape[1]))
    for i in range(rows.shape[0]):
        row = rows[i]
        x = dict(zip((names[j] for j in row.indices.tolist()), row.data.tolist(), strict=True))
        missed += y[i] not in {label for label, _ in model.predict_topk_one(x, count)}
        loss -= math.log(model.predict_proba_one(x).get(y[i], 1e-12))
    return missed / rows.shape[0], loss / rows.shape[0]


def measured(
    make: Maker, X: Any, y: NDArray[Any], n: int, passes: int = 1
) -> tuple[list[str], Any]:
    """The cells of a table, and the model."""
    model = make()
    learning = 0.0
    for _ in range(passes):
        taken, _ = seconds(lambda: model.learn_many(X[:n], y[:n]))
        learning += taken / passes
    predicting, said = seconds(lambda: model.predict_many(X[n:]))
    return [
        f"{learning / n * 1e6:.2f}", f"{predicting / (len(y) - n) * 1e6:.2f}",
        f"{error_rate(said, y[n:]):.2%}", megabytes(memory_of(model)), str(model.n_leaves),
        str(model.height),
    ], model


def vw_cells(
    run: Run, reduction: str, X: Any, y: NDArray[Any], n: int, n_classes: int
) -> list[str]:
    """The cells of a reduction of VW."""
    train, test = (
        Cache(run.folder / name, X[part], y[part], n_classes, VW_BITS)
        for name, part in (("train", slice(n)), ("test", slice(n, None)))
    )
    learning, workspace = seconds(lambda: train.learn(reduction))
    predicting, said = seconds(lambda: test.predict(workspace))
    size = vw_weight_bytes(workspace)
    workspace.finish()
    return [
        f"{learning / n * 1e6:.2f}", f"{predicting / (len(y) - n) * 1e6:.2f}",
        f"{error_rate(said, y[n:]):.2%}", megabytes(size), "-", "-",
    ]


def napkinxc_cells(run: Run, name: str, X: Any, y: NDArray[Any], n: int) -> list[str]:
    """The cells of a model of napkinXC, whose memory is that of its files."""
    from napkinxc import models

    folder = run.folder / name
    kind = getattr(models, name, models.LabelTreeModel)
    model = kind(output=str(folder), seed=1, threads=1, **NAPKINXC[name])
    rows = sparse.csr_matrix(X, dtype=np.float32)
    learning, _ = seconds(lambda: model.fit(rows[:n], [[label] for label in y[:n].tolist()]))
    # what it loads before it predicts
    model.predict(rows[n : n + 1], top_k=1)
    predicting, said = seconds(lambda: model.predict(rows[n:], top_k=1))
    found = np.array([labels[0] if labels else -1 for labels in said])
    size = sum(path.stat().st_size for path in folder.iterdir())
    return [
        f"{learning / n * 1e6:.2f}", f"{predicting / (len(y) - n) * 1e6:.2f}",
        f"{error_rate(found, y[n:]):.2%}", megabytes(size), "-", "-",
    ]


def rows_of_peers(
    run: Run, X: Any, y: NDArray[Any], n: int, n_classes: int, peers: Sequence[str]
) -> list[list[str]]:
    """Rows of a table for those reductions of VW and models of napkinXC that are installed."""
    rows = []
    for name in peers:
        module = "napkinxc" if name in NAPKINXC else "vowpalwabbit"
        if absent := why_absent(module):
            run.report.skipped({name: absent})
        elif name in NAPKINXC:
            rows.append([f"napkinXC {name}", *napkinxc_cells(run, name, X, y, n)])
        else:
            rows.append([f"VW {name}", *vw_cells(run, name, X, y, n, n_classes)])
    return rows


def words(run: Run) -> None:
    """The next of thousands of words."""
    data = load("wikitext2_nextword")
    n = data.split
    run.report.begin("words", f"the next of {data.n_classes:,} words, one pass over {n:,} rows")
    rows = []
    for name, make in LEARNERS.items():
        cells, model = measured(make, data.X, data.y, n)
        rows.append([name, *cells])
        if name == "LOMTree":
            ours, our_cells = model, cells
    cells, _ = measured(LOMTreeClassifier, data.X, data.y, n, passes=3)
    rows.append(["LOMTree, 3 passes", *cells])
    rows += rows_of_peers(
        run, data.X, data.y, n, data.n_classes, (*VW_REDUCTIONS, *NAPKINXC)
    )
    run.report.table(HEADER, rows)
    picked = slice(n, None, 20)
    error, loss = top_error(ours, data.X[picked], data.y[picked], 5)
    run.report.note(f"of one test row in 20: top-5 error {error:.2%}, log loss {loss:.2f}")
    learn, predict, wrong = (float(cell.rstrip("%")) for cell in our_cells[:3])
    run.report.goal("test error <= 81.7 %", f"{wrong} %", wrong <= 81.7)
    run.report.goal("<= 5 us to learn a row", f"{learn} us", learn <= 5)
    run.report.goal("<= 10 us to predict a row", f"{predict} us", predict <= 10)
    size = (memory_of(ours) or 0) / 1e6
    run.report.goal("<= 120 MB", f"{size:.1f} MB", size <= 120)


def sets(run: Run) -> None:
    """Data sets of fewer labels."""
    for name in SETS:
        data = load(name)
        n = data.train_size or int(TRAIN_SHARE * len(data.y))
        run.report.begin(f"sets, {name}", f"{data.n_classes:,} labels, one pass over {n:,} rows")
        rows = [
            [who, *measured(make, data.X, data.y, n)[0]]
            for who, make in (LEARNERS | FORESTS).items()
        ]
        run.report.table(HEADER, rows)


def zipf_labels(n: int, n_labels: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels whose frequencies fall with their rank; of the rarest not all need come."""
    frequency = 1.0 / np.arange(1, n_labels + 1)
    return rng.choice(n_labels, size=n, p=frequency / frequency.sum())


def made_texts(n: int, n_labels: int, seed: int) -> tuple[Any, NDArray[np.int64]]:
    """Rows of 12 of 20,000 words: 6 of the label, of its ten, 6 of any."""
    rng = np.random.default_rng(seed)
    labels, n_words = zipf_labels(n, n_labels, rng), 20_000
    own = rng.integers(n_words, size=(n_labels, 10))
    chosen = np.take_along_axis(own[labels], rng.integers(10, size=(n, 6)), axis=1)
    columns = np.hstack([chosen, rng.integers(n_words, size=(n, 6))])
    X = sparse.csr_array((np.ones(12 * n), columns.ravel(), np.arange(0, 12 * n + 1, 12)))
    X.resize(n, n_words)
    X.sum_duplicates()
    return X, labels


def made_numbers(n: int, n_labels: int, seed: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """64 columns around means that lie in clusters of ten labels."""
    rng = np.random.default_rng(seed)
    labels = zipf_labels(n, n_labels, rng)
    clusters = rng.normal(size=(n_labels // 10 + 1, 64))
    means = 2.0 * clusters[np.arange(n_labels) // 10] + rng.normal(size=(n_labels, 64))
    return means[labels] + rng.normal(size=(n, 64)), labels


def growth(run: Run) -> None:
    """Made streams of more and more labels."""
    for kind, make_stream in (("texts", made_texts), ("numbers", made_numbers)):
        run.report.begin(f"growth, {kind}", "Zipf frequencies, 100,000 rows and 10,000 to test")
        rows, times = [], []
        for n_labels in (100, 1000, 10_000, 100_000):
            X, y = make_stream(110_000, n_labels, 1)
            cells, model = measured(LOMTreeClassifier, X, y, 100_000)
            rows.append([f"{n_labels:,} labels", *cells])
            if n_labels <= MANY_LABELS:
                rows.append(["ModelTree", *measured(ModelTreeClassifier, X, y, 100_000)[0]])
            peers = rows_of_peers(run, X, y, 100_000, n_labels, ("recall_tree", "HSM"))
            rows += peers
            for name, _, _, error, *_ in peers:
                goal = f"error not above that of {name}, {n_labels:,} labels"
                better = float(cells[2].rstrip("%")) <= float(error.rstrip("%"))
                run.report.goal(goal, f"{cells[2]} against {error}", better)
            times.append(float(cells[0]))
            deepest = 2 * math.log2(n_labels)
            goal = f"depth <= {deepest:.1f} of {n_labels:,} labels"
            if model._core.tree.has_groups:
                run.report.goal(goal, str(model.height), model.height <= deepest)
        run.report.table(HEADER, rows)
        ratio = max(times) / times[0]
        run.report.goal("time a row at most 4 times that of 100", f"{ratio:.1f}", ratio <= 4)


def orders(run: Run) -> None:
    """The same rows in other orders, then once more shuffled."""
    n, n_labels = 60_000, 2000
    X, y = made_texts(n + 10_000, n_labels, 2)
    run.report.begin("orders", f"{n_labels:,} labels, one pass in an order, one more shuffled")
    keys = {
        "shuffled": np.arange(n), "sorted": y[:n], "blocks of 100 labels": y[:n] // 100,
        "rare first": -y[:n],
    }
    rows, errors = [], []
    for name, key in keys.items():
        order = np.argsort(key, kind="stable")
        model = LOMTreeClassifier()
        model.learn_many(X[order], y[order])
        first = error_rate(model.predict_many(X[n:]), y[n:])
        model.learn_many(X[:n], y[:n])
        errors.append(error_rate(model.predict_many(X[n:]), y[n:]))
        rows.append(
            [name, f"{first:.2%}", f"{errors[-1]:.2%}", megabytes(memory_of(model)),
             str(model.height)]
        )
    run.report.table(["order", "after one pass", "after one more", "MB", "height"], rows)
    apart = max(errors) - errors[0]
    run.report.goal("within two points of shuffled", f"{apart:.2%}", apart <= 0.02)


def arrivals(run: Run) -> None:
    """Ten new labels every 1,000 rows, beside the same rows shuffled."""
    n, n_labels, n_words = 1_000_000, 10_000, 20_000
    run.report.begin("arrivals", f"ten new labels every 1,000 rows, {n:,} rows of texts")
    rng = np.random.default_rng(3)
    # any of the labels that are there
    known = 10 * (np.arange(n) // 1000 + 1)
    y = np.append(rng.integers(known), rng.integers(n_labels, size=10_000))
    own = rng.integers(n_words, size=(n_labels, 10))
    chosen = np.take_along_axis(own[y], rng.integers(10, size=(len(y), 6)), axis=1)
    columns = np.hstack([chosen, rng.integers(n_words, size=(len(y), 6))])
    X = sparse.csr_array((np.ones(12 * len(y)), columns.ravel(), np.arange(0, 12 * len(y) + 1, 12)))
    X.resize(len(y), n_words)
    X.sum_duplicates()
    shuffled = rng.permutation(n)
    rows, errors = [], []
    model = LOMTreeClassifier()
    for name, order in (
        ("as they arrive", np.arange(n)), ("shuffled, one more", shuffled), ("shuffled", shuffled),
    ):
        if name == "shuffled":
            model = LOMTreeClassifier()
        taken, _ = seconds(partial(model.learn_many, X[order], y[order]))
        errors.append(error_rate(model.predict_many(X[n:]), y[n:]))
        rows.append(
            [name, f"{taken / n * 1e6:.2f}", f"{errors[-1]:.2%}", megabytes(memory_of(model)),
             str(model.height)]
        )
    run.report.table(["rows", "learn us", "test error", "MB", "height"], rows)
    apart = errors[1] - errors[2]
    run.report.goal("one more pass within two points of shuffled", f"{apart:.2%}", apart <= 0.02)


def turnover(run: Run) -> None:
    """Ten new labels every 1,000 rows, of 300 that come: dense rows, which groups alone know."""
    n = 300_000
    run.report.begin("turnover", f"ten new labels every 1,000 rows, of 300 that come, {n:,} rows")
    rng = np.random.default_rng(3)
    y = 10 * (np.arange(n) // 1000) + rng.integers(300, size=n)
    clusters = rng.normal(size=(y.max() // 10 + 1, 64))
    means = 2.0 * clusters[np.arange(y.max() + 1) // 10] + rng.normal(size=(y.max() + 1, 64))
    X = means[y] + rng.normal(size=(n, 64))
    rows, errors = [], {}
    for name, params in {
        "no bound": {"max_bytes": None},
        "10 MB": {"max_bytes": 10_000_000},
        "10 MB, without swaps": {"max_bytes": 10_000_000, "swap_resistance": 1e12},
        "20 splits": {"max_bytes": None, "max_splits": 20},
    }.items():
        model = LOMTreeClassifier(**params)
        said = model.test_then_learn_many(X, y)
        parts = [error_rate(said[i : i + 60_000], y[i : i + 60_000]) for i in range(0, n, 60_000)]
        errors[name] = parts[-1]
        rows.append(
            [name, *(f"{error:.1%}" for error in parts), str(model.n_swaps),
             megabytes(memory_of(model))]
        )
    header = [f"to {60 * (i + 1)},000" for i in range(5)]
    run.report.table(["", *header, "swaps", "MB"], rows)
    apart = errors["10 MB"] - errors["no bound"]
    run.report.goal("10 MB within two points of no bound", f"{apart:.2%}", apart <= 0.02)


SECTIONS = {
    section.__name__: section
    for section in (words, sets, growth, orders, arrivals, turnover)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen sections, all by default."""
    run_sections(__doc__, SECTIONS, arguments)


if __name__ == "__main__":
    main()
