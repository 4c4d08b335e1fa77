"""Rows of ``claims``.

The fields of a claim that are queried have columns. The others are one JSON document. Many claims
have the same flavor and image, so equal parts of documents are decoded once and shared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import field
from msgspec.structs import asdict
from sqlalchemy import Connection, or_, select

from rtagent.db.checked_rows import MISMATCH, CheckedRow, with_undecodable
from rtagent.db.damaged_claims import salvaged, with_units, without_units
from rtagent.db.keyed_table import Findings, KeyedTable
from rtagent.db.node_rows import NodeRow
from rtagent.db.schema import claims, compute_nodes, to_document
from rtagent.db.unit_rows import UnitReader
from rtagent.model.assignment import AssignedQuantity, AssignedResource, Assignment
from rtagent.model.base import Value
from rtagent.model.claim import DAMAGED, RELEASED, Claim, Replacement, Unit
from rtagent.model.device import AssignedDevice
from rtagent.model.mem_encryption import MemEncryption
from rtagent.model.request import (
    Allocations,
    ExtraResource,
    Flavor,
    Image,
    InstanceFacts,
    Limits,
    PciRequest,
    ProviderMapping,
)

_T = TypeVar("_T")

Fields = dict[str, Any]

#: The columns that are fields of `Claim`, in the order of the table.
_COLUMNS = tuple(column.name for column in claims.c if column.name in Claim.__struct_fields__)


class _Resource(AssignedResource, frozen=True, kw_only=True, omit_defaults=True):
    """An assigned resource, with the names of the first release: its "provider" was the address of
    the parent device, or "".
    """

    parent_addr: str | None = field(name="provider")
    provider: str | None = field(default=None, name="provider_uuid")


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
    resources: tuple[_Resource, ...] = ()
    quantities: tuple[AssignedQuantity, ...] = ()
    mem_encryption: MemEncryption | None = None
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping = {}
    tag: str | None = None


class _RawDocument(_Document, frozen=True, kw_only=True):
    """The same document, before its shared parts are decoded."""

    flavor: msgspec.Raw  # type: ignore[assignment]
    image: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]


_DOCUMENT = _Document.__struct_fields__

#: In the faults of a damaged claim whose document cannot be decoded, see `with_undecodable`.
_DOCUMENT_LOST = "document ("
#: What is done about a damaged claim.
_HELD = "it is held until it is released"


def _fields(claim: Claim) -> Fields:
    fields = {name: getattr(claim, name) for name in _COLUMNS}
    parts = {name: getattr(claim, name) for name in _DOCUMENT}
    parts["resources"] = tuple(map(_encoded_resource, claim.resources))
    fields["document"] = to_document(_Document(**parts))
    return fields


def _encoded_resource(resource: AssignedResource) -> _Resource:
    parts = asdict(resource)
    return _Resource(**parts | {"parent_addr": resource.parent_addr or ""})


#: A claim's uuid is unique in the whole database.
CLAIMS = KeyedTable(
    claims,
    Claim,
    "uuid",
    subject="claim",
    encode=_fields,
    columns=(*_COLUMNS, "document"),
    of_node=False,
)

_decode_document = msgspec.json.Decoder(_RawDocument).decode
_decode_flavor = msgspec.json.Decoder(Flavor).decode
_decode_image = msgspec.json.Decoder(Image).decode


def read_claims(
    connection: Connection, node: NodeRow, units: UnitReader, findings: Findings
) -> tuple[Claim, ...]:
    """Read the live claims of a node, and those whose state cannot be read.

    A claim's host and node come from the node's record, so the claims of a renamed host have its
    new name. A claim whose row is damaged is quarantined.

    :param units: the units in the database, which a damaged claim keeps.
    """
    mine = claims.c.node_uuid == node.node.uuid
    live = or_(claims.c.state != RELEASED, claims.c.state.is_(None))
    reader = _Reader(node, findings)
    rows = connection.execute(select(*CLAIMS.checked.selected).where(mine, live))
    found = [claim for row in rows if (claim := reader.read(row)) is not None]
    if not node.roster_agrees("claims", [c.uuid for c in found]):
        found += _lost(connection, node, reader, found)
    return _with_units_of_rows(found, units)


def read_released(raw: Sequence[Any]) -> CheckedRow:
    """Check the row of a claim that seems to be released. Without a digest it is sound: release
    0.2.0 computes none for released claims after ``rtagent db accept``.
    """
    row = CLAIMS.checked.read(raw)
    if raw[-1] is None and row.faults == (MISMATCH,):
        return CheckedRow(values=row.values)
    return row


class _Reader:
    """Reads claims, and shares the equal parts of their documents."""

    def __init__(self, node: NodeRow, findings: Findings) -> None:
        self._node, self._findings = node, findings
        self._flavors: dict[bytes, Flavor] = {}
        self._images: dict[bytes, Image] = {}

    def read(self, raw: Sequence[Any]) -> Claim | None:
        """Return the claim of a row; None if the row does not say which claim it is."""
        row = CLAIMS.checked.read(raw)
        faults, values = row.faults, dict(row.values)
        document = None
        try:
            document = self._document(values.pop("document"))
        except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
            faults = with_undecodable(faults, "document", error)
        node = self._node.node
        if not faults and document is not None:
            claim = Claim(host=node.host, node=node.hypervisor_hostname, **values, **document)
            if claim.quarantined:  # and written since, by a call
                self._add_earlier(claim.uuid, str(claim.suspect).removeprefix(DAMAGED))
            return claim
        if values["uuid"] is None:
            CLAIMS.add_nameless(raw[0], faults, self._findings)
            return None
        self._findings.add("claims", values["uuid"], faults, _HELD)
        if document is None:
            self._add_lost_document(values["uuid"])
        return salvaged(values, document, node, self._node.revision, faults)

    def _add_earlier(self, claim_uuid: str, faults: str) -> None:
        """Add a claim whose row was damaged when it was read. What is unknown since is not in the
        row that was written.
        """
        self._findings.add("claims", claim_uuid, (faults,), _HELD)
        if _DOCUMENT_LOST in faults:
            self._add_lost_document(claim_uuid)

    def _add_lost_document(self, claim_uuid: str) -> None:
        self._findings.unknown.append(
            f"the document of claim {claim_uuid} cannot be read, and with it the cells and pages of"
            " its guest"
        )

    def _document(self, text: str) -> Fields:
        raw = _decode_document(text)
        parts = {name: getattr(raw, name) for name in _DOCUMENT}
        parts["resources"] = tuple(map(_decoded_resource, raw.resources))
        parts["flavor"] = _shared(raw.flavor, self._flavors, _decode_flavor)
        parts["image"] = _shared(raw.image, self._images, _decode_image)
        return parts


def _lost(
    connection: Connection, node: NodeRow, reader: _Reader, found: Sequence[Claim]
) -> list[Claim]:
    """Return the claims of the node whose row is damaged so that it seems to be released, or to
    belong to a node that does not exist.
    """
    nodes = set(connection.scalars(select(compute_nodes.c.uuid))) - {node.node.uuid}
    known = {claim.uuid for claim in found}
    lost = []
    for raw in connection.execute(select(*CLAIMS.checked.selected)):
        row = read_released(raw)
        whose = row.values["node_uuid"]
        its_uuid = row.values["uuid"]
        if whose in nodes or its_uuid in known or its_uuid is None:
            continue
        if row.faults and (claim := reader.read(raw)) is not None:
            lost.append(claim)
    return lost


def _with_units_of_rows(found: Sequence[Claim], units: UnitReader) -> tuple[Claim, ...]:
    """Return the claims. A quarantined claim has the units of its rows, too, and none that another
    owner's claim has.
    """
    if not any(claim.quarantined for claim in found):
        return tuple(found)
    taken: dict[Unit, str] = {}
    for claim in found:
        if not claim.quarantined:
            taken.update(dict.fromkeys(claim.units, claim.owner_id))
    settled = []
    for claim in found:
        if not claim.quarantined:
            settled.append(claim)
            continue
        others = {unit for unit, owner in taken.items() if owner != claim.owner_id}
        of_rows = set(units.by_claim.get(claim.uuid, ())) - others
        settled.append(with_units(without_units(claim, others), of_rows))
        taken.update(dict.fromkeys(settled[-1].units, claim.owner_id))
    return tuple(settled)


def _decoded_resource(stored: _Resource) -> AssignedResource:
    parts = asdict(stored)
    return AssignedResource(**parts | {"parent_addr": stored.parent_addr or None})


def _shared(raw: Any, decoded: dict[bytes, _T], decode: Callable[[bytes], _T]) -> _T:
    key = bytes(raw)
    value = decoded.get(key)
    if value is None:
        value = decoded[key] = decode(key)
    return value
