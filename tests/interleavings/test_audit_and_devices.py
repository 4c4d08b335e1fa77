"""Every order of one audit against those who take devices, those who use them without asking, and
those who pull them out.

The audit is four moments: its snapshot, its look at the devices, its look at the domains, and the
moment before it is applied. In every order, and after every step: no device is given that was known
to be used, or gone, and none that is held is forgotten. Two last audits find just what is there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.db.memory import MemoryStore
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.kernel import restored
from rtagent.model.claim import Claim
from rtagent.model.host import HostState
from rtagent.model.numa_usage import Occupancy
from rtagent.pci.holds import holdings
from rtagent.tracker import ResourceTracker
from rtagent.views import absent
from rtagent.virt.fake import FakeHypervisor
from tests.builders import NODE, TOPOLOGY, ManualClock, call, host, request, uid
from tests.device_states import attaching, policy
from tests.interleavings.test_audit_and_claims import all_orders, run_all
from tests.pci_hosts import PF_0, PF_IDS, gpu, nic, vf
from tests.unit.test_kernel import enroll

GPU = "0000:08:00.0"
HARDWARE = {device.address: device for device in (gpu(GPU), *nic(vfs=2))}
MOMENTS = ("devices", "list", "finish")

#: What happens to one device, step by step.
CYCLES = {
    "taker": ("claim", "activate", "start", "stop", "release"),
    "quitter": ("claim", "release", "claim"),
    "attacher": ("attach", "allocate", "start", "free"),
    "stranger": ("intrude", "leave"),
    "visitor": ("intrude", "leave", "intrude"),
    "puller": ("pull", "push"),
    "swapper": ("pull", "swap"),
    "whole": ("claim_card", "release"),
    "part": ("intrude_part", "leave"),
}


class Site:
    """The product's own parts on a host in memory, and what the calls were answered."""

    def __init__(self) -> None:
        self.clock, self.store = ManualClock(), MemoryStore()
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*HARDWARE.values())
        # Virtual functions are offered to nobody: who uses one is to be known all the same.
        specs = policy().specs
        offered = policy(tuple(each for each in specs if each.product_id != "154c"))
        its = host(cpu_allocation_ratio=16, pci=offered).policy
        self.tracker = ResourceTracker(self.store, self.clock, enroll(self.store, its))
        self.auditor = Auditor(self.tracker, self.world, self.clock)
        self.auditor.run("start")
        self.held: dict[str, Claim] = {}

    def grant(self, claim: Claim, before: HostState) -> None:
        """What was known when it was given did not forbid it."""
        for device in claim.pci:
            known = holdings(before).state(device.address)
            assert known.state == "available", f"{device.address} was {known.state}"
            assert not self.used_by_others(before, claim.owner_id) & near(device.address)
        self.held[claim.uuid] = claim

    @staticmethod
    def used_by_others(state: HostState, owner: str) -> set[str]:
        domains = (each for each in state.holdings.values() if each.domain_uuid != owner)
        return {a for each in domains if each.active for a in each.occupancy.devices}

    def check(self) -> None:
        """What holds after every step."""
        state = self.tracker.snapshot()
        assert set(state.claims) == set(self.held)
        taken = [device.address for claim in self.held.values() for device in claim.pci]
        assert len(taken) == len(set(taken)), "given out twice"
        assert set(taken) <= set(state.devices), "held, and forgotten"

    def settle(self) -> None:
        """What no claim says any more goes in the first audit, what only that held in the next."""
        for _ in range(2):
            self.auditor.run("last")
            self.check()
        state = self.tracker.snapshot()
        state.check()
        held = {device.address for claim in self.held.values() for device in claim.pci}
        used = {a for d in self.world.domains.values() for a in d.occupancy.devices}
        there = self.world.devices
        offered = {a for a, d in there.items() if d.product_id in ("13f1", PF_IDS["product_id"])}
        assert set(state.devices) == offered | held | (used & there.keys())
        right = {a for a in held if there.get(a) == HARDWARE[a]}
        assert {a for a in held if state.devices[a].present} == right
        assert {drift.resource for drift in absent(state)} == {
            f"PCI device {address}" for address in held - right
        }
        lines = holdings(state)
        assert all(lines.holds_of(address) for address in used)
        again = restored(self.store.load(NODE.uuid), state.policy)
        assert (again.claims, again.devices) == (state.claims, state.devices)


