"""Which devices a claim gets, or why none."""

import pytest
from msgspec.structs import replace

from rtagent.model.decision import ReasonCode
from rtagent.model.device import SRIOV_PF, VDPA, Device, PciDevice, Tags
from rtagent.pci.alias import parse_aliases
from rtagent.pci.fit import by_purpose
from rtagent.pci.request import device_requests
from tests.pci_hosts import (
    ALIASES,
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    PF_1,
    addresses,
    asked,
    fitting,
    flavor,
    gpu,
    held,
    nic,
    port,
    record,
    two_gpus_and_a_nic,
    vf,
)

HOST = two_gpus_and_a_nic()
SOCKETS = {0: frozenset({0}), 1: frozenset({1}), 2: frozenset({1}), 3: frozenset()}


def ports(*documents):
    return device_requests(flavor(), documents, ALIASES, None)


def reasons(answer):
    return [(r.code.value, r.resource, r.where, r.requested, r.available) for r in answer.reasons]


def test_all_that_is_asked_for():
    answer = fitting(HOST, asked("gpu:2,vf:1,vf:2")).fit()
    assert addresses(answer) == [GPU_0, GPU_1, vf(0), vf(1), vf(2)]
    assert [d.request_id for d in answer.devices] == ["gpu", "gpu", "vf", "vf#2", "vf#2"]
    first = answer.devices[2]
    assert (first.dev_type, first.parent_addr, first.alias_name) == ("type-VF", PF_0, "vf")
    assert addresses(fitting(HOST, ()).fit()) == []


