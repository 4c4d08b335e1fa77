"""Adopt a domain: the claim that describes it exactly. Pure."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from rtagent import errors
from rtagent.allocation.capacity import shortfalls
from rtagent.allocation.requirements import numa_of
from rtagent.allocation.unknown_usage import unknown_usage
from rtagent.lifecycle.new_claim import new_claim
from rtagent.lifecycle.placed_guests import isolated, usage_of
from rtagent.model.assignment import Assignment
from rtagent.model.base import Converter, Name
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted, created
from rtagent.model.domain_usage import DomainUsage, HostResource, Occupancy
from rtagent.model.guest import GuestLayout, ServerMetadata
from rtagent.model.node_state import NodeState
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.model.usage import assignment_usage
from rtagent.numa.host_cells import page_pools
from rtagent.numa.requirements import NumaRequirements
from rtagent.pci.allocations import device_allocations
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.mdev import mdev_uuid
from rtagent.reconcile.adopted_cells import assignment_of
from rtagent.reconcile.adopted_units import (
    devices_of,
    encryption_of,
    requests_of,
    resources_of,
    with_adopted,
)
from rtagent.reconcile.drift import differences


def check_available(state: NodeState, claim: Claim) -> None:
    """Check that the claim of a domain that is shut off takes nothing that others use. The usage of
    the host includes running domains only, so others may have what it needs.

    :param state: without the claim.
    :raises DomainNotAdoptable: it does, or the host has too little.
    """
    taken = [*_quantities(state, claim), *_cpus(state, claim), *_cells(state, claim)]
    taken += [*_devices(state, claim), *_resources(state, claim)]
    if taken:
        raise errors.DomainNotAdoptable(f"it is shut off, and others use what it needs: {taken[0]}")


def _quantities(state: NodeState, claim: Claim) -> Iterator[str]:
    yield from map(str, shortfalls(state, claim.owner_id, claim.usage))
    cells = (claim.numa_topology or Assignment()).cells
    needs = {
        HostResource.SIZES: claim.memory_mb,
        HostResource.CPUS: claim.pcpus,
        HostResource.CELLS: len(cells),
        HostResource.PAGES: sum(each.hugepages for each in cells),
        HostResource.DEVICES: len(claim.pci) + len(claim.resources),
        HostResource.ENCRYPTION: int(claim.mem_encryption is not None),
    }
    yield from map(str, unknown_usage(state, claim.owner_id, needs))


def _cpus(state: NodeState, claim: Claim) -> Iterator[str]:
    numa = state.usage.numa
    used = numa.pinned.keys() | numa.kept.keys()
    for cpu in sorted((claim.numa_topology or Assignment()).taken & used):
        yield f"host CPU {cpu}"


def _cells(state: NodeState, claim: Claim) -> Iterator[str]:
    """Yield the cells that have too little memory, or too few pages of the claim's sizes."""
    assert state.topology is not None
    assignment = claim.numa_topology or Assignment()
    after = state.usage.numa.plus(assignment_usage(assignment))
    ratio = state.policy.ram_allocation_ratio
    for cell in state.topology.cells:
        here = [each for each in assignment.cells if each.id == cell.id]
        pools = page_pools(cell, after, state.policy.numa)
        for size in sorted({each.pagesize for each in here if each.pagesize is not None}):
            if size not in pools or pools[size][1] < 0:
                yield f"pages of {size} KiB at cell {cell.id}"
        if here and after.memory_mb.get(cell.id, 0) > int(cell.memory_mb * ratio):
            yield f"memory of cell {cell.id}"


def _devices(state: NodeState, claim: Claim) -> Iterator[str]:
    allocations = device_allocations(state)
    for device in claim.pci:
        others = [
            each.owner_id
            for each in allocations.allocations_of(device.address)
            if each.owner_id != claim.owner_id
        ]
        related = allocations.unavailability(device.address, claim.owner_id)
        if others:
            yield f"PCI device {device.address}, which {others[0]} has"
        elif related is not None:
            yield f"PCI device {device.address}: {related.reason}"


