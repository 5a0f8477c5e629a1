from typing import Any, final

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

@final
class SoftTreeClassifierCore(_SoftCore, ClassifierCore): ...

@final
class SoftTreeRegressorCore(_SoftCore, RegressorCore): ...
