"""The static assets of the pages. Their URLs have a digest, so that browsers may keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from rtagent.api.page.headers import KEPT_FOR_EVER
from rtagent.api.reply import Reply

PREFIX = "/page/static"

MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def url(name: str) -> str:
    """Return the URL of an asset; it differs whenever the content does.

    :raises KeyError: there is no such asset.
    """
    return f"{PREFIX}/{_digest(_contents()[name])}/{name}"


def asset(digest: str, name: str) -> Reply | None:
    """Return an asset, or None if there is none with that name and content."""
    content = _contents().get(name)
    if content is None or _digest(content) != digest:
        return None
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return Reply(body=content, media_type=media_type, headers=KEPT_FOR_EVER)


@cache
def _contents() -> Mapping[str, bytes]:
    """Every asset of the wheel, by name."""
    folder = resources.files("rtagent.api.page") / "static"
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in MEDIA_TYPES
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