def _resources(state: NodeState, claim: Claim) -> Iterator[str]:
    # The inventories lack what others made, and so do the users of resources: a running domain
    # without a claim is found by the uuids of its mediated devices.
    running = (usage for usage in state.domain_usages.values() if usage.active)
    unclaimed = {uuid: each.domain_uuid for each in running for uuid in each.occupancy.mdevs}
    users = resource_users(state)
    for unit in claim.resources:
        owner = users.get(unit.identifier)
        if owner is None and unit.parent_addr:
            owner = unclaimed.get(mdev_uuid(state.node.uuid, unit.identifier))
        if owner not in (None, claim.owner_id):
            yield f"{unit.resource_class} {unit.identifier}, which {owner} has"


_names = Converter(Name)
#: The vm_state of a server whose domain runs, and of one whose domain is shut off.
_RUNNING, _STOPPED = "active", "stopped"


def adopt(
    state: NodeState,
    call: Call,
    now: datetime,
    domain_uuid: str,
    layout: GuestLayout | None,
    flavor: Flavor | None,
    *,
    shut_off: bool = False,
) -> Granted:
    """Make an active claim of a domain that has none. It has what the domain has: host CPUs, cells,
    pages and devices. So the usage stays if the domain runs, and there is no drift.

    :param layout: the domain as it was read for this call; None: it is not here.
    :param flavor: in place of the one in the domain's metadata.
    :param shut_off: adopt the domain even if it is shut off.
    :raises ClaimConflict: the domain's owner has a claim, or another claim has the uuid.
    :raises DomainNotAdoptable: with the reason. The domain stays an orphan.
    :raises NodeNotReady: the host was never observed.
    """
    if state.topology is None:
        raise errors.NodeNotReady("the topology of this host is not known yet")
    _check_no_claim(state, domain_uuid, call.operation_id)
    layout = _adoptable(layout, state.domain_usages.get(domain_uuid), shut_off)
    claim = _claim(state, layout, flavor or flavor_of(layout), call, now)
    _check_claim(state, claim, layout)
    is_here = "runs" if layout.usage.active else "is shut off"
    adopted = created(
        call,
        claim,
        now,
        "adopt",
        f"the domain {layout.usage.name} {is_here} here",
        domain_usage_removals=(domain_uuid,),
        resource_inventories=with_adopted(state, claim.resources),
    )
    try:
        state.fold(adopted.change).check_owners(adopted.change.owners)
    except errors.InvariantViolated as error:  # a unit of the domain has another owner
        raise errors.DomainNotAdoptable(error.message) from error
    return adopted


def _check_no_claim(state: NodeState, domain_uuid: str, claim_uuid: str) -> None:
    for claim in state.claims_of(domain_uuid):
        message = f"domain {domain_uuid} has the claim {claim.uuid}"
        raise errors.ClaimConflict(message, claim_uuid=claim.uuid, owner_id=domain_uuid)
    if claim_uuid in state.claims:  # possible once its operation record has been purged
        raise errors.ClaimConflict(
            f"claim {claim_uuid} is another instance's", claim_uuid=claim_uuid
        )


def flavor_of(layout: GuestLayout) -> Flavor | None:
    """Return the flavor that the metadata of a domain names."""
    return None if layout.metadata is None else layout.metadata.flavor


def notes(layout: GuestLayout, flavor: Flavor | None) -> tuple[str, ...]:
    """Return what an operator should know about the claim of a domain."""
    found, usage = flavor or flavor_of(layout), layout.usage
    if found is None:
        return ("it names no flavor, so its disk is not counted",)
    sizes = (("vCPUs", found.vcpus, usage.vcpus), ("MB", found.memory_mb, usage.memory_mb))
    return tuple(
        f"flavor {found.name or found.flavorid} has {of_flavor} {unit}, the domain {of_domain}:"
        " the domain's number is claimed"
        for unit, of_flavor, of_domain in sizes
        if of_flavor != of_domain
    )


