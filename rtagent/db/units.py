"""Rows of what is held by name: one for each unit and its owner, one for each of the claims that
hold it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from rtagent.model.base import Value
from rtagent.model.claim import Claim, Unit
from rtagent.model.host import HostState

#: Columns of ``units`` and ``claim_units``, as fields of the rows below.
UNIT_COLUMNS = ("kind", "unit", "owner_id")
CLAIM_UNIT_COLUMNS = (*UNIT_COLUMNS, "claim_uuid")


class UnitRow(Value, frozen=True, kw_only=True):
    """A row of ``units``, but for its node."""

    kind: str
    unit: str
    owner_id: str


class ClaimUnitRow(UnitRow, frozen=True, kw_only=True):
    """A row of ``claim_units``, but for its node."""

    claim_uuid: str


class UnitRows(Value, frozen=True, kw_only=True):
    """What a commit deletes and inserts, in the order in which it must be done: a unit may go from
    one owner to another in one commit."""

    gone_claim_units: Sequence[ClaimUnitRow] = ()
    gone_units: Sequence[UnitRow] = ()
    new_units: Sequence[UnitRow] = ()
    new_claim_units: Sequence[ClaimUnitRow] = ()


_Row = TypeVar("_Row", bound=UnitRow)

NO_ROWS = UnitRows()


def net_units(before: HostState, after: HostState, claims: Iterable[str]) -> UnitRows:
    """The rows that these claims, by uuid, leave and need between the two states."""
    uuids = tuple(claims)
    had, have = _claim_rows(before, uuids), _claim_rows(after, uuids)
    if had == have:  # most guests hold none, and most changes move none
        return NO_ROWS
    moved = {(row.kind, row.unit) for row in had ^ have}
    owned, own = _unit_rows(before, moved), _unit_rows(after, moved)
    return UnitRows(
        gone_claim_units=_ordered(had - have),
        gone_units=_ordered(owned - own),
        new_units=_ordered(own - owned),
        new_claim_units=_ordered(have - had),
    )


def claim_rows(claim: Claim) -> frozenset[ClaimUnitRow]:
    """All rows of a live claim."""
    return frozenset(
        ClaimUnitRow(claim_uuid=claim.uuid, kind=kind, unit=unit, owner_id=claim.owner_id)
        for kind, unit in claim.units
    )


def unit_rows(claims: Iterable[Claim]) -> frozenset[UnitRow]:
    """What these live claims need of ``units``: one row for each unit and owner."""
    return frozenset(
        UnitRow(kind=kind, unit=unit, owner_id=claim.owner_id)
        for claim in claims
        for kind, unit in claim.units
    )


def _claim_rows(state: HostState, uuids: Iterable[str]) -> frozenset[ClaimUnitRow]:
    live = (state.claims[uuid] for uuid in uuids if uuid in state.claims)
    return frozenset[ClaimUnitRow]().union(*map(claim_rows, live))


def _unit_rows(state: HostState, units: Collection[Unit]) -> frozenset[UnitRow]:
    return frozenset(
        UnitRow(kind=kind, unit=unit, owner_id=state.units[kind, unit])
        for kind, unit in units
        if (kind, unit) in state.units
    )


def _ordered(rows: Iterable[_Row]) -> tuple[_Row, ...]:
    """Always in one order, so that no two transactions wait for each other."""
    return tuple(sorted(rows, key=lambda row: (row.kind, row.unit)))
