"""Devices of a host before a real Placement: they come, are taken, go, and come back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.model.device import Device, MdevType
from rtagent.model.observation import Domain
from rtagent.model.pci_policy import PciPolicy
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.spec import parse_specs
from tests.builders import uid
from tests.device_states import (
    ONE_TIME,
    PMEM,
    VGPU_TYPE,
    audited,
    built,
    device_host,
    domain,
    guest,
    policy,
    released,
    running,
    seen,
)
from tests.functional.placement.conftest import PATIENCE, World
from tests.pci_hosts import GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic, record, vf

GPUS = (gpu(GPU_0, 0), gpu(GPU_1, 1))
VFS = tuple(nic(vfs=4))[1:]
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"
REPORTED = policy(
    parse_specs([json.dumps(GPU_IDS), json.dumps({**VF_IDS, "traits": "fast"})]),
    report_in_placement=True,
)


class Host:
    """A node with devices, its mirror, and what Placement shows of the devices."""

    def __init__(self, world: World) -> None:
        self.world = world

    def has(self, *devices: Device, pci: PciPolicy = REPORTED) -> None:
        """From its first look on, before the mirror starts."""
        state = device_host(record(devices) if pci.mdev_types else {}, pci=pci)
        self.world.state = replace(state, node=self.world.state.node)
        self.sees(devices)
        self.mirror = self.world.start()
        self.sync()

    def sees(self, devices: Iterable[Device], *domains: Domain) -> None:
        """An audit."""
        state = self.world.state
        self.world.state = audited(state, seen(state, *domains, devices=devices))

    def sync(self) -> None:
        self.mirror.sync_now(PATIENCE)

    def asked(self) -> list[tuple[str, str]]:
        """What a sync asks of Placement."""
        requests = self.world.requests_of(self.sync)
        return [(each.method, each.path.partition("/resource_providers")[2]) for each in requests]

    @property
    def children(self) -> dict[str, str]:
        """Uuids by the end of the name."""
        tree = self.world.admin.get(f"/resource_providers?in_tree={self.world.uuid}").json()
        return {
            each["name"].removeprefix(f"{self.world.name}_"): each["uuid"]
            for each in tree["resource_providers"]
            if each["parent_provider_uuid"] == self.world.uuid
        }

    @property
    def shown(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Total and reserved, by class, by the end of the provider's name."""
        return {name: self.inventories(uuid) for name, uuid in self.children.items()}

    def inventories(self, uuid: str) -> dict[str, tuple[int, int]]:
        found = self._get(uuid, "inventories")["inventories"]
        return {name: (each["total"], each["reserved"]) for name, each in found.items()}

    def traits(self, name: str) -> set[str]:
        return set(self._get(self.children[name], "traits")["traits"])

    def allocate(self, name: str, consumer: str, resources: dict[str, int]) -> int:
        """As a scheduler does, from a child."""
        body = {
            "allocations": {self.children[name]: {"resources": resources}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
        }
        return self.world.admin.put(f"/allocations/{consumer}", json=body).status_code

    def _get(self, uuid: str, part: str) -> Any:
        return self.world.admin.get(f"/resource_providers/{uuid}/{part}").json()


@pytest.fixture
def host(world: World) -> Host:
    return Host(world)


def test_a_device_comes_is_taken_is_unplugged_and_comes_back(host):
    host.has()
    assert host.shown == {}

    host.sees(GPUS[:1])
    host.sync()
    first = host.children
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}
    assert host.traits("0000:08:00.0") == {"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}

    host.sees(GPUS[:1], domain("orphan", [GPU_0]))
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 1)}}
    assert host.allocate("0000:08:00.0", uid(), {GPU_CLASS: 1}) == 409

    host.sees(GPUS[:1])
    host.sees(())
    host.sync()
    assert host.shown == {}

    host.sees(GPUS[:1])
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}
    assert host.children == first


