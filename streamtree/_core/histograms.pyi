from enum import IntEnum
from typing import Any

class LeafModel(IntEnum):
    PATH = 0
    BAYES = 1
    LINEAR = 2
    ADAPTIVE = 3

class LeafExport:
    parts: list[dict[str, Any]]
