"""EventSender: hands events to oslo.messaging's notification drivers.

oslo.messaging's `Notifier` logs an error of a driver and forgets the message. Events must not be
lost, so the drivers ``messaging`` and ``messagingv2`` are served here: an error is raised, and the
events are sent again. The other drivers get their messages from a `Notifier`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import oslo_messaging
from oslo_config import cfg
from stevedore import ExtensionManager

from rtagent.errors import ConfigError
from rtagent.rpc import driver
from rtagent.rpc.broker.names import is_rabbitmq
from rtagent.rpc.calls import RECONNECTS
from rtagent.rpc.casts import BoundedSending
from rtagent.rpc.transport import get_notification_transport

GROUP = "oslo_messaging_notifications"
#: The drivers that send to a broker, with the version of the envelope.
ENVELOPES: Mapping[str, float] = {"messaging": 1.0, "messagingv2": 2.0}
#: The driver that sends nothing.
NOOP = "noop"
#: All events have one priority. It is part of the name of a consumer's queue, and the order of
#: messages is kept within one queue only.
PRIORITY = "info"
_decode = msgspec.json.Decoder().decode


class EventSender:
    """Sends events in their order. For one thread.

    :ivar accepted: the number of the last event that was accepted.
    """

    def __init__(
        self, transport: oslo_messaging.NotificationTransport, host: str, drivers: Sequence[str]
    ) -> None:
        options = transport.conf[GROUP]
        url = oslo_messaging.TransportURL.parse(transport.conf, options.transport_url)
        self._transport, self._rabbitmq = transport, is_rabbitmq(url)
        self._publisher = f"rtagent:{host}"
        self._topics: Sequence[str] = options.topics
        self._versions = [ENVELOPES[name] for name in drivers if name in ENVELOPES]
        self._others = [
            oslo_messaging.Notifier(transport, self._publisher, driver=name)
            for name in drivers
            if name not in ENVELOPES
        ]
        self._sending = BoundedSending()
        self.accepted = 0

    def send(self, events: Sequence[tuple[int, bytes]]) -> None:
        """Send events; return when the broker has accepted all of them.

        :param events: with their numbers; each an `EventDocument` in JSON.
        :raises CastFailed: the broker has not accepted all of them yet, see `accepted`.
        """
        self._sending.run(partial(self._send, events))

    def _send(self, events: Sequence[tuple[int, bytes]]) -> None:
        for number, text in events:
            document = _decode(text)
            for version in self._versions:
                for topic in self._topics:
                    self._send_one(document, f"{topic}.{PRIORITY}", version)
            for notifier in self._others:
                notifier.info({}, document["event_type"], document)
            self.accepted = number

    def _send_one(self, document: Mapping[str, Any], topic: str, version: float) -> None:
        target = oslo_messaging.Target(topic=topic)
        if self._rabbitmq:
            try:
                # oslo.messaging adds fields to a message, so each attempt has its own.
                driver.send_to_queue(
                    self._transport,
                    target,
                    self._message(document),
                    enveloped=version == ENVELOPES["messagingv2"],
                    retry=RECONNECTS,
                )
                return
            except oslo_messaging.MessageUndeliverable:
                pass  # there is no queue: it is declared
        driver.send_notification(
            self._transport, target, self._message(document), version=version, retry=RECONNECTS
        )

    def _message(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a notification. The same event always has the same message id."""
        return {
            "message_id": str(uuid.uuid5(uuid.UUID(document["node_uuid"]), document["id"])),
            "publisher_id": self._publisher,
            "event_type": document["event_type"],
            "priority": PRIORITY.upper(),
            "payload": document,
            "timestamp": document["at"],
        }


def event_sender(conf: cfg.ConfigOpts, host: str) -> EventSender | None:
    """Return what sends events, or None if notifications are off. It is not connected yet.

    :raises ConfigError: a driver or the URL of the transport is unknown.
    """
    transport = get_notification_transport(conf)  # registers the options
    drivers = [name for name in conf[GROUP].driver if name != NOOP]
    known = sorted(ExtensionManager("oslo.messaging.notify.drivers").names())
    for name in drivers:
        if name not in known:
            rule = f"must be one of {', '.join(known)}"
            raise ConfigError(group=GROUP, option="driver", value=name, rule=rule)
    return EventSender(transport, host, drivers) if drivers else None