def test_virtual_functions_are_counted_on_their_physical_one(host):
    host.has(*VFS)
    assert host.shown == {"0000:20:00.0": {VF_CLASS: (4, 0)}}
    assert "CUSTOM_FAST" in host.traits("0000:20:00.0")

    host.sees(VFS[:3], domain("orphan", [vf(0)]))
    host.sync()
    assert host.shown == {"0000:20:00.0": {VF_CLASS: (3, 1)}}
    assert host.allocate("0000:20:00.0", uid(), {VF_CLASS: 3}) == 409
    assert host.allocate("0000:20:00.0", uid(), {VF_CLASS: 2}) == 204


def test_virtual_gpus_and_persistent_memory(host):
    made = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2)
    there = gpu(GPU_0, 0, mdev_types=(made,))
    host.has(there, pci=policy((), mdev_types=(VGPU_TYPE,), pmem=(PMEM,)))
    assert host.shown == {"pci_0000_08_00_0": {"VGPU": (2, 0)}}
    assert host.inventories(host.world.uuid)[PMEM.resource_class] == (2, 0)

    used = mdev_uuid(host.world.uuid, f"{GPU_0}/nvidia-11/0")
    host.sees([there], domain("orphan", mdevs=[used]))
    host.sync()
    assert host.shown == {"pci_0000_08_00_0": {"VGPU": (2, 1)}}


def test_the_first_push_and_then_nothing(host):
    host.has()
    host.sees(GPUS)
    (first, second) = sorted(each.uuid for each in host.world.wanted().providers[1:])
    asked = host.asked()
    assert asked.count(("POST", "")) == 2
    for child in (first, second):
        of_child = [(method, path) for method, path in asked if path.startswith(f"/{child}")]
        assert of_child == [
            ("GET", f"/{child}"),
            ("PUT", f"/{child}/traits"),
            ("PUT", f"/{child}/inventories"),
        ]
    assert len(asked) == 2 * 4 + 2  # which traits there are, and the resource class: once

    assert host.asked() == []
    host.sees(GPUS)
    assert host.asked() == []


def test_one_change_is_one_request(host):
    host.has(*GPUS, *VFS)
    gpu_, card = host.children["0000:08:00.0"], host.children["0000:20:00.0"]
    host.sees((*GPUS, *VFS[:2]))
    assert host.asked() == [("PUT", f"/{card}/inventories")]
    host.sees((*GPUS[1:], *VFS[:2]))
    assert host.asked() == [("DELETE", f"/{gpu_}")]


def test_a_restart_only_reads_and_knows_what_is_its_own(host):
    host.has(*GPUS)
    host.mirror.stop()
    host.mirror = host.world.start()
    requests = host.world.requests_of(host.sync)
    assert {each.method for each in requests} <= {"GET"}

    host.mirror.stop()
    host.sees(GPUS[1:])
    host.mirror = host.world.start()
    host.sync()
    assert set(host.shown) == {"0000:88:00.0"}


def test_a_claimed_device_that_goes_stays_as_long_as_it_is_claimed_and_allocated(host):
    host.has(*GPUS[:1])
    consumer = uid()
    assert host.allocate("0000:08:00.0", consumer, {GPU_CLASS: 1}) == 204
    host.world.state, claim = built(host.world.state, "gpu:1", owner=consumer)
    host.world.state = running(host.world.state, claim)
    host.sees((), guest(claim))
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}

    host.world.state = released(host.world.state, claim)
    host.sees(())
    with pytest.raises(PlacementError, match="allocations"):
        host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 1)}}

    host.world.allocate(consumer, {})
    assert host.world.eventually(lambda: host.mirror.error is None)
    assert host.shown == {}


def test_a_device_for_one_use_is_reserved_after_it(host):
    host.has(*GPUS[:1], pci=policy(ONE_TIME, report_in_placement=True))
    host.world.state, claim = built(host.world.state, "gpu:1")
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}
    assert "HW_PCI_ONE_TIME_USE" in host.traits("0000:08:00.0")

    host.world.state = released(host.world.state, claim)
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 1)}}


def test_what_is_told_no_more_is_withdrawn(host):
    host.has(*GPUS)
    off = replace(REPORTED, report_in_placement=False)
    state = host.world.state
    host.world.state = replace(state, policy=replace(state.policy, pci=off))
    host.sync()
    assert host.shown == {}
