"""Caller: who makes a call, and what the caller may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_context.context import RequestContext

from rtagent.conf.rpc import ROLES, UNSIGNED
from rtagent.model.base import Value
from rtagent.rpc.context import actor
from rtagent.rpc.errors import NotAuthorized
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ENOUGH

#: The beginning of the name of a proved caller in records and events.
_PROVED = "key:"
#: The beginning of a user's name that looks like the name of a proved caller.
_UNPROVED = "user:"
#: The role in contexts of OpenStack that may do everything, and its name here.
_ADMIN, _OPERATOR = "admin", "operator"
#: The roles of OpenStack to which Keystone adds its role ``reader``. A caller with one of them is
#: more than a reader.
_IMPLY_READER, _READER = frozenset({"member", "manager"}), "reader"


class Caller(Value, frozen=True, kw_only=True):
    """The caller of one call.

    :ivar name: of the key; without a proof, the user id of the context, which may be "".
    :ivar roles: see `rtagent.rpc.roles`.
    :ivar proved: whether a signature proves name and roles.
    :ivar host: the host whose agent this is; None: any, or not an agent.
    """

    name: str
    roles: frozenset[str]
    proved: bool = False
    host: str | None = None

    @property
    def actor(self) -> str:
        """The name in records and events. Only that of a proved caller begins with ``key:``."""
        if self.proved:
            return f"{_PROVED}{self.name}"
        return f"{_UNPROVED}{self.name}" if self.name.startswith(_PROVED) else self.name


#: Return the caller of a call, from its context, the name of its method and its arguments; or raise
#: a `RequestError`.
Authenticate = Callable[[RequestContext, str, Mapping[str, Any]], Caller]


def accept_unsigned(context: RequestContext, method: str, document: Mapping[str, Any]) -> Caller:
    """The `Authenticate` that knows no signatures."""
    return unsigned_caller(context, UNSIGNED)


def unsigned_caller(context: RequestContext, default_roles: Iterable[str]) -> Caller:
    """Return the caller of a call without a signature: who the context says.

    :param default_roles: those of a context that says no role of ours.
    """
    # A context has no schema.
    stated = set(context.roles) if isinstance(context.roles, list) else set()
    if _ADMIN in stated:
        stated.add(_OPERATOR)
    if stated & _IMPLY_READER:
        stated.discard(_READER)
    return Caller(name=actor(context), roles=frozenset(stated & set(ROLES) or default_roles))


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
