from typing import Any

from numpy.typing import NDArray

class SoftNodes:
    n_nodes: int
    n_splits: int
    n_collapses: int
    def depths(self) -> NDArray[Any]: ...
