"""A claim follows its allocations in Placement, or says what is wrong with them."""

import re

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.device_shares import group_id
from rtagent.errors import AllocationMismatch
from rtagent.lifecycle import attach
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.decision import Granted
from rtagent.model.migration import MoveRequest
from rtagent.model.policy import AdditionalInventory, PlacementPolicy
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid
from rtagent.model.request import Allocation, PciRequest
from tests.support.device_states import (
    PMEM,
    VGPU_TYPE,
    addresses,
    after,
    aliased,
    attaching,
    build_claim,
    built,
    device_host,
    policy,
    refusal,
)
from tests.support.hosts import NODE, NOON, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, record
from tests.support.provider_files import added

FOO = added("CUSTOM_FOO", min_unit=2, max_unit=6, step_size=2)
OTHER = uid(0xBAD)
PF_1 = "0000:a0:00.0"
VFS = [*tuple(nic(vfs=2))[1:], *tuple(nic(PF_1, vfs=2))[1:]]
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"


def on(suffix: str) -> str:
    """Return the uuid of a provider of the node."""
    return provider_uuid(NODE, PlacementPolicy(), suffix)


ROOT = on("")


def mdevs(address: str) -> str:
    return on(mdev_suffix(address))


def pci(address: str) -> str:
    return on(device_suffix(address))


def allocations(*parts: dict, **root: int) -> dict[str, Allocation]:
    """Return what a guest of one vCPU and 1 GB has, and further parts by provider."""
    host = {"VCPU": 1, "MEMORY_MB": 1024, **root}
    whole = {ROOT: {name: number for name, number in host.items() if number}}
    for part in parts:
        for uuid, resources in part.items():
            whole[uuid] = {**whole.get(uuid, {}), **resources}
    return {uuid: Allocation(resources=resources) for uuid, resources in whole.items()}


def mdev_host(**pci_policy):
    """Return a host with two GPUs of mediated devices, and persistent memory."""
    options = policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,), **pci_policy)
    gpus = (gpu(address, vgpus=3) for address in (GPU_0, GPU_1))
    return device_host(record(gpus), pci=options)


def pci_host():
    """Return a host that reports two GPUs and two cards with two virtual functions each."""
    devices = record([gpu(GPU_0, 0), gpu(GPU_1, 1), *VFS])
    return device_host(devices, pci=policy(report_in_placement=True))


def offering(state, *offered: AdditionalInventory):
    placement = PlacementPolicy(additional=offered)
    return replace(state, policy=replace(state.policy, placement=placement))


def following(whole, mapping=None, aliases="", **arguments):
    build = aliased(aliases, **arguments)
    return replace(build, allocations=whole, provider_mapping=mapping or {})


def claimed(state, whole, mapping=None, aliases="", **arguments):
    """Build a claim that follows allocations; return the state and the claim."""
    return build_claim(state, following(whole, mapping, aliases, **arguments))


def mismatches(state, whole, mapping=None, aliases="", **arguments):
    """Return class, quantity allocated, and quantity needed of each difference."""
    build = following(whole, mapping, aliases, **arguments)
    with pytest.raises(AllocationMismatch) as raised:
        claims.instance_claim(state, call(), NOON, build)
    found = raised.value.kwargs["mismatches"]
    assert all(each["message"] in raised.value.message for each in found)
    return [(each["resource_class"], each["allocated"], each["needed"]) for each in found]


def refused(state, whole, mapping=None, aliases="", **arguments):
    reasons = refusal(state, following(whole, mapping, aliases, **arguments)).reasons
    return [str(reason) for reason in reasons]


# -- amounts that Placement decides on ------------------------------------------------------------


def unjudged(state):
    return replace(state, policy=replace(state.policy, judge_amounts=False))


@pytest.mark.parametrize("root", [{"VCPU": 7}, {"MEMORY_MB": 0}, {"DISK_GB": 5}, {"PCPU": 1}])
def test_amounts_that_are_not_judged_may_differ_from_the_allocations(root):
    assert mismatches(device_host(), allocations(**root))
    claimed(unjudged(device_host()), allocations(**root))


