"""Which devices a claim gets, and why it is refused."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rtagent.model.decision import ReasonCode
from rtagent.model.device import SRIOV_PF, VDPA, Tags
from rtagent.pci.fit import addresses_by_purpose
from rtagent.pci.matching import match
from rtagent.pci.requests import device_requests
from tests.support.pci_hosts import (
    ALIASES,
    GPU_0,
    GPU_1,
    PF_0,
    PF_1,
    VF_IDS,
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
    assert {"vendor_id": first.vendor_id, "product_id": first.product_id} == VF_IDS
    assert [d.net_name for d in result.devices] == [UNSET, UNSET, "p20v0", "p20v1", "p20v2"]
    assert addresses(device_fit(HOST, ()).fit()) == []


@pytest.mark.parametrize(
    ("aliases", "allocations", "expected"),
    [
        ("gpu:3", [], [("exceeds_host", "PCI gpu", "cn1", 3, 2)]),
        ("gpu:2", used_by("a", GPU_0), [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("gpu:1,gpu:2", [], [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("pf:1", used_by("a", vf(3)), [("insufficient", "PCI pf", "cn1", 1, 0)]),
        ("vf:1", used_by("a", PF_0), [("insufficient", "PCI vf", "cn1", 1, 0)]),
        ("pf:1,vf:1", [], [("insufficient", "PCI pf", "cn1", 1, 0)]),
        (
            "gpu:2,vf:5",
            used_by("a", GPU_0),
            [("exceeds_host", "PCI vf", "cn1", 5, 4), ("insufficient", "PCI gpu", "cn1", 2, 1)],
        ),
    ],
)
def test_refusal_has_every_reason(aliases, allocations, expected):
    assert reasons(device_fit(HOST, requests_for(aliases), allocations).fit()) == expected


def test_physical_functions_and_vdpa_devices_are_assigned_only_by_type():
    pf, first, second = nic(vfs=2)
    devices = record([pf, replace(first, dev_type=VDPA), second], Tags(physical_network="net"))
    untyped = port_requests(port(physical_network="net"))
    assert addresses(device_fit(devices, untyped).fit()) == [second.address]
    for dev_type, expected in ((VDPA, first.address), (SRIOV_PF, PF_0)):
        typed = port_requests(port(physical_network="NET", dev_type=dev_type))
        fitted = device_fit(devices, typed).fit()
        assert addresses(fitted) == [expected]
        assert fitted.devices[0].requester_id == "port"


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
    cards = ((f"0000:{0x10 * number:02x}:00.0", number) for number in range(1, 7))
    devices = record(device for card in cards for device in nic(*card))
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


def test_assigned_device_is_managed_as_its_tags_say():
    unmanaged = record([gpu()], Tags(managed=False))
    (device,) = device_fit(unmanaged, requests_for("gpu:1")).fit().devices
    assert device.managed is False


# --- guests with cells ---

#: By cell: two cells share a socket, and the sockets of the last are unknown.
SOCKETS = {0: frozenset({0}), 1: frozenset({1}), 2: frozenset({1}), 3: frozenset()}


@pytest.mark.parametrize(
    ("policy", "node", "cells", "expected"),
    [
        ("required", 0, {0}, True),
        ("required", 1, {0}, False),
        ("required", None, {0}, False),
        ("legacy", None, {0}, True),
        ("preferred", 1, {0}, True),
        ("socket", 1, {2}, True),
        ("socket", 1, {0}, False),
        ("socket", None, {0}, False),
        ("socket", 3, {3}, True),
        ("socket", 3, {0}, False),
    ],
)
def test_numa_policy_accepts_device(policy, node, cells, expected):
    requests = requests_for("gpu:1", policy)
    fit = device_fit(record([gpu(numa_node=node)]), requests, sockets=SOCKETS)
    assert hasattr(fit.fit(frozenset(cells)), "devices") is expected
    assert fit.possible(frozenset(cells)) is expected
    assert bool(fit.refusal(tuple(cells))) is not expected
    # Every policy accepts every device for a guest without a NUMA topology.
    assert hasattr(fit.fit(), "devices")
    assert fit.possible(frozenset())
    assert fit.refusal(()) == ()


def test_near_devices_are_preferred():
    devices = record([gpu("0000:01:00.0", 1), gpu("0000:02:00.0", None), gpu("0000:03:00.0", 0)])
    one = device_fit(devices, requests_for("gpu:1", "preferred")).fit(frozenset({0}))
    assert addresses(one) == ["0000:03:00.0"]
    two = device_fit(devices, requests_for("gpu:2", "preferred")).fit(frozenset({0}))
    assert addresses(two) == ["0000:02:00.0", "0000:03:00.0"]


def test_last_device_is_of_the_first_pool():
    """The pools keep their order. One is the virtual functions of a card, or a device by itself."""
    cards = [*nic("0000:20:00.0", 2), *nic("0000:21:00.0", 2)]
    devices = record([*cards, gpu("0000:01:00.0"), gpu("0000:02:00.0")])

    def given(aliases):
        return addresses(device_fit(devices, requests_for(aliases), order="last").fit())

    assert given("vf:1") == [vf(1, "0000:20:00.0")]
    assert given("vf:3") == [vf(0, "0000:20:00.0"), vf(1, "0000:20:00.0"), vf(1, "0000:21:00.0")]
    assert (given("gpu:1"), given("pf:1")) == (["0000:01:00.0"], ["0000:20:00.0"])


# --- matching ---


@pytest.mark.parametrize(
    ("needs", "eligible", "expected"),
    [
        ([1], [{"a": 0, "b": 0}], [["a"]]),
        ([3], [{"a": 0, "b": 0}], [["a", "b"]]),
        ([0], [{"a": 0}], [[]]),
        # A request gives up a device if it can take another.
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0}], [["b"], ["a"]]),
        ([1, 1, 1], [{"a": 0, "b": 0}, {"b": 0, "c": 0}, {"a": 0}], [["b"], ["c"], ["a"]]),
        ([2, 1], [{"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0}], [["b", "c"], ["a"]]),
        # As many requests as possible get devices of their best rank.
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0, "c": 2}], [["b"], ["a"]]),
        # A better rank for one request never leaves another without a device.
        ([1, 1], [{"a": 0, "b": 2}, {"a": 2}], [["b"], ["a"]]),
    ],
)
def test_match_serves_as_many_as_possible_and_the_best_ranks_first(needs, eligible, expected):
    assert [sorted(each) for each in match(needs, eligible)] == expected
