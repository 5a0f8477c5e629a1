"""Models that learned different rows and answer together: a pool of shards."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamtree.base import StreamClassifier, StreamModel, StreamRegressor, is_itself
from streamtree.batches import label_array, repeatable

__all__ = ["ModelPool", "likeliest", "mean_shares"]

# old rows fade: the last so many count
MEMORY = 1000.0
# what a model gives to a label that it had no idea of, and to none in all
LEAST_SHARE = 1e-3


class ModelPool:
    """Several models, each with names, labels and scales of its own, that predict together.

    Shards of one stream, say, that were learned on different machines by trees that grow, which
    cannot be averaged. What is said is the mean of what the models say, weighted by how likely they
    made the labels that were learned since (or how near they came to the numbers), the last
    thousand rows counting most. Before the first row all count the same. Every model learns all
    rows that the pool learns.

    Parameters
    ----------
    models
        At least one: all classifiers, or all regressors of one number. They are copied. They need
        not have the same parameters, classes, columns or labels.

    Attributes
    ----------
    models
        The models, to be looked at.
    weights
        What each counts, an array of shape (n_models,) that sums to 1.

    Raises
    ------
    TypeError
        If some are classifiers and some regressors, or something else.

    References
    ----------
    [^1]: Raftery, A.E., Karny, M. and Ettler, P., 2010. Online prediction under model uncertainty
        via dynamic model averaging. Technometrics 52.

    Examples
    --------
    >>> from river import datasets
    >>> from streamtree import ModelPool, ModelTreeClassifier
    >>> shards = [ModelTreeClassifier(), ModelTreeClassifier()]
    >>> for i, (x, y) in enumerate(datasets.Phishing().take(1000)):
    ...     shards[i % 2].learn_one(x, y)
    >>> pool = ModelPool(shards)
    >>> rows = list(datasets.Phishing())[1000:]
    >>> sum(pool.predict_one(x) == y for x, y in rows) > 200
    True

    """

    def __init__(self, models: Sequence[StreamModel]) -> None:
        kinds = {self._kind_of(model) for model in models}
        if len(kinds) != 1:
            raise TypeError(
                "a pool is of at least one model: classifiers, or regressors of one number"
            )
        self._is_classifier = kinds == {StreamClassifier}
        self.models = [copy.deepcopy(model) for model in models]
        self._logs = np.zeros(len(self.models))
        # of the targets: the weight behind them, their mean and the squares about it
        self._targets = np.zeros(3)

    @staticmethod
    def _kind_of(model: Any) -> type:
        for kind in (StreamClassifier, StreamRegressor):
            if is_itself(model, kind):
                return kind
        raise TypeError(f"a pool is of classifiers or regressors, got {type(model).__name__}")

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each model counts, shape (n_models,)."""
        return _shares_of(self._logs)

    @property
    def labels(self) -> list[Hashable]:
        """The labels of all models, in the order in which they are first met there."""
        return list(dict.fromkeys(label for model in self.models for label in model.labels))

    # ------------------------------------------------------------------------- predicting

    def predict_proba_many(self, X: Any) -> NDArray[np.float64]:
        """The probability of every label of `labels`, shape (n_rows, n_labels)."""
        said = [(model.labels, np.asarray(model.predict_proba_many(X))) for model in self.models]
        return mean_shares(said, self.labels, self.weights)

    def predict_many(self, X: Any) -> NDArray[Any]:
        """The most likely label of every row, or its number; an array, whatever X came in."""
        if self._is_classifier:
            return likeliest(self.predict_proba_many(X), self.labels)
        return self.weights @ self._numbers(X)

    def _numbers(self, X: Any) -> NDArray[np.float64]:
        return np.array([model._predict_array(X) for model in self.models])

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """The probability of every label."""
        said = [model.predict_proba_one(x) for model in self.models]
        parts = [(list(one), np.array([list(one.values())])) for one in said]
        shares = mean_shares(parts, self.labels, self.weights)[0]
        return dict(zip(self.labels, shares.tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any]) -> Any:
        """The most likely label, None before any learning; or the number."""
        if self._is_classifier:
            shares = self.predict_proba_one(x)
            return max(shares, key=shares.__getitem__) if shares else None
        return float(self.weights @ [model.predict_one(x) for model in self.models])

    # --------------------------------------------------------------------------- learning

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a batch, as `test_then_learn_many` does."""
        self.test_then_learn_many(X, y)

    def test_then_learn_many(self, X: Any, y: Any) -> NDArray[Any]:
        """Predict every row, then let all models learn it, and their weights.

        Raises
        ------
        ValueError, TypeError
            As a model does; nothing is learned then, unless a model has no room for a label.

        """
        y = repeatable(y)
        for model in self.models:
            _, arguments = model._prepared(X, y, None)
            if self._is_classifier:
                model._core.check_labels(arguments[3])
        if self._is_classifier:
            return self._tested_labels(X, arguments[3], y)
        return self._tested_numbers(X, arguments[4][:, 0], y)

    def _tested_labels(self, X: Any, wanted: list[Any], y: Any) -> NDArray[Any]:
        said = []
        for model in self.models:
            shares = np.asarray(model.test_then_learn_many(X, y, proba=True))
            said.append((model.labels, shares))
        labels = self.labels
        at = {label: i for i, label in enumerate(labels)}
        # -1: a label that has to come again before it is learned
        places = np.array([at.get(label, -1) for label in wanted], dtype=int)
        rows = np.arange(len(wanted))
        own = [mean_shares([one], labels, np.ones(1)) for one in said]
        likely = np.array([np.where(places < 0, 0.0, shares[rows, places]) for shares in own])
        weights = self._follow(np.log(np.maximum(likely, LEAST_SHARE)))
        pooled = np.einsum("mr,mrl->rl", weights, np.array(own))
        answers = likeliest(pooled, labels)
        unknown = pooled.sum(axis=1) == 0.0
        if unknown.any():
            answers = answers.astype(object)
            answers[unknown] = None
        return answers

    def _tested_numbers(self, X: Any, wanted: NDArray[np.float64], y: Any) -> NDArray[Any]:
        said = np.array([model._test_array(X, y) for model in self.models])
        # the likelihood of normal errors; their variance is taken to be a tenth of the targets'
        gains, kept = np.empty_like(said), 1.0 - 1.0 / MEMORY
        weight, mean, squares = self._targets.tolist()
        for row, number in enumerate(wanted.tolist()):
            weight, moved = kept * weight + 1.0, number - mean
            mean += moved / weight
            squares = kept * squares + moved * (number - mean)
            variance = max(squares / weight, 1e-300)
            errors = (said[:, row] - number) ** 2
            gains[:, row] = -np.minimum(5.0 * errors, 10.0 * variance) / variance
        self._targets[:] = weight, mean, squares
        return np.asarray((self._follow(gains) * said).sum(axis=0))

    def _follow(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """Let gains of shape (n_models, n_rows) into the weights; returns those before each row."""
        weights = np.empty_like(gains)
        for row in range(gains.shape[1]):
            weights[:, row] = _shares_of(self._logs)
            self._logs = (1.0 - 1.0 / MEMORY) * self._logs + gains[:, row]
            self._logs -= self._logs.max()
        return weights


def _shares_of(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def likeliest(shares: NDArray[np.float64], labels: Sequence[Any]) -> NDArray[Any]:
    """The most likely label of every row; None where there are no labels."""
    if not labels:
        return label_array([None] * len(shares))
    return label_array([labels[i] for i in shares.argmax(axis=1).tolist()])


def mean_shares(
    said: Sequence[tuple[Sequence[Any], NDArray[np.float64]]], labels: Sequence[Any],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The weighted mean of probabilities by models with labels of their own.

    `said` has the labels and probabilities of every model. One that knows none of the labels of a
    row yet says nothing there.
    """
    at = {label: i for i, label in enumerate(labels)}
    total = np.zeros((len(said[0][1]), len(labels)))
    for (own, shares), weight in zip(said, weights, strict=True):
        if len(own):
            total[:, [at[label] for label in own]] += weight * shares[:, : len(own)]
    norm = total.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(total, norm, out=total, where=norm > 0.0))
