"""Trees of few classes, whose leaves hold models."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from streamtree import inspection
from streamtree._core.leaves.additive import MOST_CLASSES
from streamtree._core.trees.model import ModelTree, model_tree
from streamtree.base import (
    DEFAULT_BYTES,
    StreamTreeClassifier,
    check_choice,
    check_nominal,
    check_number,
    check_seed,
)

__all__ = ["ModelTreeClassifier"]


class ModelTreeClassifier(StreamTreeClassifier):
    """Model tree: additive softmax models in the leaves, thresholds found by score tests.

    The tree to try first. A leaf predicts with an additive softmax model: the score of a class is
    a sum of piecewise linear functions of the columns. It runs at two learning rates, in the leaf
    and at the root, and what the four say is weighed by their progressive log losses. They start
    from what naive Bayes says of the same columns, times a factor that is learned; when that has
    come down to nothing, as it does on most long streams, the counts are dropped.

    A leaf splits at a threshold of one column where its model errs differently on either side:
    there two models say more than one. A score test on the gradients of the log loss finds such
    thresholds, and both children go on from a copy of the model. They look closely at the column
    of the split: there the function of its value may bend four times as often. Features are
    standardised as they come. The defaults are what measured best over dozens of real streams.

    Parameters
    ----------
    leaf_model
        `"adaptive"`, see above; `"softmax"`: linear in the columns and without naive Bayes, which
        takes a third of the memory and half of the time.
    learning_rate
        Above 0 and at most 1000: the slower of the models' two step sizes, the other is six times
        as large. It is divided by 4 plus the mean squared norm of the examples.
    grace_period
        At least 1: a seventh of the weight that a leaf sees before its first look for a split, and
        between two looks; at least 50 examples, and as many as there are columns.
    delta
        Between 0 and 1: about the error rate of all looks for a split that a leaf ever takes
        together. The default is high because a split by chance costs little; where there may be
        nothing to find, 0.01 keeps the tree small.
    max_bytes
        At least 262144, or None for any number: the bytes that the model may take, with names,
        labels and all that it has learned; not with room for the row at hand. When they run short,
        leaves split no more, for each split copies a model, and at last their models take in no
        more columns and classes; what is there goes on learning. New names then share a few
        columns, which `learn_one` warns of long before, and a label that finds no room is refused
        with a ValueError.
    seed
        An integer from 0 to 2**64 - 1, which columns to try for splits: two of three at a time, so
        that the members of an ensemble are different trees. None is as good as 0, which tries all
        of up to 32 columns. The model is deterministic either way.
    nominal_attributes
        Names of columns whose numbers are categories, as strings are anyway; of an array, numbers
        of columns.
    restarts
        Whether a new tree may take the place of this one where it errs far more than it did, as
        `ForestClassifier` describes it. It may change while the tree learns.

    Notes
    -----
    Learning an example costs O(classes * non-zero features), predicting about half of that. A
    model takes up to 72 bytes for every pair of feature and class, as much again where the counts
    of naive Bayes are kept, below a split up to 1 kB for every class besides, for the two columns
    that it looks at closely, and a leaf 2.9 kB for its search of a split. Weights above a million
    count as a million. Classes beyond the first 255 share one place in the models and are told
    apart by their frequency alone: `LOMTreeClassifier` is made for so many.

    What changes slowly is followed by the faster of the two rates and the fading losses, what
    changes at once by a new tree (`restarts`).

    References
    ----------
    [^1]: Zeileis, A., Hothorn, T. and Hornik, K., 2008. Model-based recursive partitioning. Journal
        of Computational and Graphical Statistics 17, for splits where a model's scores differ.
    [^2]: Wilson, E. B. and Hilferty, M. M., 1931. The distribution of chi-square. Proceedings of
        the National Academy of Sciences 17, for the level of the score test.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamtree import ModelTreeClassifier

    >>> model = ModelTreeClassifier()
    >>> evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    Accuracy: 93.07%

    >>> x, y = next(iter(datasets.ImageSegments()))
    >>> model.predict_one(x)
    'path'
    >>> model.n_splits, model.height
    (12, 5)

    """

    def __init__(
        self,
        leaf_model: str = "adaptive",
        learning_rate: float = 2.5,
        grace_period: float = 20.0,
        delta: float = 0.3,
        max_bytes: int | None = DEFAULT_BYTES,
        seed: int | None = None,
        nominal_attributes: list[Any] | tuple[Any, ...] | None = None,
        restarts: bool = True,
    ) -> None:
        self.leaf_model = leaf_model
        self.learning_rate = learning_rate
        self.grace_period = grace_period
        self.delta = delta
        self.max_bytes = max_bytes
        self.seed = seed
        self.nominal_attributes = check_nominal(nominal_attributes)
        self.restarts = restarts
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        rate = check_number("learning_rate", params["learning_rate"], above=0, at_most=1000)
        return {
            "grace_period": check_number("grace_period", params["grace_period"], at_least=1),
            "delta": check_number("delta", params["delta"], above=0, below=1),
            "leaves": {"learning_rate": rate, "max_classes": MOST_CLASSES},
        }

    def _tree_maker(self) -> Callable[[], ModelTree]:
        leaf_model = check_choice("leaf_model", self.leaf_model, ("adaptive", "softmax"))
        seed = check_seed(self.seed)
        settings = self._settings(self.__dict__)
        leaf_settings = settings.pop("leaves")
        return functools.partial(
            model_tree, leaf_settings, has_knots=leaf_model == "adaptive", seed=seed, **settings
        )

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"learning_rate", "grace_period", "delta", "max_bytes", "restarts"}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"leaf_model": "softmax", "grace_period": 5.0, "seed": 1}

    def _views(self) -> list[inspection.NodeView]:
        state = self._outline()
        tree = state["tree"]
        nodes = tree["nodes"]
        return inspection.binary_views(
            tree["links"],
            inspection.threshold_tests(state, nodes["column"], nodes["threshold"]),
            inspection.voting_leaves(state, tree["classes"], nodes["votes"], nodes["majority"]),
        )

    @property
    def n_splits(self) -> int:
        """Number of internal nodes."""
        return self.n_nodes // 2

    def _shape(self) -> dict[str, float]:
        return {"n_splits": self.n_splits, "n_labels": len(self._core.labels)}
