"""What a user may do at RabbitMQ, compared with what it needs.

A probe has no effect: it names queues and exchanges that do not exist, or sends a message that has
no queue. RabbitMQ judges the permissions first, and logs a line for each refusal.
"""

import re
import uuid
from collections.abc import Callable, Sequence

import amqp

from rtagent.model.base import Value
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.broker.connection import Broker
from rtagent.rpc.broker.names import DEFAULT_EXCHANGE, fanout_exchange, reply_prefix
from rtagent.rpc.broker.permissions import Names, UserPermissions

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
