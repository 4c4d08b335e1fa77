"""Rows of ``foreign_domains``: domains without a claim, or with drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Dialect, bindparam, delete, insert, select, update

from rtagent.db.checked_rows import CREDIBLE, DIGEST, MISMATCH, CheckedColumns, with_undecodable
from rtagent.db.findings import Findings
from rtagent.db.schema import foreign_domains, to_document
from rtagent.db.transaction import Statement
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.domain_usage import EVERY_KIND, DomainUsage, Occupancy
from rtagent.model.node_state import NodeState

_COLUMNS = DomainUsage.__struct_fields__

CHECKED = CheckedColumns(foreign_domains, _COLUMNS)

_decode_occupancy = msgspec.json.Decoder(Occupancy).decode


class DomainRows(Value, frozen=True, kw_only=True):
    """The rows that a commit inserts, updates and deletes (domain uuids)."""

    new: Sequence[DomainUsage] = ()
    changed: Sequence[DomainUsage] = ()
    gone: Sequence[str] = ()


def net_domains(before: NodeState, after: NodeState, changes: Sequence[Change]) -> DomainRows:
    """Return the rows that differ between the two states."""
    touched = dict.fromkeys(
        uuid
        for change in changes
        for uuid in (
            *change.domain_usage_removals,
            *(usage.domain_uuid for usage in change.domain_usages),
        )
    )
    had, have = before.domain_usages, after.domain_usages
    return DomainRows(
        new=tuple(have[uuid] for uuid in touched if uuid in have and uuid not in had),
        changed=tuple(have[uuid] for uuid in touched if uuid in have and uuid in had),
        gone=tuple(uuid for uuid in touched if uuid in had and uuid not in have),
    )


class DomainWriter:
    """Write rows of domains in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        its_domain = (
            foreign_domains.c.node_uuid == bindparam("its_node"),
            foreign_domains.c.domain_uuid == bindparam("its_domain"),
        )
        self._delete = Statement(dialect, delete(foreign_domains).where(*its_domain), ())
        columns = (*_COLUMNS, DIGEST)
        self._update = Statement(dialect, update(foreign_domains).where(*its_domain), columns)
        self._insert = Statement(dialect, insert(foreign_domains), ("node_uuid", *columns))

    def write(self, connection: Connection, node_uuid: str, rows: DomainRows) -> None:
        """Write the net change of a commit."""
        gone = [{"its_node": node_uuid, "its_domain": uuid} for uuid in rows.gone]
        changed = [
            {"its_node": node_uuid, "its_domain": usage.domain_uuid, **_encode(usage)}
            for usage in rows.changed
        ]
        new = [{"node_uuid": node_uuid, **_encode(usage)} for usage in rows.new]
        self._delete.run(connection, gone)
        self._update.run(connection, changed)
        self._insert.run(connection, new)


def read_domains(
    connection: Connection, node_uuid: str, has_digests: bool, findings: Findings
) -> tuple[DomainUsage, ...]:
    """Read the domain usages of a node. A damaged row counts as far as it can be read, and what
    the domain has besides is unknown, until an audit sees the domain.
    """
    rows = connection.execute(
        select(*CHECKED.selected).where(foreign_domains.c.node_uuid == node_uuid)
    )
    found = (_read_row(row, has_digests, findings) for row in rows)
    return tuple(usage for usage in found if usage is not None)


def _read_row(row: Sequence[Any], has_digests: bool, findings: Findings) -> DomainUsage | None:
    """Return the usage of a row; None if the row does not say which domain it is."""
    checked = CHECKED.read(row, has_digests=has_digests)
    fields, faults = dict(checked.values), checked.faults
    try:
        fields["occupancy"] = _decode_occupancy(fields["occupancy"] or "")
    except (msgspec.MsgspecError, UnicodeError) as error:
        faults = with_undecodable(faults, "occupancy", error)
        fields["occupancy"] = Occupancy()
    if not faults:
        return DomainUsage(**fields)
    if fields["domain_uuid"] is None:
        findings.add("foreign_domains", row[0], faults, "it is not known which domain it is")
        findings.add_unknown(f"a domain has the unreadable uuid {row[0]!r}")
        return None
    findings.add("foreign_domains", fields["domain_uuid"], faults, "an audit replaces it")
    return DomainUsage(
        domain_uuid=fields["domain_uuid"],
        name=fields["name"] or "",
        active=fields["active"] is not False or MISMATCH in faults,
        vcpus=_quantity(fields["vcpus"]),
        memory_mb=_quantity(fields["memory_mb"]),
        occupancy=replace(fields["occupancy"], unknown=EVERY_KIND),
    )


def _quantity(value: int | None) -> int:
    return value if value is not None and 0 <= value <= CREDIBLE else 0


def _encode(usage: DomainUsage) -> dict[str, Any]:
    fields = {name: getattr(usage, name) for name in _COLUMNS}
    fields["occupancy"] = to_document(usage.occupancy)
    return CHECKED.signed(fields)
