"""Owners: the claims that one owner may have on a node, and the usage that it counts for."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from immutables import Map

from rtagent.errors import InvariantViolated
from rtagent.model.claim import ATTACH, INCOMING, MOVE_TYPES, Claim, Unit
from rtagent.model.usage import NOTHING, Usage

_NO_UNITS: Map[Unit, str] = Map()
_NO_COUNTERS: Map[str, int] = Map()


def main_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the main claims: those for the guest itself, without its attach claims.

    In order of creation: the claim that the owner has here, and the claim that a move created.
    """
    return tuple(claim for claim in claims if claim.kind != ATTACH)


def creation_order(claim: Claim) -> tuple[datetime, int, str]:
    """Return the sort key that puts an owner's claims into order of creation.

    Claims of the same time are ordered by kind: the main claim that existed, then attach claims,
    then an incoming claim.
    """
    rank = 1 if claim.kind == ATTACH else 2 if claim.state == INCOMING else 0
    return claim.created_at, rank, claim.uuid


def claimed_units(claims: Sequence[Claim]) -> frozenset[Unit]:
    """Return the units of these claims."""
    if len(claims) == 1:  # most owners
        return claims[0].units
    return frozenset[Unit]().union(*(claim.units for claim in claims))


def owner_usage(
    claims: Iterable[Claim], domain: Usage = NOTHING, *, reuse: bool = False, new: Usage = NOTHING
) -> Usage:
    """Return the usage of one owner: the sum of its claims, or its domain's usage where that is
    larger.

    :param domain: what its domain uses.
    :param reuse: for a resize on one host, count only the larger claim, resource by resource: an
        owner never runs both domains (LP1790204).
    :param new: the usage of one more main claim, which does not exist yet.
    """
    added, total = (NOTHING, new) if reuse else (new, NOTHING)
    for claim in claims:
        if reuse and claim.kind != ATTACH:
            total = total.larger(claim.usage)
        else:
            added = added.plus(claim.usage)
    total = total.plus(added)
    return total if domain is NOTHING else total.larger(domain)


def check_owner(owner_id: str, claims: Sequence[Claim]) -> None:
    """Check that the owner has one main claim, or two during a move.

    :raises InvariantViolated: the owner has more than one main claim outside a move.
    """
    mains = main_claims(claims)
    from_moves = [claim for claim in mains if claim.kind in MOVE_TYPES]
    incoming = [claim for claim in mains if claim.state == INCOMING]
    if len(mains) > 2 or len(mains) - len(from_moves) > 1 or len(incoming) > 1:
        listed = ", ".join(claim.uuid for claim in mains)
        raise InvariantViolated(f"owner {owner_id} has more than one claim: {listed}")


class OwnerSums:
    """Sums over the owners of a node: usage, units and statistics.

    Owners are added and removed one by one. Quantities are integers, so removing an owner and
    adding it again with other claims is exact.

    :ivar usage: the node's usage.
    :ivar units: the owner of each unit.
    :ivar counters: Nova's statistics, see `stats`.
    :ivar conflict: a unit that was added for two owners, as a sentence, or None.
    """

    def __init__(
        self,
        usage: Usage = NOTHING,
        units: Map[Unit, str] = _NO_UNITS,
        counters: Map[str, int] = _NO_COUNTERS,
    ) -> None:
        self.usage = usage
        self.conflict: str | None = None
        self._units, self._counters = units.mutate(), counters.mutate()

    def add(
        self, owner: str, claims: Sequence[Claim], usage: Usage, counters: Iterable[str]
    ) -> None:
        """Add an owner with its claims, and with the counters that its instance increments."""
        self.usage = self.usage.plus(usage)
        self._count(counters, 1)
        for unit in claimed_units(claims):
            if unit in self._units:
                kind, name = unit
                other = self._units[unit]
                self.conflict = f"{kind} {name} has two owners: {other} and {owner}"
            self._units[unit] = owner

    def remove(self, claims: Sequence[Claim], usage: Usage, counters: Iterable[str]) -> None:
        """Remove an owner that was added with these claims and counters."""
        self.usage = self.usage.minus(usage)
        self._count(counters, -1)
        for unit in claimed_units(claims):
            del self._units[unit]

    @property
    def units(self) -> Map[Unit, str]:
        return self._units.finish()

    @property
    def counters(self) -> Map[str, int]:
        return self._counters.finish()

    def _count(self, counters: Iterable[str], number: int) -> None:
        for key in counters:
            total = self._counters.get(key, 0) + number
            if total:
                self._counters[key] = total
            else:
                del self._counters[key]
