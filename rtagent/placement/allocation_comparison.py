"""Compare the allocations of claims with those that Placement has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rtagent.errors import PlacementConflict
from rtagent.model.consumers import consumers_of, own_providers
from rtagent.model.node_state import NodeState
from rtagent.ports import PlacementAPI


def differing_consumers(api: PlacementAPI, state: NodeState) -> Sequence[str]:
    """Return the consumers of claims whose allocations in Placement differ or are missing.

    An owner with a quarantined claim is left out: it is not known what the claim has.

    :raises PlacementError: Placement cannot be read.
    """
    own = own_providers(state)
    found = _allocations(api, state, own)
    return sorted(
        uuid
        for owner in state.owners
        if not any(claim.quarantined for claim in state.claims_of(owner))
        for uuid, consumer in consumers_of(state, owner).items()
        if {name: part for name, part in consumer.parts.items() if name in own}
        != found.get(uuid, {})
    )


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
