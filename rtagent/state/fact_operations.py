"""FactOperations: what the program that embeds the tracker states as facts."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from rtagent.lifecycle import moves
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.stated_ends import give_back_devices, release_claims
from rtagent.model.adopt_request import AdoptRequest
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.migration import MigrationFacts
from rtagent.model.node_state import NodeState
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

    def release_claims(
        self,
        owner_id: str,
        call: Call,
        claim_uuids: Collection[str] | None = None,
        *,
        reason: str = "",
    ) -> None:
        """Release these claims of an owner in one transaction, in whatever state they are.

        :param claim_uuids: None: all. Claims that have ended are no error.
        :param reason: for the history.
        :raises ClaimNotFound: a claim is another owner's.
        """
        self._operations.execute(
            lambda state, now: release_claims(state, owner_id, claim_uuids, call, now, reason), call
        )

    def give_back_devices(
        self, owner_id: str, devices: Collection[str], call: Call, claim_uuid: str | None = None
    ) -> None:
        """Give back devices of an owner's claims, main and attach claims. An attach claim without
        any device ends.

        :param devices: addresses. :param claim_uuid: only of this claim; None: of all.
        :raises PciDevicesNotClaimed: the claims do not have all of them. :raises ClaimNotFound:
        """
        self._operations.execute(
            lambda state, now: give_back_devices(state, owner_id, devices, call, now, claim_uuid),
            call,
        )

    def settle_move(
        self, owner_id: str, facts: MigrationFacts, outcome: moves.Outcome, call: Call
    ) -> None:
        """Record the outcome of a move, whatever steps of it were reported.

        :param facts: with the nodes of the move, so that a claim which the guest has at its
            destination is not taken for the one that it leaves.
        :raises IllegalTransition: the move had another outcome.
        :raises ClaimNotFound: ClaimExpired: the guest has arrived, and the move has no claim here.
        :raises ClaimConflict: the migration is another instance's, or of another type.
        """

        def rule(state: NodeState, now: datetime) -> Granted:
            move = moves.move_context(state, owner_id, facts, "settle_move", call, now)
            return moves.settle(move, outcome)

        self._operations.execute(rule, call)
