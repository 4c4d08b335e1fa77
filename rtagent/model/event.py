"""Events: what consumers learn about a node. Pure.

`EVENT_TYPES` is the registry: an event of a new type needs an entry there and a payload. Events of
a change are written with the change and are complete. The others are announced: they are written
soon afterwards, and may be lost if the process is killed before.

The payloads of events. Their docstrings become the JSON Schemas that consumers read.

A new field with a default value is a minor change; any other change of a payload needs a new major
version of the events.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rtagent.model.base import Value


class Payload(Value, frozen=True, kw_only=True):
    """The part of an event that depends on its type."""


class ClaimPayload(Payload, frozen=True, kw_only=True):
    """A step of a claim, and the claim after it.

    :ivar action: what was done, as in the claim's history.
    :ivar reason: why, where the action does not say it, or "".
    :ivar before_state: null if the claim is new.
    :ivar state: building, active, incoming, outgoing, or released, which is final.
    :ivar suspect: why the claim's domain is missing although it should exist, or null.
    :ivar owner_id: the uuid of the instance.
    :ivar kind: build, attach, or the type of the move that the claim was made for.
    :ivar vcpus: shared vCPUs.
    :ivar pcpus: dedicated host CPUs.
    :ivar memory_mb: MB.
    :ivar disk_mb: MB.
    :ivar host_cpus: ids of the host CPUs that no other owner can have, in order.
    :ivar pci_devices: addresses of the assigned devices.
    :ivar resources: identifiers of the assigned resources, such as vGPUs.
    :ivar migration_uuid: the current or last move of the claim.
    :ivar expires_at: when the lease ends; null: there is none.
    """

    claim_uuid: str
    action: str
    reason: str
    before_state: str | None
    state: str
    suspect: str | None
    owner_id: str
    kind: str
    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    host_cpus: tuple[int, ...]
    pci_devices: tuple[str, ...]
    resources: tuple[str, ...]
    migration_uuid: str | None
    expires_at: datetime | None
    flavor: str
    display_name: str | None
    project_id: str | None
    user_id: str | None


class RefusalPayload(Payload, frozen=True, kw_only=True):
    """A request that this host does not have the resources for.

    :ivar method: the RPC method. :ivar claim_uuid: the uuid that the claim would have had.
    :ivar reasons: every reason with its numbers, nearest miss first.
    """

    method: str
    claim_uuid: str
    reasons: Sequence[Mapping[str, Any]]


class MovePayload(Payload, frozen=True, kw_only=True):
    """This node's record of a move after one of its steps.

    :ivar role: of this node: source or dest.
    :ivar migration_type: resize, migration, live-migration or evacuation.
    :ivar before_status: null if the record is new. :ivar status: Nova's.
    :ivar claim_uuid: the claim of this node; null: there never was one.
    """

    migration_uuid: str
    instance_uuid: str
    role: str
    migration_type: str
    before_status: str | None
    status: str
    claim_uuid: str | None
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None
    dest_node: str | None


class NodePayload(Payload, frozen=True, kw_only=True):
    """The node after a change of its capacity or of its policy.

    :ivar changed: the parts that changed: topology, policy, resource_inventories, failed_builds,
        disk_available_least.
    :ivar cpus: online host CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB.
    :ivar reserved_host_cpus: CPUs. :ivar reserved_host_memory_mb: MB.
    :ivar reserved_host_disk_mb: MB.
    :ivar disk_available_least: GB.
    """

    changed: tuple[str, ...]
    hypervisor_hostname: str
    hypervisor_type: str
    hypervisor_version: int
    cpus: int
    memory_mb: int
    disk_mb: int
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    reserved_host_cpus: int
    reserved_host_memory_mb: int
    reserved_host_disk_mb: int
    failed_builds: int
    disk_available_least: int | None


class DrainPayload(Payload, frozen=True, kw_only=True):
    """The drain of the node after a change of it, or the one that ended.

    :ivar claims: how many live claims the node had before.
    """

    hypervisor_hostname: str
    reason: str
    deadline: datetime | None
    since: datetime
    claims: int


class MetricsPayload(Payload, frozen=True, kw_only=True):
    """Measurements of the host's monitors.

    :ivar metrics: each has name, value, timestamp and source, as in the node's record.
    """

    metrics: Sequence[Mapping[str, Any]]


class DevicePayload(Payload, frozen=True, kw_only=True):
    """A PCI device that guests can use.

    :ivar present: the host has it. :ivar listed: a device specification matches it.
    :ivar quarantine: why the device is unavailable until the operator clears it, or null.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    parent_addr: str | None
    numa_node: int | None
    label: str
    present: bool
    listed: bool
    quarantine: str | None


class AuditPayload(Payload, frozen=True, kw_only=True):
    """What an audit found and did.

    :ivar audit_cause: periodic, request, start, or the event that triggered it.
    :ivar complete: the connection to the hypervisor did not break.
    :ivar applied: changes. :ivar skipped: changes that are left to the next audit.
    :ivar absent: resources that claims have and the host lacks.
    :ivar refused: why nothing was written, or "".
    :ivar problems: how many items could not be read. :ivar summary: a sentence.
    """

    audit_cause: str
    complete: bool
    applied: int
    skipped: int
    claims: int
    orphans: int
    drifts: int
    absent: int
    suspects: int
    problems: int
    seconds: float
    refused: str
    summary: str


class DriftPayload(Payload, frozen=True, kw_only=True):
    """A resource that a domain uses more or less than its owner's claim assigns.

    :ivar owner_id: the uuid of the instance. :ivar resource: a name, such as VCPU or host CPU 3.
    :ivar claimed: in unit. :ivar observed: in unit.
    """

    owner_id: str
    claim_uuid: str
    problem: str
    resource: str
    unit: str
    claimed: int
    observed: int


class ServicePayload(Payload, frozen=True, kw_only=True):
    """The service after it was disabled, enabled, or forced down.

    :ivar disabled_reason: the operator's, or null.
    """

    binary: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool


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
