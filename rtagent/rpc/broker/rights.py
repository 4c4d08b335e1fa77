"""The permissions at RabbitMQ that each user needs, and no more, and what a user may do there.

A probe has no effect: it names queues and exchanges that do not exist, or sends a message that has
no queue. RabbitMQ judges the permissions first, and logs a line for each refusal.
"""

import re
import uuid
from collections.abc import Callable, Sequence

import amqp
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.broker.connection import Broker
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


#: Returns after the broker has permitted something. :raises AccessRefused: it has not.
_Act = Callable[[amqp.Channel], object]


class Probe(Value, frozen=True, kw_only=True):
    """:ivar what: that the user may do, as the end of a sentence.
    :ivar needed: whether it has to. :ivar act: tries it.
    """

    what: str
    needed: bool
    act: _Act


class Rights(Value, frozen=True, kw_only=True):
    """:ivar needless: what the user may do, and need not.
    :ivar lacking: what it has to do, and may not.
    """

    needless: Sequence[str]
    lacking: Sequence[str]


def rights_of(broker: Broker, access: UserPermissions, names: Names) -> Rights:
    """Try what a user may do. :raises AMQPError: OSError: the broker cannot be used."""
    connection = broker.connect("rtagent doctor")
    try:
        found = [(probe, _permits(connection, probe)) for probe in _probes(access, names)]
    finally:
        connection.collect()
    return Rights(
        needless=[probe.what for probe, permitted in found if permitted and not probe.needed],
        lacking=[probe.what for probe, permitted in found if probe.needed and not permitted],
    )


def _permits(connection: amqp.Connection, probe: Probe) -> bool:
    channel = connection.channel()
    try:
        probe.act(channel)
    except amqp.AccessRefused:
        return False
    except (amqp.NotFound, amqp.PreconditionFailed):
        pass  # it is permitted, and has no object
    finally:
        channel.close()
    return True


def _probes(access: UserPermissions, names: Names) -> Sequence[Probe]:
    mark = uuid.uuid4().hex  # part of names that do not exist
    agent, scheduler = f"{AGENT}.{mark}", f"{SCHEDULER}.{mark}"
    own, other = reply_prefix(access.user) + mark, reply_prefix(mark) + mark
    agents, schedulers = fanout_exchange(AGENT), fanout_exchange(SCHEDULER)

    def probe(what: str, permission: Sequence[str], name: str, act: _Act) -> Probe:
        return Probe(what=what, needed=_matches(permission, name), act=act)

    return [
        probe("read calls for other agents", access.read, agent, _get(agent)),
        probe("delete queues of other agents", access.configure, agent, _delete(agent)),
        probe("call other agents", access.send, agent, _publish(names.exchange, agent)),
        probe("call all agents at once", access.write, agents, _write(agents)),
        probe("read calls for schedulers", access.read, scheduler, _get(scheduler)),
        probe("call schedulers", access.send, scheduler, _publish(names.exchange, scheduler)),
        probe("report to schedulers", access.write, schedulers, _write(schedulers)),
        probe("read replies for other users", access.read, other, _get(other)),
        probe("read its replies", access.read, own, _get(own)),
        probe("declare its reply queue", access.configure, own, _delete(own)),
        probe("send replies", access.write, DEFAULT_EXCHANGE, _publish("", mark)),
        probe(
            *("delete exchanges", access.configure, mark),
            lambda channel: channel.exchange_delete(mark, if_unused=True),
        ),
        probe(
            "delete the exchange of all calls",
            access.configure,
            names.exchange,
            _declare_again(names.exchange),
        ),
    ]


def _matches(expressions: Sequence[str], name: str) -> bool:
    return any(re.fullmatch(each, name) for each in expressions)


def _get(queue: str) -> _Act:
    return lambda channel: channel.basic_get(queue)


def _delete(queue: str) -> _Act:
    return lambda channel: channel.queue_delete(queue, if_unused=True, if_empty=True)


def _publish(exchange: str, key: str) -> _Act:
    return lambda channel: channel.basic_publish_confirm(amqp.Message(""), exchange, key)


def _write(exchange: str) -> _Act:
    """Remove a binding that does not exist. The source is judged, too, after the exchange."""

    def act(channel: amqp.Channel) -> None:
        try:
            channel.exchange_unbind(exchange, uuid.uuid4().hex, "")
        except amqp.AccessRefused as error:
            if f"'{exchange}'" in str(error):
                raise

    return act


def _declare_again(exchange: str) -> _Act:
    """Declare what exists, as oslo.messaging does. One that is different stays as it is."""

    def act(channel: amqp.Channel) -> None:
        try:
            channel.exchange_declare(exchange, "topic", passive=True)
        except amqp.NotFound:
            raise amqp.AccessRefused("it must not be created") from None
        channel.exchange_declare(exchange, "topic", durable=False, auto_delete=False)

    return act
