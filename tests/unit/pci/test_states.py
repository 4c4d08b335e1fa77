"""The states of devices, which follow from who holds what."""

import pytest
from msgspec.structs import replace

from rtagent.model.device import VDPA
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.states import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    REMOVED,
    UNAVAILABLE,
    UNCLAIMABLE,
    Holdings,
)
from tests.pci_hosts import GPU_0, GPU_1, PF_0, gpu, held, nic, record, two_gpus_and_a_nic, vf


def states(devices, holds):
    holdings = Holdings(PciDevices(devices), holds)
    return {address: holdings.state(address).state for address in devices}


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ([], {}),
        (held("a", GPU_0), {GPU_0: ALLOCATED}),
        (held("a", GPU_0, allocated=False), {GPU_0: CLAIMED}),
        (held("a", GPU_0, allocated=False) + held("a", GPU_0), {GPU_0: ALLOCATED}),
        (
            held("a", PF_0, allocated=False),
            {PF_0: CLAIMED, vf(0): UNCLAIMABLE, vf(1): UNCLAIMABLE},
        ),
        (held("a", PF_0), {PF_0: ALLOCATED, vf(0): UNAVAILABLE, vf(1): UNAVAILABLE}),
        (held("a", vf(0), allocated=False), {vf(0): CLAIMED, PF_0: UNCLAIMABLE}),
        (held("a", vf(0)), {vf(0): ALLOCATED, PF_0: UNAVAILABLE}),
        (
            held("a", vf(0)) + held("b", vf(1)),
            dict.fromkeys((vf(0), vf(1)), ALLOCATED) | {PF_0: UNAVAILABLE},
        ),
    ],
)
def test_states_follow_from_holds(holds, expected):
    devices = two_gpus_and_a_nic(vfs=2)
    assert states(devices, holds) == dict.fromkeys(devices, AVAILABLE) | expected


def test_the_physical_function_is_free_again_with_its_last_virtual_one():
    devices = two_gpus_and_a_nic(vfs=2)
    assert Holdings(PciDevices(devices), held("a", vf(0), vf(1))).obstacle(PF_0)
    assert Holdings(PciDevices(devices), held("a", vf(1))).obstacle(PF_0)
    assert Holdings(PciDevices(devices), []).obstacle(PF_0) is None


def test_a_vdpa_device_is_a_part_of_its_physical_function():
    pf, first, second = nic(vfs=2)
    devices = record([pf, replace(first, dev_type=VDPA), second])
    assert states(devices, held("a", first.address))[PF_0] == UNAVAILABLE
    assert states(devices, held("a", PF_0))[first.address] == UNAVAILABLE


def test_devices_of_one_iommu_group_go_to_one_owner():
    devices = record([gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)])
    holdings = Holdings(PciDevices(devices), held("a", GPU_0))
    assert holdings.obstacle(GPU_1, "a") is None
    obstacle = holdings.obstacle(GPU_1, "b")
    assert obstacle.state == UNAVAILABLE
    assert obstacle.reason == f"{GPU_0} of its IOMMU group 7 is held by a"
    assert holdings.state(GPU_1).state == UNAVAILABLE


def test_in_whatever_order_holds_are_found_the_same_one_is_named():
    building, running = held("a", vf(0), allocated=False), held("b", vf(1))
    devices = record([gpu(GPU_0, iommu_group=7), *nic(vfs=2)])
    twin = record([gpu(GPU_1, iommu_group=7), gpu("0000:89:00.0", iommu_group=7)])
    group = held("a", GPU_0, allocated=False) + held("b", GPU_1)
    for holds in (building + running + group, group[::-1] + running + building):
        holdings = Holdings(PciDevices(devices | twin), holds)
        assert holdings.state(PF_0).state == UNAVAILABLE
        assert holdings.state(PF_0).reason == f"its virtual function {vf(1)} is held by b"
        last = holdings.state("0000:89:00.0")
        assert (last.state, last.reason) == (
            UNAVAILABLE,
            f"{GPU_1} of its IOMMU group 7 is held by b",
        )


def test_who_is_kept_back_says_why():
    devices = two_gpus_and_a_nic()
    devices[GPU_0] = replace(devices[GPU_0], quarantine="it overheats")
    state = Holdings(PciDevices(devices), []).state(GPU_0)
    assert (state.state, state.reason, state.owner_id) == (UNAVAILABLE, "it overheats", None)
    # who holds it goes on holding it
    assert Holdings(PciDevices(devices), held("a", GPU_0)).state(GPU_0).state == ALLOCATED


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"present": False}, "it has left the host"),
        ({"listed": False}, "no device_spec offers it any more"),
    ],
)
def test_who_has_left_is_flagged_while_held_and_not_to_be_had(how, why):
    devices = two_gpus_and_a_nic()
    devices[GPU_0] = replace(devices[GPU_0], **how)
    kept = Holdings(PciDevices(devices), held("a", GPU_0)).state(GPU_0)
    assert (kept.state, kept.owner_id, kept.reason) == (ALLOCATED, "a", why)
    free = Holdings(PciDevices(devices), []).state(GPU_0)
    assert (free.state, free.owner_id, free.reason) == (REMOVED, None, why)


def test_a_device_that_nobody_offers_stands_in_its_relatives_way():
    pf, *functions = nic(vfs=2)
    offered = record(functions)
    foreign = held("foreign", pf.address)
    assert states(offered, foreign) == {vf(0): UNAVAILABLE, vf(1): UNAVAILABLE}


def test_what_an_owner_holds():
    holdings = Holdings(PciDevices(two_gpus_and_a_nic()), held("a", GPU_0) + held("b", vf(0)))
    assert holdings.held_by({"a"}) == {GPU_0}
    assert holdings.held_by({"c"}) == frozenset()
    free = [address for kind in holdings.available() for address in kind.addresses]
    assert free == [vf(1), vf(2), vf(3), GPU_1]
