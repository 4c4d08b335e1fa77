"""Compare the allocations of claims with those that Placement has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rtagent.errors import PlacementConflict
from rtagent.model.consumers import Parts, consumers_of, own_providers
from rtagent.model.node_state import NodeState
from rtagent.placement.api import PlacementAPI


def differing_consumers(api: PlacementAPI, state: NodeState) -> Sequence[str]:
    """Return the consumers of claims whose allocations in Placement differ, are missing, or should
    not be there.

    An owner with a quarantined claim is left out: it is not known what the claim has.

    :raises PlacementError: Placement cannot be read.
    """
    own = own_providers(state)
    found = _allocations(api, state, own)
    return sorted(
        uuid
        for owner in state.owners
        for uuid, parts in _wanted(state, owner).items()
        if {name: part for name, part in parts.items() if name in own} != found.get(uuid, {})
    )


def _wanted(state: NodeState, owner: str) -> Mapping[str, Parts]:
    """Return what an owner's consumers should have, by uuid.

    A migration may have nothing here, but may have had: its guest has arrived, or shares what it
    had with its new claim since a reload.
    """
    claims = state.claims_of(owner)
    if any(claim.quarantined for claim in claims):
        return {}
    moves = (claim.migration_uuid for claim in claims)
    wanted: dict[str, Parts] = {uuid: {} for uuid in moves if uuid}
    return wanted | {uuid: each.parts for uuid, each in consumers_of(state, owner).items()}


def _allocations(
    api: PlacementAPI, state: NodeState, own: Set[str]
) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return what consumers have on this node's providers, in one request for each provider."""
    found: dict[str, dict[str, Mapping[str, int]]] = {}
    for uuid in sorted(each["uuid"] for each in api.tree(state.node.uuid) if each["uuid"] in own):
        try:
            allocations = api.allocations(uuid)["allocations"]
        except PlacementConflict:
            continue  # it was deleted meanwhile, so that nothing is allocated from it
        for consumer, part in allocations.items():
            found.setdefault(consumer, {})[uuid] = part["resources"]
    return found
