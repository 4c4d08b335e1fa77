"""The request id of requests to Placement: the id of the call that caused them.

oslo.context keeps the context of each thread. `HttpPlacement` sends its global request id as
``X-Openstack-Request-Id``, so Placement's log has it, and so have the agent's own log lines.
"""

from oslo_context import context


def use_request_id(request_id: str) -> None:
    """Make requests of this thread carry this global request id until the next use.

    :param request_id: of the call that caused them; "": none did, and they get a new id.
    """
    sendable = request_id.isascii() and request_id.isprintable()  # in an HTTP header
    context.RequestContext(global_request_id=request_id if sendable and request_id else None)


def current_request_id() -> str:
    """Return the global request id of this thread's context; "": it has none."""
    current = context.get_current()
    return current.global_id if current else ""