def test_attached_devices_come_from_the_providers_that_are_named():
    state, main = built(unjudged(pci_host()))
    asked = replace(
        attaching(main, "vf"),
        pci_requests=(PciRequest(count=2, request_id="r", alias_name="vf"),),
        allocations={pci(address): Allocation(resources={VF_CLASS: 1}) for address in (PF_0, PF_1)},
        provider_mapping={"r": (pci(PF_0), pci(PF_1))},
    )
    _, claim = after(state, attach.claim_pci_devices(state, call(), NOON, asked))
    assert [each.parent_addr for each in claim.pci] == [PF_0, PF_1]


# -- quantities of the host -----------------------------------------------------------------------


def test_claim_records_the_allocations_that_it_follows():
    whole = allocations()
    _, claim = claimed(device_host(), whole)
    assert claim.allocations == whole
    _, claim = built(device_host())
    assert claim.allocations is None


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ({"VCPU": 2}, [("VCPU", 2, 1)]),
        ({"VCPU": 0}, [("VCPU", 0, 1)]),
        ({"MEMORY_MB": 512}, [("MEMORY_MB", 512, 1024)]),
        ({"DISK_GB": 1}, [("DISK_GB", 1, 0)]),
        ({"PCPU": 1}, [("PCPU", 1, 0)]),
        ({"VCPU": 0, "PCPU": 1}, [("PCPU", 1, 0), ("VCPU", 0, 1)]),
        ({"VGPU": 1}, [("VGPU", 1, 0)]),
        ({"CUSTOM_BAR": 1}, [("CUSTOM_BAR", 1, 0)]),
    ],
)
def test_other_quantities_than_those_of_the_flavor_are_a_mismatch(root, expected):
    assert mismatches(device_host(), allocations(**root)) == expected


def test_disk_is_rounded_up_and_none_if_the_root_disk_is_a_volume():
    disk = {"root_gb": 3, "ephemeral_gb": 2, "swap": 1}
    claimed(device_host(), allocations(DISK_GB=6), **disk)
    assert mismatches(device_host(), allocations(DISK_GB=5), **disk) == [("DISK_GB", 5, 6)]
    claimed(device_host(), allocations(), root_gb=3, instance={"is_volume_backed": True})


def test_disk_may_be_another_provider_s():
    claimed(device_host(), allocations({OTHER: {"DISK_GB": 3}}), root_gb=3)
    half = allocations({OTHER: {"DISK_GB": 2}}, DISK_GB=1)
    assert mismatches(device_host(), half, root_gb=3) == [("DISK_GB", 3, 3)]
    shared = replace(device_host().policy, placement=PlacementPolicy(disk_provider=OTHER))
    state = replace(device_host(), policy=shared)
    claimed(state, allocations({OTHER: {"DISK_GB": 3}}), root_gb=3)
    differences = mismatches(state, allocations(DISK_GB=3), root_gb=3)
    assert differences == [("DISK_GB", 3, 0), ("DISK_GB", 0, 3)]


def test_provider_of_another_host_is_a_mismatch_and_that_of_another_service_is_not():
    theirs = allocations({OTHER: {"MEMORY_MB": 1024}})
    assert mismatches(device_host(), theirs) == [("MEMORY_MB", 1024, 0)]
    claimed(device_host(), allocations({OTHER: {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}))


# -- mediated devices and persistent memory -------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({mdevs(GPU_0): {"VGPU": 2}}, [("VGPU", 2, 1)]),
        ({}, [("VGPU", 0, 1)]),
        ({ROOT: {"VGPU": 1}}, [("VGPU", 1, 0), ("VGPU", 0, 1)]),
        ({mdevs(GPU_0): {"VGPU": 1, "MEMORY_MB": 1}}, [("MEMORY_MB", 1, 0)]),
        ({OTHER: {"VGPU": 1}}, [("VGPU", 1, 0), ("VGPU", 0, 1)]),
    ],
)
def test_virtual_gpus_that_are_not_allocated_as_needed_are_a_mismatch(part, expected):
    specs = {"resources:VGPU": "1"}
    assert mismatches(mdev_host(), allocations(part), extra_specs=specs) == expected


