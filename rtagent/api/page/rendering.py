"""Rendering of pages with Jinja2. Every value is escaped, and an unknown name is an error."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rtagent.api.page import assets, text
from rtagent.api.page.headers import page_headers
from rtagent.api.reply import Reply
from rtagent.model.base import Value

if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"


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

    :param frame: the variables of ``base.html``, see `Frame`.
    """
    template = _environment().get_template(content.template)
    body = template.render({**frame, "live": content.live, **content.values}).encode(
        "utf-8", "replace"
    )
    return Reply(status=content.status, media_type=HTML, body=body, headers=page_headers(body))


def part(template: str, macro: str, *values: object) -> Markup:
    """Render a part of a page, which other templates print as it is.

    :param macro: of the template; it takes the values.
    """
    made: Markup = getattr(_module(template), macro)(*values)
    return made


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
        finalize=text.visible,
    )
    environment.globals["asset"] = assets.url
    return environment
