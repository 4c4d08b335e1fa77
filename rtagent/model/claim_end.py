"""ClaimEnd: how an owner's last claim on a node ended."""

from __future__ import annotations

from rtagent.model.base import Value

#: The actions that state that the owner needs nothing more from its claim: a caller's or an
#: operator's release, the end of a move by its conductor, and a recorded evacuation. A lapsed lease
#: (``expire``) is not among them: the caller may still be there.
CONFIRMED_ENDS = frozenset(
    {
        "abort",
        "release",
        "drop_move_claim",
        "drop_move_claim_at_dest",
        "drop_move_claim_at_source",
        "evacuated",
    }
)


class ClaimEnd(Value, frozen=True, kw_only=True):
    """How the last main claim of an owner on a node ended.

    :ivar action: the last action of the claim's history; "" if it was purged.
    :ivar revision: of the node, at which the claim ended.
    """

    claim_uuid: str
    action: str
    revision: int

    @property
    def confirmed(self) -> bool:
        """Whether a call or a recorded fact says that the owner needs nothing more here."""
        return self.action in CONFIRMED_ENDS
