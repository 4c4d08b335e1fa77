"""The rules of moves, pure: a move is a second claim of the same owner, and two records.

Each side keeps its own record and is driven by its own calls, so that no order of them between the
two matters. Every call may come again: one that was served finds what it made and leaves it; one
that comes too late, after the move has ended the other way, is refused.
"""

from rtagent.moves.arriving import finish, move_claim
from rtagent.moves.ending import drop_move_claim, drop_move_claim_at_dest, drop_move_claim_at_source
from rtagent.moves.leaving import finish_revert, start_move_out
from rtagent.moves.memory import forget

__all__ = [
    "drop_move_claim",
    "drop_move_claim_at_dest",
    "drop_move_claim_at_source",
    "finish",
    "finish_revert",
    "forget",
    "move_claim",
    "start_move_out",
]
