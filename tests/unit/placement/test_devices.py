"""PCI devices in the tree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.claim import PCI
from rtagent.model.device import Tags
from rtagent.pci.holds import holdings
from rtagent.pci.spec import parse_specs
from rtagent.placement.tree import build, concerns
from tests.builders import NODE, NOON
from tests.device_states import (
    ONE_TIME,
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
from tests.pci_hosts import GPU_0, GPU_1, GPU_IDS, PF_0, PF_IDS, VF_IDS, gpu, nic, record, vf
from tests.unit.placement.values import record as counts

#: Without the physical function, which Placement cannot count beside its virtual ones.
REPORTED = parse_specs([json.dumps(ids) for ids in (GPU_IDS, VF_IDS)])
GPUS_AND_VFS = record([gpu(GPU_0, 0), gpu(GPU_1, 1), *list(nic())[1:]])
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"


def reporting(devices=None, specs=REPORTED):
    there = GPUS_AND_VFS if devices is None else devices
    return device_host(there, pci=policy(specs, report_in_placement=True))


def children(state):
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    return {each.name.removeprefix("cn1.example_"): each for each in tree.providers[1:]}


def shown(state):
    """Inventories by the end of the provider's name."""
    return {name: dict(each.inventories) for name, each in children(state).items()}


def test_each_device_and_each_card_has_a_child():
    assert shown(reporting()) == {
        "0000:08:00.0": {GPU_CLASS: counts(1)},
        "0000:20:00.0": {VF_CLASS: counts(4)},
        "0000:88:00.0": {GPU_CLASS: counts(1)},
    }


def test_its_name_is_in_capitals_and_its_uuid_is_always_the_same():
    first = children(reporting(record([gpu("0000:af:00.0")])))["0000:AF:00.0"]
    again = children(reporting(record([gpu("0000:af:00.0", numa_node=1), *nic()])))["0000:AF:00.0"]
    other = children(reporting())["0000:08:00.0"]
    assert (first.name, first.parent) == ("cn1.example_0000:AF:00.0", NODE.uuid)
    assert first.uuid == again.uuid != other.uuid


def test_placement_is_told_of_none_without_the_option():
    assert shown(device_host()) == {}


def test_class_and_traits_are_the_operators():
    tags = Tags(resource_class="CUSTOM_GPU", traits=frozenset({"CUSTOM_FAST"}))
    child = children(reporting(record([gpu()], tags)))["0000:08:00.0"]
    assert dict(child.inventories) == {"CUSTOM_GPU": counts(1)}
    assert child.traits == {"CUSTOM_FAST", "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}


def test_what_a_claim_holds_is_not_reserved_since_its_allocation_counts_it():
    state, claim = built(reporting(), "gpu:1,vf:2")
    assert shown(state) == shown(reporting())
    assert shown(running(state, claim)) == shown(reporting())


def test_what_a_foreign_domain_has_is_reserved():
    state = reporting()
    state = audited(state, seen(state, domain("orphan", [GPU_0, vf(1), vf(2)])))
    assert shown(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}
    assert shown(state)["0000:20:00.0"] == {VF_CLASS: counts(4, reserved=2)}
    assert shown(state)["0000:88:00.0"] == {GPU_CLASS: counts(1)}


def test_what_a_stranger_uses_of_a_claimed_device_is_not_reserved_a_second_time():
    state, claim = built(reporting(), "gpu:1")
    stranger = domain("stranger", [claim.pci[0].address])
    assert shown(audited(state, seen(state, guest(claim), stranger))) == shown(state)


def test_a_device_that_is_kept_back_is_reserved():
    state = reporting()
    kept = replace(state.devices[GPU_0], quarantine="broken")
    state = state.fold(Change(cause="t", at=NOON, devices=(kept,)))
    assert shown(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}


def test_a_device_for_one_use_is_reserved_after_it():
    devices = record([gpu()], Tags(one_time_use=True))
    state, claim = built(reporting(devices, ONE_TIME), "gpu:1")
    assert shown(state)["0000:08:00.0"] == {GPU_CLASS: counts(1)}
    assert "HW_PCI_ONE_TIME_USE" in children(state)["0000:08:00.0"].traits
    state = released(state, claim)
    assert shown(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}


def test_peers_of_a_claimed_devices_group_are_reserved():
    both = record([gpu(GPU_0, 0, iommu_group=7), gpu(GPU_1, 0, iommu_group=7)])
    state, claim = built(reporting(both), "gpu:1")
    other = {GPU_0: "0000:88:00.0", GPU_1: "0000:08:00.0"}[claim.pci[0].address]
    assert shown(state)[other] == {GPU_CLASS: counts(1, reserved=1)}


def test_virtual_functions_of_a_card_that_somebody_has_are_reserved():
    state = reporting(record(nic()))
    whole = replace(state.devices[PF_0], listed=False)
    state = state.fold(Change(cause="t", at=NOON, devices=(whole,)))
    everything = [each.device for each in state.devices.values()]
    state = audited(state, seen(state, domain("orphan", [PF_0]), devices=everything))
    assert shown(state) == {"0000:20:00.0": {VF_CLASS: counts(4, reserved=4)}}


def test_a_device_that_goes_is_not_shown_and_one_that_comes_is():
    state = reporting()
    state = audited(state, seen(state, devices=[gpu(GPU_1, 1), gpu("0000:09:00.0")]))
    assert set(shown(state)) == {"0000:09:00.0", "0000:88:00.0"}


@pytest.mark.parametrize("how", ["unplugged", "offered no more"])
def test_a_held_device_that_goes_stays_until_it_is_let_go_of(how):
    state, claim = built(reporting(record([gpu()])), "gpu:1")
    there = [] if how == "unplugged" else [gpu()]
    if there:
        unlisted = policy((), report_in_placement=True)
        state = replace(state, policy=replace(state.policy, pci=unlisted))
    state = audited(state, seen(state, guest(claim), devices=there))
    assert shown(state) == {"0000:08:00.0": {GPU_CLASS: counts(1)}}
    state = released(state, claim)
    assert shown(audited(state, seen(state, devices=there))) == {}


def test_what_cannot_be_told_of_is_left_out():
    assert shown(reporting(record(nic()))) == {"0000:20:00.0": {"CUSTOM_PCI_8086_1583": counts(1)}}
    assert shown(reporting(record(nic(), Tags(physical_network="physnet1")))) == {}


# -- the root -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "told"),
    [({}, True), ({"present": False}, False), ({"listed": False}, False)],
)
def test_ports_that_are_managed_remotely_are_a_trait_of_the_root(parts, told):
    devices = record(list(nic(vfs=1))[1:], Tags(remote_managed=True))
    state = device_host({address: replace(each, **parts) for address, each in devices.items()})
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    assert ("COMPUTE_REMOTE_MANAGED_PORTS" in tree.providers[0].traits) is told


