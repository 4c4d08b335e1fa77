"""Random orders of audits, restarts, claims for a device, and a guest of which devices are unknown.

While the last audit has seen a running domain of which it is unknown what devices it has, no other
owner gets a device, whatever happens to the domain's owner before, during and after the audit.
"""

import random
from collections.abc import Sequence

import pytest

from rtagent.audit import PART, Auditor
from rtagent.claims import activate_claim, instance_claim, release_claim, update_usage
from rtagent.errors import NodeNotReady, RtAgentError
from rtagent.model.claim import Claim
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.observation import Observation
from rtagent.model.request import InstanceUpdate
from rtagent.ports import WrappedHypervisor
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.device_states import policy
from tests.support.hosts import TOPOLOGY, ManualClock, call, host, request, uid
from tests.support.pci_hosts import gpu
from tests.support.trackers import enroll

GUEST, OTHER = uid(1), uid(2)
MOMENTS = ("devices", "list", "finish")
POLICY = host(cpu_allocation_ratio=16, pci=policy()).policy
PARTLY = Occupancy(unknown=frozenset({HostResource.DEVICES}))
#: What happens to the guest, besides what happens to the other instance.
GUESTS = {
    "claimed": ("build", "run", "update", "blur", "update", "update", "clear", "update"),
    "claimed and unread": ("build", "run", "update", "hide", "update", "update", "show", "update"),
    "claimed late": ("blur", "build", "update", "clear", "blur", "release", "stop"),
    "orphan": ("blur", "stop", "hide", "run", "show", "stop", "blur"),
}


class Watched(WrappedHypervisor):
    """:ivar seen: the last observation."""

    seen: Observation | None = None

    def observe(self) -> Observation:
        self.seen = super().observe()
        return self.seen


class Site:
    """An agent on a fake hypervisor. :ivar known: what its last audit has seen."""

    def __init__(self) -> None:
        self.clock, self.store = ManualClock(), MemoryStore()
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*(gpu(f"0000:{bus:02x}:00.0") for bus in range(8, 12)))
        self.claims: dict[str, Claim] = {}
        self.known: Observation | None = None
        self.granted = 0
        self.restart()
        self.audit()

    def restart(self) -> None:
        """End the agent, and start another one. Before its first audit it creates no claim."""
        self.tracker = ResourceTracker(self.store, self.clock, enroll(self.store, POLICY))
        self.tracker.creation.note_unobserved(PART, NodeNotReady())
        self.watched = Watched(self.world)
        self.auditor = Auditor(self.tracker, self.watched, self.clock)

    def audit(self) -> None:
        self.auditor.run("test")
        self.known = self.watched.seen

    def grab(self) -> None:
        """Claim a device for another instance than the guest, and release it."""
        build = request(1, 64, owner=OTHER, extra_specs={"pci_passthrough:alias": "gpu:1"})
        try:
            claim = self.tracker.create(instance_claim, call(), build)
        except RtAgentError:
            return
        self.granted += 1
        assert self.known is not None
        for domain in self.known.domains.values():
            unknown = domain.active and HostResource.DEVICES in domain.occupancy.unknown
            assert not unknown, f"{claim.pci[0].address} was given to another one"
        self.tracker.execute(release_claim, call("release_claim"), claim.uuid)

    def step(self, name: str) -> None:
        """Do something with the guest. What is refused is left out."""
        try:
            getattr(self, name)()
        except RtAgentError:
            return

    def build(self) -> None:
        claim = self.tracker.create(instance_claim, call(), request(1, 64, owner=GUEST))
        self.claims[GUEST] = self.tracker.change(activate_claim, call("activate_claim"), claim.uuid)

    def release(self) -> None:
        if GUEST in self.claims:
            self.tracker.execute(release_claim, call("release_claim"), self.claims.pop(GUEST).uuid)

    def update(self) -> None:
        self.tracker.execute(
            update_usage, call("update"), InstanceUpdate(uuid=GUEST, vm_state="active")
        )

    def run(self) -> None:
        self.world.start_domain(GUEST, 1, 64)

    clear = run

    def blur(self) -> None:
        self.world.start_domain(GUEST, 1, 64, occupancy=PARTLY)

    def hide(self) -> None:
        self.run()
        self.world.unreadable.add(GUEST)

    def show(self) -> None:
        self.world.unreadable.clear()

    def stop(self) -> None:
        if GUEST in self.world.domains:
            self.world.destroy(GUEST)


def run_order(order: Sequence[str]) -> int:
    """Run one order: ``audit`` begins an audit, or continues it to its next moment.

    :return: how often a device was granted.
    """
    site, todo = Site(), iter(order)

    def until_audit_moves(*, restarts: bool) -> bool:
        for name in todo:
            if name == "audit":
                return True
            if name == "grab":
                site.grab()
            elif name != "restart":
                site.step(name)
            elif restarts:
                site.restart()
        return False

    def moment(step: str) -> None:
        if step in MOMENTS:
            until_audit_moves(restarts=False)

    while until_audit_moves(restarts=True):
        site.world.between = moment
        site.audit()
        site.world.between = lambda step: None
        site.grab()
    return site.granted


@pytest.mark.parametrize("name", GUESTS)
def test_no_device_is_granted_while_devices_of_a_running_domain_are_unknown(name, long):
    rng, granted = random.Random(20261128), 0
    for _ in range(10_000 if long else 100):
        steps, others = GUESTS[name], ["audit"] * 12 + ["grab"] * 4 + ["restart"]
        rng.shuffle(others)
        places = set(rng.sample(range(len(steps) + len(others)), len(steps)))
        ours, theirs = iter(steps), iter(others)
        order = [
            next(ours if place in places else theirs) for place in range(len(steps) + len(others))
        ]
        try:
            granted += run_order(order)
        except AssertionError as error:
            raise AssertionError(f"in the order {order}: {error}") from error
    assert granted > 50
