"""Read how claims of a node ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from rtagent.db.claim_rows import CHECKED
from rtagent.db.schema import claim_events, claims
from rtagent.model.claim import ATTACH, RELEASED
from rtagent.model.claim_end import ClaimEnd

#: How many names one query lists: databases limit the number of parameters.
CHUNK = 500


def read_ended(
    connection: Connection, node_uuid: str, owners: Collection[str]
) -> Mapping[str, ClaimEnd]:
    """Return how the last main claim of each of these owners ended, by owner.

    An owner of a damaged row is left out: the row may be that of a live claim.
    """
    last: dict[str, Mapping[str, Any]] = {}
    damaged: set[str] = set()
    for row in _released(connection, node_uuid, sorted(owners)):
        checked = CHECKED.read(row, has_digests=row[-1] is not None)
        owner = checked.values["owner_id"]
        if checked.faults:
            damaged.add(owner)
        elif checked.values["kind"] != ATTACH:
            known = last.get(owner)
            if known is None or known["revision"] < checked.values["revision"]:
                last[owner] = checked.values
    actions = _last_actions(connection, node_uuid, [each["uuid"] for each in last.values()])
    return {
        owner: ClaimEnd(
            claim_uuid=values["uuid"],
            action=actions.get(values["uuid"], ""),
            revision=values["revision"],
        )
        for owner, values in last.items()
        if owner not in damaged
    }


def _released(connection: Connection, node_uuid: str, owners: Sequence[str]) -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = []
    for some in _chunks(owners):
        query = select(*CHECKED.selected).where(
            claims.c.node_uuid == node_uuid,
            claims.c.owner_id.in_(some),
            claims.c.state == RELEASED,
        )
        rows += connection.execute(query).all()
    return rows


def _last_actions(
    connection: Connection, node_uuid: str, uuids: Sequence[str]
) -> Mapping[str, str]:
    """Return the last action of each claim, by uuid."""
    actions: dict[str, str] = {}
    its = claim_events.c
    for some in _chunks(uuids):
        query = (
            select(its.claim_uuid, its.action)
            .where(its.node_uuid == node_uuid, its.claim_uuid.in_(some))
            .order_by(its.id)
        )
        actions.update((row.claim_uuid, row.action) for row in connection.execute(query))
    return actions


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + CHUNK] for start in range(0, len(names), CHUNK))
