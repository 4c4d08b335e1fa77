"""Moves of a guest to another host: they are confirmed, reverted, or fail on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rtagent.rpc.client import source_of
from tests.chaos.callers import flavors
from tests.chaos.callers.step import Part

if TYPE_CHECKING:
    from tests.chaos.callers.guest_life import GuestLife


class Moves:
    """Moves one guest. Each part returns whether the guest runs after it."""

    def __init__(self, guest: GuestLife) -> None:
        self._guest, self._rng = guest, guest.rng
        others = [host for host in guest.hosts if host != guest.host]
        self._source = guest.host
        self._dest = self._rng.choice(others or [guest.host])

    def cold(self) -> Part:
        """Resize the guest, or migrate it cold. Confirm or revert that."""
        new = flavors.flavor(self._rng) if self._rng.random() < 0.5 else None
        kind = "resize" if new else "migration"
        arguments = {"flavor": new or self._guest.instance["flavor"]}
        return (yield from self._move("resize_claim", kind, arguments))

    def live(self) -> Part:
        """Migrate the guest live."""
        return (yield from self._move("live_migration_claim", "live-migration", {}))

    def evacuate(self) -> Part:
        """Rebuild the guest elsewhere, as if its host had failed. The source is confirmed later."""
        guest = self._guest
        claim, move = yield from self._claim("rebuild_claim", "evacuation", {})
        if claim is None:
            return True
        self._leave()
        finished = yield guest.step("finish_evacuation", host=self._dest, **move)
        if not finished.ok:
            return (yield from self._lost(move))
        yield from self._arrive(finished.reply)
        yield guest.step("drop_move_claim_at_source", host=self._source, **move)
        return True

    def _move(self, method: str, kind: str, arguments: dict[str, Any]) -> Part:
        guest = self._guest
        claim, move = yield from self._claim(method, kind, arguments)
        if claim is None:
            return True
        started = yield guest.step("start_move_out", host=self._source, **move)
        if not started.ok or self._rng.random() < 0.15:
            return (yield from self._fail(move))
        self._leave()
        finished = yield guest.step("finish_move", host=self._dest, **move)
        if not finished.ok:
            return (yield from self._back(move))
        old = guest.claim
        yield from self._arrive(finished.reply)
        if kind != "live-migration" and self._rng.random() < 0.3:
            guest.stop()
            guest.host, guest.claim = self._source, old
            return (yield from self._back(move))
        yield guest.step("drop_move_claim_at_source", host=self._source, **move)
        if "flavor" in arguments:
            guest.instance = {**guest.instance, "flavor": arguments["flavor"]}
        return True

    def _claim(self, method: str, kind: str, arguments: dict[str, Any]) -> Part:
        """Detach what was attached, and claim at the destination. Return the claim and the move."""
        guest = self._guest
        for each in guest.attached:
            yield guest.free(each)
        if guest.attached:
            guest.attached.clear()
            guest.start()
        if self._dest == self._source:
            return None, {}
        migration = {
            "uuid": flavors.new_uuid(self._rng),
            "migration_type": kind,
            "source_compute": self._source,
            "source_node": self._source,
            "dest_compute": self._dest,
            "dest_node": self._dest,
        }
        outcome = yield guest.step(
            method,
            host=self._dest,
            creates=True,
            instance=guest.instance,
            migration=migration,
            source=source_of(guest.claim),
            **arguments,
        )
        move = {"instance_uuid": guest.uuid, "migration": migration}
        return (outcome.reply if outcome.ok else None), move

    def _leave(self) -> None:
        self._guest.domains.stop(self._source, self._guest.uuid)

    def _arrive(self, claim: Any) -> Part:
        """Run the guest at the destination."""
        self._guest.host, self._guest.claim = self._dest, claim
        self._guest.start()
        yield self._guest.read("get_claims_for_instance", instance_uuid=self._guest.uuid)

    def _fail(self, move: dict[str, Any]) -> Part:
        """Report a failure before the guest has left, at both sides."""
        for host in (self._dest, self._source):
            yield self._guest.step("drop_move_claim", host=host, **move)
        return True

    def _back(self, move: dict[str, Any]) -> Part:
        """Revert the move, and run the guest at its source again."""
        guest = self._guest
        yield guest.step("drop_move_claim_at_dest", host=self._dest, **move)
        returned = yield guest.step("finish_revert", host=self._source, **move)
        if returned.ok:
            guest.claim = returned.reply
            guest.start()
        return returned.ok

    def _lost(self, move: dict[str, Any]) -> Part:
        """Give up an evacuation whose claim has ended: the guest is at its source again."""
        yield self._guest.step("drop_move_claim", host=self._dest, **move)
        yield self._guest.step("drop_move_claim", host=self._source, **move)
        self._guest.start()
        return True
