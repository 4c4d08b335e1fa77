"""Consumers of events: of notifications on a real broker, and what they conclude from them."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
from oslo_config import cfg

from rtagent.model.event import AUDIT_END, AuditPayload, Notification
from rtagent.rpc.transport import get_notification_transport

Document = Mapping[str, Any]
#: By claim: owner, state, vCPUs, MB, host CPUs, devices.
Folded = dict[str, tuple[Any, ...]]

#: What makes queues and messages survive a restart of the broker.
DURABLE = {"amqp_durable_queues": True}

_COUNTS = ("applied", "skipped", "claims", "orphans", "drifts", "absent", "suspects", "problems")
_AUDITED: dict[str, Any] = {"audit_cause": "periodic", "complete": True, "seconds": 0.0}
#: An event without a change.
ANNOUNCED = Notification(
    type=AUDIT_END,
    payload=AuditPayload(**_AUDITED, **dict.fromkeys(_COUNTS, 0), refused="", summary=""),
)


class Consumer:
    """A consumer of notifications that may be away for a while.

    :ivar events: the payloads in the order of their arrival, with repetitions.
    """

    def __init__(self, url: str, topic: str) -> None:
        self._url, self._topic = url, topic
        self._lock = threading.Lock()
        self._events: list[Document] = []
        self._listener: Any = None
        self._transport: Any = None

    def come(self) -> None:
        conf = cfg.ConfigOpts()
        conf([], project="rtagent", default_config_files=[])
        transport = self._transport = get_notification_transport(conf)
        transport.cleanup()
        conf.set_override("transport_url", self._url, group="oslo_messaging_notifications")
        for name, value in {**DURABLE, "rabbit_interval_max": 1}.items():
            conf.set_override(name, value, group="oslo_messaging_rabbit")
        self._transport = get_notification_transport(conf)
        self._listener = oslo_messaging.get_notification_listener(
            self._transport,
            [oslo_messaging.Target(topic=self._topic)],
            [self],
            executor="threading",
        )
        self._listener.start()

    def leave(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            self._listener.wait()
            self._transport.cleanup()
            self._listener = None

    def info(
        self, context: object, publisher: str, event_type: str, payload: Document, metadata: object
    ) -> None:
        assert event_type == payload["event_type"]
        with self._lock:
            self._events.append(payload)

    @property
    def events(self) -> list[Document]:
        with self._lock:
            return list(self._events)

    @property
    def last(self) -> int:
        return max((event["sequence"] for event in self.events), default=0)


def first_seen(events: Iterable[Document]) -> list[Document]:
    """Leave out repetitions, as a consumer does."""
    seen: dict[str, Document] = {}
    for event in events:
        seen.setdefault(event["id"], event)
    return list(seen.values())


def folded(events: Iterable[Document]) -> Folded:
    """Return the claims that events lead to."""
    claims: Folded = {}
    for event in events:
        if not event["event_type"].startswith("claim.") or "state" not in event["payload"]:
            continue
        payload = event["payload"]
        if payload["state"] == "released":
            del claims[payload["claim_uuid"]]
        else:
            claims[payload["claim_uuid"]] = _facts(payload)
    return claims


def _facts(payload: Document) -> tuple[Any, ...]:
    names = ("owner_id", "state", "vcpus", "pcpus", "memory_mb", "disk_mb", "suspect")
    listed = (payload["host_cpus"], payload["pci_devices"], payload["resources"])
    return (*(payload[name] for name in names), *map(tuple, listed))
