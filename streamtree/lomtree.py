"""Logarithmic-time trees for many classes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from streamtree._core.lomtree import LomTreeCore
from streamtree._core.losses import Loss
from streamtree.base import StreamTreeClassifier, check_choice, check_integer, check_number

__all__ = ["LOMTreeClassifier"]

_LOSSES = {
    "hinge": Loss.HINGE,
    "logistic": Loss.LOGISTIC,
    "squared": Loss.SQUARED,
    "absolute": Loss.ABSOLUTE,
}


class LOMTreeClassifier(StreamTreeClassifier):
    def __init__(
        self,
        max_splits: int = 10_000,
        swap_resistance: float = 4.0,
        learning_rate: float = 4.0,
        loss: str = "hinge",
        forgetting: float = 0.003,
        grace_period: float = 20.0,
        delta: float = 0.1,
        algorithm: str = "stream",
        seed: int | None = None,
    ) -> None:
        self.max_splits = max_splits
        self.swap_resistance = swap_resistance
        self.learning_rate = learning_rate
        self.loss = loss
        self.forgetting = forgetting
        self.grace_period = grace_period
        self.delta = delta
        self.algorithm = algorithm
        self.seed = seed
        self._core = self._new_core()

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        delta = check_number("delta", params["delta"], above=0, below=1)
        return {
            "max_splits": check_integer(
                "max_splits", params["max_splits"], at_least=1, at_most=2**30 - 1
            ),
            # below 1 a swap could undo the one before it, for ever
            "swap_resistance": check_number(
                "swap_resistance", params["swap_resistance"], at_least=1
            ),
            "learning_rate": check_number("learning_rate", params["learning_rate"], above=0),
            "keep": 1.0 - check_number("forgetting", params["forgetting"], at_least=0, below=1),
            "grace_period": check_number("grace_period", params["grace_period"], at_least=1),
            "split_z": NormalDist().inv_cdf(1.0 - delta),
        }

    def _new_core(self) -> LomTreeCore:
        algorithm = check_choice("algorithm", self.algorithm, ("stream", "paper"))
        loss = check_choice("loss", self.loss, tuple(_LOSSES))
        if self.seed is not None:
            check_integer("seed", self.seed, at_least=0, at_most=2**64 - 1)
        return LomTreeCore(
            literal=algorithm == "paper",
            loss=_LOSSES[loss],
            seed=self.seed,
            **self._settings(self._get_params()),
        )

    @property
    def _mutable_attributes(self) -> set[str]:
        return {
            "max_splits", "swap_resistance", "learning_rate", "forgetting", "grace_period", "delta",
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"algorithm": "paper", "learning_rate": 0.25, "max_splits": 20}

    @property
    def n_splits(self) -> int:
        """Number of internal nodes."""
        return int(self._core.n_splits)

    @property
    def n_swaps(self) -> int:
        """How often a leaf was recycled to split another one."""
        return int(self._core.n_swaps)

    @property
    def summary(self) -> dict[str, float]:
        """The shape of the tree in a few numbers."""
        return {
            "n_nodes": self.n_nodes,
            "n_leaves": self.n_leaves,
            "height": self.height,
            "mean_depth": self._core.mean_depth(),
            "n_splits": self.n_splits,
            "n_swaps": self.n_swaps,
            "n_labels": len(self._core.labels),
            "n_features": len(self._core.features),
        }