def test_other_devices_do_not_give_it():
    tree = build(reporting(), disabled=False, hypervisor_up=True)
    assert tree is not None
    assert "COMPUTE_REMOTE_MANAGED_PORTS" not in tree.providers[0].traits


# -- wake-ups -------------------------------------------------------------------------------------


def test_whatever_moves_a_device_concerns_placement():
    state, claim = built(reporting(), "gpu:1")
    for parts in (
        {"puts": (claim,)},
        {"devices": (replace(state.devices[GPU_0], quarantine="broken"),)},
        {"device_removals": (GPU_1,)},
    ):
        change = Change(cause="t", at=NOON, **parts)
        assert concerns(state, [change])
    plain = Change(cause="t", at=NOON, puts=(replace(claim, pci=()),))
    assert not concerns(state, [plain])


# -- Placement is never more generous than the agent ----------------------------------------------

addresses = st.sampled_from(sorted(GPUS_AND_VFS))


@given(
    strangers=st.sets(addresses),
    kept=st.sets(addresses),
    groups=st.dictionaries(addresses, st.integers(0, 1)),
    wanted=st.sampled_from(["", "gpu:1", "vf:1", "gpu:1,vf:2"]),
)
def test_the_devices_that_placement_grants_can_be_had(strangers, kept, groups, wanted):
    devices = {
        address: replace(
            each,
            quarantine="broken" if address in kept else None,
            device=replace(each.device, iommu_group=groups.get(address)),
        )
        for address, each in GPUS_AND_VFS.items()
    }
    state = reporting()
    if wanted:
        state, _ = built(state, wanted)
    state = state.fold(Change(cause="t", at=NOON, devices=tuple(devices.values())))
    holding = domain("stranger", strangers).holding()
    assert holding is not None
    state = state.fold(Change(cause="t", at=NOON, holdings=(holding,)))
    free = {address for kind in holdings(state).available() for address in kind.addresses}
    for child in children(state).values():
        (inventory,) = child.inventories.values()
        mine = [vf(n) for n in range(4)] if inventory.total == 4 else [child.name[-12:].lower()]
        claimed = sum((PCI, address) in state.units for address in mine)
        assert inventory.total - inventory.reserved - claimed == len(free.intersection(mine))


def test_the_card_itself_is_one_device():
    state = device_host(
        record(list(nic())[:1]),
        pci=policy(parse_specs([json.dumps(PF_IDS)]), report_in_placement=True),
    )
    assert shown(state) == {"0000:20:00.0": {"CUSTOM_PCI_8086_1583": counts(1)}}
