"""printable: text from outside, made safe to show in a terminal, a log, a status or a page.

Names, reasons, error messages and documents come from callers, guests and devices, and may contain
any character. They are stored and returned unchanged, and escaped where they are shown. This is the
only rule for that. An output with a syntax of its own (HTML, CSV, a shell) escapes by that as well.
"""

import re

#: What a text of several lines keeps.
_LAYOUT = re.compile(r"([\n\t])")


def printable(text: str, limit: int | None = None) -> str:
    """Return the text with an escape sequence such as ``\\n`` or ``\\x1b`` for each character that
    `str.isprintable` refuses.

    These are controls (among them line ends and the start of a terminal's escape sequences),
    characters that change the direction of text or have no width, separators other than the space,
    surrogates, and characters without a meaning. A backslash is not escaped: the result is for
    readers, and is not parsed.

    :param limit: a longer result is cut there, and its end names the length of the text.
    """
    shown = text if limit is None else text[:limit]
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else _escaped(char) for char in shown)
    if limit is None or (len(text) <= limit and len(shown) <= limit):
        return shown
    return f"{shown[:limit]}... ({len(text)} characters)"


def printable_lines(text: str) -> str:
    """Return a text of several lines: as `printable`, but line feeds and tabs stay."""
    if text.isprintable():
        return text
    parts = _LAYOUT.split(text)
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