@pytest.mark.parametrize(
    ("aliases", "holds", "expected"),
    [
        ("gpu:3", [], [("exceeds_host", "PCI gpu", "cn1", 3, 2)]),
        ("gpu:2", held("a", GPU_0), [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("gpu:1,gpu:2", [], [("insufficient", "PCI gpu", "cn1", 2, 1)]),
        ("gpu:2147483647", [], [("exceeds_host", "PCI gpu", "cn1", 2147483647, 2)]),
        ("pf:1", held("a", vf(3)), [("insufficient", "PCI pf", "cn1", 1, 0)]),
        ("vf:1", held("a", PF_0), [("insufficient", "PCI vf", "cn1", 1, 0)]),
        ("pf:1,vf:1", [], [("insufficient", "PCI pf", "cn1", 1, 0)]),
        (
            "gpu:2,vf:5",
            held("a", GPU_0),
            [
                ("exceeds_host", "PCI vf", "cn1", 5, 4),
                ("insufficient", "PCI gpu", "cn1", 2, 1),
            ],
        ),
    ],
)
def test_nothing_and_every_reason(aliases, holds, expected):
    assert reasons(fitting(HOST, asked(aliases), holds).fit()) == expected


def test_what_the_host_has_not_at_all():
    answer = fitting(record([gpu()]), asked("vf:1")).fit()
    assert [reason.code for reason in answer.reasons] == [ReasonCode.NOT_OFFERED]
    assert "which this host does not offer" in str(answer)


def test_physical_functions_and_vdpa_devices_go_to_those_who_name_them():
    pf, first, second = nic(vfs=2)
    offered = record([pf, replace(first, dev_type=VDPA), second], Tags(physical_network="net"))
    plain = ports(port(physical_network="net"))
    assert addresses(fitting(offered, plain).fit()) == [second.address]
    for dev_type, expected in ((VDPA, first.address), (SRIOV_PF, PF_0)):
        named = ports(port(physical_network="NET", dev_type=dev_type))
        assert addresses(fitting(offered, named).fit()) == [expected]


@pytest.mark.parametrize(
    ("spec", "tags", "expected"),
    [
        ({}, Tags(), True),
        ({"physical_network": "PhysNet1"}, Tags(physical_network="physnet1"), True),
        ({"physical_network": "physnet2"}, Tags(physical_network="physnet1"), False),
        ({"physical_network": "physnet1"}, Tags(), False),
        ({"physical_network": None}, Tags(physical_network=None), True),
        ({"physical_network": None}, Tags(), False),
        ({"physical_network": "physnet1"}, Tags(physical_network=None), False),
        ({"trusted": "True"}, Tags(trusted=True), True),
        ({"trusted": "true"}, Tags(), False),
        ({"remote_managed": "False"}, Tags(), True),
        ({"remote_managed": "True"}, Tags(remote_managed=True), True),
        ({"remote_managed": "True"}, Tags(), False),
        ({}, Tags(remote_managed=True), False),
        ({"live_migratable": "yes"}, Tags(live_migratable=True), True),
        ({"live_migratable": "yes"}, Tags(), False),
        ({"live_migratable": "no"}, Tags(live_migratable=True), False),
        ({}, Tags(live_migratable=True), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(), True),
        ({"resource_class": "big"}, Tags(resource_class="CUSTOM_BIG"), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(resource_class="CUSTOM_BIG"), False),
        ({"traits": "a"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), True),
        ({"traits": "a,c"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), False),
        ({"parent_ifname": "eth0"}, Tags(), False),
        ({"product_id": "13F1"}, Tags(), True),
    ],
)
def test_tags_and_what_is_asked_of_them(spec, tags, expected):
    answer = fitting(record([gpu()], tags), ports(port(**spec))).fit()
    assert hasattr(answer, "devices") is expected


def test_alternatives():
    other = Device(address="0000:09:00.0", vendor_id="10de", product_id="1eb8")
    either = parse_aliases(
        [
            '{"name": "any", "vendor_id": "10de", "product_id": "13f1"}',
            '{"name": "any", "vendor_id": "10de", "product_id": "1eb8"}',
        ]
    )
    requests = device_requests(flavor("any:2"), (), either, None)
    assert addresses(fitting(record([gpu(), other]), requests).fit()) == [GPU_0, other.address]


def test_what_is_special_is_left_to_those_who_need_it():
    plain = PciDevice(device=gpu(GPU_1))
    special = PciDevice(device=gpu(GPU_0), tags=Tags(live_migratable=True))
    devices = {GPU_0: special, GPU_1: plain}
    assert addresses(fitting(devices, asked("gpu:1")).fit()) == [GPU_1]


def test_a_physical_function_that_is_whole_is_broken_last():
    devices = record([*nic(PF_0, 2), *nic(PF_1, 2)])
    first = fitting(devices, asked("vf:1"), held("a", vf(0, PF_1))).fit()
    assert addresses(first) == [vf(1, PF_1)]


def test_who_asks_for_both_kinds_of_functions_gets_them_of_two_cards():
    devices = record([*nic(PF_0, 2), *nic(PF_1, 4)])
    assert addresses(fitting(devices, asked("vf:3,pf:1")).fit()) == [
        *(vf(n, PF_1) for n in range(3)),
        PF_0,
    ]
    assert addresses(fitting(devices, asked("pf:2")).fit()) == [PF_0, PF_1]
    assert hasattr(fitting(devices, asked("pf:1,vf:5")).fit(), "reasons")


def test_many_cards_that_are_alike_are_not_tried_one_by_one():
    cards = [f"{domain:04x}:{bus:02x}:00.0" for domain in range(4) for bus in range(0, 128, 4)]
    devices = record(device for pf in cards for device in nic(pf, 2))
    answer = fitting(devices, asked("pf:100,vf:57"), steps=200).fit()
    assert reasons(answer) == [("insufficient", "PCI pf", "cn1", 100, 99)]
    assert len(addresses(fitting(devices, asked("pf:100,vf:56"), steps=200).fit())) == 156


def test_a_search_that_ends_at_its_bound_says_so():
    # Cards that all differ in how many functions they have, and one function too few in any way.
    devices = record(
        device for n in range(6) for device in nic(f"0000:{0x10 * (n + 1):02x}:00.0", n + 1)
    )
    requests = asked("pf:3,vf:16")
    assert [r.code for r in fitting(devices, requests).fit().reasons] == [ReasonCode.INSUFFICIENT]
    bound = fitting(devices, requests, steps=5)
    assert [reason.code for reason in bound.fit().reasons] == [ReasonCode.UNDECIDED]
    assert bound.possible(frozenset({0}))


def test_the_same_question_has_the_same_answer():
    requests = asked("gpu:1,vf:2,pf:1")
    devices = record([gpu(GPU_1), gpu(GPU_0), *nic(PF_1), *nic(PF_0)])
    backwards = dict(reversed(devices.items()))
    assert fitting(devices, requests).fit() == fitting(backwards, requests).fit()


# --- NUMA ---


@pytest.mark.parametrize(
    ("policy", "node", "cells", "expected"),
    [
        ("required", 0, {0}, True),
        ("required", 1, {0, 1}, True),
        ("required", 1, {0}, False),
        ("required", None, {0}, False),
        ("legacy", 1, {0}, False),
        ("legacy", None, {0}, True),
        ("preferred", 1, {0}, True),
        ("preferred", None, {0}, True),
        ("socket", 1, {1}, True),
        ("socket", 1, {2}, True),
        ("socket", 1, {0}, False),
        ("socket", None, {0}, False),
        ("socket", 3, {3}, True),
        ("socket", 3, {0}, False),
    ],
)
def test_policies(policy, node, cells, expected):
    fit = fitting(record([gpu(numa_node=node)]), asked("gpu:1", policy), sockets=SOCKETS)
    assert hasattr(fit.fit(frozenset(cells)), "devices") is expected
    assert fit.possible(frozenset(cells)) is expected
    assert bool(fit.refusal(tuple(cells))) is not expected
    # without a topology of its own a guest is near to nothing, and far from nothing
    assert hasattr(fit.fit(), "devices")
    assert fit.possible(frozenset())
    assert fit.refusal(()) == ()


def test_a_refusal_for_want_of_affinity_names_the_cells():
    answer = fitting(HOST, asked("gpu:1", "required"), held("a", GPU_0)).fit(frozenset({0, 2}))
    assert reasons(answer) == [("insufficient", "PCI gpu", "cn1 cells 0,2", 1, 0)]


def test_what_is_near_is_taken_first():
    devices = record([gpu("0000:01:00.0", 1), gpu("0000:02:00.0", None), gpu("0000:03:00.0", 0)])
    near = fitting(devices, asked("gpu:1", "preferred")).fit(frozenset({0}))
    assert addresses(near) == ["0000:03:00.0"]
    two = fitting(devices, asked("gpu:2", "preferred")).fit(frozenset({0}))
    assert addresses(two) == ["0000:02:00.0", "0000:03:00.0"]


def test_who_only_prefers_makes_way_for_who_requires():
    both = (*asked("gpu:1", "preferred"), *asked("gpu:1", "required"))
    both = (both[0], replace(both[1], request_id="second"))
    answer = fitting(HOST, both).fit(frozenset({0}))
    assert addresses(answer) == [GPU_1, GPU_0]


def test_which_cells_are_tried_first():
    wanting = fitting(HOST, asked("gpu:1"), held("a", GPU_0))
    assert [wanting.weight(cell) for cell in (0, 1, 2)] == [1, 0, 1]
    wanting_none = fitting(HOST, ())
    assert [wanting_none.weight(cell) for cell in (0, 1, 2)] == [1, 1, 0]
    assert wanting_none.possible(frozenset({0}))
    assert wanting_none.refusal((0,)) == ()


# --- what the owner holds already ---


def test_two_gpus_on_a_host_with_two_of_which_the_owner_holds_one():
    requests = asked("gpu:2")
    held_one = held("me", GPU_1)
    assert hasattr(fitting(HOST, requests, held_one).fit(), "reasons")
    grown = fitting(HOST, requests, held_one, offered={GPU_1: "gpu"}).fit()
    assert addresses(grown) == [GPU_0, GPU_1]
    assert hasattr(fitting(HOST, requests, held_one, "another").fit(), "reasons")


def test_an_unchanged_request_keeps_its_devices():
    requests = asked("gpu:1,vf:2")
    offered = {GPU_1: "gpu", vf(1): "vf", vf(3): "vf"}
    kept = fitting(HOST, requests, held("me", *offered), offered=offered).fit()
    assert addresses(kept) == [GPU_1, vf(1), vf(3)]


def test_what_another_request_of_the_owner_had_comes_before_what_is_free():
    kept = fitting(HOST, asked("gpu:1"), held("me", GPU_1), offered={GPU_1: "other"}).fit()
    assert addresses(kept) == [GPU_1]


def test_what_is_held_and_gone_is_not_offered_again():
    devices = {**HOST, GPU_1: replace(HOST[GPU_1], listed=False)}
    kept = fitting(devices, asked("gpu:1"), held("me", GPU_1), offered={GPU_1: "gpu"}).fit()
    assert addresses(kept) == [GPU_0]


def test_devices_of_one_purpose_take_each_others_place():
    before = fitting(HOST, asked("gpu:1,vf:1")).fit().devices
    after = fitting(HOST, asked("gpu:2"), held("me", GPU_0), offered={GPU_0: "gpu"}).fit().devices
    assert by_purpose(before) == {"gpu": (GPU_0,), "vf": (vf(0),)}
    assert by_purpose(after) == {"gpu": (GPU_0, GPU_1)}


def test_an_owner_may_have_more_of_an_iommu_group_and_others_none():
    devices = record([gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)])
    holds = held("me", GPU_0)
    assert addresses(fitting(devices, asked("gpu:1"), holds).fit()) == [GPU_1]
    assert hasattr(fitting(devices, asked("gpu:1"), holds, "another").fit(), "reasons")


def test_the_make_of_a_device_is_in_the_claim():
    (device,) = fitting(record([gpu()], Tags(managed=False)), asked("gpu:1")).fit().devices
    assert {"vendor_id": device.vendor_id, "product_id": device.product_id} == GPU_IDS
    assert not device.managed
