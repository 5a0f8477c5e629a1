from typing import Any, final

from numpy.typing import NDArray

from streamtree._core.learners import ClassifierCore

@final
class LomTreeCore(ClassifierCore):
    n_splits: int
    n_swaps: int
    def __init__(self, *, literal: bool, loss: int, seed: int | None, **settings: Any) -> None: ...
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
    ) -> None: ...
    def predict_topk_one(self, x: Any, count: int) -> list[tuple[Any, float]]: ...
    def depths(self) -> NDArray[Any]: ...
    def mean_depth(self) -> float: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...

def restored(parameters: dict[str, Any], state: dict[str, Any]) -> LomTreeCore: ...
