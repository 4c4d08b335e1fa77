"""Values as people read them: the filters of the templates."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.printable import printable_lines
from rtagent.model.units import KIB_IN_MIB

#: Characters of one text that are shown. A name may be as long as its writer likes.
LONGEST = 1000
#: Sizes that are kept as text: guests of a host have few different ones.
SIZES = 4096
#: A URL of HTTP in plain ASCII, without a user, a query or a fragment. Its host is a name or an IP
#: address, of which an IPv6 one is in brackets.
_WEB_ADDRESS = re.compile(
    r"https?://"
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::[0-9]{1,5})?"
    r"(?:/[a-z0-9._~/-]*)?",
    re.ASCII | re.IGNORECASE,
)
_SIZES = ("KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


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


@lru_cache(SIZES)
def size(kib: int) -> str:
    """Return a size with at most four digits, for example ``1.5 GiB``; ``0`` needs no unit."""
    if not kib:
        return "0"
    value, unit = float(kib), 0
    while abs(value) >= 1024 and unit + 1 < len(_SIZES):
        value, unit = value / 1024, unit + 1
    digits = 0 if value == int(value) or abs(value) >= 100 else 1
    return f"{value:.{digits}f} {_SIZES[unit]}"


def megabytes(number: int) -> str:
    """Return a size, given in MB as everywhere in Nova."""
    return size(number * KIB_IN_MIB)


def amount(number: int, unit: str) -> str:
    """Return a quantity of an inventory."""
    return megabytes(number) if unit == "MB" else str(number)


def share(part: int, whole: int) -> float:
    """Return a part of a bar in percent, from 0 to 100."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 3) if whole else 0.0


def iso(at: datetime) -> str:
    """Return a time for programs."""
    return at.isoformat(timespec="milliseconds")


def clock(at: datetime) -> str:
    """Return a time for people."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime, now: datetime) -> str:
    """Return how far a time is away that is past, or to come."""
    seconds = (now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def duration(seconds: float) -> str:
    """Return a duration with one unit, or two if that says more: ``3 h 20 min``, ``45 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "0 s"
    left = int(seconds)
    at = next(at for at, (size, _) in enumerate(_TIMES) if left >= size)
    size, unit = _TIMES[at]
    number, rest = divmod(left, size)
    if number < 10 and at + 1 < len(_TIMES):
        smaller, more = _TIMES[at + 1]
        if rest >= smaller:
            return f"{number} {unit} {rest // smaller} {more}"
    return f"{number} {unit}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "size": size,
    "megabytes": megabytes,
    "amount": amount,
    "share": share,
    "iso": iso,
    "clock": clock,
    "ago": ago,
    "duration": duration,
    "cpus": format_cpu_spec,
    "web_address": web_address,
}
