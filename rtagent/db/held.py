"""What the keys of ``units`` and ``claim_units`` see to, without a database."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.db.units import NO_ROWS, ClaimUnitRow, UnitRows
from rtagent.errors import ChangeRejected
from rtagent.model.base import Value
from rtagent.model.claim import Unit


class HeldUnits(Value, frozen=True, kw_only=True):
    """A node's rows.

    :ivar owners: by unit. :ivar claims: rows of the claims that hold them.
    """

    owners: Mapping[Unit, str] = {}
    claims: frozenset[ClaimUnitRow] = frozenset()

    def after(self, rows: UnitRows) -> HeldUnits:
        """With the rows of a commit.

        :raises ChangeRejected: a unit would have two owners, or be freed while a claim holds it.
        """
        if rows is NO_ROWS:
            return self
        owners = dict(self.owners)
        claims = self.claims.difference(rows.gone_claim_units)
        held = {(row.kind, row.unit) for row in claims}
        for row in rows.gone_units:
            if (row.kind, row.unit) in held:
                raise ChangeRejected(f"a claim still holds {row.kind} {row.unit}")
            owners.pop((row.kind, row.unit), None)
        for row in rows.new_units:
            if (row.kind, row.unit) in owners:
                raise ChangeRejected(f"{row.kind} {row.unit} has an owner")
            owners[row.kind, row.unit] = row.owner_id
        for row in rows.new_claim_units:
            if row in claims or owners.get((row.kind, row.unit)) != row.owner_id:
                raise ChangeRejected(f"{row.kind} {row.unit} is not {row.owner_id}'s")
        return HeldUnits(owners=owners, claims=claims.union(rows.new_claim_units))
