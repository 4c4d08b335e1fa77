"""apply: the steps that still hold, as one Change. The others wait for the next audit."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import asdict, replace

from rtagent.lifecycle.consequences import with_consequences
from rtagent.lifecycle.transitions import event_of
from rtagent.model.change import Change, Event
from rtagent.model.event import DRIFT_FOUND, DriftPayload, Notification
from rtagent.model.node_state import NodeState
from rtagent.reconcile.drift import drifts
from rtagent.reconcile.plan import evacuation_records, is_left_to_calls
from rtagent.reconcile.steps import AuditStep, ClaimTransition, Outcome

T = TypeVar("T")

CAUSE = "audit"


def found_drift(before: NodeState, change: Change) -> tuple[Notification, ...]:
    """Return an event for each difference that the change records and that was not known before."""
    if not change.domain_usages:
        return ()
    owners = [usage.domain_uuid for usage in change.domain_usages]
    known = frozenset(drifts(before, owners))
    return tuple(
        Notification(type=DRIFT_FOUND, payload=DriftPayload(**asdict(drift)))
        for drift in drifts(before.fold(change), owners)
        if drift not in known
    )


def apply(
    state: NodeState, steps: Sequence[AuditStep], base_revision: int, now: datetime
) -> tuple[Change | None, Outcome]:
    """Make the change of the steps whose key is untouched since the base.

    A key that was changed and changed back counts as touched (no ABA): the notes of what was
    touched outlive what they are about. A reload may have quarantined a claim since the base, at
    the same revision; its step is skipped. But what is unknown of a running domain is recorded
    whatever touched its owner: no claim gets it before the next audit.
    """
    current = [
        step
        for step in steps
        if not state.touched_since(step.key, base_revision) and not _is_left_to_calls(state, step)
    ]
    skipped = [step for step in steps if step not in current]
    outcome = Outcome(
        applied=tuple(step.key for step in current), skipped=tuple(step.key for step in skipped)
    )
    current += _unknown(state, skipped)
    return (_change(state, current, now) if current else None), outcome


def _unknown(state: NodeState, steps: Iterable[AuditStep]) -> Iterator[AuditStep]:
    for step in steps:
        usage, recorded = step.domain_usage, state.domain_usages.get(step.key)
        if usage is not None and usage.active and usage.occupancy.unknown:
            yield AuditStep(key=step.key, domain_usage=usage.completed(recorded))


def _is_left_to_calls(state: NodeState, step: AuditStep) -> bool:
    claims = state.claims_of(step.key) if step.transitions else ()
    return any(is_left_to_calls(claims, planned) for planned in step.transitions)


def _change(state: NodeState, steps: Sequence[AuditStep], now: datetime) -> Change:
    transitions = [planned for step in steps for planned in step.transitions]
    events = tuple(_event(state, planned, now) for planned in transitions)
    change = Change(
        cause=CAUSE,
        actor=CAUSE,
        at=now,
        domain_usages=tuple(s.domain_usage for s in steps if s.domain_usage is not None),
        domain_usage_removals=tuple(step.key for step in steps if step.removes_domain_usage),
        migrations=tuple(evacuation_records(state, transitions, now)),
        devices=tuple(step.device for step in steps if step.device is not None),
        device_removals=tuple(s.removed_device for s in steps if s.removed_device is not None),
        resource_inventories=_first(step.resource_inventories for step in steps),
        topology=_first(step.topology for step in steps),
        disk_available_least=_first(step.disk_available_least for step in steps),
    )
    change = with_consequences(state, change, events)
    return replace(change, notifications=found_drift(state, change))


def _first(facts: Iterable[T | None]) -> T | None:
    return next((fact for fact in facts if fact is not None), None)


def _event(state: NodeState, planned: ClaimTransition, now: datetime) -> Event:
    before = state.claims[planned.claim_uuid]
    suspect = planned.reason if planned.verb == "suspect" else None
    return event_of(before, planned.verb, state, now, planned.reason, suspect=suspect)
