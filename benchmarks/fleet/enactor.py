"""FleetEnactor: runs guests on the simulated hosts of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.fleet.fleet import Fleet
from rtagent.model.guest import GuestDomain, GuestState

Check = Callable[[], object]


class FleetEnactor:
    """An `rtagent.conductor.ports.Enactor`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def state(self, host: str, server_uuid: str) -> GuestState:
        return self._act("state", host, server_uuid)

    def define(
        self, host: str, domain: GuestDomain, replaced: Collection[str], check: Check
    ) -> None:
        check()
        self._act("define", host, domain.uuid, domain.claim.uuid)

    def start(self, host: str, domain: GuestDomain, check: Check) -> None:
        check()
        self._act("start", host, domain.uuid)

    def stop(self, host: str, server_uuid: str, claims: Collection[str], check: Check) -> None:
        check()
        self._act("stop", host, server_uuid)

    def undefine(self, host: str, server_uuid: str, claims: Collection[str], check: Check) -> None:
        check()
        self._act("undefine", host, server_uuid)

    def live_migrate(
        self, source: str, dest: str, domain: GuestDomain, claims: Collection[str], check: Check
    ) -> None:
        check()
        self._act("define", dest, domain.uuid, domain.claim.uuid)
        self._act("undefine", source, domain.uuid)
        self._act("start", dest, domain.uuid)

    def _act(self, action: str, host: str, uuid: str, claim_uuid: str = "") -> GuestState:
        return self._fleet.agents_of(host).guest(action, host, uuid, claim_uuid)
