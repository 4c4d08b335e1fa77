"""Rows to values and back.

A claim's queryable fields have columns, the rest is one JSON document. A guest's flavor and image
are the same in many claims: equal documents are decoded once and shared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from rtagent.compute_node import amounts, described, numa_topology, pci_device_pools, ratios
from rtagent.db.batch import Kept
from rtagent.db.event import ClaimEvent, ClaimFacts
from rtagent.db.text import text
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.base import Value
from rtagent.model.change import Operation
from rtagent.model.claim import PCI, PCPU, SPECIFIC, Claim, Replacement, Unit
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.flavor import Flavor, Image
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.instance import InstanceFacts, PciRequest
from rtagent.model.node import Node, NodeRecord, Ratios, Writer
from rtagent.model.numa_usage import Occupancy
from rtagent.model.request import ExtraResource, Limits
from rtagent.model.specific import SpecificInventory, SpecificUnit
from rtagent.model.topology import Topology

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

Fields = dict[str, Any]

#: The columns of ``claims`` that are fields of `Claim`, in the table's order.
CLAIM_COLUMNS = (
    "uuid",
    "node_uuid",
    "owner_type",
    "owner_id",
    "kind",
    "state",
    "suspect",
    "vcpus",
    "pcpus",
    "memory_mb",
    "disk_mb",
    "migration_uuid",
    "created_at",
    "updated_at",
    "expires_at",
    "revision",
)


class _Document(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What of a claim is not queried."""

    instance: InstanceFacts
    flavor: Flavor
    image: Image = Image()
    limits: Limits = Limits()
    pci_requests: tuple[PciRequest, ...] = ()
    extra_resource: ExtraResource = {}
    numa_topology: Assignment | None = None
    pci: tuple[AssignedDevice, ...] = ()
    pci_replaced: Mapping[str, Replacement] = {}
    resources: tuple[SpecificUnit, ...] = ()
    tag: str | None = None


class _RawDocument(_Document, frozen=True, kw_only=True):
    """The same, with the parts that are shared still to be read."""

    flavor: msgspec.Raw  # type: ignore[assignment]
    image: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]


_DOCUMENT = _Document.__struct_fields__

_decode_document = msgspec.json.Decoder(_RawDocument).decode
_decode_flavor = msgspec.json.Decoder(Flavor).decode
_decode_image = msgspec.json.Decoder(Image).decode
_decode_topology = msgspec.json.Decoder(Topology).decode
_decode_specific = msgspec.json.Decoder(tuple[SpecificInventory, ...]).decode
_decode_occupancy = msgspec.json.Decoder(Occupancy).decode
_decode_facts = msgspec.json.Decoder(ClaimFacts).decode


# -- claims -----------------------------------------------------------------------------------


def claim_fields(claim: Claim) -> Fields:
    """A row of ``claims``."""
    fields = {name: getattr(claim, name) for name in CLAIM_COLUMNS}
    document = _Document(**{name: getattr(claim, name) for name in _DOCUMENT})
    fields["document"] = text(document)
    return fields


def claims(
    node: Node, rows: Iterable[Sequence[Any]], units: Mapping[str, Collection[Unit]]
) -> tuple[Claim, ...]:
    """The claims of a node, from rows of `CLAIM_COLUMNS` and ``document``. Where they are is told
    by their node's record, so that a renamed host's claims are under its new name.

    :param units: by claim uuid, what the database says that it holds: for a claim whose document
        cannot be read.
    """
    flavors: dict[bytes, Flavor] = {}
    images: dict[bytes, Image] = {}

    def claim(row: Sequence[Any]) -> Claim:
        *columns, document = row
        fields = dict(zip(CLAIM_COLUMNS, columns, strict=True))
        try:
            raw = _decode_document(document)
            parts = {name: getattr(raw, name) for name in _DOCUMENT}
            parts["flavor"] = _shared(raw.flavor, flavors, _decode_flavor)
            parts["image"] = _shared(raw.image, images, _decode_image)
        except msgspec.DecodeError as error:
            parts = _quarantine(fields, units.get(fields["uuid"], ()), error)
        fields |= parts
        return Claim(host=node.host, node=node.hypervisor_hostname, **fields)

    return tuple(map(claim, rows))


def _quarantine(fields: Fields, units: Collection[Unit], error: Exception) -> Fields:
    """For a claim whose document cannot be read: what it holds is in its columns and its units, so
    it is held, and flagged. Where its memory and pages are is lost."""
    LOG.error("claim %s: its document cannot be read: %s", fields["uuid"], error)
    size = {name: max(1, fields[name]) for name in ("vcpus", "memory_mb")}
    return {
        "instance": InstanceFacts(),
        "flavor": Flavor(**size),
        "numa_topology": _kept(units),
        "pci": tuple(_device(name) for kind, name in sorted(units) if kind == PCI),
        "resources": tuple(_member(name) for kind, name in sorted(units) if kind == SPECIFIC),
        "suspect": fields["suspect"] or f"its record cannot be read: {error}",
    }


def _kept(units: Collection[Unit]) -> Assignment | None:
    """Host CPUs that nobody may use, for a claim of which no more is known."""
    cpus = frozenset(int(name) for kind, name in units if kind == PCPU)
    if not cpus:
        return None
    return Assignment(cells=(CellAssignment(id=0, memory=0, cpuset_kept=cpus),))


def _device(address: str) -> AssignedDevice:
    return AssignedDevice(
        address=address, vendor_id="", product_id="", dev_type=STANDARD, request_id=""
    )


