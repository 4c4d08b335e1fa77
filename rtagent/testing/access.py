"""Access without signatures and without policy files: a caller is whom its context names."""

from collections.abc import Mapping
from typing import Any

from oslo_context.context import RequestContext

from rtagent.conf.rpc import UNSIGNED
from rtagent.ports import Reporter
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ENOUGH
from rtagent.rpc.trust.access import (
    Access,
    Authenticate,
    Caller,
    CallerBounds,
    not_authorized,
    unsigned_caller,
)


def accept_unsigned(context: RequestContext, method: str, document: Mapping[str, Any]) -> Caller:
    """The `Authenticate` that knows no signatures."""
    return unsigned_caller(context, UNSIGNED)


def authorize_by_role(caller: Caller, method: Method) -> None:
    """:raises NotAuthorized: none of the caller's roles is enough."""
    if caller.roles.isdisjoint(ENOUGH[method.role]):
        raise not_authorized(caller, method, method.role)


def unsigned_access(
    reporter: Reporter,
    authenticate: Authenticate = accept_unsigned,
    bounds: CallerBounds | None = None,
) -> Access:
    """Return what admits callers by the roles that their contexts name."""
    return Access(reporter, authenticate, authorize_by_role, bounds)
