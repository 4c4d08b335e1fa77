"""The host as the NUMA fit sees it, and views of a state that are derived from those of the state
before it.

A claim changes little of what a host with hundreds of CPUs and thousands of devices has. What
claims are decided by is derived from the change, where the views of the state before are known, and
equals what is derived from the state itself.
"""

from collections.abc import Collection, Iterable

from rtagent.allocation.device_fits import carry_device_views
from rtagent.allocation.unknown_usage import running_with_unknown
from rtagent.model.change import Change
from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.usage import NumaUsage, Usage
from rtagent.numa.host_cells import HostCells, keep_cells
from rtagent.pci.allocations import allocations_after, device_allocations


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
