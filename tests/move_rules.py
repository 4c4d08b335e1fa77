"""The rules of moves, for tests: one host's state, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rtagent import attach, claims, moves
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevice
from rtagent.model.flavor import Flavor
from rtagent.model.host import HostState
from rtagent.model.instance import Instance, InstanceUpdate, PciRequest
from rtagent.model.migration import Migration, MigrationFacts
from rtagent.model.move import MoveRequest, SourceFacts
from rtagent.model.node import Node
from rtagent.model.pci_devices import PciDevices
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.model.usage import Usage
from tests.builders import NOON, call, host, uid
from tests.pci_hosts import ALIASES

GUEST = uid(77)
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=3072, root_gb=2)
UNTOLD = SourceFacts()


def facts(kind: str = "resize", uuid: str | None = None, **more: Any) -> MigrationFacts:
    return MigrationFacts(uuid=uuid or uid(), migration_type=kind, **more)


def guest(flavor: Flavor = SMALL, owner: str = GUEST, **more: Any) -> Instance:
    return Instance(uuid=owner, flavor=flavor, **more)


@dataclass
class Host:
    """One host, on which every call is granted, or raises; what a rule makes is checked."""

    state: HostState = field(default_factory=host)
    now: datetime = NOON

    @classmethod
    def named(cls, number: int, **policy: Any) -> Host:
        node = Node(
            uuid=uid(900 + number),
            host=f"h{number}",
            hypervisor_hostname=f"h{number}.example",
            host_ip=f"192.0.2.{number}",
        )
        return cls(replace(host(**policy), node=node))

    def offering(self, devices: Mapping[str, PciDevice]) -> Host:
        """The same, with these devices."""
        policy = replace(self.state.policy, pci=PciPolicy(aliases=ALIASES))
        self.state = replace(self.state, devices=PciDevices(devices), policy=policy)
        return self

    # -- calls ----------------------------------------------------------------------------------

    def runs(self, flavor: Flavor = SMALL, owner: str = GUEST) -> Claim:
        """A guest that was built here."""
        request = BuildRequest(claim_uuid=uid(), instance=guest(flavor, owner))
        claim = self.decided(claims.build, request, asked=call(operation_id=request.claim_uuid))[0]
        return self.decided(claims.activate, claim.uuid, asked=call("activate_claim"))[0]

    def expects(
        self,
        told: MigrationFacts | None,
        flavor: Flavor = SMALL,
        owner: str = GUEST,
        *,
        old: Flavor = SMALL,
        source: SourceFacts = UNTOLD,
        **instance: Any,
    ) -> Claim:
        """A guest that is to arrive."""
        return self.decided(*self.expecting(told, flavor, owner, old, source, **instance))[0]

    def refuses(self, *args: Any, **more: Any) -> Any:
        """Why a guest cannot arrive."""
        rule, request = self.expecting(*args, **more)
        return rule(self.state, request, call("resize_claim"), self.now)

    def expecting(
        self,
        told: MigrationFacts | None,
        flavor: Flavor = SMALL,
        owner: str = GUEST,
        old: Flavor = SMALL,
        source: SourceFacts = UNTOLD,
        **instance: Any,
    ) -> Any:
        build = BuildRequest(claim_uuid=uid(), instance=guest(flavor, owner, **instance))
        kind = told.migration_type if told else "resize"
        request = MoveRequest(build=build, kind=kind, old_flavor=old, migration=told, source=source)
        return moves.move_claim, request

    def attaches(self, owner: str = GUEST, alias: str = "vf") -> Claim:
        """A device is added to the guest."""
        wanted = PciRequest(count=1, alias_name=alias)
        request = AttachRequest(
            claim_uuid=uid(), instance=guest(SMALL, owner), pci_requests=(wanted,)
        )
        claim = self.decided(attach.claim_devices, request)[0]
        return self.decided(attach.activate, owner, claim.uuid)[0]

    def starts_out(self, told: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.decided(moves.start_move_out, owner, told)[0]

    def finishes(self, told: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.decided(moves.finish, owner, told, asked=call("finish_move"))[0]

    def takes_back(self, told: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.decided(moves.finish_revert, owner, told)[0]

    def drops_source(self, told: MigrationFacts, seen: Any = None, owner: str = GUEST) -> None:
        self.decided(moves.drop_move_claim_at_source, owner, told, after=(seen,))

    def drops_dest(self, told: MigrationFacts, owner: str = GUEST) -> None:
        self.decided(moves.drop_move_claim_at_dest, owner, told)

    def fails(self, told: MigrationFacts, owner: str = GUEST) -> None:
        self.decided(moves.drop_move_claim, owner, told)

    def hears(self, vm_state: str, task_state: str | None = None, owner: str = GUEST) -> None:
        news = InstanceUpdate(uuid=owner, vm_state=vm_state, task_state=task_state)
        self.decided(claims.update, news)

    def ends(self, claim: Claim, verb: str = "release") -> None:
        self.decided(claims.end, claim.uuid, verb)

    # -- what is there --------------------------------------------------------------------------

    @property
    def states(self) -> list[str]:
        """Of the guest's claims, the oldest first."""
        return [claim.state for claim in self.state.claims_of(GUEST)]

    @property
    def usage(self) -> Usage:
        return self.state.usage

    def status(self, told: MigrationFacts) -> str:
        return self.record(told).status

    def record(self, told: MigrationFacts) -> Migration:
        return self.state.migrations[told.uuid]

    def holders(self) -> dict[str, str]:
        """The owner of each unit that is held, by its name."""
        return {name: owner for (_, name), owner in self.state.units.items()}

    def decided(
        self, rule: Any, *args: Any, asked: Call | None = None, after: tuple[Any, ...] = ()
    ) -> tuple[Claim, ...]:
        self.now += timedelta(seconds=1)
        decision = rule(self.state, *args, asked or call(rule.__name__), self.now, *after)
        assert isinstance(decision, Granted), str(decision)
        self.state = self.state.fold(decision.change)
        self.state.check()
        return decision.claims
