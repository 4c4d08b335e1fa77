"""Rows of ``claims``.

The fields of a claim that are queried have columns. The others are one JSON document. Many claims
have the same flavor and image, so equal parts of documents are decoded once and shared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Dialect, bindparam, insert, select, update

from rtagent.db.schema import claims, to_document
from rtagent.db.transaction import Statement
from rtagent.errors import RevisionConflict
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import LIVE_STATES, PCI, PCPU, RESOURCE, Claim, Replacement, Unit
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.flavor import Flavor, Image
from rtagent.model.instance import InstanceFacts, PciRequest
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.request import ExtraResource, Limits

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

Fields = dict[str, Any]

#: The columns that are fields of `Claim`, in the order of the table.
_COLUMNS = (
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
    """The fields of a claim that are not queried."""

    instance: InstanceFacts
    flavor: Flavor
    image: Image = Image()
    limits: Limits = Limits()
    pci_requests: tuple[PciRequest, ...] = ()
    extra_resource: ExtraResource = {}
    numa_topology: Assignment | None = None
    pci: tuple[AssignedDevice, ...] = ()
    pci_replaced: Mapping[str, Replacement] = {}
    resources: tuple[AssignedResource, ...] = ()
    tag: str | None = None


class _RawDocument(_Document, frozen=True, kw_only=True):
    """The same document, before its shared parts are decoded."""

    flavor: msgspec.Raw  # type: ignore[assignment]
    image: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]


_DOCUMENT = _Document.__struct_fields__

_decode_document = msgspec.json.Decoder(_RawDocument).decode
_decode_flavor = msgspec.json.Decoder(Flavor).decode
_decode_image = msgspec.json.Decoder(Image).decode


class ClaimRows(Value, frozen=True, kw_only=True):
    """The claims that a commit inserts and updates.

    :ivar new: not in the store yet. A claim that is made and ended in one commit is here, released.
    :ivar changed: in the store already.
    """

    new: Sequence[Claim] = ()
    changed: Sequence[Claim] = ()


def net_claims(before: NodeState, changes: Sequence[Change]) -> ClaimRows:
    """Return the claims that the changes touch, in their state after the last change."""
    touched = {claim.uuid: claim for change in changes for claim in change.puts + change.ends}
    return ClaimRows(
        new=tuple(claim for claim in touched.values() if claim.uuid not in before.claims),
        changed=tuple(claim for claim in touched.values() if claim.uuid in before.claims),
    )


class ClaimWriter:
    """Write claims in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        columns = (*_COLUMNS, "document")
        claim = update(claims).where(claims.c.uuid == bindparam("its_uuid"))
        self._insert = Statement(dialect, insert(claims), columns)
        self._update = Statement(dialect, claim, columns)

    def write(self, connection: Connection, rows: ClaimRows) -> None:
        """Write the net change of a commit.

        :raises RevisionConflict: a claim of this process is not in the database.
        """
        self._insert.run(connection, list(map(_encode, rows.new)))
        changed = [_encode(claim) | {"its_uuid": claim.uuid} for claim in rows.changed]
        if self._update.run(connection, changed) != len(changed):
            raise RevisionConflict("a claim of this node is not in the database")


def read_claims(
    connection: Connection, node: Node, units: Mapping[str, Collection[Unit]]
) -> tuple[Claim, ...]:
    """Read the live claims of a node.

    A claim's host and node come from the node's record, so the claims of a renamed host have its
    new name.

    :param units: the units in the database, by claim uuid, for a claim whose document cannot be
        read.
    """
    columns = (claims.c[name] for name in (*_COLUMNS, "document"))
    live = select(*columns).where(
        claims.c.node_uuid == node.uuid, claims.c.state.in_(sorted(LIVE_STATES))
    )
    flavors: dict[bytes, Flavor] = {}
    images: dict[bytes, Image] = {}

    def decode(row: Sequence[Any]) -> Claim:
        *values, document = row
        fields = dict(zip(_COLUMNS, values, strict=True))
        try:
            raw = _decode_document(document)
            parts = {name: getattr(raw, name) for name in _DOCUMENT}
            parts["flavor"] = _shared(raw.flavor, flavors, _decode_flavor)
            parts["image"] = _shared(raw.image, images, _decode_image)
        except msgspec.DecodeError as error:
            parts = _quarantined(fields, units.get(fields["uuid"], ()), error)
        fields |= parts
        return Claim(host=node.host, node=node.hypervisor_hostname, **fields)

    return tuple(map(decode, connection.execute(live)))


def _encode(claim: Claim) -> Fields:
    fields = {name: getattr(claim, name) for name in _COLUMNS}
    document = _Document(**{name: getattr(claim, name) for name in _DOCUMENT})
    fields["document"] = to_document(document)
    return fields


def _shared(raw: Any, decoded: dict[bytes, _T], decode: Callable[[bytes], _T]) -> _T:
    key = bytes(raw)
    value = decoded.get(key)
    if value is None:
        value = decoded[key] = decode(key)
    return value


def _quarantined(fields: Fields, units: Collection[Unit], error: Exception) -> Fields:
    """Return substitute parts for a claim whose document cannot be read.

    The claim keeps the quantities of its columns and the units of its rows, and is suspect. The
    placement of its memory and pages is lost.
    """
    LOG.error("claim %s: its document cannot be read: %s", fields["uuid"], error)
    size = {name: max(1, fields[name]) for name in ("vcpus", "memory_mb")}
    return {
        "instance": InstanceFacts(),
        "flavor": Flavor(**size),
        "numa_topology": _reserved(units),
        "pci": tuple(_device(name) for kind, name in sorted(units) if kind == PCI),
        "resources": tuple(_resource(name) for kind, name in sorted(units) if kind == RESOURCE),
        "suspect": fields["suspect"] or f"its record cannot be read: {error}",
    }


def _reserved(units: Collection[Unit]) -> Assignment | None:
    """Return an assignment that keeps other guests off the claim's host CPUs."""
    cpus = frozenset(int(name) for kind, name in units if kind == PCPU)
    if not cpus:
        return None
    return Assignment(cells=(CellAssignment(id=0, memory=0, cpuset_kept=cpus),))


def _device(address: str) -> AssignedDevice:
    return AssignedDevice(
        address=address, vendor_id="", product_id="", dev_type=STANDARD, request_id=""
    )


def _resource(identifier: str) -> AssignedResource:
    return AssignedResource(provider="", resource_class="", identifier=identifier)
