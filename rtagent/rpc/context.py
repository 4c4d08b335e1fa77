"""The context of a call: who asks, and under which request id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

#: As long as the columns in which a context's ids are kept.
MAX_LENGTH = 255


#: Never sent: a token, for which the agent has no use, and what is told twice.
_KEPT_BACK = frozenset({"auth_token", "project", "user_identity"})
_USUAL = RequestContext(overwrite=False).to_dict()
#: Sent on, as headers, to services that are asked in its course.
_IDS = frozenset({"request_id", "global_request_id"})


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """oslo.context's RequestContext on the wire: what differs from a context about which nothing is
    known. (Each field is a key of the message, copied several times on its way.)"""

    def serialize_context(self, context: RequestContext) -> Mapping[str, Any]:
        return {
            name: value
            for name, value in context.to_dict().items()
            if name not in _KEPT_BACK and value != _USUAL.get(name)
        }

    def deserialize_context(self, context: dict[str, Any]) -> RequestContext:
        """The context, which is this thread's from now on: so the log has its request id."""
        ids = {name: _header(context[name]) for name in _IDS & context.keys()}
        return RequestContext.from_dict({**context, **ids})


def actor(context: RequestContext) -> str:
    """The user on whose behalf the call is made, or ""."""
    return _storable(context.user_id)


def request_id(context: RequestContext) -> str:
    """The id that follows a request through every service; the call's own where there is none."""
    return _storable(context.global_id)


def _header(value: object) -> str | None:
    """An id that a header can have; None: the call gets one of its own."""
    return _storable(value).encode("ascii", "ignore").decode() or None


def _storable(value: object) -> str:
    """Contexts have no schema: whatever came, it must do no harm in a log or a column."""
    return "".join(filter(str.isprintable, str(value or "")))[:MAX_LENGTH]
