"""Every order of the steps of one audit, of claims for devices, of foreign use, and of hot plug.

The audit has four moments: its snapshot, the listing of devices, the listing of domains, and the
moment before it is applied. In every order and after every step: no device is assigned that was
known to be used or absent, and no claimed device is forgotten. Two last audits find exactly what is
there.
"""

import random
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from rtagent.claims import activate_claim, instance_claim, release_claim
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.lifecycle.attach import allocate_pci_devices, claim_pci_devices, end_pci_claims
from rtagent.model.claim import Claim
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import device_allocations
from rtagent.reconcile.drift import absent
from rtagent.tracker import ResourceTracker
from tests.interleavings.life_cycles import all_orders, run_all
from tests.support.agents import Agent
from tests.support.device_states import attaching, policy
from tests.support.hosts import call, host, request, uid
from tests.support.pci_hosts import PF_0, PF_IDS, gpu, nic, vf
from tests.support.stores import assert_loads

GPU = "0000:08:00.0"
HARDWARE = {device.address: device for device in (gpu(GPU), *nic(vfs=2))}
MOMENTS = ("devices", "list", "finish")

#: What happens to devices, step by step.
CYCLES = {
    "claim and run": ("claim", "activate", "start", "stop", "release"),
    "claim again": ("claim", "release", "claim"),
    "attach": ("attach", "allocate", "start", "free"),
    "foreign use": ("intrude", "leave"),
    "foreign use again": ("intrude", "leave", "intrude"),
    "unplug": ("pull", "push"),
    "replace": ("pull", "swap"),
    "claim card": ("claim_card", "release"),
    "foreign use of a VF": ("intrude_part", "leave"),
}


# Virtual functions are not in device_spec, but their use must be known all the same.
SPECS = tuple(spec for spec in policy().specs if spec.product_id != "154c")
POLICY = host(cpu_allocation_ratio=16, pci=policy(SPECS)).policy


class Site(Agent):
    """An agent, and what its calls returned."""

    def __init__(self) -> None:
        super().__init__(policy=POLICY)
        self.world.plug(*HARDWARE.values())
        self.audit()
        self.held: dict[str, Claim] = {}

    def grant(self, claim: Claim, before: NodeState) -> None:
        """Check that the state before the claim allowed its devices."""
        for device in claim.pci:
            known = device_allocations(before).state(device.address)
            assert known.state == "available", f"{device.address} was {known.state}"
            assert not self.used_by_others(before, claim.owner_id) & near(device.address)
        self.held[claim.uuid] = claim

    @staticmethod
    def used_by_others(state: NodeState, owner: str) -> set[str]:
        domains = (each for each in state.domain_usages.values() if each.domain_uuid != owner)
        return {a for each in domains if each.active for a in each.occupancy.devices}

    def check(self) -> None:
        """Check what is true after every step."""
        assert set(self.state.claims) == set(self.held)
        taken = [device.address for claim in self.held.values() for device in claim.pci]
        assert len(taken) == len(set(taken)), "assigned twice"
        assert set(taken) <= set(self.state.devices), "claimed, and forgotten"

    def settle(self) -> None:
        """Check the state after two audits: the first removes usage that is gone, the second the
        devices that only this usage kept."""
        for _ in range(2):
            self.audit()
            self.check()
        state = self.state
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
        lines = device_allocations(state)
        assert all(lines.allocations_of(address) for address in used)
        assert_loads(self.store, state)


class Steps:
    """One sequence: each call does one step. After a refusal it does nothing more."""

    def __init__(self, site: Site, number: int, steps: Sequence[str]) -> None:
        self.site, self.owner, self.steps = site, uid(number + 1), iter(steps)
        self.refused = False
        self.claim_: Claim | None = None
        if "attach" in steps:
            self.main = self._build()
            self.tracker.change(activate_claim, call("activate_claim"), self.main.uuid)
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
        attach_call = call("claim_pci_devices")
        self._take(lambda: self.tracker.create(claim_pci_devices, attach_call, asked))

    def _build(self, aliases: str = "") -> Claim:
        specs = {"pci_passthrough:alias": aliases} if aliases else {}
        asked = request(1, 64, owner=self.owner, extra_specs=specs)
        made = self.tracker.create(instance_claim, call(), asked)
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
        self.tracker.change(activate_claim, call("activate_claim"), self.claim_.uuid)

    def allocate(self) -> None:
        self.tracker.change(allocate_pci_devices, call("allocate"), self.owner, self.claim_.uuid)

    def start(self) -> None:
        """Start a domain, with the device if it is present and no other domain has it."""
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
        self.tracker.execute(release_claim, call("release_claim"), self.claim_.uuid)
        del self.site.held[self.claim_.uuid]

    def free(self) -> None:
        self._run(set())
        self.tracker.execute(end_pci_claims, call("free"), self.owner, self.claim_.uuid, "free")
        del self.site.held[self.claim_.uuid]

    def pull(self) -> None:
        if GPU in self.site.world.devices:
            self.site.world.unplug(GPU)

    def push(self) -> None:
        self.site.world.plug(HARDWARE[GPU])

    def swap(self) -> None:
        self.site.world.plug(replace(HARDWARE[GPU], product_id="ffff"))


def near(address: str) -> set[str]:
    """The device, and those that are never in use at the same time."""
    return {vf(0), vf(1), PF_0} if address in (vf(0), vf(1), PF_0) else {address}


def idle(site: Site, address: str, owner: str) -> bool:
    """Whether a domain could have the device."""
    busy = {
        a for uuid, d in site.world.domains.items() if uuid != owner for a in d.occupancy.devices
    }
    return address in site.world.devices and not busy & near(address)


def run_order(order: Sequence[int], names: Sequence[str]) -> None:
    """Run one order: each number is a sequence's next step, ``len(names)`` the audit's."""
    site = Site()
    sequences = [Steps(site, number, CYCLES[name]) for number, name in enumerate(names)]
    todo = iter(order)

    def until_audit_moves() -> None:
        for number in todo:
            if number == len(sequences):
                return
            sequences[number]()

    until_audit_moves()  # then the snapshot is taken
    site.world.between = lambda step: until_audit_moves() if step in MOMENTS else None
    site.audit()
    site.world.between = lambda step: None
    site.check()
    until_audit_moves()
    site.settle()


@pytest.mark.parametrize(
    "names",
    [
        ("claim and run", "foreign use"),
        ("claim and run", "unplug"),
        ("attach", "foreign use"),
        ("attach", "replace"),
        ("claim again", "foreign use again"),
        ("claim again", "replace"),
        ("claim again", "claim again"),
        ("claim card", "foreign use of a VF"),
    ],
    ids=" and ".join,
)
def test_every_order_of_an_audit_and_two_sequences(names, long):
    orders = list(all_orders([*(len(CYCLES[name]) for name in names), 1 + len(MOMENTS)]))
    rng = random.Random(20260103)
    few = orders if long else rng.sample(orders, min(125, len(orders)))
    assert run_all(iter(few), partial(run_order, names=names)) >= 125


def test_random_orders_of_an_audit_and_three_sequences(long):
    rng = random.Random(20260103)
    for _ in range(10_000 if long else 150):
        names = [rng.choice(list(CYCLES)) for _ in range(3)]
        order = [n for n, name in enumerate(names) for _ in CYCLES[name]] + [3] * 4
        rng.shuffle(order)
        run_all(iter([tuple(order)]), partial(run_order, names=names))
