"""How a move ends: confirmed, reverted, or failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from rtagent.model.assignment import Assignment
from rtagent.model.change import Call, Event
from rtagent.model.claim import EVACUATION, INCOMING, OUTGOING, Claim
from rtagent.model.decision import Granted
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.migration import (
    DEST,
    ERROR,
    LET_GO,
    OVER,
    RETURNED,
    REVERTED,
    SOURCE,
    MigrationFacts,
)
from rtagent.model.numa_usage import Occupancy
from rtagent.model.observation import Domain
from rtagent.moves.parties import Parties, noted, parties
from rtagent.pci.mdev import mdev_uuid
from rtagent.transitions import granted, illegal, moved, unchanged


def drop_move_claim_at_source(
    state: HostState,
    owner_id: str,
    told: MigrationFacts,
    call: Call,
    now: datetime,
    seen: Mapping[str, Domain] | None = None,
) -> Granted:
    """The guest is elsewhere for good: release what is held here for it. It is recorded also where
    there is nothing, so that the same call does not release what comes here later.

    :param seen: the domains that were here when the host was last seen whole; None: it never was.
        Of an evacuated guest that may still run here, what it uses is held in the same change.
    :raises IllegalTransition: ClaimConflict:
    """
    verb = "drop_move_claim_at_source"
    move = parties(state, owner_id, told)
    before = move.source
    if move.status in OVER:
        return unchanged(call, now)
    if move.status in RETURNED:
        raise move.too_late(verb)
    if move.dest is not None and move.dest.state == INCOMING:
        raise illegal(move.dest, verb)
    events: list[Event] = []
    kept: tuple[Holding, ...] = ()
    if before is not None:
        after = moved(before, verb, state, now)
        events.append(Event(before=before, after=after, action=verb))
        if told.migration_type == EVACUATION and owner_id not in state.holdings:
            kept = _still_here(before, seen)
    status = LET_GO[told.migration_type]
    record = noted(state, move, SOURCE, before, status, now)
    return granted(state, call, now, *events, migrations=(record,), holdings=kept)


def drop_move_claim_at_dest(
    state: HostState, owner_id: str, told: MigrationFacts, call: Call, now: datetime
) -> Granted:
    """The guest goes back: release what is held here for it. Of a move never heard of: recorded as
    reverted, so that a creating call that arrives after its own revert is refused.

    :raises IllegalTransition: ClaimConflict:
    """
    verb = "drop_move_claim_at_dest"
    move = parties(state, owner_id, told)
    events = tuple(_let_go(state, move, verb, now))
    if not events and move.record is not None:
        return unchanged(call, now)
    record = noted(state, move, DEST, None, REVERTED, now)
    return granted(state, call, now, *events, migrations=(record,))


def drop_move_claim(
    state: HostState, owner_id: str, told: MigrationFacts, call: Call, now: datetime
) -> Granted:
    """The move has failed: release what was taken here for the guest, and take it for one that
    stays here, if it was here.

    :raises IllegalTransition: ClaimConflict:
    """
    move = parties(state, owner_id, told)
    if move.status in OVER and move.dest is None:
        return unchanged(call, now)
    events = [*_let_go(state, move, "drop_move_claim", now)]
    source = move.source
    if source is not None and source.state == OUTGOING and not move.elsewhere:
        after = moved(source, "stay", state, now)
        events.append(Event(before=source, after=after, action="stay", reason="the move failed"))
    role = DEST if source is None else SOURCE
    status = REVERTED if move.status == REVERTED else ERROR
    record = noted(state, move, role, source, status, now)
    return granted(state, call, now, *events, migrations=(record,))


def _let_go(state: HostState, move: Parties, verb: str, now: datetime) -> Iterator[Event]:
    """The end of the claim that the guest came to, or was to come to."""
    dest = move.dest
    if dest is None:
        return
    if move.status in OVER:
        raise move.too_late(verb, "release_claim")
    if dest.migration_uuid != move.told.uuid:
        raise move.moved_on(dest, verb)
    yield Event(before=dest, after=moved(dest, verb, state, now), action=verb)


def _still_here(claim: Claim, seen: Mapping[str, Domain] | None) -> tuple[Holding, ...]:
    """What an evacuated guest holds if it was here when last seen: as it was seen, else all that
    its claim gave it. The next complete look at the host corrects it."""
    domain = seen.get(claim.owner_id) if seen is not None else None
    if seen is not None and domain is None:
        return ()
    return ((domain.holding() if domain else None) or _as_claimed(claim),)


def _as_claimed(claim: Claim) -> Holding:
    given = claim.numa_topology or Assignment()
    made = [unit for unit in claim.resources if unit.provider]
    pages: dict[int, dict[int, int]] = {}
    memory: dict[int, int] = {}
    for cell in given.cells:
        memory[cell.id] = memory.get(cell.id, 0) + cell.memory
        if cell.pagesize is not None:
            pools = pages.setdefault(cell.id, {})
            pools[cell.pagesize] = pools.get(cell.pagesize, 0) + cell.pages
    return Holding(
        domain_uuid=claim.owner_id,
        name=claim.instance.display_name or claim.owner_id,
        active=True,
        vcpus=claim.flavor.vcpus,
        memory_mb=claim.flavor.memory_mb,
        occupancy=Occupancy(
            pcpus=given.taken - given.kept,
            memory_mb=memory,
            pages=pages,
            devices=frozenset(device.address for device in claim.pci),
            mdevs=frozenset(mdev_uuid(claim.node_uuid, unit.identifier) for unit in made),
            makers=frozenset(unit.provider for unit in made),
        ),
    )
