from typing import final

from streamtree._core.readings import RowReader

CANDIDATES: int
BUCKETS: int

@final
class SplitFinder:
    def __init__(self, reader: RowReader, seed: int) -> None: ...
    def configure(self, *, grace_period: float, delta: float) -> None: ...