def test_named_units_must_be_of_the_allocated_providers():
    named = {"VGPU": (f"{GPU_0}/nvidia-11/2", f"{GPU_1}/nvidia-11/0")}
    both = allocations({mdevs(GPU_0): {"VGPU": 1}, mdevs(GPU_1): {"VGPU": 1}})
    _, claim = claimed(mdev_host(), both, extra_resource=named)
    assert [each.identifier for each in claim.resources] == list(named["VGPU"])
    one = allocations({mdevs(GPU_0): {"VGPU": 2}})
    assert mismatches(mdev_host(), one, extra_resource=named) == [("VGPU", 2, 1), ("VGPU", 0, 1)]


# -- PCI devices ----------------------------------------------------------------------------------


def test_provider_mapping_assigns_the_allocated_providers_to_requests():
    whole = allocations({pci(PF_0): {VF_CLASS: 1}, pci(PF_1): {VF_CLASS: 1}})
    one = {"count": 1, "alias_name": "vf"}
    pci_requests = tuple(PciRequest(request_id=name, **one) for name in ("first", "second"))
    for first, second in ((PF_0, PF_1), (PF_1, PF_0)):
        # Conductors give the id of the request, or Nova's name of its request group.
        mapping = {"first": (pci(first),), "second-0": (pci(second),), "a port": (pci(PF_0),)}
        asked = {"instance": {"pci_requests": pci_requests}}
        _, claim = claimed(pci_host(), whole, mapping, **asked)
        parents = [(each.request_id, each.parent_addr) for each in claim.pci]
        assert parents == [("first", first), ("second", second)]
        assert claim.provider_mapping == mapping


def test_names_of_request_groups_find_their_requests():
    whole = allocations({pci(PF_0): {VF_CLASS: 1}, pci(PF_1): {VF_CLASS: 1}})
    one = {"count": 1, "alias_name": "vf"}
    for ids in (("a nic", "x" * 100), ("nic", "nic-0")):
        names = tuple(f"{group_id(name)}-0" for name in ids)
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,52}", name) for name in names)
        asked = {"pci_requests": tuple(PciRequest(request_id=name, **one) for name in ids)}
        for parents in ((PF_0, PF_1), (PF_1, PF_0)):
            mapping = {name: (pci(pf),) for name, pf in zip(names, parents, strict=True)}
            _, claim = claimed(pci_host(), whole, mapping, instance=asked)
            assert tuple(device.parent_addr for device in claim.pci) == parents


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({}, [(GPU_CLASS, 0, 1)]),
        ({pci(GPU_0): {GPU_CLASS: 2}}, [(GPU_CLASS, 2, 1)]),
        ({pci(PF_0): {VF_CLASS: 1}}, [(GPU_CLASS, 0, 1), (VF_CLASS, 1, 0)]),
        ({pci(PF_0): {GPU_CLASS: 1}}, [(GPU_CLASS, 1, 0), (GPU_CLASS, 0, 1)]),
        ({OTHER: {GPU_CLASS: 1}}, [(GPU_CLASS, 1, 0), (GPU_CLASS, 0, 1)]),
    ],
)
def test_devices_that_are_not_allocated_as_needed_are_a_mismatch(part, expected):
    assert mismatches(pci_host(), allocations(part), aliases="gpu:1") == expected


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"gpu": (pci(GPU_1),)}, (GPU_CLASS, 0, 1)),
        ({"another": (OTHER,)}, ("", 0, 1)),
        ({"gpu": (ROOT,)}, ("", 0, 1)),
    ],
)
def test_mapping_to_another_provider_is_a_mismatch(mapping, expected):
    whole = allocations({pci(GPU_0): {GPU_CLASS: 1}})
    assert mismatches(pci_host(), whole, mapping, aliases="gpu:1") == [expected]


def test_mapping_without_allocations_is_a_mismatch():
    assert mismatches(pci_host(), None, {"gpu": (pci(GPU_0),)}, aliases="gpu:1") == [("", 0, 1)]


def test_devices_that_are_not_reported_need_no_allocation():
    state = device_host(record([gpu(GPU_0, 0)]))
    _, claim = claimed(state, allocations(), aliases="gpu:1")
    assert (addresses(claim), claim.pci[0].provider) == ([GPU_0], None)
    theirs = allocations({pci(GPU_0): {GPU_CLASS: 1}})
    assert mismatches(state, theirs, aliases="gpu:1") == [(GPU_CLASS, 1, 0)]


