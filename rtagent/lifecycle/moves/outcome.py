"""The outcome of a move, for a caller that does not report the steps towards it.

The transitions that are missing on this node are made in one change. As with the steps, a repeat
changes nothing, and an outcome that contradicts an earlier one is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from rtagent.lifecycle.consequences import unchanged
from rtagent.lifecycle.moves.context import MoveContext, move_rule
from rtagent.model import migration
from rtagent.model.change import Event
from rtagent.model.claim import ACTIVE, EVACUATION, INCOMING, OUTGOING
from rtagent.model.decision import Granted

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
