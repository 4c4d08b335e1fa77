"""The claims that hosts must have according to the answers of their agents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rtagent.model.claim import Claim
from rtagent.model.request import Flavor
from rtagent.model.units import MB_IN_GB
from tests.support.agents import Agent, check_all


@dataclass
class ExpectedClaim:
    """An expected claim. :ivar move: its last migration. :ivar born: when it was made."""

    owner: str
    host: int
    kind: str
    state: str
    born: datetime
    flavor: Flavor
    move: str | None
    pins: frozenset[int]
    devices: frozenset[str]

    @property
    def quantities(self) -> Counter[str]:
        pinned = "hw:cpu_policy" in self.flavor.extra_specs
        return Counter(
            vcpus=0 if pinned else self.flavor.vcpus,
            pcpus=self.flavor.vcpus if pinned else 0,
            memory_mb=self.flavor.memory_mb,
            disk_mb=self.flavor.root_gb * MB_IN_GB,
        )


def expected_claim(claim: Claim, host: int) -> ExpectedClaim:
    """Return the expected claim for an answer."""
    place = claim.numa_topology
    return ExpectedClaim(
        owner=claim.owner_id,
        host=host,
        kind=claim.kind,
        state=claim.state,
        born=claim.created_at,
        flavor=claim.flavor,
        move=claim.migration_uuid,
        pins=place.taken if place else frozenset(),
        devices=frozenset(device.address for device in claim.pci),
    )


@dataclass
class ExpectedClaims:
    """The claims that the hosts must hold.

    :ivar held: by claim uuid.
    :ivar reuse: two claims of one owner on one host count as the larger of the two.
    """

    reuse: bool
    held: dict[str, ExpectedClaim] = field(default_factory=dict)

    def at(self, host: int) -> dict[str, ExpectedClaim]:
        return {uuid: each for uuid, each in self.held.items() if each.host == host}

    def usage(self, host: int) -> Counter[str]:
        total: Counter[str] = Counter()
        owners: dict[str, list[ExpectedClaim]] = {}
        for each in self.at(host).values():
            owners.setdefault(each.owner, []).append(each)
        for mine in owners.values():
            sums: Counter[str] = Counter()
            for each in mine:
                sums = sums | each.quantities if self.reuse else sums + each.quantities
            total += sums
        return total

    def holders(self, host: int) -> dict[str, str]:
        """Return the owner of each CPU and device; fail if one has two."""
        owners: dict[str, str] = {}
        for each in self.at(host).values():
            for name in (*map(str, each.pins), *each.devices):
                assert owners.setdefault(name, each.owner) == each.owner, f"{name} has two owners"
        return owners

    def check(self, agents: Sequence[Agent]) -> None:
        """Check that hosts and stores have these claims, and count and assign what they have."""
        check_all(agents)
        for host, agent in enumerate(agents):
            state, use = agent.state, self.usage(host)
            claims = {claim.uuid: expected_claim(claim, host) for claim in state.claims.values()}
            assert claims == self.at(host)
            for name in ("vcpus", "pcpus", "memory_mb", "disk_mb"):
                assert getattr(state.usage, name) == use[name]
            assert agent.allocated() == self.holders(host)
