"""One host whose claims take part in moves, by the pure rules; every new state is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle import attach, moves
from rtagent.lifecycle.moves import MoveContext, Outcome
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted
from rtagent.model.device import PciDevice
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, InstanceUpdate, PciRequest
from rtagent.model.migration import Migration, MigrationFacts, MigrationType
from rtagent.model.move import MoveRequest, SourceFacts
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.observation import NEVER_OBSERVED, ObservedDomains
from rtagent.model.pci_devices import PciDevices
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.model.usage import Usage
from tests.support.hosts import NOON, call, host, uid
from tests.support.pci_hosts import ALIASES

GUEST = uid(77)
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=3072, root_gb=2)
NO_FACTS = SourceFacts()

Rule = Callable[[NodeState, Call, datetime], Decision]


def facts(kind: str = "resize", uuid: str | None = None, **more: Any) -> MigrationFacts:
    """A move, as its caller describes it."""
    return MigrationFacts(uuid=uuid or uid(), migration_type=kind, **more)


def guest(flavor: Flavor = SMALL, owner: str = GUEST, **more: Any) -> Instance:
    return Instance(uuid=owner, flavor=flavor, **more)


@dataclass
class Host:
    """One host. A method that changes the state fails the test if the call is refused."""

    state: NodeState = field(default_factory=host)
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

    def with_devices(self, devices: Mapping[str, PciDevice]) -> Host:
        """The same host with these devices."""
        policy = replace(self.state.policy, pci=PciPolicy(aliases=ALIASES))
        self.state = replace(self.state, devices=PciDevices(devices), policy=policy)
        return self

    # -- calls ----------------------------------------------------------------------------------

    def build(self, flavor: Flavor = SMALL, owner: str = GUEST, **instance: Any) -> Claim:
        """Build a guest and activate its claim."""
        request = BuildRequest(instance=guest(flavor, owner, **instance))
        claim = self.granted(lambda s, c, now: claims.build(s, request, c, now))[0]
        return self.granted(lambda s, c, now: claims.activate(s, claim.uuid, c, now))[0]

    def claim_move(
        self,
        migration: MigrationFacts | MigrationType | None,
        flavor: Flavor = SMALL,
        owner: str = GUEST,
        *,
        old: Flavor = SMALL,
        source: SourceFacts = NO_FACTS,
        **instance: Any,
    ) -> Claim:
        """Claim resources for a guest that is to arrive."""
        return self.granted(self.move_rule(migration, flavor, owner, old, source, **instance))[0]

    def try_move(self, *args: Any, **more: Any) -> Decision:
        """Decide a move to this host; the state stays."""
        return self.move_rule(*args, **more)(self.state, call("resize_claim"), self.now)

    def move_rule(
        self,
        migration: MigrationFacts | MigrationType | None,
        flavor: Flavor = SMALL,
        owner: str = GUEST,
        old: Flavor = SMALL,
        source: SourceFacts = NO_FACTS,
        **instance: Any,
    ) -> Rule:
        request = MoveRequest(
            build=BuildRequest(instance=guest(flavor, owner, **instance)),
            migration=migration or "resize",
            old_flavor=old,
            source=source,
        )
        return lambda state, asked, now: moves.move_claim(state, request, asked, now)

    def attach(self, owner: str = GUEST, alias: str = "vf") -> Claim:
        """Add a device to the guest."""
        wanted = PciRequest(count=1, alias_name=alias)
        request = AttachRequest(instance=guest(SMALL, owner), pci_requests=(wanted,))
        claim = self.granted(lambda s, c, now: attach.claim_devices(s, request, c, now))[0]
        return self.granted(lambda s, c, now: attach.activate(s, owner, claim.uuid, c, now))[0]

    def start_move_out(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.moved(moves.start_move_out, "start_move_out", migration, owner)[0]

    def finish_move(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.moved(moves.finish_move, "finish_move", migration, owner)[0]

    def finish_revert(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.moved(moves.finish_revert, "finish_revert", migration, owner)[0]

    def drop_at_source(
        self,
        migration: MigrationFacts,
        domains: ObservedDomains = NEVER_OBSERVED,
        owner: str = GUEST,
    ) -> None:
        def drop(move: MoveContext) -> Granted:
            return moves.drop_move_claim_at_source(move, domains)

        self.moved(drop, "drop_move_claim_at_source", migration, owner)

    def drop_at_dest(self, migration: MigrationFacts, owner: str = GUEST) -> None:
        self.moved(moves.drop_move_claim_at_dest, "drop_move_claim_at_dest", migration, owner)

    def drop(self, migration: MigrationFacts, owner: str = GUEST) -> None:
        self.moved(moves.drop_move_claim, "drop_move_claim", migration, owner)

    def settle(self, migration: MigrationFacts, outcome: Outcome, owner: str = GUEST) -> None:
        self.moved(lambda move: moves.settle(move, outcome), "settle_move", migration, owner)

    def update(self, vm_state: str, task_state: str | None = None, owner: str = GUEST) -> None:
        update = InstanceUpdate(uuid=owner, vm_state=vm_state, task_state=task_state)
        self.granted(lambda s, c, now: claims.update(s, update, c, now))

    def renew(self, claim: Claim) -> Claim:
        return self.granted(lambda s, c, now: claims.renew(s, claim.uuid, c, now))[0]

    def end(self, claim: Claim, verb: str = "release") -> None:
        self.granted(lambda s, c, now: claims.end(s, claim.uuid, verb, c, now))

    # -- state ----------------------------------------------------------------------------------

    @property
    def states(self) -> list[str]:
        """States of the guest's claims, the oldest first."""
        return [claim.state for claim in self.state.claims_of(GUEST)]

    @property
    def usage(self) -> Usage:
        return self.state.usage

    def status(self, migration: MigrationFacts) -> str:
        return self.record(migration).status

    def record(self, migration: MigrationFacts) -> Migration:
        return self.state.migrations[migration.uuid]

    def allocated(self) -> dict[str, str]:
        """The owner of each allocated unit, by the unit's name."""
        return {name: owner for (_, name), owner in self.state.units.items()}

    def moved(
        self,
        rule: Callable[[MoveContext], Granted],
        verb: str,
        migration: MigrationFacts,
        owner: str,
    ) -> tuple[Claim, ...]:
        return self.granted(
            lambda s, c, now: rule(moves.move_context(s, owner, migration, verb, c, now))
        )

    def granted(self, rule: Rule) -> tuple[Claim, ...]:
        """Decide a call a second later, and fold its change."""
        self.now += timedelta(seconds=1)
        decision = rule(self.state, call(), self.now)
        assert isinstance(decision, Granted), str(decision)
        self.state = self.state.fold(decision.change)
        self.state.check()
        return decision.claims


def source_and_dest() -> tuple[Host, Host]:
    """A host with a running guest, and another host."""
    source, dest = Host.named(1), Host.named(2)
    source.build()
    return source, dest


def in_transit() -> tuple[Host, Host, MigrationFacts]:
    """A guest that has left its host and has not arrived yet; and its migration."""
    source, dest = source_and_dest()
    migration = facts()
    dest.claim_move(migration, LARGE)
    source.start_move_out(migration)
    return source, dest, migration


def moved_and_back() -> tuple[Host, Host, MigrationFacts]:
    """A guest that was moved to the second host, and back; and its first migration."""
    source, dest, first = in_transit()
    dest.finish_move(first)
    source.drop_at_source(first)
    second = facts()
    source.claim_move(second)
    dest.start_move_out(second)
    source.finish_move(second)
    dest.drop_at_source(second)
    return source, dest, first
