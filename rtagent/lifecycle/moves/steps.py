"""The steps of a move after its claim: the guest leaves, arrives for good, or comes back.

The outcome of a move, for a caller that does not report the steps towards it.

The transitions that are missing on this node are made in one change. As with the steps, a repeat
changes nothing, and an outcome that contradicts an earlier one is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from rtagent.lifecycle.consequences import unchanged
from rtagent.lifecycle.moves.context import MoveContext, move_rule
from rtagent.lifecycle.transitions import illegal
from rtagent.model import migration
from rtagent.model.assignment import Assignment
from rtagent.model.change import Event
from rtagent.model.claim import ACTIVE, EVACUATION, INCOMING, OUTGOING, Claim
from rtagent.model.decision import Granted
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.observation import NEVER_OBSERVED, ObservedDomains
from rtagent.model.usage import assignment_usage
from rtagent.pci.assigned_resources import claimed_mdevs
from rtagent.pci.pmem import assigned_namespaces

#: Statuses before the guest moves.
PENDING = frozenset({*migration.INITIAL_STATUS.values(), "accepted", "queued"})


@move_rule
def start_move_out(move: MoveContext) -> Granted:
    """Hold the claim of a guest that is about to leave, for its return.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition:
    """
    before = move.source
    if before is None:
        raise move.no_source()
    if move.status in migration.ENDED:
        raise move.too_late()
    if move.in_other_move:
        raise move.other_move(before)
    suspect = before.suspect if before.quarantined else None
    left = move.event(before, suspect=suspect, migration_uuid=move.facts.uuid)
    pending = move.status is None or move.status in PENDING
    status = migration.MOVING_STATUS[move.facts.migration_type] if pending else str(move.status)
    return move.granted(move.record_with(status, migration.SOURCE, before), left)


@move_rule
def finish_revert(move: MoveContext) -> Granted:
    """Activate the claim of a guest that is back, or about to be started here again.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition:
    """
    before = move.source
    if before is None:
        raise move.no_source()
    if move.status in migration.SUCCEEDED:
        raise move.too_late()
    if move.in_other_move and move.status not in migration.ENDED:
        raise move.other_move(before)
    if move.in_other_move:  # a repeat, after the next move has begun
        return unchanged(move.call, move.now, before)
    status = migration.ERROR if move.status == migration.ERROR else migration.REVERTED
    return move.granted(move.record_with(status, migration.SOURCE, before), move.event(before))


def claimed_usage(claim: Claim) -> DomainUsage:
    """The usage of an active domain that has exactly what its claim assigns.

    Thread siblings that are reserved for the guest are not part of it: nothing runs there.
    """
    assignment = claim.numa_topology or Assignment()
    mdevs = claimed_mdevs(claim)
    parents = (unit.parent_addr for unit in mdevs.values())
    numa, pages = assignment_usage(assignment), dict[int, dict[int, int]]()
    for (cell_id, size), number in numa.pages.items():
        pages.setdefault(cell_id, {})[size] = number
    return DomainUsage(
        domain_uuid=claim.owner_id,
        name=claim.instance.display_name or claim.owner_id,
        active=True,
        vcpus=claim.flavor.vcpus,
        memory_mb=claim.flavor.memory_mb,
        occupancy=Occupancy(
            pcpus=assignment.taken - assignment.kept,
            vcpus=tuple(
                frozenset({cpu}) for cell in assignment.cells for cpu in cell.cpu_pinning.values()
            ),
            memory_mb=numa.memory_mb,
            pages=pages,
            devices=frozenset(device.address for device in claim.pci),
            mdevs=frozenset(mdevs),
            mdev_parents=frozenset(filter(None, parents)),
            mem_encryption=claim.mem_encryption.model if claim.mem_encryption else None,
            namespaces=frozenset(assigned_namespaces(claim.resources)),
        ),
    )


@move_rule
def drop_move_claim_at_source(move: MoveContext, domains: ObservedDomains) -> Granted:
    """Confirm: release what is held here for a guest that is elsewhere for good.

    A move without a claim here is recorded, too, so that a repeat does not release a claim that the
    guest gets here later.

    :param domains: those of the last complete observation. If an evacuated guest may still run
        here, its usage is recorded in the same change.
    :raises IllegalTransition:
    """
    before = move.source
    if move.status in migration.SUCCEEDED:
        return unchanged(move.call, move.now)
    if move.status in migration.RETURNED:
        raise move.too_late()
    if move.dest is not None and move.dest.state == INCOMING:
        raise illegal(move.dest, move.verb)
    record = move.record_with(
        migration.RELEASED_STATUS[move.facts.migration_type], migration.SOURCE, before
    )
    if before is None:
        return move.granted(record)
    remaining: tuple[DomainUsage, ...] = ()
    if move.facts.migration_type == EVACUATION and move.owner_id not in move.state.domain_usages:
        remaining = _remaining_usage(before, domains)
    return move.granted(record, move.event(before), domain_usages=remaining)


@move_rule
def drop_move_claim_at_dest(move: MoveContext) -> Granted:
    """Revert: release what is held here for a guest that goes back.

    An unknown move is recorded as reverted, so that a late creating call of the move is refused.

    :raises IllegalTransition:
    """
    events = _dest_ends(move)
    if not events and move.record is not None:
        return unchanged(move.call, move.now)
    return move.granted(move.record_with(migration.REVERTED, migration.DEST, None), *events)


@move_rule
def drop_move_claim(move: MoveContext) -> Granted:
    """End a move that has failed: release the destination's claim, activate the source's.

    :raises IllegalTransition:
    """
    source = move.source
    if move.status in migration.SUCCEEDED and move.dest is None:
        return unchanged(move.call, move.now)
    events = _dest_ends(move)
    if source is not None and source.state == OUTGOING and not move.in_other_move:
        events += (move.event(source, "stay", reason="the move failed"),)
    status = migration.REVERTED if move.status == migration.REVERTED else migration.ERROR
    role = migration.DEST if source is None else migration.SOURCE
    return move.granted(move.record_with(status, role, source), *events)


def _dest_ends(move: MoveContext) -> tuple[Event, ...]:
    """The end of the destination's claim, if there is one."""
    if move.dest is None:
        return ()
    if move.status in migration.SUCCEEDED:
        raise move.too_late("release_claim")
    if move.dest.migration_uuid != move.facts.uuid:
        raise move.other_move(move.dest)
    return (move.event(move.dest),)


