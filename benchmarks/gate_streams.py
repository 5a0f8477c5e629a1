"""The streams of the accuracy gate: which sets, in which order, and how each learner reads them.

`CLASSES` and `NUMBERS` name the sets of the data folder (see data.py); `BUNDLED` are those that
need none, for they come with river or from a generator; `UNSEEN`, with their targets in
parentheses, are those of r_tables.py, which played no part in the making of the learners.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import r_tables
from data import as_dicts, blobs, load, stream_order
from numpy.typing import NDArray
from peers import Task, vw_line
from river import datasets
from river.datasets import synth
from scipy import sparse

ROWS = 50_000

CLASSES = (
    "adult_train32k", "agrawal", "airlines", "banana", "banking77", "car",
    "connect4_2class", "covtype100k", "covtype_kaggle15k", "default_credit", "elec2",
    "isolet", "kdd99_10pct", "kr_vs_kp", "letter", "magic", "moving_squares", "mushroom",
    "nursery", "nycflights13_delay", "nycflights13_dest", "optdigits", "ozone",
    "page_blocks", "pendigits", "phishing", "poker_train25k", "powersupply", "segment",
    "sick", "skin_segmentation", "spam_stream", "spambase", "splice", "titanic", "twonorm",
    "waveform21", "waveform5000", "yeast",
)
NUMBERS = (
    "2dplanes", "abalone", "ailerons", "airfoil", "autompg", "bank8FM", "bike_sharing_hour",
    "cal_housing", "concrete", "cpu_act", "delta_ailerons", "diamonds", "elevators",
    "kin8nm", "kings_county", "mv", "pol", "puma8NH", "winequality_white",
)


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows in the order in which every learner sees them.

    Attributes
    ----------
    name
        The name of the set.
    X
        A dense array with NaN for what is missing and codes for categories, or a CSR matrix.
    y
        As many classes from 0, as integers, or real targets.
    features
        A name for every column.
    categorical
        A mask over the columns.

    """

    name: str
    X: Any
    y: NDArray[Any]
    features: list[str]
    categorical: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def classifies(self) -> bool:
        """Whether the targets are classes."""
        return self.y.dtype.kind in "iu"

    @cached_property
    def rows(self) -> list[dict[Any, Any]]:
        """A dict for every row: strings for categories, no key for a missing cell."""
        return as_dicts(self.X, self.features, self.categorical)

    @cached_property
    def targets(self) -> list[Any]:
        """The targets as Python's own numbers."""
        return self.y.tolist()  # type: ignore[no-any-return]

    @cached_property
    def lines(self) -> tuple[list[str], list[str]]:
        """The rows as VW's text: to learn, and to predict."""
        learned = [vw_line(x, y) for x, y in zip(self.rows, self.targets, strict=True)]
        return learned, [vw_line(x) for x in self.rows]

    def codes(self, column: int) -> NDArray[Any]:
        """The codes that a categorical column takes, in order."""
        values = np.unique(self.X[:, column])
        return values[~np.isnan(values)]

    @cached_property
    def task(self) -> Task:
        """What some peers must know beforehand."""
        return Task(
            n_classes=int(self.y.max()) + 1 if self.classifies else 0,
            features=self.features,
            categories={
                self.features[j]: [str(int(code)) for code in self.codes(j)]
                for j in np.flatnonzero(self.categorical).tolist()
            },
        )


def from_folder(name: str, limit: int | None = ROWS) -> Stream:
    """A set of the data folder as a stream, its first `limit` rows."""
    data = load(name)
    order = stream_order(name, len(data.y), limit)
    # river's forests sort names, and one-hot encoding makes strings of them
    features = [str(feature) for feature in data.feature_names]
    return Stream(name, data.X[order], data.y[order], features, data.categorical)


# ----------------------------------------------------------------- without the data folder


def of_numbers(name: str, X: Any, y: NDArray[Any]) -> Stream:
    """A stream without categories, whose features are named x0, x1, ..."""
    n_features = X.shape[1]
    features = [f"x{j}" for j in range(n_features)]
    return Stream(name, X, y, features, np.zeros(n_features, dtype=bool))


def from_pairs(name: str, pairs: Iterable[tuple[dict[str, Any], Any]], categories: bool) -> Stream:
    """A stream of river's, whose labels become 0, 1, 2, ... in the order of their names.

    With `categories` the integers among the features are codes of categories.
    """
    rows, targets = zip(*pairs, strict=True)
    features = list(rows[0])
    X = np.array([[float(x[feature]) for feature in features] for x in rows])
    y = np.array(targets)
    if y.dtype.kind != "f":
        y = np.unique(y, return_inverse=True)[1].astype(np.int32)
    categorical = [categories and isinstance(rows[0][feature], int) for feature in features]
    return Stream(name, X, y, features, np.array(categorical))


def _bundled(make: Callable[[], Any], rows: int | None = None, categories: bool = False) -> Any:
    return lambda name: from_pairs(name, itertools.islice(make(), rows), categories)


def _blobs(name: str) -> Stream:
    X, y = blobs(4_000, 10, 20, seed=1, noise=0.8)
    return of_numbers(name, X, y.astype(np.int32))


def _words(name: str) -> Stream:
    """Sparse counts of 2,000 words, of which a few are more frequent in each of 8 classes."""
    rng = np.random.default_rng(5)
    n, n_words, n_classes = 3_000, 2_000, 8
    y = rng.integers(n_classes, size=n).astype(np.int32)
    shares = rng.gamma(0.1, size=(n_classes, n_words)) + 0.1
    counts = rng.poisson(15 * (shares / shares.sum(axis=1, keepdims=True))[y])
    return of_numbers(name, sparse.csr_matrix(counts.astype(float)), y)


BUNDLED: dict[str, Callable[[str], Stream]] = {
    "river Phishing": _bundled(datasets.Phishing),
    "river ImageSegments": _bundled(datasets.ImageSegments),
    "river Bananas": _bundled(datasets.Bananas),
    "river TrumpApproval": _bundled(datasets.TrumpApproval),
    "river Agrawal": _bundled(lambda: synth.Agrawal(3, seed=7), 4_000, categories=True),
    "river SEA drift": _bundled(
        lambda: synth.ConceptDriftStream(
            synth.SEA(0, seed=1), synth.SEA(3, seed=2), seed=3, position=2_000, width=100
        ),
        4_000,
    ),
    "river Friedman": _bundled(lambda: synth.Friedman(seed=4), 4_000),
    "generated blobs": _blobs,
    "generated words": _words,
}


UNSEEN: dict[str, tuple[str, bool]] = {
    f"R {table} ({columns[0]})": (table, tables is r_tables.CLASSES)
    for tables in (r_tables.CLASSES, r_tables.NUMBERS) for table, columns in tables.items()
}


def has_classes(name: str) -> bool:
    """Whether the targets of a set, of the folder or unseen, are classes."""
    return UNSEEN[name][1] if name in UNSEEN else name not in NUMBERS


@lru_cache(maxsize=1)
def stream(name: str) -> Stream:
    """A stream by its name; the last one is kept."""
    if name in UNSEEN:
        return Stream(name, *r_tables.read(*UNSEEN[name]))
    return BUNDLED[name](name) if name in BUNDLED else from_folder(name)
