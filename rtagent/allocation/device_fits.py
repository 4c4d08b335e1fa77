"""Fits of device requests, prepared once for all owners that have nothing on the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rtagent.allocation.reusable import Reusable
from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import DeviceAllocations, device_allocations
from rtagent.pci.fit import DeviceFit
from rtagent.pci.requests import DeviceRequest
from rtagent.pci.resource_providers import device_providers
from rtagent.pci.shares import DeviceShares

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
        order=state.policy.pci.order or "first",
    )
