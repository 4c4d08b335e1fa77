"""The context of a call: its user and its request id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

#: The length of the columns that store a context's ids, in characters.
MAX_LENGTH = 255
#: The number of roles that are kept.
MAX_ROLES = 100

#: Fields that are never sent: the token, which the agent does not need, and values that other
#: fields contain already.
_NOT_SENT = frozenset({"auth_token", "project", "user_identity"})
_EMPTY = RequestContext(overwrite=False).to_dict()
#: The agent sends these on, as HTTP headers, to the services that it calls.
_IDS = frozenset({"request_id", "global_request_id"})


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """oslo.context's RequestContext on the wire: the fields that differ from an empty context.

    (Each field is a key of the message, and is copied several times on its way.)
    """

    def serialize_context(self, context: RequestContext) -> Mapping[str, Any]:
        return {
            name: value
            for name, value in context.to_dict().items()
            if name not in _NOT_SENT and value != _EMPTY.get(name)
        }

    def deserialize_context(self, context: dict[str, Any]) -> RequestContext:
        """Make the context the current one of this thread, so that log lines have its ids.

        Its values are short, printable text; a caller may have sent anything.
        """
        fields = {name: _plain(value) for name, value in context.items() if name not in _NOT_SENT}
        ids = {name: _header(context[name]) for name in _IDS & context.keys()}
        return RequestContext.from_dict({**fields, **ids})


def actor(context: RequestContext) -> str:
    """The id of the user in whose name the call is made, or ""."""
    return _storable(context.user_id)


def request_id(context: RequestContext) -> str:
    """The global request id, which all services share; without one, the call's own id."""
    return _storable(context.global_id)


def _header(value: object) -> str | None:
    """An id that is valid in an HTTP header; None: a new id is made for the call."""
    return _storable(value).encode("ascii", "ignore").decode() or None


def _plain(value: object) -> object:
    """A flag, text, or a list of texts (the roles); None in place of an object."""
    match value:
        case None | bool():
            return value
        case list():
            return [_storable(item) for item in value[:MAX_ROLES] if isinstance(item, str)]
        case dict():
            return None
    return _storable(value)


def _storable(value: object) -> str:
    """Text that is safe in a log and in a column: a context has no schema."""
    return "".join(filter(str.isprintable, str(value or "")))[:MAX_LENGTH]
