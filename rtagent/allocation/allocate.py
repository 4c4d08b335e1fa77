"""Allocation: decide whether a claim's requirements fit the host, and choose its resources."""

import itertools
from collections.abc import Iterator
from functools import partial

from rtagent.allocation import capacity
from rtagent.allocation.kept_views import Reusable, device_fit, host_for, reusable_by
from rtagent.allocation.provider_pools import ProviderPools
from rtagent.allocation.quantities import FittedEncryption, fit_encryption, fit_quantities
from rtagent.allocation.requirements import Requirements
from rtagent.allocation.shares import Shares, foreign
from rtagent.allocation.unknown_usage import needs_of, unknown_usage
from rtagent.errors import NodeNotReady
from rtagent.model.assignment import AssignedQuantity, AssignedResource, Assignment
from rtagent.model.base import Value
from rtagent.model.decision import Reason, Refused, refuse
from rtagent.model.device import AssignedDevice
from rtagent.model.mem_encryption import MemEncryption
from rtagent.model.node_state import NodeState
from rtagent.numa.fit import Fitted, fit
from rtagent.pci.assigned_resources import (
    FittedResources,
    allocatable_inventories,
    resource_choices,
    resource_users,
)
from rtagent.pci.fit import FittedDevices
from rtagent.pci.placement_reporting import provider_of_resource

#: The maximum number of choices of parent devices to try.
MAX_CHOICES = 64


class Allocated(Value, frozen=True, kw_only=True):
    """The resources that are assigned to a claim. :ivar pci: in the order of the device requests,
    then of addresses.
    """

    numa_topology: Assignment
    pci: tuple[AssignedDevice, ...] = ()
    resources: tuple[AssignedResource, ...] = ()
    quantities: tuple[AssignedQuantity, ...] = ()
    mem_encryption: MemEncryption | None = None


def allocate(
    state: NodeState, owner_id: str, required: Requirements, shares: Shares | None = None
) -> Allocated | Refused:
    """Choose cells, CPUs, pages, devices and assigned resources for a new claim.

    The resources of the owner's other claims on this host are reused first (a move on one host),
    unless ``shares_devices`` is false.
    Every step runs even if another one fails, so that a refusal has all reasons.

    :param shares: what Placement allocated to the claim; None: the agent chooses.
    :raises NodeNotReady: the host has not been observed yet.
    """
    if state.topology is None:
        raise NodeNotReady("the topology of this host is not known yet")
    shared = state.claims_of(owner_id) if state.policy.shares_devices else ()
    reusable = reusable_by(state, owner_id, shared)
    shortfalls = tuple(capacity.shortfalls(state, owner_id, required.usage, required.limits))
    others = foreign(ProviderPools(state), required.assigned_resources)
    units = {k: v for k, v in required.assigned_resources.items() if k not in others}
    unknown = unknown_usage(state, owner_id, needs_of(state, required, units))
    choices = resource_choices(
        allocatable_inventories(state) if units else (),
        resource_users(state) if units else {},
        owner_id,
        units,
        where=state.node.hypervisor_hostname,
        provider_of=partial(provider_of_resource, state),
        reusable=reusable.identifiers,
        shares=shares.resources if shares else None,
        numbered=required.numbered,
    )
    placed = _place(state, owner_id, required, reusable, shares, choices)
    quantities = fit_quantities(
        state, owner_id, others, shares.quantities if shares else None, required.numbered
    )
    encrypted = fit_encryption(state, owner_id, required.mem_encryption)
    reasons = (*shortfalls, *unknown, *placed.reasons, *_reasons(quantities, encrypted))
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
    host, first = host_for(state, owner_id), None
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


def _host_cells(cells: Fitted | Refused) -> frozenset[int]:
    """Return the host cells of a guest; none if it has no cells or fits nowhere.

    For a guest without cells, every device is near.
    """
    assigned = cells.assignment.cells if isinstance(cells, Fitted) else ()
    return frozenset(cell.id for cell in assigned)


def _quantities(
    fitted: tuple[AssignedQuantity, ...] | Refused, encrypted: FittedEncryption | Refused
) -> tuple[AssignedQuantity, ...]:
    quantities = () if isinstance(fitted, Refused) else fitted
    context = encrypted.context if isinstance(encrypted, FittedEncryption) else None
    return quantities if context is None else (*quantities, context)


def _reasons(*results: object) -> Iterator[Reason]:
    for result in results:
        if isinstance(result, Refused):
            yield from result.reasons
