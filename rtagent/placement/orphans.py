"""Allocations that belong to no claim of this node, and their deletion by an operator. Pure."""

from __future__ import annotations

from rtagent.errors import ConsumerInUse, InvariantViolated
from rtagent.model.migration import ENDED
from rtagent.model.node_state import NodeState


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
