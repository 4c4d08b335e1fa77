"""Arguments of a conductor's methods, and their rules."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from rtagent.errors import InvalidRequest
from rtagent.model.base import DOMAIN_TITLE, Document, Uuid
from rtagent.model.converter import Converter
from rtagent.model.schema_errors import schema_errors

ServerName = Annotated[str, Meta(pattern=DOMAIN_TITLE, max_length=200)]


class Identity(Document, frozen=True, kw_only=True):
    """The uuid and the name of a server."""

    uuid: Uuid
    name: ServerName


_identities = Converter(Identity)


def checked_identity(uuid: str, name: str) -> Identity:
    """Return the identity of a server to build. :raises InvalidRequest:"""
    document = {"uuid": uuid, "name": name}
    try:
        return _identities.convert(document)
    except msgspec.ValidationError as refusal:
        found = schema_errors(msgspec.json.schema(Identity), document) or [("$", str(refusal))]
        errors = [{"path": path, "message": message} for path, message in found]
        raise InvalidRequest(method="build", errors=errors) from refusal


def check_reason(method: str, reason: str) -> None:
    """Check that an operator gives a reason. :raises InvalidRequest:"""
    if not reason.strip():
        mistake = {"path": "$.reason", "message": "must not be empty"}
        raise InvalidRequest(method=method, errors=[mistake])
