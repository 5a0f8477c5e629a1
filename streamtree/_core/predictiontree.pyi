from typing import Any, final

from streamtree._core.predictionnodes import PredictionNodes

@final
class PredictionTree(PredictionNodes):
    def __init__(
        self, *, loss: int, is_linf: bool, leaf_model: int, **settings: Any
    ) -> None: ...
    def configure(self, **settings: Any) -> None: ...
