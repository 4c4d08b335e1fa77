"""Text from outside, on a page."""

from __future__ import annotations

import re

from rtagent.model.printable import printable_lines

#: Characters of one text that are shown. A name may be as long as its writer likes.
LONGEST = 1000
#: A URL of HTTP in plain ASCII, without a user, a query or a fragment. Its host is a name or an IP
#: address, of which an IPv6 one is in brackets.
_WEB_ADDRESS = re.compile(
    r"https?://"
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::[0-9]{1,5})?"
    r"(?:/[a-z0-9._~/-]*)?",
    re.ASCII | re.IGNORECASE,
)


def visible(value: object) -> object:
    """Return a value of a template as it is printed.

    A text is escaped by `printable_lines`, one longer than `LONGEST` ends with an ellipsis, and
    None is empty. Markup, which is another type than text, stays as it is. Jinja2 escapes HTML.
    """
    if type(value) is not str:
        return "" if value is None else value
    if len(value) <= LONGEST and value.isprintable():  # nearly every text
        return value
    return printable_lines(value if len(value) <= LONGEST else value[:LONGEST] + "…")


def web_address(value: str) -> str:
    """Return a URL from outside to which a page may link, or "" if it is none.

    Only plain URLs of HTTP are, so that a link runs no script, and shows where it leads.
    """
    return value if len(value) <= LONGEST and _WEB_ADDRESS.fullmatch(value) else ""
