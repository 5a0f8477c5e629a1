from typing import final

from streamtree._core.scaling import ColumnScaler

@final
class RowReader:
    def __init__(self, scaler: ColumnScaler, has_knots: bool) -> None: ...
