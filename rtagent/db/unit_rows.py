"""Rows of ``units`` and ``claim_units``: the units of owners, and their claims.

``units`` has one row for each unit and its owner. ``claim_units`` has one row for each claim that
has the unit.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Dialect, and_, bindparam, delete, insert, or_, select

from rtagent.db.schema import claim_units, units
from rtagent.db.transaction import Statement
from rtagent.model.base import Value
from rtagent.model.claim import Claim, Unit
from rtagent.model.node_state import NodeState

LOG = logging.getLogger(__name__)

_UNIT_COLUMNS = ("kind", "unit", "owner_id")
_CLAIM_UNIT_COLUMNS = (*_UNIT_COLUMNS, "claim_uuid")


#: Rows of ``units`` and of ``claim_units``, without their node.
UnitRow = tuple[str, str, str]
ClaimUnitRow = tuple[str, str, str, str]


class UnitRows(Value, frozen=True, kw_only=True):
    """The rows that a commit deletes and inserts, in the order in which it must do so: in one
    commit, a unit may pass from one owner to another.
    """

    gone_claim_units: Sequence[ClaimUnitRow] = ()
    gone_units: Sequence[UnitRow] = ()
    new_units: Sequence[UnitRow] = ()
    new_claim_units: Sequence[ClaimUnitRow] = ()


NO_UNIT_ROWS = UnitRows()


def net_units(before: NodeState, after: NodeState, claims: Iterable[str]) -> UnitRows:
    """Return the rows of these claims, by uuid, that differ between the two states."""
    uuids = tuple(claims)
    had, have = _claim_unit_rows(before, uuids), _claim_unit_rows(after, uuids)
    if had == have:  # most guests hold no units, and most changes affect none
        return NO_UNIT_ROWS
    changed = {(kind, unit) for kind, unit, *_ in had ^ have}
    owned, own = _unit_rows(before, changed), _unit_rows(after, changed)
    # Sorted, so that no two transactions wait for each other.
    return UnitRows(
        gone_claim_units=sorted(had - have),
        gone_units=sorted(owned - own),
        new_units=sorted(own - owned),
        new_claim_units=sorted(have - had),
    )


class UnitWriter:
    """Write rows of units in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        def its(table: Any, *columns: str) -> list[Any]:
            return [table.c[name] == bindparam(name) for name in ("node_uuid", *columns)]

        self._delete_claim_units = Statement(
            dialect, delete(claim_units).where(*its(claim_units, *_CLAIM_UNIT_COLUMNS)), ()
        )
        self._delete_units = Statement(
            dialect, delete(units).where(*its(units, *_UNIT_COLUMNS)), ()
        )
        self._insert_units = Statement(dialect, insert(units), ("node_uuid", *_UNIT_COLUMNS))
        self._insert_claim_units = Statement(
            dialect, insert(claim_units), ("node_uuid", *_CLAIM_UNIT_COLUMNS)
        )

    def write(self, connection: Connection, node_uuid: str, rows: UnitRows) -> None:
        """Write the net change of a commit."""
        statements: tuple[tuple[Statement, Sequence[tuple[str, ...]]], ...] = (
            (self._delete_claim_units, rows.gone_claim_units),
            (self._delete_units, rows.gone_units),
            (self._insert_units, rows.new_units),
            (self._insert_claim_units, rows.new_claim_units),
        )
        for statement, its_rows in statements:
            named = (zip(_CLAIM_UNIT_COLUMNS, row, strict=False) for row in its_rows)
            statement.run(connection, [{"node_uuid": node_uuid, **dict(row)} for row in named])

    def rewrite(self, connection: Connection, node_uuid: str, claims: Sequence[Claim]) -> None:
        """Replace all rows of a node by those of its live claims.

        Do nothing if the claims give a unit to two owners: the tables cannot hold that, and nothing
        is granted from such a state.
        """
        owned = {(*unit, claim.owner_id) for claim in claims for unit in claim.units}
        if len({(kind, unit) for kind, unit, _ in owned}) < len(owned):
            return
        # A row may name a claim of this node and, by damage, another node.
        uuids = [claim.uuid for claim in claims]
        its_rows = or_(claim_units.c.node_uuid == node_uuid, claim_units.c.claim_uuid.in_(uuids))
        connection.execute(delete(claim_units).where(its_rows))
        connection.execute(delete(units).where(units.c.node_uuid == node_uuid))
        held = [row for claim in claims for row in _rows_of(claim)]
        self.write(connection, node_uuid, UnitRows(new_units=tuple(owned), new_claim_units=held))