def _member(identifier: str) -> SpecificUnit:
    return SpecificUnit(provider="", resource_class="", identifier=identifier)


def _shared(raw: Any, known: dict[bytes, _T], decode: Callable[[bytes], _T]) -> _T:
    key = bytes(raw)
    value = known.get(key)
    if value is None:
        value = known[key] = decode(key)
    return value


# -- the node ---------------------------------------------------------------------------------


def record_fields(record: NodeRecord) -> Fields:
    """What `Store.enroll` writes of a node; its revision moves by commits alone."""
    writer = record.writer
    return {
        "uuid": record.node.uuid,
        "host": record.node.host,
        "hypervisor_hostname": record.node.hypervisor_hostname,
        "host_ip": record.node.host_ip,
        "epoch": record.epoch,
        "writer_machine_id": writer and writer.machine_id,
        "writer_boot_id": writer and writer.boot_id,
        "writer_state_path": writer and writer.state_path,
        "raised_by": None,
        "deleted_at": record.deleted_at,
    }


def record(row: Any) -> NodeRecord:
    """From a row of ``compute_nodes`` with its service's ``last_seen_up``."""
    writer = None
    if row.writer_machine_id is not None:
        writer = Writer(
            machine_id=row.writer_machine_id,
            boot_id=row.writer_boot_id,
            state_path=row.writer_state_path,
        )
    return NodeRecord(
        node=node(row),
        epoch=row.epoch,
        revision=row.revision,
        writer=writer,
        last_seen_up=row.last_seen_up,
        deleted_at=row.deleted_at,
    )


def node(row: Any) -> Node:
    """From a row of ``compute_nodes``."""
    return Node(
        uuid=row.uuid,
        host=row.host,
        hypervisor_hostname=row.hypervisor_hostname,
        host_ip=row.host_ip,
    )


def stored_ratios(row: Any) -> Ratios:
    """From a row of ``compute_nodes``."""
    return Ratios(
        cpu=_decimal(row.cpu_allocation_ratio),
        ram=_decimal(row.ram_allocation_ratio),
        disk=_decimal(row.disk_allocation_ratio),
    )


def topology(document: str | None) -> Topology | None:
    """From its column."""
    return None if document is None else _decode_topology(document)


def specific(document: str | None) -> tuple[SpecificInventory, ...]:
    """From its column."""
    return () if document is None else _decode_specific(document)


def moved_fields(state: HostState) -> Fields:
    """The columns of ``compute_nodes`` that a claim moves."""
    fields = amounts(state)
    fields["stats"] = text(fields["stats"])
    fields["revision"] = state.revision
    fields["failed_builds"] = state.failed_builds
    return fields


def host_fields(state: HostState) -> Fields:
    """The columns of ``compute_nodes`` that a new topology or policy moves."""
    fields = ratios(state.policy)
    if state.topology is not None:
        fields |= described(state.topology, state.policy)
        fields["topology"] = state.topology
    return {name: value if _plain(value) else text(value) for name, value in fields.items()}


def numa_fields(state: HostState) -> Fields:
    """The column of ``compute_nodes`` that shows the cells: a claim without a place in particular
    does not move it."""
    cells = numa_topology(state)
    return {"numa_topology": None if cells is None else text(cells)}


def pool_fields(state: HostState) -> Fields:
    """The column of ``compute_nodes`` that shows the devices to be had."""
    return {"pci_device_pools": text(pci_device_pools(state))}


def specific_fields(state: HostState) -> Fields:
    """The column of ``compute_nodes`` that keeps what there is of specific resources."""
    return {"specific": text(state.specific)}


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _decimal(number: float | None) -> Decimal | None:
    # By way of its shortest text: 0.1 stays 0.1.
    return None if number is None else Decimal(str(number))


# -- everything else --------------------------------------------------------------------------


def holding_fields(holding: Holding) -> Fields:
    """A row of ``foreign_domains``, but for its node."""
    fields = {name: getattr(holding, name) for name in Holding.__struct_fields__}
    fields["occupancy"] = text(holding.occupancy)
    return fields


def holding(row: Sequence[Any]) -> Holding:
    """From a row of the fields of `Holding`."""
    fields = dict(zip(Holding.__struct_fields__, row, strict=True))
    fields["occupancy"] = _decode_occupancy(fields["occupancy"])
    return Holding(**fields)


def operation_fields(kept: Kept) -> Fields:
    """A row of ``operations``, but for its node."""
    operation, at = kept
    return {name: getattr(operation, name) for name in Operation.__struct_fields__} | {"at": at}


def operation(row: Sequence[Any]) -> Operation:
    """From a row of the fields of `Operation`."""
    return Operation(**dict(zip(Operation.__struct_fields__, row, strict=True)))


def event_fields(event: ClaimEvent) -> Fields:
    """A row of ``claim_events``."""
    fields = {name: getattr(event, name) for name in ClaimEvent.__struct_fields__}
    fields["before"] = None if event.before is None else text(event.before)
    fields["after"] = text(event.after)
    return fields


def event(row: Sequence[Any]) -> ClaimEvent:
    """From a row of the fields of `ClaimEvent`."""
    fields = dict(zip(ClaimEvent.__struct_fields__, row, strict=True))
    before = fields["before"]
    fields["before"] = None if before is None else _decode_facts(before)
    fields["after"] = _decode_facts(fields["after"])
    return ClaimEvent(**fields)
