"""A greedy tree of random hyperplanes, in plain NumPy: a baseline for oblique trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RandomObliqueTree"]


class RandomObliqueTree:
    """Every split is the best of some random hyperplanes, by information gain.

    The tree grows level by level. The nodes of a level draw from the same random directions, of
    which each takes the one, and the threshold, of the largest gain. As the growth is greedy,
    the first d levels are the tree of depth d.

    Parameters
    ----------
    depth
        How many levels to grow.
    n_directions
        How many directions every level draws, each a standard normal vector.
    seed
        The same seed gives the same tree.

    """

    def __init__(self, depth: int, n_directions: int = 30, seed: int = 0) -> None:
        self.depth = depth
        self.n_directions = n_directions
        self.seed = seed

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> RandomObliqueTree:
        """Grow the tree on dense rows and their classes 0, 1, 2, ..."""
        rng = np.random.default_rng(self.seed)
        n_classes = int(y.max()) + 1
        # columns of one size, or the largest would decide every direction
        self._scale = 1.0 / np.maximum(X.std(axis=0), 1e-12)
        one_hot = np.eye(n_classes, dtype=np.float32)[y]
        place = np.zeros(len(y), dtype=np.int64)
        self._levels: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._labels = [np.array([one_hot.sum(axis=0).argmax()])]
        for level in range(self.depth):
            directions = rng.normal(size=(X.shape[1], self.n_directions)).astype(np.float32)
            directions *= self._scale[:, None].astype(np.float32)
            scores = X.astype(np.float32, copy=False) @ directions
            best = _best_splits(scores, one_hot, place, 2**level)
            self._levels.append((directions, *best))
            place = self._descend(scores, place, *best)
            counts = np.zeros((2 ** (level + 1), n_classes))
            np.add.at(counts, (place, y), 1)
            # an empty child answers as its parent
            labels = np.repeat(self._labels[-1], 2)
            met = counts.any(axis=1)
            labels[met] = counts[met].argmax(axis=1)
            self._labels.append(labels)
        return self

    @staticmethod
    def _descend(
        scores: NDArray[Any], place: NDArray[Any], column: NDArray[Any], threshold: NDArray[Any]
    ) -> NDArray[Any]:
        own = scores[np.arange(len(place)), column[place]]
        return 2 * place + (own > threshold[place])

    def predict(self, X: NDArray[Any], depth: int | None = None) -> NDArray[Any]:
        """The classes of rows, by the first `depth` levels; by all of them by default."""
        depth = self.depth if depth is None else depth
        place = np.zeros(X.shape[0], dtype=np.int64)
        for directions, column, threshold in self._levels[:depth]:
            scores = X.astype(np.float32, copy=False) @ directions
            place = self._descend(scores, place, column, threshold)
        labels: NDArray[Any] = self._labels[depth][place]
        return labels


def _best_splits(
    scores: NDArray[Any], one_hot: NDArray[Any], place: NDArray[Any], n_nodes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The column of scores and the threshold of the largest gain, for every node of a level.

    A node that nothing splits sends all its rows left: its threshold is infinite.
    """
    best_gain = np.full(n_nodes, 1e-6)
    best_column = np.zeros(n_nodes, dtype=np.int64)
    best_threshold = np.full(n_nodes, np.inf)
    totals = np.zeros((n_nodes, one_hot.shape[1]))
    np.add.at(totals, place, one_hot)
    starts = np.concatenate([[0], np.cumsum(totals.sum(axis=1))]).astype(np.int64)
    unsplit = _purity(totals)
    for column in range(scores.shape[1]):
        order = np.lexsort((scores[:, column], place))
        value, node = scores[order, column], place[order]
        passed = np.cumsum(one_hot[order], axis=0, dtype=np.float64)
        before = np.concatenate([np.zeros((1, passed.shape[1])), passed])[starts[:-1]]
        left = passed - before[node]
        # between two rows of one node whose scores differ
        between = np.flatnonzero((node[1:] == node[:-1]) & (value[1:] > value[:-1]))
        if not len(between):
            continue
        node, left = node[between], left[between]
        gain = _purity(left) + _purity(totals[node] - left) - unsplit[node]
        # the best boundary of every node: the last of each in the order of node and gain
        ranked = np.lexsort((gain, node))
        last = ranked[np.flatnonzero(np.append(np.diff(node[ranked]), 1))]
        better = last[gain[last] > best_gain[node[last]]]
        best_gain[node[better]] = gain[better]
        best_column[node[better]] = column
        middle = value[between] + 0.5 * (value[between + 1] - value[between])
        best_threshold[node[better]] = middle[better]
    return best_column, best_threshold


def _purity(counts: NDArray[Any]) -> NDArray[Any]:
    """Minus the entropy, weighted by the rows: what a split raises."""
    sizes = counts.sum(axis=1)
    result: NDArray[Any] = (counts * np.log(np.maximum(counts, 1e-12))).sum(axis=1)
    result -= sizes * np.log(np.maximum(sizes, 1e-12))
    return result
