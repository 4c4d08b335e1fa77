"""The JSON documents that are values of options, read key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rtagent.errors import PciConfigError
from rtagent.model.address import BadAddress
from rtagent.model.base import Value
from rtagent.pci.words import BadWord

T = TypeVar("T")


class Document(Value, frozen=True, kw_only=True):
    """One JSON object of an option.

    :ivar index: its place among the option's values. :ivar error: that a mistake in it is.
    """

    option: str
    index: str
    content: Mapping[str, Any]
    error: type[PciConfigError]

    def wrong(self, key: str, rule: str) -> PciConfigError:
        """The error: what `key` says breaks the rule."""
        value = self.content.get(key, "") if key else dict(self.content)
        return _error(self.error, self.option, self.index, key or "the document", value, rule)

    def only(self, keys: Sequence[str]) -> None:
        """:raises PciConfigError: it has a key that is none of these."""
        for key in self.content:
            if key not in keys:
                raise self.wrong(key, f"the keys are {', '.join(keys)}")

    def get(self, key: str, read: Callable[[Any], T], default: T) -> T:
        """What `key` says, read; the default when it is not there.

        :raises PciConfigError: it cannot be read.
        """
        if key not in self.content:
            return default
        try:
            return read(self.content[key])
        except (BadWord, BadAddress) as broken:
            raise self.wrong(key, str(broken)) from broken

    def choose(self, key: str, allowed: Sequence[str], default: str | None) -> str | None:
        """:raises PciConfigError: it is none of the allowed."""
        if key not in self.content:
            return default
        if self.content[key] not in allowed:
            raise self.wrong(key, f"must be one of {', '.join(allowed)}")
        return str(self.content[key])


def documents(
    option: str, values: Sequence[str], error: type[PciConfigError]
) -> Iterator[Document]:
    """Each object that the option's values are, or are lists of.

    :raises PciConfigError: a value is neither.
    """
    for number, text in enumerate(values):
        try:
            content = msgspec.json.decode(text)
        except msgspec.DecodeError as broken:
            raise _error(error, option, str(number), "the document", text, str(broken)) from broken
        listed = content if isinstance(content, list) else [content]
        for place, each in enumerate(listed):
            index = f"{number}[{place}]" if isinstance(content, list) else str(number)
            if not isinstance(each, dict):
                rule = "must be a JSON object, or a list of them"
                raise _error(error, option, index, "the document", each, rule)
            yield Document(option=option, index=index, content=each, error=error)


def _error(
    error: type[PciConfigError], option: str, index: str, key: str, value: Any, rule: str
) -> PciConfigError:
    return error(group="pci", option=option, index=index, key=key, value=value, rule=rule)
