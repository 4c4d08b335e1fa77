"""The rows of units, read and held against the claims.

Both are written in one transaction, so they differ by a defect or by somebody's hand. The claims'
documents are the truth then: they say where in the host a guest is, the rows only keep two owners
apart. So a difference does not stop the node (memory grants no unit twice, whatever the rows say):
it is logged, its claim is flagged for the next audit to look at, and whoever is the writer makes
the rows anew, as rows too many would refuse grants and rows too few would guard nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, and_, select

from rtagent.db.schema import claim_units, units
from rtagent.model.claim import Claim, Unit

LOG = logging.getLogger(__name__)


class UnitReader:
    """A node's rows.

    :ivar by_claim: what each claim holds by them.
    """

    def __init__(self, connection: Connection, node_uuid: str) -> None:
        self.by_claim: defaultdict[str, set[Unit]] = defaultdict(set)
        self._unclaimed: list[Unit] = []
        for kind, unit, claim_uuid in connection.execute(_query(node_uuid)):
            if claim_uuid is None:
                self._unclaimed.append((kind, unit))
            else:
                self.by_claim[claim_uuid].add((kind, unit))

    def faults(self, claims: Iterable[Claim]) -> dict[str, str]:
        """What is wrong, by claim uuid (of a claim that has ended, too), or under "" where it is
        no claim's. Logged."""
        said = {claim.uuid: claim.units for claim in claims}
        faults = {
            uuid: f"the database says that it holds {_listed(self.by_claim.get(uuid, ()))},"
            f" its record {_listed(said.get(uuid, ()))}"
            for uuid in sorted({*said, *self.by_claim})
            if said.get(uuid, frozenset()) != self.by_claim.get(uuid, set())
        }
        if self._unclaimed:
            faults[""] = f"the database keeps {_listed(self._unclaimed)} for no claim"
        for uuid, fault in faults.items():
            LOG.error("%s%s", f"claim {uuid}: " if uuid else "", fault)
        return faults


def flagged(claims: Iterable[Claim], faults: Mapping[str, str]) -> tuple[Claim, ...]:
    """The claims, those with a fault suspect for it."""
    return tuple(
        replace(claim, suspect=claim.suspect or faults[claim.uuid])
        if claim.uuid in faults
        else claim
        for claim in claims
    )


def _query(node_uuid: str) -> Any:
    same = and_(*(claim_units.c[c] == units.c[c] for c in ("node_uuid", "kind", "unit")))
    return (
        select(units.c.kind, units.c.unit, claim_units.c.claim_uuid)
        .join_from(units, claim_units, same, isouter=True)
        .where(units.c.node_uuid == node_uuid)
    )


def _listed(units: Iterable[Unit]) -> str:
    return ", ".join(f"{kind} {unit}" for kind, unit in sorted(units)) or "nothing"
