"""Base classes and bounded types of all values and documents."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

#: Integers in RPC documents fit a signed 32-bit column in every database.
MAX_INT = 2**31 - 1

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
#: Only the canonical form is valid, so that one object has one id.
UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# The length refuses a final line feed, before which `$` matches too.
Uuid = Annotated[str, Meta(pattern=UUID, max_length=36)]

#: Text that every database can store. PostgreSQL cannot store NUL, and a lone surrogate has no
#: UTF-8 encoding.
STORABLE = r"^[^\u0000\ud800-\udfff]*$"
Name = Annotated[str, Meta(max_length=255, pattern=STORABLE)]
Text = Annotated[str, Meta(max_length=65535, pattern=STORABLE)]


class Value(Struct, frozen=True, kw_only=True):
    """A frozen value."""


class Document(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that callers send. Unknown fields are errors."""