def _remaining_usage(claim: Claim, domains: ObservedDomains) -> tuple[DomainUsage, ...]:
    """What an evacuated guest may still use here: what was observed, else everything that its claim
    assigns. Nothing if it was not here. The next complete observation corrects it."""
    if domains is NEVER_OBSERVED:
        return (claimed_usage(claim),)
    domain = domains.get(claim.owner_id)
    if domain is None:
        return ()
    claimed, usage = claimed_usage(claim), domain.domain_usage()
    return (claimed if usage is None else usage.completed(claimed),)


#: The guest is at its destination, and may go back; it is there for good; it is back at its source;
#: it never left.
Outcome = Literal["arrived", "confirmed", "reverted", "failed"]


@move_rule
def settle_move(move: MoveContext, outcome: Outcome) -> Granted:
    """Bring the claims of a move on this node to the state that its outcome calls for, whatever
    steps of it were reported. The facts name the nodes of the move, so that a claim which the guest
    has at its destination is not taken for the one that it leaves.

    A move without a claim here is recorded, so that a later call of it cannot contradict the
    outcome. A claim is of the source only if the guest leaves this node.

    :raises ClaimNotFound: ClaimExpired: the guest has arrived, and the move has no claim here.
    :raises IllegalTransition: the move had another outcome, or the claim takes part in another one.
    """
    if not _leaves_here(move) or move.in_other_move:
        move = replace(move, source=None)
    if move.dest is not None and move.dest.migration_uuid != move.facts.uuid:
        raise move.other_move(move.dest)
    returns = outcome in ("reverted", "failed")
    if move.status in (migration.SUCCEEDED if returns else migration.RETURNED):
        raise move.too_late()
    if outcome == "arrived" and move.source is None and move.dest is None:
        raise move.no_dest()
    events = tuple(_EVENTS[outcome](move))
    if not events and move.status in migration.RETURNED | migration.SUCCEEDED:
        return unchanged(move.call, move.now)
    role: migration.Role = (
        migration.SOURCE if move.dest is None and _leaves_here(move) else migration.DEST
    )
    record = move.record_with(_status(move, outcome, role), role, move.dest or move.source)
    return move.granted(record, *events)


def _leaves_here(move: MoveContext) -> bool:
    """Return whether this node is the move's source, as far as caller and record say."""
    here, record = move.state.node.hypervisor_hostname, move.record
    source = move.facts.source_node or (record.source_node if record else None)
    dest = move.facts.dest_node or (record.dest_node if record else None)
    return source == here or (source is None and dest != here)


def _arrival(move: MoveContext) -> Iterator[Event]:
    if move.dest is not None and move.dest.state == INCOMING:
        evacuated = move.facts.migration_type == EVACUATION
        yield move.event(move.dest, "finish_evacuation" if evacuated else "finish_move")


def _arrived(move: MoveContext) -> Iterator[Event]:
    yield from _arrival(move)
    if move.source is not None and move.source.state == ACTIVE:
        yield move.event(move.source, "start_move_out", migration_uuid=move.facts.uuid)


def _confirmed(move: MoveContext) -> Iterator[Event]:
    yield from _arrival(move)
    if move.source is not None and move.status not in migration.SUCCEEDED:
        yield move.event(move.source, "drop_move_claim_at_source")


def _returned(move: MoveContext) -> Iterator[Event]:
    if move.dest is not None:
        yield move.event(move.dest, "drop_move_claim_at_dest")
    if move.source is not None and move.source.state == OUTGOING:
        yield move.event(move.source, "finish_revert")


_EVENTS: Mapping[Outcome, Callable[[MoveContext], Iterator[Event]]] = {
    "arrived": _arrived,
    "confirmed": _confirmed,
    "reverted": _returned,
    "failed": _returned,
}


def _status(move: MoveContext, outcome: Outcome, role: migration.Role) -> str:
    """Return the status of the node's record; one that is final stays."""
    if move.status in migration.RETURNED | migration.SUCCEEDED:
        return str(move.status)
    if outcome in ("reverted", "failed"):
        return migration.REVERTED if outcome == "reverted" else migration.ERROR
    arrived = migration.ARRIVED_STATUS if role == migration.DEST else migration.MOVING_STATUS
    return (arrived if outcome == "arrived" else migration.RELEASED_STATUS)[
        move.facts.migration_type
    ]
