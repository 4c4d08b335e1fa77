"""Documents made of JSON's own things only, whatever was sent."""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: How deep a document may nest; the deepest that any method takes has six levels.
MAX_DEPTH = 32
#: Integers are cut to this: larger than any bound, and short when printed.
MAX_MAGNITUDE = 2**64

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Unusable:
    """Stands for a part of a document that JSON, or we, cannot take; of no type that a schema
    knows, so that a validator refuses it in its place."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return self.what


class Cleaner:
    """Replaces what is unusable in a document.

    :ivar bad_keys: where a key is no string: (path of the object, the key's type). Those entries
        are left out.
    """

    def __init__(self) -> None:
        self.bad_keys: list[tuple[str, str]] = []

    def clean(self, value: Any, path: str = "$", depth: int = 0) -> Any:
        """A copy made of JSON primitives and `Unusable`."""
        if value is None or isinstance(value, bool | str):
            return value
        if depth > MAX_DEPTH:
            return Unusable(f"nested more than {MAX_DEPTH} levels deep")
        match value:
            case int():
                return max(-MAX_MAGNITUDE, min(value, MAX_MAGNITUDE))
            case float():
                return value if math.isfinite(value) else Unusable(str(value))
            case dict():
                return self._clean_object(value, path, depth)
            case list() | tuple():
                items = enumerate(value)
                return [self.clean(item, f"{path}[{at}]", depth + 1) for at, item in items]
        return Unusable(type(value).__name__)

    def _clean_object(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        cleaned = {}
        for key, item in value.items():
            if isinstance(key, str):
                cleaned[key] = self.clean(item, path + member(key), depth + 1)
            else:
                self.bad_keys.append((path, type(key).__name__))
        return cleaned


def member(key: str | int) -> str:
    """How JSONPath names a member; in ASCII, whatever the key."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN.match(key) else f"[{json.dumps(key)}]"
