"""Reply: a status and a body, before HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
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

JSON = "application/json"

#: The status of each error that a view may raise. Any other error is a defect.
STATUS: Mapping[type[RtAgentError], HTTPStatus] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    ClaimNotFound: HTTPStatus.NOT_FOUND,
    NodeNotFound: HTTPStatus.NOT_FOUND,
    PciDeviceNotFound: HTTPStatus.NOT_FOUND,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Reply(Value, frozen=True, kw_only=True):
    """:ivar body: the whole body, also of a reply to HEAD, which does not send it."""

    status: HTTPStatus = HTTPStatus.OK
    media_type: str = JSON
    body: bytes


def document(
    content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
) -> Reply:
    """Encode values and primitives as a JSON document that ends with a line feed."""
    return Reply(status=status, media_type=media_type, body=msgspec.json.encode(content) + b"\n")


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
