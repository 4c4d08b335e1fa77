"""Casts: the messages of agents and schedulers, handed to the broker in bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.model.base import Value
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.rpc import VERSIONS
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import RECONNECTS
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.trust.credentials import credentials
from rtagent.scheduler.report import instances_digest
from rtagent.scheduler.report_documents import instances_text, report_document

#: Seconds for which a sender waits for the broker. Less than a stop waits for a thread.
TIMEOUT = 3.0


class CastFailed(Exception):
    """Messages were not sent, or it is not known whether they were. The text says why."""


class CastMessage(Value, frozen=True, kw_only=True):
    """A message without a reply. :ivar arguments: JSON primitives."""

    method: str
    arguments: Mapping[str, Any]


class BoundedSending:
    """Sends sequences of messages, each in bounded time. For one thread.

    oslo.messaging may wait for a broker without limit, so it gets a thread for each sequence of
    messages. While one waits, no other is sent.
    """

    def __init__(self) -> None:
        self._waiting: Future[None] | None = None

    def run(self, send: Callable[[], None]) -> None:
        """Send one sequence. :raises CastFailed:"""
        if self._waiting is not None and not self._waiting.done():
            raise CastFailed("the message broker has not accepted earlier messages yet")
        sent = Future[None]()
        threading.Thread(target=_run, args=(send, sent), name="cast", daemon=True).start()
        self._waiting = sent  # only now: it never ends if it cannot be started
        if not wait([sent], TIMEOUT).done:
            raise CastFailed(f"the message broker did not accept messages within {TIMEOUT:g} s")
        if (error := sent.exception()) is not None:
            raise CastFailed(f"the message broker cannot be used: {explained(error)}") from error


class BoundedCasts:
    """Sends messages to the servers of one topic. For one thread; cheap to create."""

    def __init__(self, transport: oslo_messaging.RPCTransport, topic: str, role: str) -> None:
        """:param role: of the sender. :raises ConfigError: a file of a key is wrong."""
        target = oslo_messaging.Target(topic=topic, version=VERSIONS[topic])
        self._client = oslo_messaging.get_rpc_client(
            transport, target, retry=RECONNECTS, serializer=ContextSerializer()
        )
        self._credentials, self._topic = credentials(transport), topic
        self._sending = BoundedSending()
        self._role = role

    def send(self, messages: Sequence[CastMessage], host: str | None = None) -> None:
        """Send messages in this order.

        :param host: of the server; None: every server of the topic. :raises CastFailed:
        """
        self._sending.run(partial(self._send, messages, host))

    def _send(self, messages: Sequence[CastMessage], host: str | None) -> None:
        options: dict[str, Any] = {"fanout": True} if host is None else {"server": host}
        client = self._client.prepare(**options)
        context = RequestContext(roles=[self._role], overwrite=False)
        for each in messages:
            proved = self._credentials.proved(
                context, self._topic, host or "", each.method, each.arguments
            )
            client.cast(proved, each.method, **each.arguments)


def _run(send: Callable[[], None], sent: Future[None]) -> None:
    try:
        send()
    except Exception as error:  # also of a library below oslo.messaging
        sent.set_exception(error)
    else:
        sent.set_result(None)


def report_host_state(*, description: bool, instances: bool) -> CastMessage:
    """Return the message that asks for a report.

    :param description: also what claims do not change. :param instances: also all instances.
    """
    arguments = {"description": description, "instances": instances}
    return CastMessage(method="report_host_state", arguments=arguments)


def forced_down(forced: bool) -> CastMessage:
    """Return the message that has whether an operator has forced the host of an agent down."""
    return CastMessage(method="update_forced_down", arguments={"forced_down": forced})


class Numbered(Value, frozen=True, kw_only=True):
    """What every message about instances has. :ivar revision: its number in the epoch."""

    host: str
    node_uuid: str
    epoch: int
    revision: int

    def cast(self, method: str, **arguments: Any) -> CastMessage:
        """Return a message about instances."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return CastMessage(method=method, arguments={**fields, **arguments})


def host_state(report: HostReport) -> CastMessage:
    """Return the message that has a report."""
    return CastMessage(method="update_host_state", arguments={"report": report_document(report)})


def changed_instances(number: Numbered, instances: Sequence[InstanceInfo]) -> CastMessage:
    """Return the message that has new and changed instances."""
    return number.cast("update_instance_info", instances=instances_text(instances))


def removed_instance(number: Numbered, uuid: str) -> CastMessage:
    """Return the message that an instance has left the host."""
    return number.cast("delete_instance_info", instance_uuid=uuid)


def whole_list(number: Numbered, instances: Sequence[InstanceInfo]) -> CastMessage:
    """Return the message that has all instances."""
    digest = instances_digest(info.uuid for info in instances)
    return number.cast("sync_instance_info", digest=digest, instances=instances_text(instances))


def dropped_claim(operation_id: str) -> CastMessage:
    """Return the message by which every scheduler forgets an assumed claim."""
    return CastMessage(method="drop_assumed_claim", arguments={"operation_id": operation_id})


def list_digest(number: Numbered, uuids: Iterable[str]) -> CastMessage:
    """Return the message that has the digest of all instances alone."""
    return number.cast("sync_instance_info", digest=instances_digest(uuids))
