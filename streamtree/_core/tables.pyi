from typing import Any, final

from numpy.typing import NDArray

@final
class TableExport:
    def __init__(self, width: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
