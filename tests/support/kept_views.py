"""Compare the views that a state has from the state before it with those derived from it alone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rtagent.allocation.hosts import host_for_new_owners
from rtagent.model.node_state import NodeState
from rtagent.numa.host_cells import host_cells
from rtagent.pci.allocations import device_allocations
from rtagent.state.compute_node import compute_node


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