class Actor:
    """One life: each call does one step. Who is refused does nothing more."""

    def __init__(self, site: Site, number: int, steps: Sequence[str]) -> None:
        self.site, self.owner, self.steps = site, uid(number + 1), iter(steps)
        self.refused = False
        self.claim_: Claim | None = None
        if "attach" in steps:
            self.main = self._build()
            self.tracker.activate_claim(self.main.uuid, call("activate_claim"))
            site.world.start_domain(self.owner, 1, 64)

    @property
    def tracker(self) -> ResourceTracker:
        return self.site.tracker

    def __call__(self) -> None:
        step = next(self.steps)
        if not self.refused:
            getattr(self, step)()
        self.site.check()

    def claim(self) -> None:
        self._take(lambda: self._build("gpu:1"))

    def claim_card(self) -> None:
        self._take(lambda: self._build("pf:1"))

    def attach(self) -> None:
        asked = attaching(self.main, "gpu")
        told = call("claim_pci_devices", operation_id=asked.claim_uuid)
        self._take(lambda: self.tracker.claim_pci_devices(asked, told))

    def _build(self, aliases: str = "") -> Claim:
        specs = {"pci_passthrough:alias": aliases} if aliases else {}
        asked = request(1, 64, owner=self.owner, extra_specs=specs)
        made = self.tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))
        self.site.held[made.uuid] = made
        return made

    def _take(self, take) -> None:
        before = self.tracker.snapshot()
        try:
            self.claim_ = take()
        except ComputeResourcesUnavailable:
            self.refused = True
        else:
            self.site.grant(self.claim_, before)

    def activate(self) -> None:
        self.tracker.activate_claim(self.claim_.uuid, call("activate_claim"))

    def allocate(self) -> None:
        self.tracker.allocate_pci_devices(self.owner, self.claim_.uuid, call("allocate"))

    def start(self) -> None:
        """Its domain gets the device, if that is there and nobody else's has it."""
        address = self.claim_.pci[0].address
        given = {address} if idle(self.site, address, self.owner) else set()
        self._run(given)

    def intrude(self) -> None:
        self._run({GPU} if idle(self.site, GPU, self.owner) else set())

    def intrude_part(self) -> None:
        self._run({vf(0)} if idle(self.site, vf(0), self.owner) else set())

    def _run(self, devices: set[str]) -> None:
        occupancy = Occupancy(devices=frozenset(devices))
        self.site.world.start_domain(self.owner, 1, 64, occupancy=occupancy)

    def stop(self) -> None:
        self.site.world.destroy(self.owner)

    leave = stop

    def release(self) -> None:
        self.tracker.release_claim(self.claim_.uuid, call("release_claim"))
        del self.site.held[self.claim_.uuid]

    def free(self) -> None:
        self._run(set())
        self.tracker.end_pci_claims(self.owner, self.claim_.uuid, "free", call("free"))
        del self.site.held[self.claim_.uuid]

    def pull(self) -> None:
        if GPU in self.site.world.devices:
            self.site.world.unplug(GPU)

    def push(self) -> None:
        self.site.world.plug(HARDWARE[GPU])

    def swap(self) -> None:
        self.site.world.plug(replace(HARDWARE[GPU], product_id="ffff"))


def near(address: str) -> set[str]:
    """The device, and what is never in use beside it."""
    return {vf(0), vf(1), PF_0} if address in (vf(0), vf(1), PF_0) else {address}


def idle(site: Site, address: str, owner: str) -> bool:
    """Whether the world lets a domain have it."""
    busy = {
        a for uuid, d in site.world.domains.items() if uuid != owner for a in d.occupancy.devices
    }
    return address in site.world.devices and not busy & near(address)


def play(order: Sequence[int], names: Sequence[str]) -> None:
    """Play one order: each number is an actor's next step, ``len(names)`` the audit's."""
    site = Site()
    actors = [Actor(site, number, CYCLES[name]) for number, name in enumerate(names)]
    todo = iter(order)

    def until_audit_moves() -> None:
        for number in todo:
            if number == len(actors):
                return
            actors[number]()

    until_audit_moves()  # then the snapshot is taken
    site.world.between = lambda step: until_audit_moves() if step in MOMENTS else None
    site.auditor.run("test")
    site.world.between = lambda step: None
    site.check()
    until_audit_moves()
    site.settle()


@pytest.mark.parametrize(
    "names",
    [
        ("taker", "stranger"),
        ("taker", "puller"),
        ("attacher", "stranger"),
        ("attacher", "swapper"),
        ("quitter", "visitor"),
        ("quitter", "swapper"),
        ("quitter", "quitter"),
        ("whole", "part"),
    ],
    ids=" and ".join,
)
def test_every_order_of_an_audit_and_two_lives(names, long):
    orders = list(all_orders([*(len(CYCLES[name]) for name in names), 1 + len(MOMENTS)]))
    rng = random.Random(20260103)
    few = orders if long else rng.sample(orders, min(250, len(orders)))
    assert run_all(iter(few), partial(play, names=names)) >= 250


def test_three_lives_sampled(long):
    rng = random.Random(20260103)
    for _ in range(10_000 if long else 300):
        names = [rng.choice(list(CYCLES)) for _ in range(3)]
        order = [n for n, name in enumerate(names) for _ in CYCLES[name]] + [3] * 4
        rng.shuffle(order)
        run_all(iter([tuple(order)]), partial(play, names=names))
