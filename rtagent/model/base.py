"""What all documents share: frozen, strict, and bounded numbers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

#: Integers on the wire fit a signed 32-bit column everywhere.
MAX_INT = 2**31 - 1

#: Disk is asked for in GB, and counted in MB.
MB_IN_GB = 1024

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
#: The canonical form: of one thing there shall be one id.
UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# The length refuses a final line feed, before which `$` matches too.
Uuid = Annotated[str, Meta(pattern=UUID, max_length=36)]

#: Neither NUL, which PostgreSQL cannot store, nor half of a surrogate pair, which is no UTF-8.
STORABLE = r"^[^\u0000\ud800-\udfff]*$"
Name = Annotated[str, Meta(max_length=255, pattern=STORABLE)]
Text = Annotated[str, Meta(max_length=65535, pattern=STORABLE)]


class Value(Struct, frozen=True, kw_only=True):
    """A frozen value of the core."""


class Document(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that callers send: unknown fields are errors, never ignored."""
