"""Guests on three hosts, which move by calls of the agents; their domains start and stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtagent.lifecycle.moves.finish import claimed_usage
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, InstanceUpdate
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.request import BuildRequest
from tests.support.hosts import PINNED, call, uid
from tests.support.three_hosts import ThreeHosts

PLAIN = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
PINNED_2 = Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED)
ONE_GPU = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:1"})
TWO_GPUS = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:2"})


class Guests(ThreeHosts):
    """Every call has an operation id of its own."""

    def claim(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """Claim resources for a build."""
        self.clock.advance(1)
        request = BuildRequest(instance=Instance(uuid=owner or uid(), flavor=flavor))
        return self.trackers[host].instance_claim(request, call("instance_claim"))

    def run(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """Build a guest and start its domain."""
        claim = self.claim(host, flavor, owner)
        claim = self.trackers[host].activate_claim(claim.uuid, call("activate_claim"))
        self.start_domain(host, claim)
        return claim

    def claim_move(
        self, host: int, of: Claim, kind: Any = "resize", flavor: Flavor | None = None
    ) -> tuple[Claim, MigrationFacts]:
        """Claim resources for a guest that is to arrive: its claim, and the migration."""
        self.clock.advance(1)
        migration = MigrationFacts(
            uuid=uid(), migration_type=kind, source_compute=of.host, dest_compute=f"h{host}"
        )
        instance = Instance(uuid=of.owner_id, flavor=flavor or of.flavor)
        build = BuildRequest(instance=instance)
        request = MoveRequest(build=build, old_flavor=of.flavor, migration=migration)
        return self.trackers[host].moves.move_claim(request, call("resize_claim")), migration

    def move(self, host: int, verb: str, of: Claim, migration: MigrationFacts) -> Any:
        """Make a call of a move at that host, by its method's name."""
        self.clock.advance(1)
        more = (self.auditors[host].domains,) if verb == "drop_move_claim_at_source" else ()
        return getattr(self.trackers[host].moves, verb)(of.owner_id, migration, call(verb), *more)

    def update(self, host: int, of: Claim, vm_state: str, task_state: str | None = None) -> None:
        """Report the instance's new state."""
        update = InstanceUpdate(uuid=of.owner_id, vm_state=vm_state, task_state=task_state)
        self.trackers[host].update_usage(update, call("update_usage"))

    # -- domains ----------------------------------------------------------------------------------

    def start_domain(self, host: int, claim: Claim) -> None:
        """Start a domain that has what the claim assigns."""
        usage = claimed_usage(claim)
        self.hypervisors[host].start_domain(
            usage.domain_uuid, usage.vcpus, usage.memory_mb, occupancy=usage.occupancy
        )

    def stop_domain(self, host: int, claim: Claim) -> None:
        """Destroy the claim's domain."""
        self.hypervisors[host].destroy(claim.owner_id)

    def audit_between(self, host: int, what: Callable[[], None], step: str = "finish") -> None:
        """Audit, and do something just before that step of the observation."""

        def between(at: str) -> None:
            if at == step:
                what()

        self.hypervisors[host].between = between
        self.audit(host)
        self.hypervisors[host].between = lambda at: None

    # -- state ----------------------------------------------------------------------------------

    def states(self, host: int, of: Claim) -> list[str]:
        return [claim.state for claim in self.state(host).claims_of(of.owner_id)]

    def allocated(self, host: int) -> dict[str, str]:
        """Return the owner of each CPU and device, by the unit's name."""
        return {name: owner for (_, name), owner in self.state(host).units.items()}

    def check_all(self) -> None:
        """Check the invariants of every host, and that a restart would find the same."""
        for host in range(3):
            state = self.state(host)
            state.check()
            stored = self.stores[host].load(state.node.uuid)
            assert {claim.uuid: claim for claim in stored.claims} == dict(state.claims)
