"""The events of drift that an audit finds. Pure."""

from __future__ import annotations

from rtagent.model.change import Change
from rtagent.model.event import DRIFT_FOUND, Notification
from rtagent.model.event_payloads import DriftPayload
from rtagent.model.node_state import NodeState
from rtagent.reconcile.drift import drifts


def found_drift(before: NodeState, change: Change) -> tuple[Notification, ...]:
    """Return an event for each difference that the change records and that was not known before."""
    if not change.domain_usages:
        return ()
    owners = [usage.domain_uuid for usage in change.domain_usages]
    known = frozenset(drifts(before, owners))
    return tuple(
        Notification(
            type=DRIFT_FOUND,
            payload=DriftPayload(
                owner_id=drift.owner_id,
                claim_uuid=drift.claim_uuid,
                problem=drift.problem,
                resource=drift.resource,
                unit=drift.unit,
                claimed=drift.claimed,
                observed=drift.observed,
            ),
        )
        for drift in drifts(before.fold(change), owners)
        if drift not in known
    )
