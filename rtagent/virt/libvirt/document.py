"""Safe parsing of libvirt's XML documents."""

from __future__ import annotations

from lxml import etree

# Do not resolve entities or fetch anything: a domain document may come from an untrusted caller.
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)


class BadDocument(Exception):
    """The document is invalid; the message says where."""


def parse(text: str) -> etree._Element:
    """Return the root element.

    :raises BadDocument: the document is not well-formed.
    """
    try:
        return etree.fromstring(text, _PARSER)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise BadDocument(f"not well-formed: {error}") from error


def text(element: etree._Element, path: str, default: str | None = None) -> str:
    """Return the stripped text of the element at `path`.

    :raises BadDocument: the text is missing or empty, and no default was given.
    """
    found = element.findtext(path)
    if found is None or not found.strip():
        if default is None:
            raise BadDocument(f"<{element.tag}> has no <{path}>")
        return default
    return found.strip()


def integer(value: str | None, where: str) -> int:
    """Return a non-negative integer. :raises BadDocument: the value is not one."""
    if value is None or not value.strip().isdecimal():
        raise BadDocument(f"{where} is {value!r}, not a number")
    return int(value)


def enum(element: etree._Element, path: str) -> frozenset[str]:
    """Return the values of the ``<enum>`` at `path`; empty without one."""
    return frozenset(value.text or "" for value in element.iterfind(f"{path}/value"))
