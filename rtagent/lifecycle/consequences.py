"""What follows from transitions of claims: the complete change.

When a claim ends, so do the attach claims that were added to it and the move that it takes part in,
and devices that may be used once are quarantined.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rtagent.lifecycle.transitions import event_of
from rtagent.model.change import Call, Change, Event
from rtagent.model.claim import ATTACH, INCOMING, OUTGOING, RELEASED, Claim
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevice
from rtagent.model.migration import ENDED, ERROR, RELEASED_STATUS, Migration
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import whole_device_allocations
from rtagent.pci.specs import quarantine_used


def granted(state: NodeState, call: Call, now: datetime, *events: Event, **parts: Any) -> Granted:
    """Grant a call that makes these transitions. The answer is the claims after them.

    :param parts: other parts of the `Change`.
    """
    claims = tuple(event.after for event in events)
    change = call.change(now, operations=(call.operation(*claims),), **parts)
    return Granted(with_consequences(state, change, events), claims)


def unchanged(call: Call, now: datetime, *claims: Claim) -> Granted:
    """Grant a call that has nothing to change: it is recorded, and answered with these claims."""
    return Granted(call.change(now, operations=(call.operation(*claims),)), claims)


def with_consequences(state: NodeState, change: Change, events: Sequence[Event]) -> Change:
    """Add these events of claims to a change, and everything that follows from them."""
    attached = tuple(_attached_ends(state, events, change.at))
    ended = {event.after.uuid for event in attached}  # their other events are superseded
    every = (*(event for event in events if event.after.uuid not in ended), *attached)
    claims = tuple(event.after for event in every)
    complete = replace(
        change,
        puts=tuple(claim for claim in claims if claim.state != RELEASED),
        ends=tuple(claim for claim in claims if claim.state == RELEASED),
        events=every,
        migrations=(*change.migrations, *_aborted_moves(state, change, every)),
    )
    quarantined = _used_devices(state, complete)
    if not quarantined:
        return complete
    devices = {each.address: each for each in (*complete.devices, *quarantined)}
    return replace(complete, devices=tuple(devices.values()))


def _attached_ends(state: NodeState, events: Sequence[Event], now: datetime) -> Iterator[Event]:
    """The ends of attach claims when every main claim older than them has ended.

    A main claim that is younger was made by a move, and has their devices itself. How old a
    quarantined claim is may be unknown: it ends with all main claims, and so does one that was made
    before every main claim.
    """
    ended = {event.after.uuid for event in events if event.after.state == RELEASED}
    for owner in sorted({event.after.owner_id for event in events if event.after.uuid in ended}):
        claims = state.claims_of(owner)
        every = [claim.uuid for claim in claims if claim.kind != ATTACH]
        older: list[str] = []
        for claim in claims:
            if claim.kind != ATTACH:
                older.append(claim.uuid)
                continue
            mains = every if claim.quarantined else older or every
            if claim.uuid not in ended and mains and ended.issuperset(mains):
                reason = "the claim that it was added to has ended"
                yield event_of(claim, "release", state, now, reason)


def _aborted_moves(
    state: NodeState, change: Change, events: Sequence[Event]
) -> Iterator[Migration]:
    """Records of moves that end because their claims do: by a release, a lapsed lease, or the
    deletion of the instance. Moves whose records are in the change already are left out."""
    recorded = {migration.uuid for migration in change.migrations}
    ends: dict[str, list[Event]] = {}
    for event in events:
        uuid = event.after.migration_uuid
        if event.after.state == RELEASED and uuid is not None and uuid not in recorded:
            ends.setdefault(uuid, []).append(event)
    for uuid, events_of_move in ends.items():
        record = state.migrations.get(uuid)
        if record is None or record.status in ENDED:
            continue
        status = _status_after(state, record, events_of_move)
        if status is not None:
            yield replace(record, status=status, updated_at=change.at)


def _status_after(state: NodeState, record: Migration, ends: Sequence[Event]) -> str | None:
    """A move's status after these ends of its claims; None: as it was.

    A guest that never arrived makes an error, and so does one that another node took over
    meanwhile. Giving up what was held for its return confirms the move, as in Nova.
    """
    before = [(event.before, event.action) for event in ends if event.before is not None]
    if any(claim.state == INCOMING for claim, _ in before):
        return ERROR
    if any(claim.state == OUTGOING and action == "evacuated" for claim, action in before):
        return ERROR
    dest = state.claims.get(record.claim_uuid or "")
    awaited = dest is not None and dest.state == INCOMING  # on this same host
    if any(claim.state == OUTGOING for claim, _ in before) and not awaited:
        return RELEASED_STATUS[record.migration_type]
    return None


def _used_devices(state: NodeState, change: Change) -> tuple[PciDevice, ...]:
    """Devices for one use that the change frees, as they are recorded in quarantine."""
    freed = {device.address for claim in change.ends for device in claim.pci}
    for claim in change.puts:  # an attach claim may give back some of its devices
        before = state.claims.get(claim.uuid, claim)
        freed |= {each.address for each in before.pci} - {each.address for each in claim.pci}
    changed = (usage.domain_uuid for usage in change.domain_usages)
    for uuid in (*change.domain_usage_removals, *changed):
        if uuid in state.domain_usages and state.domain_usages[uuid].active:
            freed |= state.domain_usages[uuid].occupancy.devices
    known = (*(state.devices[a] for a in freed if a in state.devices), *change.devices)
    if not any(each.tags.one_time_use for each in known):
        return ()
    after = state.fold(change)
    allocated = {allocation.address for allocation in whole_device_allocations(after)}
    return quarantine_used(after.devices, freed - allocated)
