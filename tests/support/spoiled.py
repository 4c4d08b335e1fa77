"""Documents of which every text is one that its writer chose to harm a reader."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.api.application import Answering
from rtagent.api.reply import Reply

#: A spreadsheet's formula, escape sequences of a terminal, marks of direction and without a width,
#: line ends, a line of a log, commands of a shell, markup, and expressions of templates.
HOSTILE = (
    "=1+1\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\r\nFORGED\u2028FORGED\t$(id)`id`"
    "<script>alert(1)</script>{{7*7}}{%x%}[red]%s\\\"'\x7f"
)
#: Fields whose values are words of the API, which commands look up.
WORDS = frozenset({"use"})
#: Fields of events that say how to read the others.
OF_EVENTS = WORDS | {"event_type", "id"}


def spoiled(document: Any, words: frozenset[str] = WORDS) -> Any:
    """Return the document with `HOSTILE` in place of each text. Names of fields stay."""
    if isinstance(document, str):
        return HOSTILE
    if isinstance(document, list | tuple):
        return [spoiled(each, words) for each in document]
    if isinstance(document, dict):
        return {
            name: value if name in words else spoiled(value, words)
            for name, value in document.items()
        }
    return document


class SpoiledSources:
    """Sources of a read API."""

    def __init__(self, sources: Answering) -> None:
        self.sources = sources

    def answer(self, target: str) -> Reply:
        reply = self.sources.answer(target)
        if reply.media_type == "text/event-stream":
            lines = map(_event_line, reply.body.decode().split("\n"))
            return replace(reply, body="\n".join(lines).encode())
        body = json.dumps(spoiled(json.loads(reply.body))).encode()
        return replace(reply, body=body)


class SpoiledEndpoint:
    """An RPC endpoint whose replies and errors are spoiled."""

    def __init__(self, endpoint: Any) -> None:
        self.target = endpoint.target
        for name, served in vars(endpoint).items():
            if hasattr(served, "rpc_method"):
                setattr(self, name, _spoiling(served))


def _spoiling(served: Any) -> Any:
    def spoil(context: Any, /, **document: Any) -> Any:
        try:
            return spoiled(served(context, **document))
        except ExpectedException as expected:
            error = expected.exc_info[1]
            error.kwargs = spoiled(error.kwargs)
            raise

    spoil.rpc_method = served.rpc_method  # type: ignore[attr-defined]
    return spoil


def _event_line(line: str) -> str:
    if not line.startswith("data: "):
        return line
    return "data: " + json.dumps(spoiled(json.loads(line.removeprefix("data: ")), OF_EVENTS))
