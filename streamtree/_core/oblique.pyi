from typing import Any, final

from numpy.typing import NDArray

from streamtree._core.scaling import ColumnScaler

@final
class ObliqueTree:
    def __init__(
        self,
        scaler: ColumnScaler,
        *,
        literal: bool,
        is_regression: bool,
        hopes: bool,
        exact: bool,
        depth: int,
        hold: int,
        batch_size: int,
        momentum: float,
    ) -> None: ...
    def configure(
        self, *, max_norm: float, learning_rate: float, fear: float, keep: float
    ) -> None: ...
    def settings(self) -> dict[str, float]: ...
    @property
    def n_nodes(self) -> int: ...
    def depths(self) -> NDArray[Any]: ...
    def memory(self, is_moving: bool) -> int: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
