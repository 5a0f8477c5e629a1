from typing import final

from streamtree._core.scaling import ColumnScaler

EXPERTS: int

@final
class ModelLeaves:
    def __init__(self, scaler: ColumnScaler, is_adaptive: bool, seed: int) -> None: ...
    def configure(
        self,
        *,
        max_classes: int,
        max_size: int,
        learning_rate: float,
        grace_period: float,
        delta: float,
    ) -> None: ...
