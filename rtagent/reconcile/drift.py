"""Differences between claims and the host: orphans, drift, absent resources, suspect claims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, INCOMING, Claim
from rtagent.model.domain_usage import UNBOUND, DomainUsage, HostResource, Occupancy
from rtagent.model.mem_encryption import RESOURCE_CLASS
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.usage import assignment_usage
from rtagent.pci.assigned_resources import claimed_mdevs, missing
from rtagent.pci.device_users import absence_reason
from rtagent.pci.pmem import assigned_namespaces

#: Resource, unit, claimed, observed.
_Difference = tuple[str, str, int, int]

#: Problems in `drift list`: a domain uses more or less than its owner's claim assigns; a claimed
#: resource is absent from the host or from its inventory; it is unknown what a domain uses.
DIFFERENT, ABSENT, UNKNOWN = "QuantityDiffers", "AssignedResourceNotFound", "UsageUnknown"
#: The unit of host CPUs.
CPU = "CPU"


class Drift(Value, frozen=True, kw_only=True):
    """One resource that a domain uses more or less than its owner's claim assigns.

    :ivar resource: of `UNKNOWN`, a `HostResource`.
    :ivar problem: `DIFFERENT`, `ABSENT` or `UNKNOWN`.
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
            absent = "is claimed, but is gone, offline or not configured"
            return f"instance {self.owner_id}: {self.resource} {absent}"
        if self.problem == UNKNOWN:
            return f"instance {self.owner_id}: it is unknown which {self.resource} its domain uses"
        return (
            f"instance {self.owner_id}: {self.resource} {self.observed} {self.unit} in use,"
            f" {self.claimed} claimed"
        )


def orphans(state: NodeState) -> tuple[DomainUsage, ...]:
    """Domains on this host whose owner has no claim, by name."""
    foreign = (u for u in state.domain_usages.values() if u.domain_uuid not in state.owners)
    return tuple(sorted(foreign, key=lambda usage: (usage.name, usage.domain_uuid)))


def drifts(state: NodeState, owners: Iterable[str] | None = None) -> tuple[Drift, ...]:
    """Every resource in which a domain differs, or may differ, from its owner's claim, by owner.

    :param owners: of these domains only; None: of all.
    """
    listed = state.domain_usages if owners is None else set(owners) & set(state.domain_usages)
    found: list[Drift] = []
    for owner in sorted(listed):
        claims, usage = state.claims_of(owner), state.domain_usages[owner]
        enacted, attached = _enacted(claims), attached_claims(claims)
        compared = (tuple(differences(claim, usage, attached)) for claim in enacted)
        found += min(compared, key=bool, default=())
        for claim in enacted[:1]:
            for kind in sorted(usage.occupancy.unknown):
                found.append(_drift(claim, str(kind), "", 0, 0, UNKNOWN))
    return tuple(found)


def absent(state: NodeState) -> tuple[Drift, ...]:
    """Host CPUs, devices and assigned resources that claims hold and that are offline, gone, or no
    longer configured; by owner. The claims keep them. Empty for a host that was never observed."""
    if state.topology is None:
        return ()
    cpus = state.policy.numa.dedicated(state.topology.cpus)
    owners = {claim.owner_id for claim in state.claims.values() if _has_resources(claim)}
    return tuple(
        _drift(claim, resource, unit, 1, 0, ABSENT)
        for owner in sorted(owners)
        for claim in state.claims_of(owner)
        for resource, unit in _lost(state, claim, cpus)
    )


def suspects(state: NodeState) -> tuple[Claim, ...]:
    """Active claims whose domain is missing, oldest first."""
    missing_domain = (claim for claim in state.claims.values() if claim.suspect is not None)
    return tuple(sorted(missing_domain, key=lambda c: (c.created_at, c.uuid)))


def attached_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The attach claims among these."""
    return tuple(claim for claim in claims if claim.kind == ATTACH)


def differences(
    claim: Claim, domain: DomainUsage, attached: Sequence[Claim] = ()
) -> Iterator[Drift]:
    """Compare a domain with its claim: each resource, host CPU, page pool and device.

    Only the flavor's vCPUs and memory are compared: what is claimed beyond them (an emulator's
    memory, say) does not show in a domain. Of what is unknown of the domain, only what exceeds the
    claim is a difference.

    :param attached: the owner's attach claims.
    """
    flavor, units = claim.flavor, tuple[_Difference, ...]()
    # Otherwise neither side has a unit.
    if attached or _has_resources(claim) or domain.occupancy != UNBOUND:
        units = tuple(_unit_differences(claim, domain.occupancy, attached))
    sizes: tuple[_Difference, ...] = (
        ("VCPU", "vCPUs", flavor.vcpus, domain.vcpus),
        ("MEMORY_MB", "MB", flavor.memory_mb, domain.memory_mb),
    )
    found = (*_certain(domain.occupancy, HostResource.SIZES, sizes), *units)
    for resource, unit, claimed, observed in found:
        if claimed != observed:
            yield _drift(claim, resource, unit, claimed, observed)


def _enacted(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims of which the domain enacts one: in a resize on one host the active one of the two,
    or already the incoming one, whose arrival is recorded later.
    """
    mains = main_claims(claims)
    active = tuple(claim for claim in mains if claim.state == ACTIVE)[:1]
    incoming = tuple(claim for claim in mains if claim.state == INCOMING)
    return active + incoming if active else mains[:1]


