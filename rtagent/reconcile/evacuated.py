"""Guests that another node has taken over, by an evacuation, while this host was away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from rtagent.model.claim import ACTIVE, OUTGOING
from rtagent.model.migration import RELEASED_STATUS, SOURCE, Migration, TakenOver
from rtagent.model.node_state import NodeState
from rtagent.reconcile.steps import ClaimTransition


def taken_over(
    base: NodeState, evacuated: Mapping[str, TakenOver]
) -> Mapping[str, ClaimTransition]:
    """The ends of the claims that other nodes have taken over, by claim uuid.

    A claim that was made after the snapshot waits for the next audit. A guest that has come back
    from the very host that took it over keeps its claim: what came from there cannot be older,
    whatever the clocks of the two hosts show.
    """
    transitions: dict[str, ClaimTransition] = {}
    for uuid in evacuated.keys() & base.claims.keys():
        claim, by = base.claims[uuid], evacuated[uuid]
        last_move = base.migrations.get(claim.migration_uuid or "")
        came_back = last_move is not None and last_move.source_compute == by.host
        if claim.state in (ACTIVE, OUTGOING) and not came_back:
            transitions[uuid] = ClaimTransition(
                claim_uuid=uuid,
                verb="evacuated",
                reason=f"its guest was evacuated to {by.host}",
                taken_over=by,
            )
    return transitions


def evacuation_records(
    state: NodeState, transitions: Iterable[ClaimTransition], now: datetime
) -> Iterator[Migration]:
    """The records that these evacuations are complete here. A later `drop_move_claim_at_source`
    finds the record, and releases no claim that the guest has here by then."""
    for transition in transitions:
        by = transition.taken_over
        if by is not None and by.migration_uuid and by.migration_uuid not in state.migrations:
            yield Migration(
                uuid=by.migration_uuid,
                node_uuid=state.node.uuid,
                role=SOURCE,
                instance_uuid=state.claims[transition.claim_uuid].owner_id,
                migration_type="evacuation",
                status=RELEASED_STATUS["evacuation"],
                claim_uuid=transition.claim_uuid,
                source_compute=state.node.host,
                source_node=state.node.hypervisor_hostname,
                dest_compute=by.host,
                created_at=now,
                updated_at=now,
            )
