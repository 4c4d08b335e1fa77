"""The headers of the pages: nothing is loaded from another host, and nothing inline is executed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

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

#: The URL of an asset has the digest of its content.
KEPT_FOR_EVER: Mapping[str, str] = {"Cache-Control": "public, max-age=31536000, immutable"}


def page_headers(body: bytes) -> Mapping[str, str]:
    """Return the headers of a page: the browser asks each time whether it has changed.

    The body has the revision of the state that it shows, so its digest changes with the revision.
    """
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
