"""Delete the allocations of an instance that has left this node, when its conductor says so. Pure.

What is deleted is this node's part of the instance's allocations, and of its migrations' if their
claims here have ended. Parts on other nodes stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.errors import IllegalTransition
from rtagent.model.claim import OUTGOING
from rtagent.model.departure import Departure
from rtagent.model.migration import ENDED, SUCCEEDED
from rtagent.model.node_state import NodeState

#: The methods that end the claims of an instance which leaves in this way.
_ENDS: Mapping[Departure, str] = {
    Departure.EVACUATED: "drop_move_claim_at_source, release_claim",
    Departure.MIGRATED: "drop_move_claim_at_source, release_claim",
    Departure.SHELVE_OFFLOADED: "update_usage with vm_state shelved_offloaded, release_claim",
}


def departed_consumers(
    state: NodeState, instance_uuid: str, departure: Departure
) -> tuple[str, ...]:
    """Return the consumers that need nothing more on this node.

    After a resize on this host the instance has a claim here, and keeps its allocation; only that
    of the migration is deleted.

    :raises IllegalTransition: the instance has a claim here that needs the allocation.
    """
    claims = state.claims_of(instance_uuid)
    moves = sorted(
        (each for each in state.migrations.values() if each.instance_uuid == instance_uuid),
        key=lambda each: (each.created_at, each.uuid),
    )
    held = {claim.migration_uuid for claim in claims if claim.state == OUTGOING}
    if not claims:
        ended = (each.uuid for each in moves if each.status in ENDED)
        return (instance_uuid, *ended)
    succeeded = [each.uuid for each in moves if each.status in SUCCEEDED and each.uuid not in held]
    if departure == Departure.MIGRATED and succeeded and not held:
        return tuple(succeeded)
    claim = next((each for each in claims if each.state == OUTGOING), claims[0])
    raise IllegalTransition(
        claim_uuid=claim.uuid, state=claim.state, verb=departure.method, legal=_ENDS[departure]
    )
