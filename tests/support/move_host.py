"""One host whose claims take part in moves, by the pure rules; every new state is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Self

from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle import attach, moves
from rtagent.lifecycle.moves import Outcome
from rtagent.model.claim import Claim
from rtagent.model.decision import Decision, Granted, Rule
from rtagent.model.device import PciDevice, PciDevices
from rtagent.model.migration import (
    Migration,
    MigrationFacts,
    MigrationType,
    MoveRequest,
    SourceFacts,
)
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.observation import NEVER_OBSERVED, ObservedDomains
from rtagent.model.policy import PciPolicy
from rtagent.model.request import (
    AttachRequest,
    BuildRequest,
    Flavor,
    Instance,
    InstanceUpdate,
    PciRequest,
)
from rtagent.model.usage import Usage
from tests.support.hosts import NOON, call, host, uid
from tests.support.pci_hosts import ALIASES

GUEST = uid(77)
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=3072, root_gb=2)
NO_FACTS = SourceFacts()

P = ParamSpec("P")


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
    def named(cls, number: int, **policy: Any) -> Self:
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
        claim = self.granted(claims.instance_claim, request)[0]
        return self.granted(claims.activate_claim, claim.uuid)[0]

    def claim_move(self, *args: Any, **more: Any) -> Claim:
        """Claim resources for a guest that is to arrive, by a `move_request`."""
        return self.granted(moves.move_claim, self.move_request(*args, **more))[0]

    def try_move(self, *args: Any, **more: Any) -> Decision:
        """Decide a `move_request` to this host; the state stays."""
        request = self.move_request(*args, **more)
        return moves.move_claim(self.state, call("resize_claim"), self.now, request)

    def move_request(
        self,
        migration: MigrationFacts | MigrationType | None,
        flavor: Flavor = SMALL,
        owner: str = GUEST,
        old: Flavor = SMALL,
        source: SourceFacts = NO_FACTS,
        **instance: Any,
    ) -> MoveRequest:
        return MoveRequest(
            build=BuildRequest(instance=guest(flavor, owner, **instance)),
            migration=migration or "resize",
            old_flavor=old,
            source=source,
        )

    def attach(self, owner: str = GUEST, alias: str = "vf") -> Claim:
        """Add a device to the guest."""
        wanted = PciRequest(count=1, alias_name=alias)
        request = AttachRequest(instance=guest(SMALL, owner), pci_requests=(wanted,))
        claim = self.granted(attach.claim_pci_devices, request)[0]
        return self.granted(attach.allocate_pci_devices, owner, claim.uuid)[0]

    def start_move_out(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.granted(moves.start_move_out, owner, migration)[0]

    def finish_move(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.granted(moves.finish_move, owner, migration)[0]

    def finish_revert(self, migration: MigrationFacts, owner: str = GUEST) -> Claim:
        return self.granted(moves.finish_revert, owner, migration)[0]

    def drop_at_source(
        self,
        migration: MigrationFacts,
        domains: ObservedDomains = NEVER_OBSERVED,
        owner: str = GUEST,
    ) -> None:
        self.granted(moves.drop_move_claim_at_source, owner, migration, domains)

    def drop_at_dest(self, migration: MigrationFacts, owner: str = GUEST) -> None:
        self.granted(moves.drop_move_claim_at_dest, owner, migration)

    def drop(self, migration: MigrationFacts, owner: str = GUEST) -> None:
        self.granted(moves.drop_move_claim, owner, migration)

    def settle(self, migration: MigrationFacts, outcome: Outcome, owner: str = GUEST) -> None:
        self.granted(moves.settle_move, owner, migration, outcome)

    def update(self, vm_state: str, task_state: str | None = None, owner: str = GUEST) -> None:
        update = InstanceUpdate(uuid=owner, vm_state=vm_state, task_state=task_state)
        self.granted(claims.update_usage, update)

    def renew(self, claim: Claim) -> Claim:
        return self.granted(claims.renew_claim, claim.uuid)[0]

    def release(self, claim: Claim) -> None:
        self.granted(claims.release_claim, claim.uuid)

    def abort(self, claim: Claim) -> None:
        self.granted(claims.abort_instance_claim, claim.uuid)

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

    def granted(self, rule: Rule[P], *args: P.args, **kwargs: P.kwargs) -> tuple[Claim, ...]:
        """Decide a call a second later, and fold its change."""
        self.now += timedelta(seconds=1)
        decision = rule(self.state, call(), self.now, *args, **kwargs)
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
