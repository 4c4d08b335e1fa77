"""MoveOperations: the methods of moves, under the names that the RPC API and Nova give them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rtagent.lifecycle import moves
from rtagent.lifecycle.moves import MoveContext
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.node_state import NodeState
from rtagent.model.observation import ObservedDomains
from rtagent.state.operations import Operations, Rule


class MoveOperations:
    """Each method runs one rule of `rtagent.lifecycle.moves`.

    Each may raise `IllegalTransition`, `ClaimConflict`, `ClaimNotFound`, `Unavailable`, and
    `ClaimExpired` where it returns a claim: then the guest must not be started here.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def move_claim(self, request: MoveRequest, call: Call) -> Claim:
        """Claim resources for a guest that is to arrive: `resize_claim`, `live_migration_claim` and
        `rebuild_claim`.

        :raises ComputeResourcesUnavailable: refused.
        """
        return self._operations.create(
            lambda state, now: moves.move_claim(state, request, call, now), call
        )

    def start_move_out(self, owner_id: str, facts: MigrationFacts, call: Call) -> Claim:
        """At the source: the guest is about to leave."""
        rule = _rule(moves.start_move_out, "start_move_out", owner_id, facts, call)
        return self._operations.change(rule, call)

    def finish_move(self, owner_id: str, facts: MigrationFacts, call: Call) -> Claim:
        """At the destination: the guest is here."""
        rule = _rule(moves.finish_move, "finish_move", owner_id, facts, call)
        return self._operations.change(rule, call)

    def finish_evacuation(self, owner_id: str, facts: MigrationFacts, call: Call) -> Claim:
        """At the destination: a guest whose host is lost is here."""
        rule = _rule(moves.finish_move, "finish_evacuation", owner_id, facts, call)
        return self._operations.change(rule, call)

    def finish_revert(self, owner_id: str, facts: MigrationFacts, call: Call) -> Claim:
        """At the source: the guest is back."""
        rule = _rule(moves.finish_revert, "finish_revert", owner_id, facts, call)
        return self._operations.change(rule, call)

    def drop_move_claim_at_source(
        self, owner_id: str, facts: MigrationFacts, call: Call, domains: ObservedDomains
    ) -> None:
        """At the source: confirm the move.

        :param domains: those of the last complete observation, for a guest that was evacuated and
            may still run here.
        """

        def drop(move: MoveContext) -> Granted:
            return moves.drop_move_claim_at_source(move, domains)

        rule = _rule(drop, "drop_move_claim_at_source", owner_id, facts, call)
        self._operations.execute(rule, call)

    def drop_move_claim_at_dest(self, owner_id: str, facts: MigrationFacts, call: Call) -> None:
        """At the destination: revert the move."""
        rule = _rule(
            moves.drop_move_claim_at_dest, "drop_move_claim_at_dest", owner_id, facts, call
        )
        self._operations.execute(rule, call)

    def drop_move_claim(self, owner_id: str, facts: MigrationFacts, call: Call) -> None:
        """At either node: end a move that has failed."""
        rule = _rule(moves.drop_move_claim, "drop_move_claim", owner_id, facts, call)
        self._operations.execute(rule, call)


def _rule(
    rule: Callable[[MoveContext], Granted],
    verb: str,
    owner_id: str,
    facts: MigrationFacts,
    call: Call,
) -> Rule:
    def decide(state: NodeState, now: datetime) -> Granted:
        return rule(moves.move_context(state, owner_id, facts, verb, call, now))

    return decide
