"""Base classes and bounded types of all values and documents, and what makes them of primitives."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Annotated, Any, Generic, TypeVar, overload

import msgspec
from msgspec import Meta, Struct

#: Integers in RPC documents fit a signed 32-bit column in every database.
MAX_INT = 2**31 - 1
#: The words that oslo.utils reads as booleans. Nova reads any other word as false; here it is an
#: error.
BOOLEANS = {
    **dict.fromkeys(("1", "t", "true", "on", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "off", "n", "no"), False),
}

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
#: Sums, which may be larger than what one document asks for. JSON is exact up to this.
Quantity = Annotated[int, Meta(ge=0, le=2**53 - 1)]
#: Only the canonical form is valid, so that one object has one id.
UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# The length refuses a final line feed, before which `$` matches too.
Uuid = Annotated[str, Meta(pattern=UUID, max_length=36)]

#: The end of a text. `$` matches before a final line feed, too.
_END = r"(?![\s\S])"
#: One or more uuids joined by commas.
UUIDS = f"{UUID.removesuffix('$')}(,{UUID.strip('^$')})*{_END}"
#: Placement's rules for resource classes and traits, and for suffixes of granular groups.
RESOURCE_NAME = f"^[A-Z0-9_]+{_END}"
SUFFIX = f"^[a-zA-Z0-9_-]+{_END}"

#: Text that every database can store. PostgreSQL cannot store NUL, and a lone surrogate has no
#: UTF-8 encoding.
STORABLE = r"^[^\u0000\ud800-\udfff]*$"
#: What libvirt accepts as the title of a domain, and XML as text.
DOMAIN_TITLE = rf"^[^\u0000-\u001f\u007f\ud800-\udfff\ufffe\uffff]+{_END}"
#: A time in UTC, to the second.
TIME = (
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
)
#: Text in base64, on one line.
BASE64 = "^[A-Za-z0-9+/=]*$"
Name = Annotated[str, Meta(max_length=255, pattern=STORABLE)]
Text = Annotated[str, Meta(max_length=65535, pattern=STORABLE)]

#: The most items of a list, and names of a map, of one request. A real one has a few dozen.
MAX_ITEMS = 1000
#: The most hosts or instances that a request lists.
MAX_MEMBERS = 5000

_T = TypeVar("_T")
_K = TypeVar("_K")
#: A list, and one that is not empty.
Items = Annotated[tuple[_T, ...], Meta(max_length=MAX_ITEMS)]
SomeItems = Annotated[tuple[_T, ...], Meta(min_length=1, max_length=MAX_ITEMS)]
#: A list of hosts or instances.
Members = Annotated[tuple[_T, ...], Meta(max_length=MAX_MEMBERS)]
#: A map, by name.
Entries = Annotated[Mapping[_K, _T], Meta(max_length=MAX_ITEMS)]


class Value(Struct, frozen=True, kw_only=True):
    """A frozen value."""


class Document(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that callers send. Unknown fields are errors."""


_S = TypeVar("_S", bound=Struct)


def made_from(type_: type[_S], *sources: Struct, **others: Any) -> _S:
    """Return a value with the fields of these values that have the same names, and with others."""
    fields = {
        name: getattr(source, name) for source in sources for name in _shared(type_, type(source))
    }
    return type_(**fields | others)


@cache
def _shared(one: type[Struct], other: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in one.__struct_fields__ if name in other.__struct_fields__)


def grouped(pairs: Iterable[tuple[_K, _T]]) -> dict[_K, list[_T]]:
    """Return the second parts of the pairs by their first parts, all in the order of the pairs."""
    groups: dict[_K, list[_T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


_FIELD = re.compile(r":ivar (\w+):")


def divided(docstring: str) -> tuple[str, dict[str, str]]:
    """Divide the docstring of a value: what it says of the whole, and of each field, by name."""
    text, *fields = _FIELD.split(docstring)
    return text, dict(zip(fields[::2], fields[1::2], strict=True))


class Converter(Generic[_T]):
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
        self: "Converter[_T]", type_: type[_T], *, strict: bool = True, str_keys: bool = False
    ) -> None: ...

    @overload
    def __init__(
        self: "Converter[Any]", type_: Any, *, strict: bool = True, str_keys: bool = False
    ) -> None: ...

    def __init__(self, type_: Any, *, strict: bool = True, str_keys: bool = False) -> None:
        """:param strict: and the others: see `msgspec.convert`."""
        msgspec.json.Decoder(type_)  # examines the type
        self.convert: Callable[[object], _T] = partial(
            msgspec.convert, type=type_, strict=strict, str_keys=str_keys
        )
