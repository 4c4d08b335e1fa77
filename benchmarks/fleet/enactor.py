"""FleetEnactor: runs guests on the simulated hosts of a fleet."""

from __future__ import annotations

from benchmarks.fleet.fleet import Fleet
from rtagent.model.guest_domain import GuestDomain, GuestState


class FleetEnactor:
    """An `rtagent.conductor.enactor.Enactor`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def state(self, host: str, server_uuid: str) -> GuestState:
        return self._act("state", host, server_uuid)

    def define(self, host: str, domain: GuestDomain) -> None:
        self._act("define", host, domain.uuid, domain.claim.uuid)

    def start(self, host: str, domain: GuestDomain) -> None:
        self._act("start", host, domain.uuid)

    def stop(self, host: str, server_uuid: str) -> None:
        self._act("stop", host, server_uuid)

    def undefine(self, host: str, server_uuid: str) -> None:
        self._act("undefine", host, server_uuid)

    def live_migrate(self, source: str, dest: str, domain: GuestDomain) -> None:
        self._act("define", dest, domain.uuid, domain.claim.uuid)
        self._act("undefine", source, domain.uuid)
        self._act("start", dest, domain.uuid)

    def _act(self, action: str, host: str, uuid: str, claim_uuid: str = "") -> GuestState:
        return self._fleet.agents_of(host).guest(action, host, uuid, claim_uuid)
