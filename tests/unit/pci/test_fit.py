"""Which devices a claim gets, and why it is refused."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rtagent.model.decision import ReasonCode
from rtagent.model.device import SRIOV_PF, VDPA, Device, PciDevice, PciDevices, Tags
from rtagent.model.policy import NumaPolicy
from rtagent.model.request import Flavor
from rtagent.model.usage import NUMA_NOTHING
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import CellLimits, HostCells
from rtagent.numa.requirements import numa_requirements
from rtagent.numa.search import RequestedDevices
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.fit import DeviceFit, addresses_by_purpose
from rtagent.pci.requests import device_requests
from rtagent.pci.specs import parse_aliases
from tests.support.numa_hosts import cell, topology
from tests.support.pci_hosts import (
    ALIASES,
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    PF_1,
    addresses,
    device_fit,
    flavor,
    gpu,
    nic,
    port,
    record,
    requests_for,
    two_gpus_and_a_nic,
    used_by,
    vf,
)

HOST = two_gpus_and_a_nic()


def port_requests(*documents):
    return device_requests(flavor(), documents, ALIASES, None)


def reasons(result):
    return [(r.code.value, r.resource, r.where, r.requested, r.available) for r in result.reasons]


def test_fit_returns_all_requested_devices():
    result = device_fit(HOST, requests_for("gpu:2,vf:1,vf:2")).fit()
    assert addresses(result) == [GPU_0, GPU_1, vf(0), vf(1), vf(2)]
    assert [d.request_id for d in result.devices] == ["gpu", "gpu", "vf", "vf#2", "vf#2"]
    first = result.devices[2]
    assert (first.dev_type, first.parent_addr, first.alias_name) == ("type-VF", PF_0, "vf")
    assert [d.net_name for d in result.devices] == [UNSET, UNSET, "p20v0", "p20v1", "p20v2"]
    assert addresses(device_fit(HOST, ()).fit()) == []


@pytest.mark.parametrize(
    ("aliases", "allocations", "expected"),
    [
        ("gpu:3", [], [("exceeds_host", "PCI gpu", "cn1", 3, 2)]),
        ("gpu:2", used_by("a", GPU_0), [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("gpu:1,gpu:2", [], [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("gpu:2147483647", [], [("exceeds_host", "PCI gpu", "cn1", 2147483647, 2)]),
        ("pf:1", used_by("a", vf(3)), [("insufficient", "PCI pf", "cn1", 1, 0)]),
        ("vf:1", used_by("a", PF_0), [("insufficient", "PCI vf", "cn1", 1, 0)]),
        ("pf:1,vf:1", [], [("insufficient", "PCI pf", "cn1", 1, 0)]),
        (
            "gpu:2,vf:5",
            used_by("a", GPU_0),
            [
                ("exceeds_host", "PCI vf", "cn1", 5, 4),
                ("insufficient", "PCI gpu", "cn1", 2, 1),
            ],
        ),
    ],
)
def test_refusal_has_every_reason(aliases, allocations, expected):
    assert reasons(device_fit(HOST, requests_for(aliases), allocations).fit()) == expected


def test_request_that_no_device_of_the_host_meets_is_not_offered():
    result = device_fit(record([gpu()]), requests_for("vf:1")).fit()
    assert [reason.code for reason in result.reasons] == [ReasonCode.NOT_OFFERED]
    assert "which this host does not offer" in str(result)


def test_physical_functions_and_vdpa_devices_are_assigned_only_by_type():
    pf, first, second = nic(vfs=2)
    devices = record([pf, replace(first, dev_type=VDPA), second], Tags(physical_network="net"))
    untyped = port_requests(port(physical_network="net"))
    assert addresses(device_fit(devices, untyped).fit()) == [second.address]
    for dev_type, expected in ((VDPA, first.address), (SRIOV_PF, PF_0)):
        typed = port_requests(port(physical_network="NET", dev_type=dev_type))
        assert addresses(device_fit(devices, typed).fit()) == [expected]


def test_any_alternative_of_an_alias_is_accepted():
    other = Device(address="0000:09:00.0", vendor_id="10de", product_id="1eb8")
    either = parse_aliases(
        [
            '{"name": "any", "vendor_id": "10de", "product_id": "13f1"}',
            '{"name": "any", "vendor_id": "10de", "product_id": "1eb8"}',
        ]
    )
    requests = device_requests(flavor("any:2"), (), either, None)
    assert addresses(device_fit(record([gpu(), other]), requests).fit()) == [GPU_0, other.address]


def test_devices_with_fewer_tags_are_preferred():
    untagged = PciDevice(device=gpu(GPU_1))
    tagged = PciDevice(device=gpu(GPU_0), tags=Tags(live_migratable=True))
    devices = {GPU_0: tagged, GPU_1: untagged}
    assert addresses(device_fit(devices, requests_for("gpu:1")).fit()) == [GPU_1]


def test_virtual_functions_of_a_card_that_is_in_use_are_preferred():
    devices = record([*nic(PF_0, 2), *nic(PF_1, 2)])
    allocations = used_by("a", vf(0, PF_1))
    assert addresses(device_fit(devices, requests_for("vf:1"), allocations).fit()) == [vf(1, PF_1)]


def test_interchangeable_cards_are_not_tried_one_by_one():
    cards = [f"{domain:04x}:{bus:02x}:00.0" for domain in range(4) for bus in range(0, 128, 4)]
    devices = record(device for pf in cards for device in nic(pf, 2))
    result = device_fit(devices, requests_for("pf:100,vf:57"), max_choices=200).fit()
    assert reasons(result) == [("insufficient", "PCI pf", "cn1", 100, 99)]
    result = device_fit(devices, requests_for("pf:100,vf:56"), max_choices=200).fit()
    assert len(addresses(result)) == 156


def test_search_that_reaches_its_bound_is_undecided():
    # All cards differ in the number of their functions, and no choice leaves enough of them.
    devices = record(
        device for n in range(6) for device in nic(f"0000:{0x10 * (n + 1):02x}:00.0", n + 1)
    )
    requests = requests_for("pf:3,vf:16")
    complete = device_fit(devices, requests).fit()
    assert [reason.code for reason in complete.reasons] == [ReasonCode.INSUFFICIENT]
    bounded = device_fit(devices, requests, max_choices=5)
    assert [reason.code for reason in bounded.fit().reasons] == [ReasonCode.UNDECIDED]
    assert bounded.possible(frozenset({0}))


def test_refusal_for_affinity_names_the_cells():
    requests = requests_for("gpu:1", "required")
    result = device_fit(HOST, requests, used_by("a", GPU_0)).fit(frozenset({0, 2}))
    assert reasons(result) == [("insufficient", "PCI gpu", "cn1 cells 0,2", 1, 0)]


def test_cells_with_suitable_devices_are_tried_first_and_last_without_requests():
    fit = device_fit(HOST, requests_for("gpu:1"), used_by("a", GPU_0))
    assert [fit.weight(cell) for cell in (0, 1, 2)] == [1, 0, 1]
    without_requests = device_fit(HOST, ())
    assert [without_requests.weight(cell) for cell in (0, 1, 2)] == [1, 1, 0]
    assert without_requests.possible(frozenset({0}))
    assert without_requests.refusal((0,)) == ()


# --- devices that the owner already uses ---


def test_owner_of_one_gpu_can_grow_to_two_on_a_host_with_two():
    requests = requests_for("gpu:2")
    allocations = used_by("me", GPU_1)
    assert hasattr(device_fit(HOST, requests, allocations).fit(), "reasons")
    result = device_fit(HOST, requests, allocations, reusable={GPU_1: "gpu"}).fit()
    assert addresses(result) == [GPU_0, GPU_1]
    assert hasattr(device_fit(HOST, requests, allocations, "another").fit(), "reasons")


def test_unchanged_request_keeps_its_devices():
    reusable = {GPU_1: "gpu", vf(1): "vf", vf(3): "vf"}
    allocations = used_by("me", *reusable)
    fit = device_fit(HOST, requests_for("gpu:1,vf:2"), allocations, reusable=reusable)
    assert addresses(fit.fit()) == [GPU_1, vf(1), vf(3)]


def test_devices_of_the_owners_other_requests_precede_free_ones():
    allocations, reusable = used_by("me", GPU_1), {GPU_1: "other"}
    fit = device_fit(HOST, requests_for("gpu:1"), allocations, reusable=reusable)
    assert addresses(fit.fit()) == [GPU_1]


def test_absent_device_is_not_reused():
    devices = {**HOST, GPU_1: replace(HOST[GPU_1], listed=False)}
    allocations, reusable = used_by("me", GPU_1), {GPU_1: "gpu"}
    fit = device_fit(devices, requests_for("gpu:1"), allocations, reusable=reusable)
    assert addresses(fit.fit()) == [GPU_0]


def test_addresses_are_grouped_by_purpose():
    before = device_fit(HOST, requests_for("gpu:1,vf:1")).fit()
    allocations, reusable = used_by("me", GPU_0), {GPU_0: "gpu"}
    after = device_fit(HOST, requests_for("gpu:2"), allocations, reusable=reusable).fit()
    assert addresses_by_purpose(before.devices) == {"gpu": (GPU_0,), "vf": (vf(0),)}
    assert addresses_by_purpose(after.devices) == {"gpu": (GPU_0, GPU_1)}


def test_only_the_user_of_an_iommu_group_gets_more_devices_of_it():
    devices = record([gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)])
    allocations = used_by("me", GPU_0)
    assert addresses(device_fit(devices, requests_for("gpu:1"), allocations).fit()) == [GPU_1]
    other = device_fit(devices, requests_for("gpu:1"), allocations, "another").fit()
    assert hasattr(other, "reasons")


def test_assigned_device_has_vendor_product_and_managed():
    result = device_fit(record([gpu()], Tags(managed=False)), requests_for("gpu:1")).fit()
    (device,) = result.devices
    assert {"vendor_id": device.vendor_id, "product_id": device.product_id} == GPU_IDS
    assert not device.managed


THREE = topology(cell(0), cell(1), cell(2, socket=1))
GPUS = record([gpu(GPU_0, 0), gpu(GPU_1, 1)])


def fit_guest(aliases, allocations=(), policy="required", **extra_specs):
    specs = flavor(aliases, **{"hw:numa_nodes": "1", **extra_specs}).extra_specs
    guest = Flavor(vcpus=2, memory_mb=64, extra_specs=specs)
    devices: RequestedDevices = DeviceFit(
        device_requests(guest, (), ALIASES, policy),
        DeviceAllocations(PciDevices(GPUS), allocations),
        "me",
        where="cn1",
        sockets={each.id: each.sockets for each in THREE.cells},
    )
    host = HostCells(
        name="cn1",
        topology=THREE,
        usage=NUMA_NOTHING,
        policy=NumaPolicy(cpu_dedicated_set=THREE.cpus),
    )
    required = numa_requirements(guest.vcpus, guest.memory_mb, guest.extra_specs, {})
    return fit(required, host, CellLimits(), devices), devices


def cells(result):
    assert isinstance(result, Fitted), result
    return [each.id for each in result.assignment.cells]


def test_guest_without_devices_avoids_cells_with_devices():
    result, _ = fit_guest("", **{"hw:cpu_policy": "dedicated"})
    assert cells(result) == [2]


def test_devices_on_two_cells_need_a_guest_on_both():
    one, _ = fit_guest("gpu:2", **{"hw:cpu_policy": "dedicated"})
    assert [str(reason) for reason in one.reasons] == [
        "PCI gpu: 2 devices requested at cn1 cells 0, 1 available"
    ]
    two, _ = fit_guest("gpu:2", **{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"})
    assert sorted(cells(two)) == [0, 1]
