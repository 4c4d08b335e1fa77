"""What an operator asks of a state: who is here without a claim, who differs, who is missed."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model import numa_usage
from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.numa_usage import Occupancy

#: Resource, unit, claimed, observed.
_Difference = tuple[str, str, int, int]


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
        for drift in differences(claim, state.holdings[owner])
    )


def suspects(state: HostState) -> tuple[Claim, ...]:
    """Active claims whose domain is missing, oldest first."""
    missing = (claim for claim in state.claims.values() if claim.suspect is not None)
    return tuple(sorted(missing, key=lambda c: (c.created_at, c.uuid)))


def differences(claim: Claim, domain: Holding) -> Iterator[Drift]:
    """Resource by resource, host CPU by host CPU, page pool by page pool. What is claimed beyond
    the flavor (an emulator's memory, say) is nothing that a domain shows."""
    flavor = claim.flavor
    found = (
        ("VCPU", "vCPUs", flavor.vcpus, domain.vcpus),
        ("MEMORY_MB", "MB", flavor.memory_mb, domain.memory_mb),
        *_cpus(claim.numa_topology or Assignment(), domain.occupancy.pcpus),
        *_pages(claim.numa_topology or Assignment(), domain.occupancy),
    )
    for resource, unit, claimed, observed in found:
        if claimed != observed:
            yield Drift(
                owner_id=claim.owner_id,
                claim_uuid=claim.uuid,
                resource=resource,
                claimed=claimed,
                observed=observed,
                unit=unit,
            )


def _cpus(assigned: Assignment, seen: frozenset[int]) -> Iterator[_Difference]:
    """Its own CPUs that it does not run on, and others that it is bound to."""
    own = assigned.taken - assigned.kept
    for cpu in sorted(own | seen):
        if cpu in own or cpu not in assigned.allowed:
            yield f"host CPU {cpu}", "CPU", int(cpu in own), int(cpu in seen)


def _pages(assigned: Assignment, seen: Occupancy) -> Iterator[_Difference]:
    claimed = numa_usage.assigned(assigned).pages
    observed = seen.usage.pages
    for cell, size in sorted({*claimed, *observed}):
        resource = f"pages of {size} KiB at cell {cell}"
        yield resource, "pages", claimed.get((cell, size), 0), observed.get((cell, size), 0)
