from typing import final

from streamtree._core.softnodes import SoftNodes

@final
class SoftTree(SoftNodes):
    def start(
        self, *, kind: int, literal: bool, linear: bool, jointly: bool, seed: int
    ) -> None: ...
    def configure(
        self,
        *,
        penalty: int,
        strength: float,
        learning_rate: float,
        threshold: float,
        window: float,
        delta: float,
        max_nodes: int,
        max_depth: int,
    ) -> None: ...
