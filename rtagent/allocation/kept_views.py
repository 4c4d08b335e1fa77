"""The host as the NUMA fit sees it, and views of a state that are derived from those of the state
before it; among them the fits of device requests, prepared once for all owners that have nothing on
the host, and what the other owners may reuse.

A claim changes little of what a host with hundreds of CPUs and thousands of devices has. What
claims are decided by is derived from the change, where the views of the state before are known, and
equals what is derived from the state itself.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from rtagent.allocation.unknown_usage import running_with_unknown
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.usage import NumaUsage, Usage
from rtagent.numa.host_cells import HostCells, keep_cells
from rtagent.pci.allocations import DeviceAllocations, allocations_after, device_allocations
from rtagent.pci.assigned_resources import resources_of
from rtagent.pci.fit import DeviceFit
from rtagent.pci.matching import DeviceShares
from rtagent.pci.placement_reporting import device_providers
from rtagent.pci.requests import DeviceRequest


class Reusable(Value, frozen=True, kw_only=True):
    """The resources that an owner already has on this host and that its new claim may reuse.

    :ivar devices: the purpose of each PCI device, by address.
    :ivar identifiers: of assigned resources.
    """

    devices: Mapping[str, str] = {}
    identifiers: frozenset[str] = frozenset()


def reusable_by(state: NodeState, owner_id: str, claims: Sequence[Claim]) -> Reusable:
    """Return the resources of these claims of an owner, and those that its domain uses without a
    claim.

    An orphan that is adopted keeps its devices. If its domain is shut off, it keeps only those that
    have not been assigned to another owner in the meantime.
    """
    devices = {device.address: device.purpose for claim in claims for device in claim.pci}
    identifiers = {unit.identifier for claim in claims for unit in claim.resources}
    domain_usage = state.domain_usages.get(owner_id)
    if domain_usage is None:
        return Reusable(devices=devices, identifiers=frozenset(identifiers))
    claimed = {device.address for claim in state.claims_of(owner_id) for device in claim.pci}
    unclaimed = dict.fromkeys(domain_usage.occupancy.devices - claimed, "")
    used = resources_of(state, owner_id)
    return Reusable(devices={**unclaimed, **devices}, identifiers=used | identifiers)


#: The maximum number of device requests of which a state keeps the fit.
MAX_DEVICE_FITS = 16


def device_fit(
    state: NodeState,
    owner_id: str,
    requests: Sequence[DeviceRequest],
    reusable: Reusable,
    shares: DeviceShares | None = None,
    parents: Collection[str] = (),
) -> DeviceFit | None:
    """Prepare the fit of an owner's device requests; None: there are no requests, and the host has
    no devices.

    The NUMA fit prefers cells without devices for a guest without device requests.

    :param parents: devices of which the same claim gets mediated devices.
    """
    if not requests and not state.devices:
        return None
    if shares is None and not parents and state.is_new(owner_id):
        return _device_fit_for_new_owners(state, tuple(requests))
    return _device_fit(state, owner_id, requests, reusable.devices, shares, parents)


def _device_fit_for_new_owners(state: NodeState, requests: tuple[DeviceRequest, ...]) -> DeviceFit:
    """Return the fit of these requests for any owner that has nothing here. Guests of different
    sizes often request the same devices.
    """
    known = _fits_for_new_owners(state)
    fit = known.get(requests)
    if fit is None:
        fit = _device_fit(state, "", requests, {})
        if len(known) < MAX_DEVICE_FITS:
            known[requests] = fit
    return fit


@derived
def _fits_for_new_owners(state: NodeState) -> dict[tuple[DeviceRequest, ...], DeviceFit]:
    """Return an empty table, which is filled as requests come."""
    return {}


def carry_device_views(before: NodeState, after: NodeState) -> None:
    """Use what was derived from the devices of one state for a later one, of a node on which
    nothing about the devices and their users has changed.
    """
    device_allocations.carry(before, after)
    _fits_for_new_owners.carry(before, after)


def _device_fit(
    state: NodeState,
    owner_id: str,
    requests: Sequence[DeviceRequest],
    reusable: Mapping[str, str],
    shares: DeviceShares | None = None,
    parents: Collection[str] = (),
) -> DeviceFit:
    assert state.topology is not None
    allocations = device_allocations(state) if requests else DeviceAllocations(state.devices, ())
    if parents:
        allocations = allocations.with_parents(parents, owner_id)
    return DeviceFit(
        requests,
        allocations,
        owner_id,
        where=state.node.hypervisor_hostname,
        provider_of=device_providers(state),
        sockets={cell.id: cell.sockets for cell in state.topology.cells},
        reusable=reusable,
        shares=shares,
        order=state.policy.pci.order or "first",
    )


def host_for(state: NodeState, owner_id: str) -> HostCells:
    """Return the host with the usage of others.

    The usage of an orphan that is adopted is not counted. The owner's other claims are counted,
    unless ``same_host_resize_reuse`` lets the owner reuse their resources.
    """
    if state.is_new(owner_id):
        return host_for_new_owners(state)
    usage = state.usage.minus(state.usage_of(owner_id))
    if not state.policy.same_host_resize_reuse:
        usage = usage.plus(owner_usage(state.claims_of(owner_id)))
    return _host_with(state, usage)


@derived
def host_for_new_owners(state: NodeState) -> HostCells:
    return _host_with(state, state.usage)


def _host_with(state: NodeState, usage: Usage) -> HostCells:
    assert state.topology is not None
    return HostCells(
        name=state.node.hypervisor_hostname,
        topology=state.topology,
        usage=usage.numa,
        policy=state.policy.numa,
    )


def keep_views(before: NodeState, after: NodeState, change: Change) -> None:
    """Derive the views of the state after a change from those of the state before it.

    After a change of the host, its devices or its policy, they are derived anew.
    """
    if not change.domain_usages and not change.domain_usage_removals:
        running_with_unknown.carry(before, after)
    if change.topology is not None or change.policy is not None or after.topology is None:
        return
    _keep_host(
        before,
        after,
        (state.usage_of(owner).numa for state in (before, after) for owner in change.owners),
    )
    _keep_devices(before, after, change.owners)


def keep_views_of_new_owner(before: NodeState, after: NodeState, owner: str, usage: Usage) -> None:
    """Derive the views of the state after the first claim of an owner. :param usage: of it."""
    running_with_unknown.carry(before, after)
    _keep_host(before, after, (usage.numa,))
    _keep_devices(before, after, (owner,))


def _keep_host(before: NodeState, after: NodeState, changed: Iterable[NumaUsage]) -> None:
    """:param changed: the usage of every owner that has changed, before and after the change."""
    host = host_for_new_owners.known(before)
    if host is None:
        return
    if after.usage.numa is before.usage.numa:
        host_for_new_owners.keep(after, host)
        return
    keep_cells(host, host_for_new_owners(after), changed)


def _keep_devices(before: NodeState, after: NodeState, owners: Collection[str]) -> None:
    known = device_allocations.known(before)
    if known is None or not after.devices or after.devices is not before.devices:
        return
    kept = allocations_after(known, after, owners)
    if kept is known:
        carry_device_views(before, after)
    else:
        device_allocations.keep(after, kept)
