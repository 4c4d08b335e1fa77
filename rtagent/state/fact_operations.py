"""FactOperations: what the program that embeds the tracker states as facts."""

from __future__ import annotations

from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.model.adopt_request import AdoptRequest
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.state.operations import Operations


class FactOperations:
    """A fact is recorded even while no claim is created, for instance on a node that drains.

    Each method may raise `Unavailable`, and `ClaimConflict` if the operation id was used for
    another call.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def adopt_claim(self, request: AdoptRequest, call: Call) -> Claim:
        """Record what an instance has here already. The claim's uuid is the call's operation id.

        :raises UnitConflict: another owner holds a unit of it.
        :raises ClaimConflict: the owner's claims here do not allow another.
        :raises ClaimExpired: the claim has ended. :raises NodeNotReady:
        """
        return self._operations.change(
            lambda state, now: adopt_claim(state, request, call, now), call
        )
