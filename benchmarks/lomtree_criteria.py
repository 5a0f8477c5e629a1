"""Fig. 3 of Choromanska, Choromanski & Bojarski (2016): criteria and error as a LOMtree grows.

    python benchmarks/lomtree_criteria.py [set ...] [--algorithm paper] [--folder FOLDER]

The sets are mnist, isolet, sector and aloi, those of them that are in $STREAMTREE_DATA (see
data.py). Entropy G^e, Gini entropy G^g and modified Gini entropy G^m are those of the test rows in
the leaves that they reach, which is what the theory speaks of: one distribution, every class seen
from the start. The same from the weights that the leaves have learned stands below them. What the
paper says of its figure is printed beside what was found, with holds or DOES NOT HOLD. The picture
has every curve from its least value, 0, to its greatest, 1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from data import Data, load, stream_order
from numpy.typing import NDArray

from streamtree import LOMTreeClassifier
from streamtree.diagnostics import CRITERIA, Recorder, criterion_bounds

SETS = ("mnist", "isolet", "sector", "aloi")
# The paper tried {0.25, ..., 8} and does not say on what scale the features were; on raw pixels
# any of these overflows. Its plain steps get columns divided by the rows' mean norm.
PAPER_RATE = 1.0
BATCH = 20
# what counts as falling: rank correlation with the splits; and as following: correlation
FALLS = -0.9
FOLLOWS = 0.95


def rows_of(data: Data, is_paper: bool) -> tuple[Any, Any, Any, Any]:
    """Training rows in random order and test rows; without a customary split, the last tenth."""
    n_rows = data.X.shape[0]
    if data.train_size is None:
        order = stream_order(data.name, n_rows, limit=None)
        train, test = np.split(order, [n_rows - n_rows // 10])
    else:
        # some sets are sorted within the split
        train = np.random.default_rng(42).permutation(data.train_size)
        test = np.arange(data.train_size, n_rows)
    X = data.X
    if is_paper:
        X = X.astype(np.float64)
        squares = X[train].multiply(X[train]) if hasattr(X, "multiply") else X[train] ** 2
        X = X / math.sqrt(squares.sum() / len(train))
    return X[train], data.y[train], X[test], data.y[test]


def recorded(
    data: Data, passes: int, spacing: float, constant: float, **params: Any
) -> list[dict[str, float]]:
    """The records of a tree that learns a set."""
    X, y, X_test, y_test = rows_of(data, params.get("algorithm") == "paper")
    model = LOMTreeClassifier(leaf_model="majority", **params)
    recorder = Recorder(model, X_test, y_test, spacing=spacing, constant=constant)
    for _ in range(passes):
        for start in range(0, len(y), BATCH):
            recorder.learn_many(X[start : start + BATCH], y[start : start + BATCH])
    recorder.record()
    return recorder.records


def ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """The places of values in their order; equal ones share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's, 0 where one of the two does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def scaled(values: Sequence[float]) -> NDArray[np.float64]:
    """From the least, 0, to the greatest, 1."""
    array = np.asarray(values, dtype=np.float64)
    return (array - array.min()) / (np.ptp(array) or 1.0)


def mean_height(splits: Sequence[float], values: Sequence[float]) -> float:
    """The mean of a scaled curve over the splits: the faster it falls, the less."""
    height = scaled(values)
    if len(height) < 2 or splits[-1] == splits[0]:
        return float(height.mean())
    return float(np.diff(splits) @ (height[1:] + height[:-1]) / 2 / (splits[-1] - splits[0]))


def findings(records: Sequence[dict[str, float]], prefix: str) -> dict[str, dict[str, float]]:
    """What is to be known of each curve: its ends, fall, speed, and likeness to the test error."""
    splits = [record["n_splits"] for record in records]
    error = [record["test_error"] for record in records]
    found = {}
    curves = {name: [record[prefix + name] for record in records] for name in CRITERIA}
    for name, curve in (curves | {"test error": error}).items():
        found[name] = {
            "first": curve[0],
            "last": curve[-1],
            "rank correlation": correlation(ranks(splits), ranks(curve)),
            "mean height": mean_height(splits, curve),
            "correlation": correlation(curve, error),
            "distance": float(np.abs(scaled(curve) - scaled(error)).mean()),
        }
    return found


def claim(text: str, holds: bool, measured: str) -> None:
    """Print what the paper says beside what was found."""
    print(f"claim: {text}; measured: {measured}: {'holds' if holds else 'DOES NOT HOLD'}")


