"""Reply: a status and a body, before HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

from rtagent.errors import (
    ClaimNotFound,
    InvalidRequest,
    NodeNotFound,
    PciDeviceNotFound,
    RtAgentError,
    Unavailable,
)
from rtagent.model.base import Value
from rtagent.scheduler.errors import HostNotFound

JSON = "application/json"

#: The status of each error that a view may raise. Any other error is a defect.
STATUS: Mapping[type[RtAgentError], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    ClaimNotFound: HTTPStatus.NOT_FOUND,
    NodeNotFound: HTTPStatus.NOT_FOUND,
    PciDeviceNotFound: HTTPStatus.NOT_FOUND,
    HostNotFound: HTTPStatus.NOT_FOUND,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


#: A document shows the state of one moment.
NOT_STORED: Mapping[str, str] = MappingProxyType({"Cache-Control": "no-store"})

#: Characters that JSON need not escape: not ASCII, and DEL.
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


class Reply(Value, frozen=True, kw_only=True):
    """:ivar body: the whole body, also of a reply to HEAD, which does not send it.
    :ivar headers: those other than type and length. A reply with an ``ETag`` is sent only if
        the client does not have it yet.
    """

    status: HTTPStatus = HTTPStatus.OK
    media_type: str = JSON
    body: bytes
    headers: Mapping[str, str] = NOT_STORED


def document(
    content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
) -> Reply:
    """Encode values and primitives as a JSON document that ends with a line feed.

    It is pure ASCII, and without controls: names from outside may reach the terminal of a reader.
    """
    body = ascii_body(msgspec.json.encode(content) + b"\n")
    return Reply(status=status, media_type=media_type, body=body)


def ascii_body(body: bytes) -> bytes:
    """Escape every character of JSON documents that is not ASCII, and DEL."""
    if body.isascii() and b"\x7f" not in body:
        return body
    return _NOT_ASCII.sub(_escaped, body.decode()).encode("ascii")


def problem(status: HTTPStatus, message: str) -> Mapping[str, Any]:
    """An error of HTTP in the form of all errors: ``{"error", "message", "retriable"}``."""
    return {
        "error": status.phrase.title().replace(" ", ""),
        "message": message,
        "retriable": status == HTTPStatus.SERVICE_UNAVAILABLE,
    }


def status_of(error: RtAgentError) -> HTTPStatus:
    """The status of a reply with that error."""
    for type_, status in STATUS.items():
        if isinstance(error, type_):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else r"\u007f"
