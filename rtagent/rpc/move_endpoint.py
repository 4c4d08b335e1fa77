"""The endpoint's methods of moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from rtagent.audit import Auditor
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.migration import MigrationFacts
from rtagent.rpc import move_methods, replies
from rtagent.rpc.move_requests import cold_kind, move_request
from rtagent.rpc.served import served
from rtagent.tracker import ResourceTracker

Step = Callable[[str, MigrationFacts, Call], Claim]


class MoveEndpoint(ABC):
    """A part of `rtagent.rpc.endpoint.Endpoint`."""

    _tracker: ResourceTracker
    _auditor: Auditor

    @abstractmethod
    def _shown(self, claim: Claim) -> replies.Claim: ...

    @abstractmethod
    def _ready(self, claim: Claim) -> replies.Claim: ...

    @served
    def resize_claim(self, arguments: move_methods.ResizeClaim, call: Call) -> replies.Claim:
        flavor = arguments.flavor
        kind = cold_kind(flavor, arguments.instance, arguments.migration)
        request = move_request(arguments, arguments.operation_id, kind, flavor, arguments.image)
        return self._ready(self._tracker.move_claim(request, call))

    @served
    def live_migration_claim(
        self, arguments: move_methods.LiveMigrationClaim, call: Call
    ) -> replies.Claim:
        request = move_request(arguments, arguments.operation_id, "live-migration")
        return self._ready(self._tracker.move_claim(request, call))

    @served
    def rebuild_claim(self, arguments: move_methods.RebuildClaim, call: Call) -> replies.Claim:
        image, uuid = arguments.image, arguments.operation_id
        request = move_request(arguments, uuid, "evacuation", image=image)
        return self._ready(self._tracker.move_claim(request, call))

    @served
    def start_move_out(self, arguments: move_methods.MoveChange, call: Call) -> replies.Claim:
        return self._step(self._tracker.start_move_out, arguments, call)

    @served
    def finish_move(self, arguments: move_methods.MoveChange, call: Call) -> replies.Claim:
        return self._step(self._tracker.finish_move, arguments, call)

    @served
    def finish_evacuation(self, arguments: move_methods.MoveChange, call: Call) -> replies.Claim:
        return self._step(self._tracker.finish_evacuation, arguments, call)

    @served
    def finish_revert(self, arguments: move_methods.MoveChange, call: Call) -> replies.Claim:
        owner, migration = arguments.instance_uuid, arguments.migration
        return self._ready(self._tracker.finish_revert(owner, migration, call))

    @served
    def drop_move_claim_at_source(self, arguments: move_methods.MoveChange, call: Call) -> None:
        self._tracker.drop_move_claim_at_source(
            arguments.instance_uuid, arguments.migration, call, self._auditor.domains
        )

    @served
    def drop_move_claim_at_dest(self, arguments: move_methods.MoveChange, call: Call) -> None:
        self._tracker.drop_move_claim_at_dest(arguments.instance_uuid, arguments.migration, call)

    @served
    def drop_move_claim(self, arguments: move_methods.MoveChange, call: Call) -> None:
        self._tracker.drop_move_claim(arguments.instance_uuid, arguments.migration, call)

    def _step(self, step: Step, arguments: move_methods.MoveChange, call: Call) -> replies.Claim:
        return self._shown(step(arguments.instance_uuid, arguments.migration, call))
