"""A host with one owner, as states; observations of it; and audits by the pure rules."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.kept_views import host_for_new_owners
from rtagent.model.domain_usage import EVERY_KIND, Occupancy
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Domain, Observation
from rtagent.model.topology import Topology
from rtagent.numa.host_cells import host_cells
from rtagent.pci.allocations import device_allocations
from rtagent.reconcile.plan import apply, plan
from rtagent.reconcile.steps import Outcome
from rtagent.state.compute_node import compute_node
from tests.support.hosts import NOON, TOPOLOGY, call, host, request, uid

OWNER, CLAIM = uid(1), uid(2)


def building(state: NodeState | None = None, claim_uuid: str = CLAIM) -> NodeState:
    """A state in which the owner has a building claim."""
    state = state or host()
    asked = call(operation_id=claim_uuid)
    return state.fold(
        claims.instance_claim(state, asked, NOON, request(2, 1024, owner=OWNER)).change
    )


def active() -> NodeState:
    """A state in which the owner's claim is active."""
    state = building()
    return state.fold(claims.activate_claim(state, call("activate_claim"), NOON, CLAIM).change)


def domain(
    uuid: str = OWNER, vcpus: int = 2, memory_mb: int = 1024, running: bool = True
) -> Domain:
    """By default a domain that is exactly what the owner's claim says."""
    return Domain(uuid=uuid, name="vm", active=running, vcpus=vcpus, memory_mb=memory_mb)


def unreadable(known: Domain) -> Domain:
    """Return a domain whose document cannot be read any more, and whose sizes are unknown."""
    return replace(known, vcpus=None, memory_mb=None, occupancy=Occupancy(unknown=EVERY_KIND))


def seen(
    *domains: Domain, complete: bool = True, topology: Topology | None = TOPOLOGY
) -> Observation:
    return Observation(
        domains={each.uuid: each for each in domains}, complete=complete, topology=topology
    )


def audited(
    base: NodeState,
    observation: Observation,
    lapsed: Iterable[str] = (),
    state: NodeState | None = None,
) -> tuple[NodeState, Outcome]:
    """The state after an audit. :param state: the state when it is applied, if not the base."""
    state = state or base
    steps = plan(base, observation, frozenset(lapsed))
    change, outcome = apply(state, steps, base.revision, NOON)
    after = state.fold(change) if change else state
    after.check()
    return after, outcome


def check_views(state: NodeState) -> None:
    """Check that the views of a state equal those of an equal state of which none is known.

    The views are known afterwards, so that those of the next state are derived from them.
    """
    assert views(state) == views(replace(state))


def views(state: NodeState) -> dict[str, Any]:
    """Return the capacity of the cells, and the devices in each form that they are read in."""
    allocations = device_allocations(state)
    owners = {*state.owners, *state.domain_usages}
    used = allocations.used_by(owners)
    return {
        "cells": host_cells(host_for_new_owners(state)) if state.topology else (),
        "record": compute_node(state),
        "available": allocations.available(),
        "available by owner": {
            owner: (
                allocations.available(owner),
                allocations.available(owner, allocations.used_by([owner])),
            )
            for owner in owners
        },
        "pools": allocations.pools(),
        "allocations": {address: allocations.allocations_of(address) for address in used},
        "states": {address: allocations.state(address) for address in state.devices},
        "used by": {owner: allocations.used_by([owner]) for owner in owners},
        "functions": {address for address in state.devices if allocations.has_used_vf(address)},
    }
