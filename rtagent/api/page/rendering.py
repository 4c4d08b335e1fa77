"""Rendering of pages with Jinja2, and their assets.

Every value is escaped, and an unknown name is an error. Nothing is loaded from another host, and
nothing inline is executed. The URL of an asset has a digest, so that browsers may keep it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rtagent.api.page import formats
from rtagent.api.reply import Reply
from rtagent.model.base import Value

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
        finalize=formats.visible,
    )
    environment.globals["asset"] = asset_url
    environment.filters.update(formats.FILTERS)
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
