"""What an operator asks of a state: who is here without a claim, who differs, who is missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rtagent.model import numa_usage
from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, Claim
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.numa_usage import Occupancy
from rtagent.model.owners import main_claims
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.specific import missing
from rtagent.pci.states import gone

#: Resource, unit, claimed, observed.
_Difference = tuple[str, str, int, int]


#: What is wrong with a line of `drift list`: a domain has another amount than its owner's claim, or
#: what is held is no longer there to be held.
DIFFERENT, ABSENT = "AmountDiffers", "AssignedResourceNotFound"
#: The unit of host CPUs.
CPU = "CPU"


class Drift(Value, frozen=True, kw_only=True):
    """One resource of which there is another amount than an owner's claim says.

    :ivar problem: `DIFFERENT` or `ABSENT`.
    """

    owner_id: str
    claim_uuid: str
    resource: str
    claimed: int
    observed: int
    unit: str
    problem: str = DIFFERENT

    def __str__(self) -> str:
        if self.problem == ABSENT:
            lost = "is held, and gone, offline or not offered"
            return f"instance {self.owner_id}: {self.resource} {lost}"
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
        for claim in _enacted(state.claims_of(owner))
        for drift in differences(
            claim, state.holdings[owner], attached_claims(state.claims_of(owner))
        )
    )


def _enacted(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The one that says what the guest is; of the two of a resize on one host: where it runs."""
    mains = main_claims(claims)
    return tuple(claim for claim in mains if claim.state == ACTIVE)[:1] or mains[:1]


def absent(state: HostState) -> tuple[Drift, ...]:
    """Host CPUs, devices and specific resources that claims hold and that are offline, gone, or
    offered no more; by owner. They stay with their holder. Nothing is known to be absent of a host
    never seen."""
    if state.topology is None:
        return ()
    cpus = state.policy.numa.dedicated(state.topology.cpus)
    return tuple(
        _absent(claim, resource, unit)
        for owner in sorted(state.owners)
        for claim in state.claims_of(owner)
        for resource, unit in _lost(state, claim, cpus)
    )


def attached_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Those that add devices to a guest."""
    return tuple(claim for claim in claims if claim.kind == ATTACH)


def suspects(state: HostState) -> tuple[Claim, ...]:
    """Active claims whose domain is missing, oldest first."""
    missing = (claim for claim in state.claims.values() if claim.suspect is not None)
    return tuple(sorted(missing, key=lambda c: (c.created_at, c.uuid)))


def differences(claim: Claim, domain: Holding, attached: Sequence[Claim] = ()) -> Iterator[Drift]:
    """Resource by resource, host CPU by host CPU, page pool by page pool, device by device. What is
    claimed beyond the flavor (an emulator's memory, say) is nothing that a domain shows.

    :param attached: the owner's claims that add devices to the guest.
    """
    flavor = claim.flavor
    found = (
        ("VCPU", "vCPUs", flavor.vcpus, domain.vcpus),
        ("MEMORY_MB", "MB", flavor.memory_mb, domain.memory_mb),
        *_cpus(claim.numa_topology or Assignment(), domain.occupancy.pcpus),
        *_pages(claim.numa_topology or Assignment(), domain.occupancy),
        *_devices(_addresses, domain.occupancy.devices, claim, attached),
        *_devices(_mdevs, domain.occupancy.mdevs, claim, attached),
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


def _lost(state: HostState, claim: Claim, cpus: frozenset[int]) -> Iterator[tuple[str, str]]:
    """What it holds and is not there to be held, and its unit. :param cpus: that are offered."""
    for cpu in sorted(_own(claim.numa_topology or Assignment()) - cpus):
        yield f"host CPU {cpu}", CPU
    for device in claim.pci:
        tracked = state.devices.get(device.address)
        if tracked is None or gone(tracked) is not None:
            yield f"PCI device {device.address}", "device"
    for unit in missing(state.specific, claim.resources):
        yield f"{unit.resource_class} {unit.identifier}", "unit"


def _absent(claim: Claim, resource: str, unit: str) -> Drift:
    return Drift(
        owner_id=claim.owner_id,
        claim_uuid=claim.uuid,
        resource=resource,
        claimed=1,
        observed=0,
        unit=unit,
        problem=ABSENT,
    )


def _own(assigned: Assignment) -> frozenset[int]:
    """Host CPUs that it runs on alone."""
    return assigned.taken - assigned.kept


def _cpus(assigned: Assignment, seen: frozenset[int]) -> Iterator[_Difference]:
    """Its own CPUs that it does not run on, and others that it is bound to."""
    own = _own(assigned)
    for cpu in sorted(own | seen):
        if cpu in own or cpu not in assigned.allowed:
            yield f"host CPU {cpu}", CPU, int(cpu in own), int(cpu in seen)


def _pages(assigned: Assignment, seen: Occupancy) -> Iterator[_Difference]:
    # Of the smallest pages all other memory is made, and a domain says nothing of them.
    told = Assignment(cells=tuple(cell for cell in assigned.cells if cell.hugepages))
    claimed, observed = numa_usage.assigned(told).pages, seen.usage.pages
    for cell, size in sorted({*claimed, *observed}):
        resource = f"pages of {size} KiB at cell {cell}"
        yield resource, "pages", claimed.get((cell, size), 0), observed.get((cell, size), 0)


#: The names, as a domain's document has them, of what a claim gives its guest; by what a person
#: would call them.
_Names = Callable[[Claim], Mapping[str, str]]


def _addresses(claim: Claim) -> Mapping[str, str]:
    return {device.address: f"PCI device {device.address}" for device in claim.pci}


def _mdevs(claim: Claim) -> Mapping[str, str]:
    return {
        mdev_uuid(claim.node_uuid, unit.identifier): f"{unit.resource_class} {unit.identifier}"
        for unit in claim.resources
        if unit.provider
    }


def _devices(
    names: _Names, seen: frozenset[str], claim: Claim, attached: Sequence[Claim]
) -> Iterator[_Difference]:
    """Devices that the guest was given and has not, and others that it has. One that is being
    attached may be there and need not."""
    given, may_be = dict(names(claim)), dict[str, str]()
    for each in attached:
        (may_be if each.state == BUILDING else given).update(names(each))
    for name in sorted(given.keys() | (seen - may_be.keys())):
        what = given.get(name, f"device {name}")
        claimed, observed = int(name in given), int(name in seen)
        yield what, "device", claimed, observed
