from typing import Any, TypeVar, final

from numpy.typing import NDArray

from streamtree._core.learners import ClassifierCore, RegressorCore

class _SoftCore:
    n_nodes: int
    n_splits: int
    n_collapses: int
    def __init__(
        self, *, literal: bool, linear: bool, jointly: bool, seed: int, **settings: Any
    ) -> None: ...
    def configure(
        self,
        *,
        hard: bool,
        threshold: float,
        penalty: int,
        strength: float,
        learning_rate: float,
        window: float,
        delta: float,
        max_nodes: int,
        max_depth: int,
    ) -> None: ...
    def path(self, x: Any) -> list[tuple[int, float | None]]: ...
    def depths(self) -> NDArray[Any]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...

@final
class SoftTreeClassifierCore(_SoftCore, ClassifierCore):
    def predict_topk_one(self, x: Any, count: int) -> list[tuple[Any, float]]: ...

@final
class SoftTreeRegressorCore(_SoftCore, RegressorCore): ...

_Core = TypeVar("_Core", SoftTreeClassifierCore, SoftTreeRegressorCore)

def restored(core: type[_Core], parameters: dict[str, Any], state: dict[str, Any]) -> _Core: ...
