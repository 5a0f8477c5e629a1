from typing import Any

class LeafExport:
    parts: list[dict[str, Any]]
