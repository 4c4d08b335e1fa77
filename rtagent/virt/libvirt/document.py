"""libvirt's XML documents: parsed in one place, safely."""

from __future__ import annotations

from lxml import etree

# Entities are not resolved and nothing is fetched: domain documents may come from anyone.
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)


class BadDocument(Exception):
    """Not the document that it should be; the message says where."""


def parse(text: str) -> etree._Element:
    """The root element.

    :raises BadDocument: it is not well-formed.
    """
    try:
        return etree.fromstring(text, _PARSER)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise BadDocument(f"not well-formed: {error}") from error


def text(element: etree._Element, path: str, default: str | None = None) -> str:
    """The text of what `path` leads to, stripped.

    :raises BadDocument: it is missing or empty, and there is no default.
    """
    found = element.findtext(path)
    if found is None or not found.strip():
        if default is None:
            raise BadDocument(f"<{element.tag}> has no <{path}>")
        return default
    return found.strip()


def integer(value: str | None, where: str) -> int:
    """:raises BadDocument: it is missing, no decimal number, or negative."""
    if value is None or not value.strip().isdecimal():
        raise BadDocument(f"{where} is {value!r}, not a number")
    return int(value)


def enum(element: etree._Element, path: str) -> frozenset[str]:
    """The values of the ``<enum>`` that `path` leads to; empty when there is none."""
    return frozenset(value.text or "" for value in element.iterfind(f"{path}/value"))
