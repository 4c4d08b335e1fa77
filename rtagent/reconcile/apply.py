"""apply: the steps that still hold, as one Change; the others wait for the next audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rtagent.model.change import Change, Event
from rtagent.model.host import HostState
from rtagent.reconcile.evacuated import recorded
from rtagent.reconcile.step import Move, Outcome, Step
from rtagent.transitions import changed, moved

CAUSE = "audit"


def apply(
    state: HostState, steps: Sequence[Step], base_revision: int, now: datetime
) -> tuple[Change | None, Outcome]:
    """One precondition for each step: its key is untouched since the base (ABA-proof, since notes
    of what was touched outlive what they speak of)."""
    still = [step for step in steps if not state.touched_since(step.key, base_revision)]
    outcome = Outcome(
        applied=tuple(step.key for step in still),
        skipped=tuple(step.key for step in steps if step not in still),
    )
    return (_change(state, still, now) if still else None), outcome


def _change(state: HostState, steps: Sequence[Step], now: datetime) -> Change:
    moves = [move for step in steps for move in step.moves]
    events = tuple(_event(state, move, now) for move in moves)
    topologies = [step.topology for step in steps if step.topology is not None]
    specifics = [step.specific for step in steps if step.specific is not None]
    leasts = [s.disk_available_least for s in steps if s.disk_available_least is not None]
    made = Change(
        cause=CAUSE,
        actor=CAUSE,
        at=now,
        holdings=tuple(step.hold for step in steps if step.hold is not None),
        migrations=tuple(recorded(state, moves, now)),
        unholdings=tuple(step.key for step in steps if step.unhold),
        devices=tuple(step.device for step in steps if step.device is not None),
        device_removals=tuple(step.removal for step in steps if step.removal is not None),
        specific=specifics[0] if specifics else None,
        topology=topologies[0] if topologies else None,
        disk_available_least=leasts[0] if leasts else None,
    )
    return changed(state, made, events)


def _event(state: HostState, move: Move, now: datetime) -> Event:
    before = state.claims[move.claim_uuid]
    suspect = move.reason if move.verb == "suspect" else None
    after = moved(before, move.verb, state, now, suspect=suspect)
    return Event(before=before, after=after, action=move.verb, reason=move.reason)
