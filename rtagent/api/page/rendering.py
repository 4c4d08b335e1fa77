"""Rendering of pages with Jinja2, their assets, and the filters of the templates, which show values
as people read them.

Every value is escaped, and an unknown name is an error. Nothing is loaded from another host, and
nothing inline is executed. The URL of an asset has a digest, so that browsers may keep it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rtagent.api.reply import Reply
from rtagent.model.base import Value
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


if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"
#: What a browser may do with a page. Style and script are files of this server; there is no font,
#: no frame and no plug-in. Forms are sent to this server only.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
#: The path of the assets.
PREFIX = "/page/static"
#: The URL of an asset has the digest of its content.
KEPT_FOR_EVER: Mapping[str, str] = {"Cache-Control": "public, max-age=31536000, immutable"}
MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Content(Value, frozen=True, kw_only=True):
    """What a page shows.

    :ivar template: the name of a file in ``templates/``. :ivar values: its variables.
    :ivar live: False: the script does not ask for it again, because it is costly.
    """

    template: str
    values: Mapping[str, Any]
    status: HTTPStatus = HTTPStatus.OK
    live: bool = True


class Later(Value, frozen=True, kw_only=True):
    """A page that shows more than the state, such as a time, a history or a form's answer.

    :ivar version: of what it shows besides. :ivar make: makes the page, at most once for a version.
    """

    version: Hashable
    make: Callable[[], Content]


def render(content: Content, frame: Mapping[str, Any]) -> Reply:
    """Return a page.

    The browser asks each time whether it has changed. The body has the revision of the state that
    it shows, so its digest changes with the revision.

    :param frame: the variables of ``base.html``, as `Paged.frame` returns them.
    """
    template = _environment().get_template(content.template)
    body = template.render({**frame, "live": content.live, **content.values}).encode(
        "utf-8", "replace"
    )
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
    return Reply(status=content.status, media_type=HTML, body=body, headers=headers)


def part(template: str, macro: str, *values: object) -> Markup:
    """Render a part of a page, which other templates print as it is.

    :param macro: of the template; it takes the values.
    """
    made: Markup = getattr(_module(template), macro)(*values)
    return made


def asset_url(name: str) -> str:
    """Return the URL of an asset; it differs whenever the content does.

    :raises KeyError: there is no such asset.
    """
    return f"{PREFIX}/{_digest(_assets()[name])}/{name}"


def asset(digest: str, name: str) -> Reply | None:
    """Return an asset, or None if there is none with that name and content."""
    content = _assets().get(name)
    if content is None or _digest(content) != digest:
        return None
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return Reply(body=content, media_type=media_type, headers=KEPT_FOR_EVER)


@cache
def _module(template: str) -> Any:
    return _environment().get_template(template).module


@cache
def _environment() -> Environment:
    """The templates of the wheel. They do not change while the process runs."""
    # Hosts on which nobody looks at a page do without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rtagent.api.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=visible,
    )
    environment.globals["asset"] = asset_url
    environment.filters.update(FILTERS)
    return environment


@cache
def _assets() -> Mapping[str, bytes]:
    """Every asset of the wheel, by name."""
    folder = resources.files("rtagent.api.page") / "static"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in MEDIA_TYPES
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
