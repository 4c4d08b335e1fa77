"""What all documents share: frozen, strict, and bounded numbers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

#: Integers on the wire fit a signed 32-bit column everywhere.
MAX_INT = 2**31 - 1

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
Uuid = Annotated[
    str,
    Meta(pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
]
Name = Annotated[str, Meta(max_length=255)]


class Value(Struct, frozen=True, kw_only=True):
    """A frozen value of the core."""


class Document(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that callers send: unknown fields are errors, never ignored."""
