"""The payloads of events. Their docstrings become the JSON Schemas that consumers read.

A new field with a default value is a minor change; any other change of a payload needs a new major
version of the events.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
