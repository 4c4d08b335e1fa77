"""Converter: makes values of one type from primitives."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

import msgspec

T = TypeVar("T")


class Converter(Generic[T]):
    """Made at the import of a module, for use from any thread.

    msgspec examines a type at its first use. If two threads do that at the same time, the process
    crashes (0.22.0), but an import is done by one thread. So a type is given to a `Converter`, or
    to a decoder of msgspec, and both are made at import: not to `msgspec.convert` and
    `msgspec.json.decode`, which a thread may be the first to call.
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
        self._type, self._strict, self._str_keys = type_, strict, str_keys
        msgspec.json.Decoder(type_)  # examines the type

    def convert(self, document: object) -> T:
        """Return the value. :raises msgspec.ValidationError: the document is invalid.
        :raises UnicodeEncodeError: it has a key that is not valid Unicode.
        """
        value: T = msgspec.convert(
            document, self._type, strict=self._strict, str_keys=self._str_keys
        )
        return value