def _adoptable(
    layout: GuestLayout | None, recorded: DomainUsage | None, shut_off: bool
) -> GuestLayout:
    """Return the layout of a domain that can have a claim.

    :raises DomainNotAdoptable: it is absent, not readable whole, or shut off without `shut_off`, or
        has changed.
    """
    if layout is None:
        raise errors.DomainNotAdoptable("no domain with this uuid is on this host")
    if not layout.usage.active and not shut_off:
        raise errors.DomainNotAdoptable(
            "it is shut off and uses nothing: start it first, or adopt it with --shut-off"
        )
    if layout.problem:
        raise errors.DomainNotAdoptable(layout.problem)
    if recorded is not None and recorded.occupancy.unknown:
        kinds = ", ".join(sorted(recorded.occupancy.unknown))
        raise errors.DomainNotAdoptable(
            f"the last audit could not read all that it uses ({kinds}): run rtagent audit run,"
            " correct what it lists, and try again"
        )
    if recorded is None or _compared(recorded) != _compared(layout.usage):
        raise errors.DomainNotAdoptable(
            "it is not as the last audit recorded it: run rtagent audit run, and try again"
        )
    return layout


def _compared(usage: DomainUsage) -> DomainUsage:
    """Return what an audit and a single read report alike. Only an audit knows the parent devices
    of mediated devices for certain. Only a single read reports what a domain that is shut off is
    bound to: it uses nothing yet."""
    occupancy = replace(usage.occupancy, mdev_parents=frozenset())
    return replace(usage, name="", occupancy=occupancy if usage.active else Occupancy())


def _check_claim(state: NodeState, claim: Claim, layout: GuestLayout) -> None:
    """Check that the claim has what its domain has, and that no others use that.

    :raises DomainNotAdoptable: with the reason.
    """
    if differing := [str(each) for each in differences(claim, layout.usage)]:
        raise errors.DomainNotAdoptable(f"a claim cannot describe it: {'; '.join(differing)}")
    if not layout.usage.active:  # the usage of one that runs is counted already
        check_available(state, claim)


def _claim(
    state: NodeState, layout: GuestLayout, flavor: Flavor | None, call: Call, now: datetime
) -> Claim:
    usage, metadata = layout.usage, layout.metadata or ServerMetadata()
    flavor = flavor or Flavor(vcpus=1, memory_mb=1)
    flavor = replace(flavor, vcpus=usage.vcpus, memory_mb=usage.memory_mb)
    assert state.topology is not None
    assignment = assignment_of(layout, state.topology, state.policy.numa)
    assignment = isolated(state, _requirements(flavor, metadata), assignment)
    devices, encryption = devices_of(state, layout, flavor), encryption_of(state, layout)
    instance = Instance(
        uuid=usage.domain_uuid,
        flavor=flavor,
        image=metadata.image,
        pci_requests=requests_of(devices),
        display_name=_name(metadata.name or usage.name),
        project_id=metadata.project_id,
        user_id=metadata.user_id,
        vm_state=_RUNNING if usage.active else _STOPPED,
        is_volume_backed=metadata.is_volume_backed,
    )
    quantities, build = usage_of(instance, assignment), BuildRequest(instance=instance)
    return replace(
        new_claim(state, call, now, build, quantities, active=True),
        numa_topology=None if assignment == Assignment() else assignment,
        pci=devices,
        resources=resources_of(state, layout),
        quantities=() if encryption.context is None else (encryption.context,),
        mem_encryption=encryption.encryption,
    )


def _requirements(flavor: Flavor, metadata: ServerMetadata) -> NumaRequirements:
    """:raises DomainNotAdoptable: the extra specs or the image properties are invalid."""
    try:
        return numa_of(flavor, metadata.image.properties)
    except errors.InvalidFlavor as error:
        raise errors.DomainNotAdoptable(f"its flavor: {error.message}") from error


def _name(text: str) -> str | None:
    """Return a display name that can be stored, or None."""
    try:
        return _names.convert(text)
    except msgspec.ValidationError:
        return None
