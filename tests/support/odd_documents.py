"""Documents that no careful writer makes."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.api.application import Answering
from rtagent.api.reply import Reply

#: Values in place of numbers and texts. Python converts no number of more than 4,300 digits.
ODD = (
    *("", " ", "0", "-1", "00", "1.5", "1e3", "0x10", "NaN", "true", "no such thing"),
    *("9" * 20, "9" * 5000, "²", "٣", "0-65535", "3-1", "^0", "0,,1", "x" * 300),
    *("EiB", "ff:1f.9", "../../etc/passwd", "&#x1b;[31m", "&undefined;"),
)

Draw = Callable[[st.SearchStrategy[int]], int]

_NUMBER = re.compile(r"\d+")
_VALUE = re.compile(r"(?<=[=]['\"])[^'\"<>]*(?=['\"])|(?<=>)[^<>]*\S[^<>]*(?=<)")


def odd(document: str) -> st.SearchStrategy[str]:
    """Return a strategy of documents with one to three changes."""

    @st.composite
    def changed(draw: Callable[..., int]) -> str:
        text = document
        for _ in range(draw(st.integers(1, 3))):
            change = _CHANGES[draw(st.integers(0, len(_CHANGES) - 1))]
            text = change(text, draw)
        return text

    return changed()


def _pick(draw: Draw, number: int) -> int:
    return draw(st.integers(0, max(0, number - 1)))


def _replaced(pattern: re.Pattern[str], text: str, draw: Draw) -> str:
    """Replace a random match of the pattern by an odd value."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    at = found[_pick(draw, len(found))]
    return text[: at.start()] + ODD[_pick(draw, len(ODD))] + text[at.end() :]


def _flipped_bit(text: str, draw: Draw) -> str:
    """Flip a bit. As in libvirt, the result is text: bytes that are not UTF-8 are replaced."""
    content = bytearray(text.encode())
    if not content:
        return text
    content[_pick(draw, len(content))] ^= 1 << _pick(draw, 8)
    return content.decode(errors="replace")


def _cut(text: str, draw: Draw) -> str:
    return text[: _pick(draw, len(text))]


def _with_entities(text: str, draw: Draw) -> str:
    """Declare an entity, and refer to it in place of a value."""
    return '<!DOCTYPE x [<!ENTITY undefined "7">]>' + _replaced(_VALUE, text, draw)


def _on_element(text: str, draw: Draw, change: Callable[[etree._Element], None]) -> str:
    try:
        root = etree.fromstring(text)
    except (etree.XMLSyntaxError, ValueError):
        return text  # an earlier change has made it malformed
    inner = list(root.iterdescendants())
    if inner:
        change(inner[_pick(draw, len(inner))])
    return etree.tostring(root, encoding="unicode")


def _without_element(text: str, draw: Draw) -> str:
    def remove(element: etree._Element) -> None:
        parent = element.getparent()
        assert parent is not None
        parent.remove(element)

    return _on_element(text, draw, remove)


def _with_element_twice(text: str, draw: Draw) -> str:
    def repeat(element: etree._Element) -> None:
        element.addnext(etree.fromstring(etree.tostring(element, with_tail=False)))

    return _on_element(text, draw, repeat)


def _without_attributes(text: str, draw: Draw) -> str:
    return _on_element(text, draw, lambda element: element.attrib.clear())


def _without_text(text: str, draw: Draw) -> str:
    def empty(element: etree._Element) -> None:
        element.text = None

    return _on_element(text, draw, empty)


_CHANGES = (
    *(partial(_replaced, _NUMBER), partial(_replaced, _VALUE)) * 3,
    *(_without_element, _with_element_twice, _without_attributes, _without_text),
    *(_flipped_bit, _cut, _with_entities),
)


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
            if hasattr(served, "exposed"):
                setattr(self, name, _spoiling(served))


def _spoiling(served: Any) -> Any:
    def spoil(context: Any, /, **document: Any) -> Any:
        try:
            return spoiled(served(context, **document))
        except ExpectedException as expected:
            error = expected.exc_info[1]
            error.kwargs = spoiled(error.kwargs)
            raise

    spoil.exposed = True  # type: ignore[attr-defined]
    return spoil


def _event_line(line: str) -> str:
    if not line.startswith("data: "):
        return line
    return "data: " + json.dumps(spoiled(json.loads(line.removeprefix("data: ")), OF_EVENTS))
