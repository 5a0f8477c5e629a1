"""Extension of griffe: what our docstrings say in prose of returned values stays one paragraph."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

RETURNS = re.compile(r"^(Returns\n-+\n)(.*?)(?=\n\n\w+\n---|\Z)", re.DOTALL | re.MULTILINE)
REFERENCE = re.compile(r"^\[\^(\d+)\]: ", re.MULTILINE)


class ProseSections(griffe.Extension):
    """Returned values get the type of the annotation, references become a list."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is None:
            return
        kind = str(getattr(obj, "returns", None) or "Any")

        def typed(found: re.Match[str]) -> str:
            return f"{found[1]}{kind}\n{textwrap.indent(found[2], '    ')}"

        text = RETURNS.sub(typed, obj.docstring.value)
        obj.docstring.value = REFERENCE.sub(r"\1. ", text)
