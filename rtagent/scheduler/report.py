"""Reports of a node, made from its state. Pure.

The units in use are those by which `allocate` decides.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from rtagent.allocation.provider_pools import claimed_pools
from rtagent.allocation.unknown_usage import running_with_unknown
from rtagent.errors import NodeNotReady
from rtagent.model import host_report, stats
from rtagent.model.claim import OUTGOING
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.model.usage import NumaUsage
from rtagent.pci.allocations import mdev_parent_allocations, whole_device_allocations
from rtagent.pci.assigned_resources import resource_uses
from rtagent.pci.device_users import DeviceAllocation

#: The state of a service that no operator changed.
ENABLED = host_report.ServiceState()


def description_of(state: NodeState) -> host_report.HostDescription:
    """Return the part of a host that claims do not change, without what only its agent needs.

    :raises NodeNotReady: the host has not been observed yet.
    """
    if state.topology is None:
        raise NodeNotReady("the topology of this host is not known yet")
    policy = state.policy
    return host_report.HostDescription(
        topology=state.topology,
        policy=replace(
            policy,
            pci=replace(policy.pci, specs=()),
            placement=replace(policy.placement, manage_allocations=ManageAllocations.NO),
        ),
        devices=tuple(state.devices[address] for address in sorted(state.devices)),
        resource_inventories=state.resource_inventories,
    )


def without_devices(state: NodeState, why: str) -> NodeState:
    """Return the state of a host that gives no devices to claims, nor what is made from some.

    :param why: the reason that refusals have.
    """
    devices = [
        replace(device, quarantine=device.quarantine or why) for device in state.devices.values()
    ]
    return replace(
        state,
        devices=state.devices.changed((), devices),
        resource_inventories=tuple(
            each for each in state.resource_inventories if not each.provider
        ),
    )


def digest_of(description: host_report.HostDescription) -> str:
    """Return the digest of a description: equal descriptions have equal digests."""
    return hashlib.sha256(canonical(description)).hexdigest()


def canonical(description: host_report.HostDescription) -> bytes:
    """Return a description as JSON. Equal descriptions have equal documents."""
    document = msgspec.to_builtins(description, str_keys=True, order="deterministic")
    return msgspec.json.encode(document)


def report_of(
    state: NodeState,
    digest: str,
    *,
    service: host_report.ServiceState = ENABLED,
    why_not: str = "",
    metrics: tuple[Metric, ...] = (),
    instances_digest: str = "",
    instances_revision: int = 0,
    number: int = 0,
    page_url: str = "",
    ended: tuple[str, ...] = (),
) -> host_report.HostReport:
    """Return the report of a state, without the description.

    :param digest: of the description. :param why_not: the reason why the agent grants no claims;
        "": it grants them. :param page_url: of the agent's own pages.
    """
    return host_report.HostReport(
        node=state.node,
        epoch=state.epoch,
        revision=state.revision,
        number=number,
        digest=digest,
        usage=usage_of(state),
        service=replace(service, draining=state.drain.reason if state.drain else None),
        up=not why_not,
        why_not=why_not,
        counters=dict(sorted(state.counters.items())),
        failed_builds=state.failed_builds,
        disk_available_least=state.disk_available_least,
        metrics=metrics,
        claims=tuple(sorted(state.claims)),
        instances_digest=instances_digest,
        instances_revision=instances_revision,
        page_url=page_url,
        ended=ended,
        unknown=tuple(_unknown(state)),
    )


def _unknown(state: NodeState) -> Iterator[DomainUsage]:
    """Yield the domains of which something is unknown. All that is known is in the total."""
    running = (each for domains in running_with_unknown(state).values() for each in domains)
    for _, usage in sorted({each.domain_uuid: each for each in running}.items()):
        unknown = Occupancy(unknown=usage.occupancy.unknown)
        yield replace(usage, vcpus=0, memory_mb=0, occupancy=unknown)


def usage_of(state: NodeState) -> host_report.HostUsage:
    """Return the usage of the whole host."""
    usage = state.usage
    inventories = {(each.provider, each.resource_class) for each in state.resource_inventories}
    former = sorted(claimed_pools(state) - inventories)
    return host_report.HostUsage(
        vcpus=usage.vcpus,
        pcpus=usage.pcpus,
        memory_mb=usage.memory_mb,
        disk_mb=usage.disk_mb,
        pinned=dict(sorted(usage.numa.pinned.items())),
        kept=dict(sorted(usage.numa.kept.items())),
        cells=tuple(_cells(usage.numa)),
        quantities=tuple(
            host_report.UsedQuantity(suffix=suffix, resource_class=name, quantity=quantity)
            for (suffix, name), quantity in sorted(usage.quantities.items())
        ),
        devices=_addresses(whole_device_allocations(state)),
        mdev_parents=_addresses(mdev_parent_allocations(state)),
        resources=tuple(sorted(name for name, _ in resource_uses(state))),
        former_pools=tuple(
            host_report.ResourcePool(provider=p, resource_class=name) for p, name in former
        ),
    )


def instances_of(
    state: NodeState, known: Mapping[str, host_report.InstanceInfo] | None = None
) -> Mapping[str, host_report.InstanceInfo]:
    """Return the owners of claims and of domains on the host, by uuid.

    :param known: those of an earlier state. An owner that has not changed since is the same object.
    """
    owners, known = sorted({*state.owners, *state.domain_usages}), known or {}
    return {owner: _instance_of(state, owner, known.get(owner)) for owner in owners}


def _instance_of(
    state: NodeState, owner_id: str, known: host_report.InstanceInfo | None
) -> host_report.InstanceInfo:
    if (
        known is None
        or known.claims != state.claims_of(owner_id)
        or known.domain_usage is not state.domain_usages.get(owner_id)
        # The record of its move says whether it is here.
        or any(claim.state == OUTGOING for claim in known.claims)
    ):
        return instance_of(state, owner_id)
    return known


def instance_of(state: NodeState, owner_id: str) -> host_report.InstanceInfo:
    """Return an owner with all that it has on the host."""
    claims = state.claims_of(owner_id)
    return host_report.InstanceInfo(
        uuid=owner_id,
        here=stats.is_here(claims, state.migrations),
        claims=claims,
        domain_usage=state.domain_usages.get(owner_id),
    )


def instances_digest(uuids: Iterable[str]) -> str:
    """Return the digest of a list of instances."""
    return hashlib.sha256("\n".join(sorted(uuids)).encode()).hexdigest()


def _cells(numa: NumaUsage) -> Iterator[host_report.CellUsage]:
    ids = {*numa.vcpus, *numa.memory_mb, *(cell for cell, _ in numa.pages)}
    for each in sorted(ids):
        sizes = sorted((size, count) for (cell, size), count in numa.pages.items() if cell == each)
        yield host_report.CellUsage(
            id=each,
            vcpus=numa.vcpus.get(each, 0),
            memory_mb=numa.memory_mb.get(each, 0),
            pages=dict(sizes),
        )


def _addresses(allocations: Iterable[DeviceAllocation]) -> tuple[str, ...]:
    """Return the address of each device, once for each of its owners."""
    return tuple(sorted(address for address, _ in {(a.address, a.owner_id) for a in allocations}))
