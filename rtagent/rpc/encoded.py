"""EncodedReply: a reply as JSON, which is made once for its way to the caller."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


class EncodedReply:
    """:ivar json: its JSON."""

    __slots__ = ("json",)

    def __init__(self, reply: Any) -> None:
        self.json = msgspec.Raw(msgspec.json.encode(reply))

    def primitives(self) -> Any:
        """Return it as JSON primitives without tuples, so that all transports deliver the same."""
        return _decode(self.json)
