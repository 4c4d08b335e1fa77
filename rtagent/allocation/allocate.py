"""Allocation: decide whether a claim's requirements fit the host, and choose its resources."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from rtagent.allocation import capacity
from rtagent.allocation.encryption_contexts import FittedEncryption, fit_encryption
from rtagent.allocation.provider_pools import ProviderPools
from rtagent.allocation.quantities import FittedQuantities, fit_quantities
from rtagent.allocation.requirements import Requirements
from rtagent.allocation.shares import Shares, foreign
from rtagent.errors import NodeNotReady
from rtagent.model.assigned_resources import AssignedQuantity, AssignedResource
from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason, Refused, refuse
from rtagent.model.derived import derived
from rtagent.model.device import AssignedDevice
from rtagent.model.mem_encryption import MemEncryption
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.usage import Usage
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import Host
from rtagent.pci.allocations import DeviceAllocations, device_allocations
from rtagent.pci.assigned_resources import (
    FittedResources,
    ResourceRequest,
    allocatable_inventories,
    resource_choices,
    resource_users,
    resources_of,
)
from rtagent.pci.fit import DeviceFit, FittedDevices
from rtagent.pci.requests import DeviceRequest
from rtagent.pci.resource_providers import device_providers, provider_of_resource
from rtagent.pci.shares import DeviceShares

#: The maximum number of choices of parent devices to try.
MAX_CHOICES = 64
#: The maximum number of device requests of which a state keeps the fit.
MAX_DEVICE_FITS = 16


class Allocated(Value, frozen=True, kw_only=True):
    """The resources that are assigned to a claim. :ivar pci: in the order of the device requests,
    then of addresses.
    """

    numa_topology: Assignment
    pci: tuple[AssignedDevice, ...] = ()
    resources: tuple[AssignedResource, ...] = ()
    quantities: tuple[AssignedQuantity, ...] = ()
    mem_encryption: MemEncryption | None = None


class Reusable(Value, frozen=True, kw_only=True):
    """The resources that an owner already has on this host and that its new claim may reuse.

    :ivar devices: the purpose of each PCI device, by address.
    :ivar identifiers: of assigned resources.
    """

    devices: Mapping[str, str] = {}
    identifiers: frozenset[str] = frozenset()


def allocate(
    state: NodeState, owner_id: str, required: Requirements, shares: Shares | None = None
) -> Allocated | Refused:
    """Choose cells, CPUs, pages, devices and assigned resources for a new claim.

    The resources of the owner's other claims on this host are reused first (a move on one host),
    unless ``share_devices`` is off.
    Every step runs even if another one fails, so that a refusal has all reasons.

    :param shares: what Placement allocated to the claim; None: the agent chooses.
    :raises NodeNotReady: the host has not been observed yet.
    """
    if state.topology is None:
        raise NodeNotReady("the topology of this host is not known yet")
    shared = state.claims_of(owner_id) if state.policy.share_devices else ()
    reusable = reusable_by(state, owner_id, shared)
    shortfalls = tuple(capacity.shortfalls(state, owner_id, required.usage, required.limits))
    others = foreign(ProviderPools(state), required.assigned_resources)
    units = {k: v for k, v in required.assigned_resources.items() if k not in others}
    choices = _resource_choices(state, owner_id, units, reusable, shares)
    placed = _place(state, owner_id, required, reusable, shares, choices)
    quantities = fit_quantities(state, owner_id, others, shares.quantities if shares else None)
    encrypted = fit_encryption(state, owner_id, required.mem_encryption)
    reasons = (*shortfalls, *placed.reasons, *_reasons(quantities, encrypted))
    if reasons or not isinstance(placed.cells, Fitted):
        return refuse(dict.fromkeys(reasons))
    devices, resources = placed.devices, placed.resources
    return Allocated(
        numa_topology=placed.cells.assignment,
        pci=devices.devices if isinstance(devices, FittedDevices) else (),
        resources=resources.resources if isinstance(resources, FittedResources) else (),
        quantities=_quantities(quantities, encrypted),
        mem_encryption=encrypted.encryption if isinstance(encrypted, FittedEncryption) else None,
    )


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


class _Placed(Value, frozen=True, kw_only=True):
    """Cells, devices and assigned resources that were fitted together."""

    cells: Fitted | Refused
    devices: FittedDevices | Refused | None
    resources: FittedResources | Refused

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why something did not fit; empty: everything did."""
        return tuple(_reasons(self.cells, self.devices, self.resources))


