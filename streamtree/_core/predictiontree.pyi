from enum import IntEnum
from typing import Any, final

class NodeState(IntEnum):
    NULL_BRANCH = 0
    OPEN = 1
    CLOSED = 2
    INNER = 3

class Predicate(IntEnum):
    NONE = 0
    THRESHOLD = 1
    NOMINAL = 2

@final
class PredictionTree:
    size: int
    n_labels: int
    n_bytes: int
    def __init__(self, *, loss: int, is_linf: bool, leaf_model: int, **settings: Any) -> None: ...
    def configure(self, **settings: Any) -> None: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
