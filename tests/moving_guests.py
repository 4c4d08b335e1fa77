"""Guests on three hosts, moved by the agents' own calls; their domains come and go as told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance, InstanceUpdate
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.numa_usage import Occupancy
from rtagent.model.request import BuildRequest
from tests.builders import PINNED, call, uid
from tests.property.fleet import Fleet

PLAIN = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
PINNED_2 = Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED)
ONE_GPU = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:1"})
TWO_GPUS = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:2"})


class Guests(Fleet):
    """Every call is made once, under an operation id of its own."""

    def claim(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """A guest that is being built."""
        self.clock.advance(1)
        request = BuildRequest(
            claim_uuid=uid(), instance=Instance(uuid=owner or uid(), flavor=flavor)
        )
        asked = call("instance_claim", request.claim_uuid)
        return self.trackers[host].instance_claim(request, asked)

    def run(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """One that was built, and whose domain runs."""
        claim = self.claim(host, flavor, owner)
        claim = self.trackers[host].activate_claim(claim.uuid, call("activate_claim"))
        self.appears(host, claim)
        return claim

    def expect(
        self, host: int, of: Claim, kind: Any = "resize", flavor: Flavor | None = None
    ) -> tuple[Claim, MigrationFacts]:
        """That guest is to arrive: its claim, and the migration."""
        self.clock.advance(1)
        told = MigrationFacts(
            uuid=uid(), migration_type=kind, source_compute=of.host, dest_compute=f"h{host}"
        )
        instance = Instance(uuid=of.owner_id, flavor=flavor or of.flavor)
        build = BuildRequest(claim_uuid=uid(), instance=instance)
        request = MoveRequest(build=build, kind=kind, old_flavor=of.flavor, migration=told)
        asked = call("move_claim", build.claim_uuid)
        return self.trackers[host].move_claim(request, asked), told

    def say(self, host: int, verb: str, of: Claim, told: MigrationFacts) -> Any:
        """A step of its move, at that host."""
        self.clock.advance(1)
        more = (self.auditors[host].domains,) if verb == "drop_move_claim_at_source" else ()
        return getattr(self.trackers[host], verb)(of.owner_id, told, call(verb), *more)

    def tell(self, host: int, of: Claim, vm_state: str, task_state: str | None = None) -> None:
        """The instance's new state."""
        news = InstanceUpdate(uuid=of.owner_id, vm_state=vm_state, task_state=task_state)
        self.trackers[host].update_usage(news, call("update_usage"))

    # -- the world ------------------------------------------------------------------------------

    def appears(self, host: int, claim: Claim) -> None:
        """Its domain runs, just as it was claimed."""
        place = claim.numa_topology
        occupancy = Occupancy(
            pcpus=place.taken - place.kept if place else frozenset(),
            devices=frozenset(device.address for device in claim.pci),
        )
        flavor = claim.flavor
        self.worlds[host].start_domain(
            claim.owner_id, flavor.vcpus, flavor.memory_mb, occupancy=occupancy
        )

    def goes(self, host: int, claim: Claim) -> None:
        """Its domain is no more."""
        self.worlds[host].destroy(claim.owner_id)

    def audit_between(self, host: int, what: Callable[[], None], step: str = "finish") -> None:
        """Audit, and do something while the host is looked at."""

        def look(at: str) -> None:
            if at == step:
                what()

        self.worlds[host].between = look
        self.audit(host)
        self.worlds[host].between = lambda at: None

    # -- what is there --------------------------------------------------------------------------

    def states(self, host: int, of: Claim) -> list[str]:
        return [claim.state for claim in self.state(host).claims_of(of.owner_id)]

    def holders(self, host: int) -> dict[str, str]:
        """The owner of each CPU and device, by its name."""
        return {name: owner for (_, name), owner in self.state(host).units.items()}

    def checked(self) -> None:
        """Every host keeps its own rules, and would after a restart."""
        for host in range(3):
            state = self.state(host)
            state.check()
            stored = self.stores[host].load(state.node.uuid)
            assert {claim.uuid: claim for claim in stored.claims} == dict(state.claims)