class UnitReader:
    """Read the rows of a node, and compare them with its claims.

    Both are written in one transaction, so they differ only by a defect or by a manual edit. In
    that case the documents of the claims are authoritative: they also record the guest's placement
    on the host, while the rows only exclude a second owner of a unit. So a difference does not stop
    the node, because the state in memory never grants a unit twice, regardless of the rows. The
    difference is logged, and its claim is suspect until the next audit. The writer rewrites the
    rows: surplus rows would prevent grants, and missing rows would not protect their units.

    :ivar by_claim: by claim uuid, the units that the rows give to it.
    """

    def __init__(self, connection: Connection, node_uuid: str) -> None:
        self.by_claim: defaultdict[str, set[Unit]] = defaultdict(set)
        self._unclaimed: list[Unit] = []
        same = and_(*(claim_units.c[c] == units.c[c] for c in ("node_uuid", "kind", "unit")))
        query = (
            select(units.c.kind, units.c.unit, claim_units.c.claim_uuid)
            .join_from(units, claim_units, same, isouter=True)
            .where(units.c.node_uuid == node_uuid)
        )
        for row in connection.execute(query):
            # SQLite returns bytes for a text that is no UTF-8.
            kind, unit, claim_uuid = str(row.kind), str(row.unit), row.claim_uuid
            if claim_uuid is None:
                self._unclaimed.append((kind, unit))
            else:
                self.by_claim[str(claim_uuid)].add((kind, unit))

    def faults(self, claims: Iterable[Claim]) -> dict[str, str]:
        """Return and log the differences, by claim uuid.

        A claim may have ended. Units without a claim are under "".
        """
        recorded = {claim.uuid: claim.units for claim in claims}
        faults = {
            uuid: f"the database says that it has {_listed(self.by_claim.get(uuid, ()))},"
            f" its record {_listed(recorded.get(uuid, ()))}"
            for uuid in sorted({*recorded, *self.by_claim})
            if recorded.get(uuid, frozenset()) != self.by_claim.get(uuid, set())
        }
        if self._unclaimed:
            faults[""] = f"the database has {_listed(self._unclaimed)} without a claim"
        for uuid, fault in faults.items():
            LOG.error("%s%s", f"claim {uuid}: " if uuid else "", fault)
        return faults


def with_suspects(claims: Iterable[Claim], faults: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims, with those that have a fault marked as suspect."""
    return tuple(
        replace(claim, suspect=claim.suspect or faults[claim.uuid])
        if claim.uuid in faults
        else claim
        for claim in claims
    )


def _rows_of(claim: Claim) -> set[ClaimUnitRow]:
    return {(*unit, claim.owner_id, claim.uuid) for unit in claim.units}


def _claim_unit_rows(state: NodeState, uuids: Iterable[str]) -> set[ClaimUnitRow]:
    live = (state.claims[uuid] for uuid in uuids if uuid in state.claims)
    return set[ClaimUnitRow]().union(*map(_rows_of, live))


def _unit_rows(state: NodeState, units: Collection[Unit]) -> set[UnitRow]:
    return {(*unit, state.units[unit]) for unit in units if unit in state.units}


def _listed(units: Iterable[Unit]) -> str:
    return ", ".join(f"{kind} {unit}" for kind, unit in sorted(units)) or "nothing"
