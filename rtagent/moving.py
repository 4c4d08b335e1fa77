"""The tracker's verbs of moves: each hands one rule of `moves` to the kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime

from rtagent import moves
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted
from rtagent.model.host import HostState
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.observation import Domain

Rule = Callable[[HostState, str, MigrationFacts, Call, datetime], Granted]


class MoveVerbs(ABC):
    """A part of `rtagent.tracker.ResourceTracker`. What every verb may raise: `IllegalTransition`,
    `ClaimConflict`, `Unavailable`; what its rule names besides."""

    @abstractmethod
    def _may_create(self) -> None: ...

    @abstractmethod
    def _call(
        self, rule: Callable[..., Decision], call: Call, answers: bool = True
    ) -> tuple[Claim, ...]: ...

    def move_claim(self, request: MoveRequest, call: Call) -> Claim:
        """Hold resources for a guest that is to arrive: `resize_claim`, `live_migration_claim` and
        `rebuild_claim`, as the request says.

        :raises ComputeResourcesUnavailable: ClaimConflict: ClaimExpired:
        """
        self._may_create()
        return self._call(lambda s, now: moves.move_claim(s, request, call, now), call)[0]

    def start_move_out(self, owner_id: str, told: MigrationFacts, call: Call) -> Claim:
        """At the source: the guest is about to leave."""
        return self._step(moves.start_move_out, owner_id, told, call)

    def finish_move(self, owner_id: str, told: MigrationFacts, call: Call) -> Claim:
        """At the destination: the guest is here. :raises ClaimExpired: it must not be started."""
        return self._step(moves.finish, owner_id, told, call)

    def finish_evacuation(self, owner_id: str, told: MigrationFacts, call: Call) -> Claim:
        """The same, of a guest whose host is lost. :raises ClaimExpired: it must not be started."""
        return self._step(moves.finish, owner_id, told, call)

    def finish_revert(self, owner_id: str, told: MigrationFacts, call: Call) -> Claim:
        """At the source: the guest is back. :raises ClaimExpired: it must not be started."""
        return self._step(moves.finish_revert, owner_id, told, call)

    def drop_move_claim_at_source(
        self,
        owner_id: str,
        told: MigrationFacts,
        call: Call,
        seen: Mapping[str, Domain] | None = None,
    ) -> None:
        """Confirm. :param seen: the domains that were here when the host was last seen whole."""
        self._end(
            lambda s, o, m, c, now: moves.drop_move_claim_at_source(s, o, m, c, now, seen),
            owner_id,
            told,
            call,
        )

    def drop_move_claim_at_dest(self, owner_id: str, told: MigrationFacts, call: Call) -> None:
        """Revert."""
        self._end(moves.drop_move_claim_at_dest, owner_id, told, call)

    def drop_move_claim(self, owner_id: str, told: MigrationFacts, call: Call) -> None:
        """The move has failed."""
        self._end(moves.drop_move_claim, owner_id, told, call)

    def _step(self, rule: Rule, owner_id: str, told: MigrationFacts, call: Call) -> Claim:
        return self._call(lambda s, now: rule(s, owner_id, told, call, now), call)[0]

    def _end(self, rule: Rule, owner_id: str, told: MigrationFacts, call: Call) -> None:
        self._call(lambda s, now: rule(s, owner_id, told, call, now), call, answers=False)
