"""The rules of moves, pure: a move is a second claim of the same owner, and a record on each node.

Each node keeps its own record and is driven by its own calls, so the order of calls between the two
nodes does not matter. Every call may be repeated: a call that was served before finds its effect
and changes nothing; a call that comes after the move has ended the other way is refused.
"""

from rtagent.lifecycle.moves.context import ended, purge
from rtagent.lifecycle.moves.destination import finish_evacuation, finish_move, move_claim
from rtagent.lifecycle.moves.steps import (
    Outcome,
    drop_move_claim,
    drop_move_claim_at_dest,
    drop_move_claim_at_source,
    finish_revert,
    settle_move,
    start_move_out,
)

__all__ = [
    "Outcome",
    "drop_move_claim",
    "drop_move_claim_at_dest",
    "drop_move_claim_at_source",
    "ended",
    "finish_evacuation",
    "finish_move",
    "finish_revert",
    "move_claim",
    "purge",
    "settle_move",
    "start_move_out",
]
