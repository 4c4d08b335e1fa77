"""Events: what consumers learn about a node. Pure.

`EVENT_TYPES` is the registry: an event of a new type needs an entry there and a payload. Events of
a change are written with the change and are complete. The others are announced: they are written
soon afterwards, and may be lost if the process is killed before.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from rtagent.model.base import Value
from rtagent.model.event_payloads import (
    AuditPayload,
    ClaimPayload,
    DevicePayload,
    DrainPayload,
    DriftPayload,
    MetricsPayload,
    MovePayload,
    NodePayload,
    Payload,
    RefusalPayload,
    ServicePayload,
)

#: The version of all payloads. A consumer accepts any minor version of the major one it knows.
VERSION = "1.0"

CLAIM_CREATE: Final = "claim.create"
CLAIM_ACTIVATE: Final = "claim.activate"
CLAIM_UPDATE: Final = "claim.update"
CLAIM_SUSPECT: Final = "claim.suspect"
CLAIM_RELEASE: Final = "claim.release"
CLAIM_EXPIRE: Final = "claim.expire"
CLAIM_REFUSE: Final = "claim.refuse"
MOVE_START: Final = "move.start"
MOVE_UPDATE: Final = "move.update"
MOVE_FINISH: Final = "move.finish"
MOVE_CONFIRM: Final = "move.confirm"
MOVE_REVERT: Final = "move.revert"
MOVE_ERROR: Final = "move.error"
NODE_UPDATE: Final = "compute_node.update"
NODE_DRAIN: Final = "compute_node.drain"
NODE_UNDRAIN: Final = "compute_node.undrain"
METRICS_UPDATE: Final = "compute.metrics.update"
DEVICE_APPEAR: Final = "pci_device.appear"
DEVICE_VANISH: Final = "pci_device.vanish"
DEVICE_QUARANTINE: Final = "pci_device.quarantine"
DEVICE_CLEAR: Final = "pci_device.clear"
AUDIT_END: Final = "audit.end"
DRIFT_FOUND: Final = "drift.found"
SERVICE_UPDATE: Final = "service.update"


class EventType(Value, frozen=True, kw_only=True):
    """A type of events.

    :ivar payload: its class. :ivar meaning: a sentence for the documentation.
    :ivar announced: the event is not part of a change. It may be lost when the process is killed.
    """

    name: str
    payload: type[Payload]
    meaning: str
    announced: bool = False


#: The types of events that are not part of a change. They may be lost when the process is killed.
_ANNOUNCED = frozenset({CLAIM_REFUSE, METRICS_UPDATE, AUDIT_END, SERVICE_UPDATE})

#: What the events mean, by their payload.
_MEANINGS: Mapping[type[Payload], Mapping[str, str]] = {
    ClaimPayload: {
        CLAIM_CREATE: "A claim was granted.",
        CLAIM_ACTIVATE: "A claim became active: its guest is about to run here, or is here.",
        CLAIM_UPDATE: "Another step of a claim, which the action names.",
        CLAIM_SUSPECT: "An audit missed the domain of an active claim, which stays.",
        CLAIM_RELEASE: "A claim ended, and its resources are free.",
        CLAIM_EXPIRE: "A claim ended because its lease lapsed and no domain was found.",
    },
    RefusalPayload: {CLAIM_REFUSE: "A claim was refused, because resources are missing."},
    MovePayload: {
        MOVE_START: "A move began on this node.",
        MOVE_UPDATE: "Another status of a move.",
        MOVE_FINISH: "The guest is at its destination.",
        MOVE_CONFIRM: "The source's resources are free: the move cannot be reverted any more.",
        MOVE_REVERT: "The guest is back at its source.",
        MOVE_ERROR: "A move failed.",
    },
    NodePayload: {NODE_UPDATE: "The capacity of the node, its policy or its statistics changed."},
    DrainPayload: {
        NODE_DRAIN: "An operator drains the node, or has changed reason or deadline.",
        NODE_UNDRAIN: "The node creates claims again.",
    },
    MetricsPayload: {METRICS_UPDATE: "The monitors measured the host."},
    DevicePayload: {
        DEVICE_APPEAR: "A PCI device is there.",
        DEVICE_VANISH: "A PCI device is gone, or no device specification matches it any more.",
        DEVICE_QUARANTINE: "A PCI device is unavailable until an operator clears it.",
        DEVICE_CLEAR: "A PCI device is out of quarantine.",
    },
    AuditPayload: {AUDIT_END: "An audit of the host ended."},
    DriftPayload: {DRIFT_FOUND: "An audit found a new difference between a domain and its claim."},
    ServicePayload: {SERVICE_UPDATE: "The service was disabled, enabled, or forced down."},
}

#: By name, in the order of the documentation.
EVENT_TYPES: Mapping[str, EventType] = {
    name: EventType(name=name, payload=payload, meaning=meaning, announced=name in _ANNOUNCED)
    for payload, meanings in _MEANINGS.items()
    for name, meaning in meanings.items()
}


class Notification(Value, frozen=True, kw_only=True):
    """An event before it has a number. :ivar type: a key of `EVENT_TYPES`."""

    type: str
    payload: Payload


class EventDocument(Value, frozen=True, kw_only=True):
    """An event as consumers get it: the payload of a notification, and the data of ``/events``.

    :ivar id: EPOCH-SEQUENCE: the same event always has the same id on its node.
    :ivar sequence: one more than that of the event before it on this node. A number that is missing
        is an event that was dropped.
    :ivar epoch: of the writer of the node. It rises at each start of the agent.
    :ivar revision: the node's revision after the change.
    :ivar at: the time of the change.
    :ivar cause: the RPC method, audit, policy, purge, or event: it was no change.
    :ivar actor: the user id of the call's context, a part of the agent, or "".
    :ivar request_id: the global request id of the call, or "".
    :ivar payload: see the schema of the event's type.
    """

    id: str
    event_type: str
    version: str
    sequence: int
    epoch: int
    revision: int
    at: datetime
    host: str
    node_uuid: str
    cause: str
    actor: str
    request_id: str
    payload: Payload


def event_id(epoch: int, sequence: int) -> str:
    """Return the id of an event."""
    return f"{epoch}-{sequence}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Return epoch and sequence; None: the text is no id."""
    epoch, _, sequence = text.partition("-")
    numbers = (epoch, sequence)
    if not all(each.isascii() and each.isdecimal() and len(each) <= 18 for each in numbers):
        return None
    return int(epoch), int(sequence)


class RecordedEvents(Value, frozen=True, kw_only=True):
    """The events of one commit.

    :ivar last: the number of the last one. :ivar epoch: of all of them.
    :ivar documents: each an `EventDocument` in JSON.
    """

    last: int
    epoch: int
    documents: tuple[bytes, ...]

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.last - len(self.documents) + 1


def credible(rows: Iterable[RecordedEvents], last: int) -> list[RecordedEvents]:
    """Return the rows without the damaged ones whose number is higher than that of the last event.
    Nothing follows them, so a reader that goes on there would get no more events.
    """
    return [row for row in rows if row.documents or row.last <= last]
