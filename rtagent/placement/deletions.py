"""Which allocations on this node may be deleted, for a conductor or an operator. Pure.

A conductor deletes this node's part of the allocations of an instance that has left, and of its
migrations whose claims here have ended. An operator deletes allocations that belong to no claim.
Parts on other nodes stay.
"""

from collections.abc import Mapping

from rtagent.errors import ConsumerInUse, IllegalTransition, InvariantViolated
from rtagent.model.claim import OUTGOING
from rtagent.model.consumers import DeletionReason
from rtagent.model.migration import ENDED, SUCCEEDED
from rtagent.model.node_state import NodeState

#: The methods that end the claims of an instance which leaves in this way.
_ENDS: Mapping[DeletionReason, str] = {
    DeletionReason.EVACUATED: "drop_move_claim_at_source, release_claim",
    DeletionReason.MIGRATED: "drop_move_claim_at_source, release_claim",
    DeletionReason.SHELVE_OFFLOADED: "update_usage with vm_state shelved_offloaded, release_claim",
}


def unneeded_consumers(
    state: NodeState, instance_uuid: str, reason: DeletionReason
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
    if reason == DeletionReason.MIGRATED and succeeded and not held:
        return tuple(succeeded)
    claim = next((each for each in claims if each.state == OUTGOING), claims[0])
    raise IllegalTransition(
        claim_uuid=claim.uuid, state=claim.state, verb=reason.method, legal=_ENDS[reason]
    )


def check_deletable(state: NodeState, consumer_uuid: str) -> None:
    """Check that a consumer needs nothing on this node.

    :raises ConsumerInUse: it has a claim, a move or a domain here; the message names it.
    :raises InvariantViolated: it is not known what is claimed here.
    """
    if state.unknown:
        raise InvariantViolated(f"it is not known what is held: {'; '.join(state.unknown)}")
    user = _user(state, consumer_uuid)
    if user is not None:
        raise ConsumerInUse(consumer_uuid=consumer_uuid, user=user)


def _user(state: NodeState, uuid: str) -> str | None:
    """Return what a consumer has here."""
    for claim in state.claims_of(uuid):
        return f"its {claim.state} claim {claim.uuid}"
    record = state.migrations.get(uuid)
    if record is not None:
        if record.status not in ENDED:
            return f"the {record.status} {record.migration_type} of instance {record.instance_uuid}"
        for claim in state.claims_of(record.instance_uuid):
            if claim.migration_uuid == uuid and claim.state != "active":
                return f"its {claim.state} claim {claim.uuid}"
    domain = state.domain_usages.get(uuid)
    return None if domain is None else f"its domain {domain.name}"
