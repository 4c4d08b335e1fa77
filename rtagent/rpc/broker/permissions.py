"""The permissions at RabbitMQ that each user needs, and no more."""

from collections.abc import Sequence

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.broker.names import (
    DEFAULT_EXCHANGE,
    RANDOM,
    fanout_exchange,
    lock_queue,
    reply_prefix,
)

#: The users who are not those of one agent.
CONDUCTOR, SCHEDULERS, OPERATOR = "conductor", "scheduler", "operator"
#: What the user of an agent is called is this and its ``[DEFAULT] host``.
AGENT_USER = "agent-"


class Names(Value, frozen=True, kw_only=True):
    """The names that a configuration chooses.

    :ivar exchange: ``[DEFAULT] control_exchange``.
    :ivar notifications: the queues of events: ``[oslo_messaging_notifications] topics``, each with
        the priority.
    """

    exchange: str = "openstack"
    notifications: Sequence[str] = ("notifications.info",)


class UserPermissions(Value, frozen=True, kw_only=True):
    """The permissions of a user: regular expressions of names.

    :ivar configure: what it may declare and delete. :ivar write: the exchanges to which it may
        publish, and the queues that it may bind. :ivar read: the queues that it may consume, and
        the exchanges to which it may bind them.
    :ivar send: the routing keys that it may write at the control exchange.
    :ivar receive: those with which it may bind its queues to the control exchange.
    """

    user: str
    configure: Sequence[str] = ()
    write: Sequence[str] = ()
    read: Sequence[str] = ()
    send: Sequence[str] = ()
    receive: Sequence[str] = ()


def access_of(user: str, host: str, names: Names) -> UserPermissions:
    """Return the permissions that a user needs: those of its name, or of the agent of a host."""
    roles = {CONDUCTOR: conductor_access, SCHEDULERS: scheduler_access, OPERATOR: operator_access}
    return roles[user](names) if user in roles else agent_access(host, names, user)


def agent_access(host: str, names: Names, user: str | None = None) -> UserPermissions:
    """Return the permissions of the agent of a host. :param user: if not that of the recipe.

    It sends to itself, because it probes whether calls reach it, and asks who has the lock of its
    host name. It writes to the default exchange for replies.
    """
    user, server = user or AGENT_USER + host, literal(f"{AGENT}.{host}")
    lock = literal(lock_queue(host))
    bound = (server, f"{AGENT}_fanout_{RANDOM}", lock)
    own = (*bound, _replies(user))
    exchange = literal(names.exchange)
    return UserPermissions(
        user=user,
        configure=own,
        write=(exchange, literal(DEFAULT_EXCHANGE), fanout_exchange(SCHEDULER), *bound),
        read=(exchange, fanout_exchange(AGENT), *own),
        send=(server, lock, *map(literal, names.notifications)),
        receive=(server, lock),
    )


def scheduler_access(names: Names) -> UserPermissions:
    """Return the permissions of the schedulers, which share a queue, and so a user.

    They cast to each agent, to all agents and to all schedulers.
    """
    exchange = literal(names.exchange)
    bound = (SCHEDULER, rf"{SCHEDULER}\..+", f"{SCHEDULER}_fanout_{RANDOM}")
    own = (*bound, _replies(SCHEDULERS))
    fanouts = (fanout_exchange(SCHEDULER), fanout_exchange(AGENT))
    return UserPermissions(
        user=SCHEDULERS,
        configure=own,
        write=(exchange, literal(DEFAULT_EXCHANGE), *fanouts, *bound),
        read=(exchange, fanout_exchange(SCHEDULER), *own),
        send=(SCHEDULER, rf"{SCHEDULER}\..+", rf"{AGENT}\..+"),
        receive=(SCHEDULER, rf"{SCHEDULER}\..+"),
    )


def conductor_access(names: Names) -> UserPermissions:
    """Return the permissions of conductors: they call agents and schedulers, and read replies."""
    return _caller(CONDUCTOR, names)


def operator_access(names: Names) -> UserPermissions:
    """Return the permissions of operators: those of conductors, and to consume events."""
    events, exchange = tuple(map(literal, names.notifications)), literal(names.exchange)
    caller = _caller(OPERATOR, names)
    return replace(
        caller,
        configure=(*caller.configure, *events),
        write=(*caller.write, *events),
        read=(*caller.read, *events, exchange),
        receive=events,
    )


def _caller(user: str, names: Names) -> UserPermissions:
    return UserPermissions(
        user=user,
        configure=(_replies(user),),
        write=(literal(names.exchange),),
        read=(_replies(user),),
        send=(SCHEDULER, rf"{SCHEDULER}\..+", rf"{AGENT}\..+"),
    )


def _replies(user: str) -> str:
    return literal(reply_prefix(user)) + RANDOM


def literal(name: str) -> str:
    """Return the regular expression of one name."""
    return name.replace(".", r"\.")


def pattern(expressions: Sequence[str]) -> str:
    """Return the regular expression of any of these; of nothing if there are none."""
    return f"^({'|'.join(expressions)})$" if expressions else "^$"
