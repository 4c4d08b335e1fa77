"""The host as the NUMA fit sees it: its cells, and their usage by others than the owner."""

from __future__ import annotations

from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.usage import Usage
from rtagent.numa.host_cells import Host


def host_for(state: NodeState, owner_id: str) -> Host:
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
def host_for_new_owners(state: NodeState) -> Host:
    return _host_with(state, state.usage)


def _host_with(state: NodeState, usage: Usage) -> Host:
    assert state.topology is not None
    return Host(
        name=state.node.hypervisor_hostname,
        topology=state.topology,
        usage=usage.numa,
        policy=state.policy.numa,
    )