def _place(
    state: NodeState,
    owner_id: str,
    required: Requirements,
    reusable: Reusable,
    shares: Shares | None,
    choices: Iterator[FittedResources | Refused],
) -> _Placed:
    """Choose cells, devices and assigned resources. A device is not assigned together with its own
    mediated devices, so the choice of mediated devices can exclude devices.

    :param choices: of assigned resources, at least one.
    :returns: the first placement that fits; if none does, the first.
    """
    assert state.topology is not None
    host, first = _host(state, owner_id), None
    for resources in itertools.islice(choices, MAX_CHOICES):
        parents = _parents(resources) if required.devices else frozenset[str]()
        devices = shares.devices if shares else None
        pci = None
        # Devices make no difference to a guest without cells that requests none. Allocations of
        # devices that nothing requests were refused before.
        if required.devices or required.numa.cells:
            pci = device_fit(state, owner_id, required.devices, reusable, devices, parents)
        cells = fit(required.numa, host, required.cell_limits, pci)
        placed = _Placed(
            cells=cells,
            devices=pci.fit(_host_cells(cells)) if pci is not None else None,
            resources=resources,
        )
        first = first or placed
        if not parents or not placed.reasons:
            return placed
    assert first is not None, "there is a choice"
    return first


def _parents(resources: FittedResources | Refused) -> frozenset[str]:
    """Return the parent devices of assigned resources."""
    units = resources.resources if isinstance(resources, FittedResources) else ()
    return frozenset(unit.parent_addr for unit in units if unit.parent_addr is not None)


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
    allocations = device_allocations(state) if requests else DeviceAllocations(state.devices, ())
    if parents:
        allocations = allocations.with_parents(parents, owner_id)
    return _device_fit(state, owner_id, requests, allocations, reusable.devices, shares)


def _device_fit_for_new_owners(state: NodeState, requests: tuple[DeviceRequest, ...]) -> DeviceFit:
    """Return the fit of these requests for any owner that has nothing here. Guests of different
    sizes often request the same devices.
    """
    known = _fits_for_new_owners(state)
    fit = known.get(requests)
    if fit is None:
        allocations = (
            device_allocations(state) if requests else DeviceAllocations(state.devices, ())
        )
        fit = _device_fit(state, "", requests, allocations, {}, None)
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
    allocations: DeviceAllocations,
    reusable: Mapping[str, str],
    shares: DeviceShares | None,
) -> DeviceFit:
    assert state.topology is not None
    return DeviceFit(
        requests,
        allocations,
        owner_id,
        where=state.node.hypervisor_hostname,
        provider_of=device_providers(state),
        sockets={cell.id: cell.sockets for cell in state.topology.cells},
        reusable=reusable,
        shares=shares,
        order=state.policy.pci.order,
    )


def _host(state: NodeState, owner_id: str) -> Host:
    """Return the host with the usage of others.

    The usage of an orphan that is adopted is not counted. The owner's other claims are counted,
    unless ``same_host_resize_reuse`` lets the owner reuse their resources.
    """
    if state.is_new(owner_id):
        return _host_for_new_owners(state)
    usage = state.usage.minus(state.usage_of(owner_id))
    if not state.policy.same_host_resize_reuse:
        usage = usage.plus(owner_usage(state.claims_of(owner_id), None))
    return _host_with(state, usage)


@derived
def _host_for_new_owners(state: NodeState) -> Host:
    return _host_with(state, state.usage)


def _host_with(state: NodeState, usage: Usage) -> Host:
    assert state.topology is not None
    return Host(
        name=state.node.hypervisor_hostname,
        topology=state.topology,
        usage=usage.numa,
        policy=state.policy.numa,
    )


def _host_cells(cells: Fitted | Refused) -> frozenset[int]:
    """Return the host cells of a guest; none if it has no cells or fits nowhere.

    For a guest without cells, every device is near.
    """
    assigned = cells.assignment.cells if isinstance(cells, Fitted) else ()
    return frozenset(cell.id for cell in assigned)


def _resource_choices(
    state: NodeState,
    owner_id: str,
    asked: Mapping[str, ResourceRequest],
    reusable: Reusable,
    shares: Shares | None,
) -> Iterator[FittedResources | Refused]:
    return resource_choices(
        allocatable_inventories(state) if asked else (),
        resource_users(state) if asked else {},
        owner_id,
        asked,
        where=state.node.hypervisor_hostname,
        provider_of=partial(provider_of_resource, state),
        reusable=reusable.identifiers,
        shares=shares.resources if shares else None,
    )


def _quantities(
    fitted: FittedQuantities | Refused, encrypted: FittedEncryption | Refused
) -> tuple[AssignedQuantity, ...]:
    quantities = fitted.quantities if isinstance(fitted, FittedQuantities) else ()
    context = encrypted.context if isinstance(encrypted, FittedEncryption) else None
    return quantities if context is None else (*quantities, context)


def _reasons(*results: object) -> Iterator[Reason]:
    for result in results:
        if isinstance(result, Refused):
            yield from result.reasons
