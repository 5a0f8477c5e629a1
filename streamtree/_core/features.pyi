from typing import Any, NamedTuple, final

class Category(NamedTuple):
    name: Any
    value: str

@final
class RowBuffer: ...

@final
class FeatureIndex:
    names: list[Any]
    def __init__(self, names: list[Any] | None = None) -> None: ...
    def __len__(self) -> int: ...
    def find(self, name: Any) -> int: ...
