"""What an operator asks of a state: who is here without a claim, who differs, who is missed."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HostState


class Drift(Value, frozen=True, kw_only=True):
    """One resource of which a domain has another amount than its owner's claim."""

    owner_id: str
    claim_uuid: str
    resource: str
    claimed: int
    observed: int
    unit: str

    def __str__(self) -> str:
        return (
            f"instance {self.owner_id}: {self.resource} {self.observed} {self.unit} in use,"
            f" {self.claimed} claimed"
        )


def orphans(state: HostState) -> tuple[Holding, ...]:
    """Domains that are here and that no claim accounts for, by name."""
    alone = (h for h in state.holdings.values() if h.domain_uuid not in state.owners)
    return tuple(sorted(alone, key=lambda h: (h.name, h.domain_uuid)))


def drifts(state: HostState) -> tuple[Drift, ...]:
    """Every resource in which a domain differs from its owner's claim, by owner."""
    return tuple(
        drift
        for owner in sorted(state.holdings)
        for claim in state.claims_of(owner)[:1]
        for drift in _differences(claim, state.holdings[owner])
    )


def suspects(state: HostState) -> tuple[Claim, ...]:
    """Active claims whose domain is missing, oldest first."""
    missing = (claim for claim in state.claims.values() if claim.suspect is not None)
    return tuple(sorted(missing, key=lambda c: (c.created_at, c.uuid)))


def _differences(claim: Claim, domain: Holding) -> tuple[Drift, ...]:
    pairs = (
        ("VCPU", claim.vcpus + claim.pcpus, domain.vcpus, "vCPUs"),
        ("MEMORY_MB", claim.memory_mb, domain.memory_mb, "MB"),
    )
    return tuple(
        Drift(
            owner_id=claim.owner_id,
            claim_uuid=claim.uuid,
            resource=resource,
            claimed=claimed,
            observed=observed,
            unit=unit,
        )
        for resource, claimed, observed, unit in pairs
        if claimed != observed
    )
