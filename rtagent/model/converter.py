"""Converter: makes values of one type from primitives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, overload

import msgspec

T = TypeVar("T")


class Converter(Generic[T]):
    """Made at the import of a module, for use from any thread.

    msgspec examines a type at its first use. If two threads do that at the same time, the process
    crashes (0.22.0), but an import is done by one thread. So a type is given to a `Converter`, or
    to a decoder of msgspec, and both are made at import: not to `msgspec.convert` and
    `msgspec.json.decode`, which a thread may be the first to call.

    :ivar convert: returns the value of a document; raises `msgspec.ValidationError` if it is
        invalid, and `UnicodeEncodeError` if it has a key that is not valid Unicode.
    """

    @overload
    def __init__(
        self: Converter[T], type_: type[T], *, strict: bool = True, str_keys: bool = False
    ) -> None: ...

    @overload
    def __init__(
        self: Converter[Any], type_: Any, *, strict: bool = True, str_keys: bool = False
    ) -> None: ...

    def __init__(self, type_: Any, *, strict: bool = True, str_keys: bool = False) -> None:
        """:param strict: and the others: see `msgspec.convert`."""
        msgspec.json.Decoder(type_)  # examines the type
        self.convert: Callable[[object], T] = partial(
            msgspec.convert, type=type_, strict=strict, str_keys=str_keys
        )
