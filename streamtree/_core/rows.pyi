from typing import Any, final

from numpy.typing import NDArray

@final
class RowSource:
    n_rows: int
    n_columns: int
    is_sparse: bool
    @staticmethod
    def dense(values: NDArray[Any]) -> RowSource: ...
    @staticmethod
    def sparse(
        data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], n_columns: int
    ) -> RowSource: ...
    def bind(self, columns: NDArray[Any]) -> None: ...
