from enum import IntEnum
from typing import Any

class NodeState(IntEnum):
    NULL_BRANCH = 0
    OPEN = 1
    CLOSED = 2
    INNER = 3

class PredictionNodes:
    size: int
    n_columns: int
    n_labels: int
    n_bytes: int
    def __init__(self, *, loss: int, is_linf: bool, **settings: Any) -> None: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