def test_device_and_its_own_virtual_gpus_are_not_allocated_to_one_guest():
    specs = {"resources:VGPU": "1"}
    state = mdev_host(report_in_placement=True)
    for parent, whole, fits in ((GPU_0, GPU_1, True), (GPU_0, GPU_0, False)):
        part = {mdevs(parent): {"VGPU": 1}, pci(whole): {GPU_CLASS: 1}}
        if fits:
            _, claim = claimed(state, allocations(part), aliases="gpu:1", extra_specs=specs)
            assert (claim.resources[0].parent_addr, addresses(claim)) == (parent, [whole])
        else:
            assert refused(state, allocations(part), aliases="gpu:1", extra_specs=specs) == [
                "PCI gpu: 1 devices requested at cn1.example, 0 available"
            ]


# -- moves and attach claims ----------------------------------------------------------------------


def moved(state, kind, whole, claim=None, aliases="", **arguments):
    owner = claim.owner_id if claim else uid()
    build = following(whole, aliases=aliases, owner=owner, **arguments)
    move = MoveRequest(build=build, migration=kind, old_flavor=build.instance.flavor)
    return move_claim(state, call("resize_claim"), NOON, move)


@pytest.mark.parametrize("kind", ["live-migration", "evacuation"])
def test_allocation_of_the_source_is_none_of_the_destination_s_business(kind):
    theirs = {OTHER: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 3, "CUSTOM_FOO": 1}}
    state = offering(device_host(), FOO)
    specs = {"extra_specs": {"resources:CUSTOM_FOO": "2"}, "root_gb": 3}
    whole = allocations(theirs, DISK_GB=3, CUSTOM_FOO=2)
    assert isinstance(moved(state, kind, whole, **specs), Granted)
    with pytest.raises(AllocationMismatch):
        moved(state, "migration", whole, **specs)
    with pytest.raises(AllocationMismatch):
        moved(state, kind, allocations(theirs, VCPU=2, DISK_GB=3, CUSTOM_FOO=2), **specs)


def test_attach_claim_follows_what_its_guest_s_other_claims_do_not_have():
    state, main = claimed(pci_host(), allocations({pci(GPU_1): {GPU_CLASS: 1}}), aliases="gpu:1")
    both = allocations({pci(GPU_0): {GPU_CLASS: 1}, pci(GPU_1): {GPU_CLASS: 1}})
    wanted = replace(attaching(main, "gpu"), allocations=both)
    _, claim = after(state, attach.claim_pci_devices(state, call(), NOON, wanted))
    assert (addresses(claim), claim.allocations) == ([GPU_0], both)
    _, claim = after(state, attach.claim_pci_devices(state, call(), NOON, wanted))


# -- other resource classes -----------------------------------------------------------------------


def test_class_of_another_service_is_accepted_if_it_is_allocated():
    specs = {"extra_specs": {"resources1:CUSTOM_FOO": "2", "trait1:CUSTOM_T": "required"}}
    whole = allocations({OTHER: {"CUSTOM_FOO": 2}})
    state, claim = claimed(device_host(), whole, **specs)
    assert claim.quantities == () and not state.usage.quantities
    assert mismatches(device_host(), allocations(), **specs) == [("CUSTOM_FOO", 0, 2)]
    more = allocations({OTHER: {"CUSTOM_FOO": 3}})
    assert mismatches(device_host(), more, **specs) == [("CUSTOM_FOO", 3, 2)]
    assert refused(device_host(), None, **specs) == [
        "CUSTOM_FOO: 2 units requested at cn1.example, which this host does not offer"
    ]


def test_offered_class_is_counted_where_it_is_allocated():
    child = replace(FOO, suffix="RACK", total=4, reserved=0, max_unit=4)
    state = offering(device_host(), FOO, child)
    specs = {"extra_specs": {"resources:CUSTOM_FOO": "2"}}
    whole = allocations({on("RACK"): {"CUSTOM_FOO": 2}})
    state, claim = claimed(state, whole, **specs)
    assert [(each.provider, each.quantity) for each in claim.quantities] == [(on("RACK"), 2)]
    assert state.usage.quantities == {("RACK", "CUSTOM_FOO"): 2}
    _, other = claimed(state, allocations(CUSTOM_FOO=2), **specs)
    assert [each.suffix for each in other.quantities] == [""]
    assert mismatches(state, allocations(CUSTOM_FOO=4), **specs) == [("CUSTOM_FOO", 4, 2)]
