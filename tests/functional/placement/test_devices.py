"""Providers of devices in a real Placement: they come, are used, go, and come back."""

import json
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.model.device import Device, MdevType
from rtagent.model.observation import Domain
from rtagent.model.policy import PciPolicy
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.specs import parse_specs
from tests.functional.placement.conftest import PATIENCE, MirroredNode, NodeRecords
from tests.servers.daemon import wait_until
from tests.support.device_states import (
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
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic, record

GPUS = (gpu(GPU_0, 0), gpu(GPU_1, 1))
VFS = tuple(nic(vfs=4))[1:]
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"
REPORTED = policy(
    parse_specs([json.dumps(GPU_IDS), json.dumps({**VF_IDS, "traits": "fast"})]),
    report_in_placement=True,
)


class Host(NodeRecords):
    """A node with devices, its mirror, and the providers of the devices in Placement."""

    def __init__(self, node: MirroredNode) -> None:
        self.node = node

    def start_with(self, *devices: Device, pci: PciPolicy = REPORTED) -> None:
        """Audit a host with these devices, then start the mirror."""
        state = device_host(record(devices) if pci.mdev_types else {}, pci=pci)
        self.node.state = replace(state, node=self.node.state.node)
        self.audit(devices)
        self.mirror = self.node.start()
        self.sync()

    def audit(self, devices: Iterable[Device], *domains: Domain) -> None:
        """Audit the host, which has these devices and domains."""
        state = self.node.state
        self.node.state = audited(state, seen(state, *domains, devices=devices))

    def sync(self) -> None:
        self.mirror.sync_now(PATIENCE)

    def requests(self) -> list[tuple[str, str]]:
        """Return the requests of a sync."""
        requests = self.node.requests_of(self.sync)
        return [(each.method, each.path.partition("/resource_providers")[2]) for each in requests]

    @property
    def shown(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Total and reserved quantity, by the end of the provider's name and by class."""
        return {name: self.inventories(uuid) for name, uuid in self.children.items()}

    def allocate(self, name: str, consumer: str, resources: dict[str, int]) -> int:
        """Allocate from a child, as a scheduler does; return the HTTP status."""
        return self.node.server.allocate(consumer, {self.children[name]: resources})


@pytest.fixture
def host(node: MirroredNode) -> Host:
    return Host(node)


def test_a_device_is_published_while_it_is_present(host):
    host.start_with()
    assert host.shown == {}

    host.audit(GPUS[:1])
    host.sync()
    first = host.children
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}
    assert host.traits(first["0000:08:00.0"]) == {"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}

    host.audit(GPUS[:1], domain("orphan", [GPU_0]))
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 1)}}
    assert host.allocate("0000:08:00.0", uid(), {GPU_CLASS: 1}) == 409

    host.audit(GPUS[:1])
    host.audit(())
    host.sync()
    assert host.shown == {}

    host.audit(GPUS[:1])
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}
    assert host.children == first


def test_virtual_gpus_and_persistent_memory_are_published(host):
    made = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2)
    there = gpu(GPU_0, 0, mdev_types=(made,))
    host.start_with(there, pci=policy((), mdev_types=(VGPU_TYPE,), pmem=(PMEM,)))
    assert host.shown == {"pci_0000_08_00_0": {"VGPU": (2, 0)}}
    assert host.inventories(host.node.uuid)[PMEM.resource_class] == (2, 0)

    used = mdev_uuid(host.node.uuid, f"{GPU_0}/nvidia-11/0")
    host.audit([there], domain("orphan", mdevs=[used]))
    host.sync()
    assert host.shown == {"pci_0000_08_00_0": {"VGPU": (2, 1)}}


def test_a_removed_device_stays_while_it_is_claimed_or_allocated(host):
    host.start_with(*GPUS[:1])
    consumer = uid()
    assert host.allocate("0000:08:00.0", consumer, {GPU_CLASS: 1}) == 204
    host.node.state, claim = built(host.node.state, "gpu:1", owner=consumer)
    host.node.state = running(host.node.state, claim)
    host.audit((), guest(claim))
    host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 0)}}

    host.node.state = released(host.node.state, claim)
    host.audit(())
    with pytest.raises(PlacementError, match="allocations"):
        host.sync()
    assert host.shown == {"0000:08:00.0": {GPU_CLASS: (1, 1)}}

    host.node.allocate(consumer, {})
    wait_until(lambda: host.mirror.error is None)
    assert host.shown == {}


def test_a_device_is_found_by_the_names_that_nova_asks_for(host):
    spec = {**GPU_IDS, "resource_class": "custom-foo", "traits": "hw_gpu_api_vulkan,my gpu"}
    host.start_with(
        *GPUS[:1], pci=policy(parse_specs([json.dumps(spec)]), report_in_placement=True)
    )

    traits = ["CUSTOM_HW_GPU_API_VULKAN", "CUSTOM_MY_GPU", "OWNER_NOVA"]
    query = f"resources=CUSTOM_CUSTOM_FOO:1&required={','.join(traits)}&in_tree={host.node.uuid}"
    found = host.node.server.client().get(f"/allocation_candidates?{query}").json()

    child = host.children["0000:08:00.0"]
    assert [set(each["allocations"]) for each in found["allocation_requests"]] == [{child}]