def judge(found: dict[str, dict[str, float]]) -> None:
    """What section 4 of the paper says of its figure."""
    criteria = {name: found[name] for name in CRITERIA}

    def listed(key: str) -> str:
        return ", ".join(f"{name} {row[key]:+.3f}" for name, row in criteria.items())

    claim(
        f"all three criteria fall with splits (last below first, rank correlation <= {FALLS})",
        all(
            row["last"] < row["first"] and row["rank correlation"] <= FALLS
            for row in criteria.values()
        ),
        listed("rank correlation"),
    )
    claim(
        f"the test error follows the Gini entropy (correlation >= {FOLLOWS})",
        criteria["gini"]["correlation"] >= FOLLOWS,
        listed("correlation"),
    )
    nearest = min(criteria, key=lambda name: criteria[name]["distance"])
    claim(
        "it is nearest to the Gini entropy (mean distance of the scaled curves)",
        nearest == "gini",
        f"{nearest}; {listed('distance')}",
    )
    fastest = min(criteria, key=lambda name: criteria[name]["mean height"])
    claim(
        "the modified Gini entropy falls fastest (least mean height of the scaled curve)",
        fastest == "modified_gini",
        f"{fastest}; {listed('mean height')}",
    )


def report(data: Data, records: Sequence[dict[str, float]], constant: float) -> None:
    """Print the curves' figures and the claims."""
    last = records[-1]
    print(
        f"{len(records)} records from {records[0]['n_splits']:,} to {last['n_splits']:,} splits, "
        f"height {last['height']}, test error {last['test_error']:.2%}"
    )
    for title, prefix in (("test rows", "test_"), ("weights learned in the leaves", "")):
        print(f"\ncriteria of the {title}, C = {constant:g}:")
        found = findings(records, prefix)
        for name, row in found.items():
            bounds = ""
            if name in CRITERIA:
                low, high = criterion_bounds(name, data.n_classes, constant=constant)
                bounds = f" of [{low:.3f}, {high:.3f}]"
            print(f"  {name:14} {row['first']:.3f} -> {row['last']:.3f}{bounds}")
        if all(record[f"{prefix}gini"] == 0 for record in records):
            # so it is with the paper's algorithm, which splits whatever leaf meets a second class
            print("  every leaf holds one class: there is nothing to compare")
        else:
            judge(found)


def draw(name: str, records: Sequence[dict[str, float]], path: Path) -> None:
    """Both pictures side by side: test rows; and what was learned, with the error before it."""
    from matplotlib.figure import Figure

    from streamtree.plots import plot_criteria

    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, prefix, title in zip(
        figure.subplots(1, 2), ("test_", ""), ("test rows", "weights of the leaves"), strict=True
    ):
        plot_criteria(records, axes, prefix=prefix)
        axes.set_title(f"{name}, {title}")
    figure.savefig(path)
    print(f"picture: {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen sets, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="set", help=f"{', '.join(SETS)}, or another")
    parser.add_argument("--algorithm", choices=("stream", "paper"), default="stream")
    parser.add_argument("--learning-rate", type=float, help="the model's default")
    parser.add_argument("--max-splits", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=1, help="over the training rows (1)")
    parser.add_argument("--spacing", type=float, default=1.05, help="growth between records (1.05)")
    parser.add_argument("--constant", type=float, default=6.0, help="C of the modified Gini (6)")
    parser.add_argument("--folder", type=Path, help="where to save the pictures; none by default")
    options = parser.parse_args(arguments)
    if options.passes < 1:
        parser.error("--passes must be at least 1")
    params: dict[str, Any] = {"algorithm": options.algorithm, "max_splits": options.max_splits}
    if options.learning_rate is not None:
        params["learning_rate"] = options.learning_rate
    elif options.algorithm == "paper":
        params["learning_rate"] = PAPER_RATE
    for name in options.sets or SETS:
        print(f"\n## {name}, algorithm={options.algorithm!r}, passes {options.passes}\n")
        try:
            data = load(name)
        except FileNotFoundError as error:
            print(f"skipped: {error}")
            continue
        records = recorded(data, options.passes, options.spacing, options.constant, **params)
        report(data, records, options.constant)
        if options.folder is not None:
            options.folder.mkdir(parents=True, exist_ok=True)
            draw(name, records, options.folder / f"criteria_{name}_{options.algorithm}.png")


if __name__ == "__main__":
    main()