def _has_resources(claim: Claim) -> bool:
    """Return whether the claim has host CPUs, pages, devices, assigned resources or an encryption
    context.
    """
    placed = claim.numa_topology is not None and claim.numa_topology.cells
    return bool(placed or claim.pci or claim.resources or claim.mem_encryption)


def _lost(state: NodeState, claim: Claim, cpus: frozenset[int]) -> Iterator[tuple[str, str]]:
    """What a claim has and the host lacks: resource and unit.

    :param cpus: the dedicated CPUs that the host has.
    """
    if claim.numa_topology is not None:
        for cpu in sorted(_own_cpus(claim.numa_topology) - cpus):
            yield f"host CPU {cpu}", CPU
    for device in claim.pci:
        tracked = state.devices.get(device.address)
        if tracked is None or absence_reason(tracked) is not None:
            yield f"PCI device {device.address}", "device"
    if claim.resources:
        for unit in missing(state.resource_inventories, claim.resources):
            yield f"{unit.resource_class} {unit.identifier}", "unit"
    encryption, topology = claim.mem_encryption, state.topology
    if encryption is not None:
        supported = {each.model for each in topology.mem_encryption} if topology else set()
        if encryption.model not in supported:
            yield f"{RESOURCE_CLASS} {encryption.model}", "context"


def _drift(
    claim: Claim, resource: str, unit: str, claimed: int, observed: int, problem: str = DIFFERENT
) -> Drift:
    return Drift(
        owner_id=claim.owner_id,
        claim_uuid=claim.uuid,
        resource=resource,
        claimed=claimed,
        observed=observed,
        unit=unit,
        problem=problem,
    )


def _unit_differences(
    claim: Claim, seen: Occupancy, attached: Sequence[Claim]
) -> Iterator[_Difference]:
    """Compare what a domain is bound to with what its owner's claims assign."""
    assignment = claim.numa_topology or Assignment()
    encryption = _encryption(claim, seen.mem_encryption)
    yield from _certain(seen, HostResource.CPUS, _cpus(assignment, seen.pcpus))
    yield from _certain(seen, HostResource.PAGES, _pages(assignment, seen))
    yield from _certain(seen, HostResource.ENCRYPTION, encryption)
    yield from _certain(seen, HostResource.DEVICES, _devices(claim, seen, attached))


def _certain(
    seen: Occupancy, kind: HostResource, differences: Iterable[_Difference]
) -> Iterator[_Difference]:
    """Yield the differences without those that may be no more than what is unknown of a domain."""
    for difference in differences:
        _, _, claimed, observed = difference
        if kind not in seen.unknown or observed > claimed:
            yield difference


def _own_cpus(assignment: Assignment) -> frozenset[int]:
    """Host CPUs on which this guest alone runs."""
    return assignment.taken - assignment.kept


def _cpus(assignment: Assignment, seen: frozenset[int]) -> Iterator[_Difference]:
    """Dedicated CPUs that the domain is not bound to, and other CPUs that it is bound to."""
    own = _own_cpus(assignment)
    for cpu in sorted(own | seen):
        if cpu in own or cpu not in assignment.allowed:
            yield f"host CPU {cpu}", CPU, int(cpu in own), int(cpu in seen)


def _pages(assignment: Assignment, seen: Occupancy) -> Iterator[_Difference]:
    # Ordinary memory consists of the smallest pages, and a domain does not report these.
    cells = tuple(cell for cell in assignment.cells if cell.hugepages)
    claimed = assignment_usage(Assignment(cells=cells)).pages
    observed = seen.usage.pages
    for cell, size in sorted({*claimed, *observed}):
        resource = f"pages of {size} KiB at cell {cell}"
        yield resource, "pages", claimed.get((cell, size), 0), observed.get((cell, size), 0)


def _names(claim: Claim) -> Mapping[str, str]:
    """The names of a claim's devices for the operator, by their names in a domain document."""
    units = {**claimed_mdevs(claim), **assigned_namespaces(claim.resources)}
    return {
        **{device.address: f"PCI device {device.address}" for device in claim.pci},
        **{name: f"{unit.resource_class} {unit.identifier}" for name, unit in units.items()},
    }


def _encryption(claim: Claim, seen: str | None) -> Iterator[_Difference]:
    """The context of the claim, and that of the domain if its memory is encrypted otherwise."""
    claimed = claim.mem_encryption.model if claim.mem_encryption else None
    for model in sorted({claimed, seen} - {None}, key=str):
        resource = f"{RESOURCE_CLASS} {model}"
        yield resource, "context", int(model == claimed), int(model == seen)


def _devices(claim: Claim, domain: Occupancy, attached: Sequence[Claim]) -> Iterator[_Difference]:
    """Devices that the claims assign and the domain lacks, and devices that it has besides. A
    device of a building attach claim may or may not be there."""
    assigned, optional = dict(_names(claim)), dict[str, str]()
    for each in attached:
        (optional if each.state == BUILDING else assigned).update(_names(each))
    seen = domain.devices | domain.mdevs | domain.namespaces
    for name in sorted(assigned.keys() | (seen - optional.keys())):
        resource = assigned.get(name, f"device {name}")
        yield resource, "device", int(name in assigned), int(name in seen)
