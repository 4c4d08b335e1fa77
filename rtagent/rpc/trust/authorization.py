"""Authorization by roles: the rule of each method, if no policy overrides it."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.rpc.errors import NotAuthorized
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ENOUGH
from rtagent.rpc.trust.caller import Caller

#: Raises `NotAuthorized` if a caller may not call a method.
Authorize = Callable[[Caller, Method], None]


def authorize_by_role(caller: Caller, method: Method) -> None:
    """:raises NotAuthorized: none of the caller's roles is enough."""
    if caller.roles.isdisjoint(ENOUGH[method.role]):
        raise not_authorized(caller, method, method.role)


def not_authorized(caller: Caller, method: Method, role: str) -> NotAuthorized:
    """Return the error for a caller that lacks a role."""
    roles = ", ".join(sorted(caller.roles))
    return NotAuthorized(method=method.name, role=role, caller=caller.actor, roles=roles)
