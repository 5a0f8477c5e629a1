from typing import Any, final

from streamtree._core.learners import ClassifierCore

@final
class LomTreeCore(ClassifierCore):
    n_splits: int
    n_swaps: int
    leaf_model: str
    def __init__(
        self, *, literal: bool, loss: int, seed: int | None, leaf_model: str, **settings: Any
    ) -> None: ...
    @property
    def n_nodes(self) -> int: ...
    def configure(
        self,
        *,
        max_splits: int,
        swap_resistance: float,
        learning_rate: float,
        keep: float,
        grace_period: float,
        split_z: float,
        delta: float,
        max_leaf_classes: int,
        max_size: int,
        leaf_learning_rate: float,
    ) -> None: ...
    def mean_depth(self) -> float: ...
