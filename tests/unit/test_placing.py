"""Claims whose CPUs, cells, pages, devices and members fit together, or not at all."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.decision import ReasonCode, Refused
from rtagent.model.device import MdevType
from rtagent.model.instance import PciRequest
from rtagent.model.specific import SpecificUnit
from rtagent.pci.holds import offered
from rtagent.placing import shared_with
from tests.builders import NOON, PINNED, call, request, uid
from tests.device_states import (
    PMEM,
    VGPU_TYPE,
    addresses,
    audited,
    built,
    device_host,
    domain,
    policy,
    released,
    seen,
)
from tests.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, record, vf

NEAR = {"hw:pci_numa_affinity_policy": "required"}


def refused(state, aliases="", **asked):
    specs = dict(asked.pop("extra_specs", {}))
    if aliases:
        specs["pci_passthrough:alias"] = aliases
    answer = claims.build(state, request(extra_specs=specs, **asked), call(), NOON)
    assert isinstance(answer, Refused)
    return [(reason.code, reason.resource, reason.available) for reason in answer.reasons]


def cells(claim):
    return [cell.id for cell in claim.numa_topology.cells]


def test_no_device_is_given_out_twice():
    state, first = built(device_host(), "gpu:1")
    state, second = built(state, "gpu:1")
    assert addresses(first) + addresses(second) == [GPU_0, GPU_1]
    assert refused(state, "gpu:1") == [(ReasonCode.INSUFFICIENT, "PCI gpu", 0)]
    _, third = built(released(state, first), "gpu:1")
    assert addresses(third) == [GPU_0]


def test_all_of_the_devices_or_none():
    state = device_host()
    assert refused(state, "gpu:3,vf:1") == [(ReasonCode.EXCEEDS_HOST, "PCI gpu", 2)]
    assert not state.units


def test_a_refusal_has_every_reason_whatever_it_is_of():
    told = refused(device_host(), "gpu:3", vcpus=9, extra_resource={"VGPU": 1})
    assert {resource for _, resource, _ in told} == {"VCPU", "PCI gpu", "VGPU"}


def test_a_physical_function_and_its_virtual_ones_are_never_both_held():
    state, claim = built(device_host(), "vf:1")
    assert refused(state, "pf:1") == [(ReasonCode.INSUFFICIENT, "PCI pf", 0)]
    state, claim = built(released(state, claim), "pf:1")
    assert addresses(claim) == [PF_0]
    assert refused(state, "vf:1") == [(ReasonCode.INSUFFICIENT, "PCI vf", 0)]


def test_a_guest_is_put_where_its_devices_are():
    state = device_host(record([gpu(GPU_1, 1)]))
    state, claim = built(state, "gpu:1", extra_specs={**PINNED, **NEAR})
    assert cells(claim) == [1]
    assert addresses(claim) == [GPU_1]


def test_a_guest_that_asks_for_none_is_steered_off_the_cells_that_have_them():
    _, claim = built(device_host(record([gpu(GPU_0, 0)])), extra_specs=PINNED)
    assert cells(claim) == [1]
    _, claim = built(device_host(record([gpu(GPU_1, 1)])), extra_specs=PINNED)
    assert cells(claim) == [0]


def test_where_the_cell_of_the_devices_is_full_the_guest_is_refused_unless_far_will_do():
    state = device_host(record([gpu(GPU_0, 0)]))
    state, first = built(state, "gpu:1", vcpus=2, extra_specs=PINNED)
    assert cells(first) == [0]
    there = state.devices[GPU_0]
    other = replace(there, device=gpu(GPU_1, 0))
    state = replace(state, devices=state.devices.changed((), (other,)))
    told = refused(state, "gpu:1", extra_specs={**PINNED, **NEAR})
    assert (ReasonCode.INSUFFICIENT, "PCI gpu", 0) in told
    far = {**PINNED, "hw:pci_numa_affinity_policy": "preferred"}
    _, claim = built(state, "gpu:1", extra_specs=far)
    assert (cells(claim), addresses(claim)) == ([1], [GPU_1])


def test_a_guest_without_cells_takes_a_device_anywhere():
    _, claim = built(device_host(), "gpu:2", extra_specs=NEAR)
    assert addresses(claim) == [GPU_0, GPU_1]


def test_what_a_domain_without_a_claim_uses_is_not_given():
    state = audited(device_host(), seen(device_host(), domain("foreign", [GPU_0])))
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_1]


def test_a_domain_that_is_only_defined_uses_none():
    off = domain("foreign", [GPU_0], active=False)
    state = audited(device_host(), seen(device_host(), off))
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_0]


def test_a_virtual_function_in_a_domain_without_a_claim_keeps_the_physical_one():
    only_pf = record([next(iter(nic()))])
    state = device_host(only_pf)
    everything = [each.device for each in record(nic()).values()]
    state = audited(state, seen(state, domain("foreign", [vf(0)]), devices=everything))
    assert refused(state, "pf:1") == [(ReasonCode.INSUFFICIENT, "PCI pf", 0)]


def test_ports_ask_beside_the_flavor():
    port = PciRequest(
        count=1,
        request_id="p",
        spec=({"vendor_id": "8086", "product_id": "154c"},),
        source="neutron_port",
        requester_id="port",
    )
    _, claim = built(device_host(), "gpu:1", instance={"pci_requests": (port,)})
    assert [(d.address, d.request_id, d.requester_id) for d in claim.pci] == [
        (GPU_0, "gpu", None),
        (vf(0), "p", "port"),
    ]


# -- members of classes ---------------------------------------------------------------------------


def vgpus(number=2, pmem=(PMEM,)):
    """One GPU that makes so many."""
    device = replace(gpu(GPU_0, 0), mdev_types=(mdev_type(number),))
    return device_host(record([device]), pci=policy(mdev_types=(VGPU_TYPE,), pmem=pmem))


def mdev_type(number):
    return MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=number)


def members(claim):
    return [unit.identifier for unit in claim.resources]


def test_members_are_given_one_by_one():
    state, first = built(vgpus(), extra_specs={"resources:VGPU": "1"})
    assert first.resources == (
        SpecificUnit(provider=GPU_0, resource_class="VGPU", identifier=f"{GPU_0}/nvidia-11/0"),
    )
    state, second = built(state, extra_resource={"VGPU": 1})
    assert members(second) == [f"{GPU_0}/nvidia-11/1"]
    assert refused(state, extra_resource={"VGPU": 1}) == [(ReasonCode.INSUFFICIENT, "VGPU", 0)]
    _, third = built(released(state, first), extra_specs={"resources:VGPU": "1"})
    assert members(third) == members(first)


def test_members_may_be_named():
    state, claim = built(vgpus(), extra_resource={PMEM.resource_class: ("ns1",)})
    assert members(claim) == ["ns1"]
    _, other = built(state, extra_specs={"hw:pmem": "4GB"})
    assert members(other) == ["ns0"]


def test_a_device_that_makes_others_is_not_given_away_whole_while_one_is_held():
    state, claim = built(vgpus(), extra_specs={"resources:VGPU": "1"})
    assert refused(state, "gpu:1") == [(ReasonCode.INSUFFICIENT, "PCI gpu", 0)]
    _, whole = built(released(state, claim), "gpu:1")
    assert addresses(whole) == [GPU_0]


def test_a_device_that_is_given_away_whole_makes_no_others():
    state, _ = built(vgpus(), "gpu:1")
    assert refused(state, extra_resource={"VGPU": 1}) == [(ReasonCode.NOT_OFFERED, "VGPU", 0)]


def test_a_device_that_is_kept_back_makes_no_more_and_leaves_what_is_held_to_its_holder():
    state, claim = built(vgpus(), extra_resource={"VGPU": 1})
    kept = replace(state.devices[GPU_0], quarantine="it is hot")
    state = replace(state, devices=state.devices.changed((), (kept,)))
    assert refused(state, extra_resource={"VGPU": 1}) == [(ReasonCode.INSUFFICIENT, "VGPU", 0)]
    assert shared_with([claim]).members == set(members(claim))
    assert members(claim)[0] in {name for each in offered(state) for name in each.identifiers}


def test_what_an_owner_holds_may_be_shared_with_himself():
    _, first = built(vgpus(), extra_resource={"VGPU": 2, PMEM.resource_class: 1})
    shared = shared_with([first])
    assert shared.members == {*members(first)}
    _, second = built(device_host(), "gpu:1,vf:1")
    assert shared_with([second]).devices == {GPU_0: "gpu", vf(0): "vf"}


def test_a_class_that_nobody_offers():
    assert refused(vgpus(), extra_resource={"CUSTOM_FPGA": 1}) == [
        (ReasonCode.NOT_OFFERED, "CUSTOM_FPGA", 0)
    ]


def test_an_orphan_that_is_shut_off_gets_what_it_is_defined_with_unless_somebody_has_it():
    off = domain(uid(77), [GPU_1], active=False)
    state = audited(device_host(), seen(device_host(), off))
    _, claim = built(state, "gpu:1", owner=uid(77))
    assert addresses(claim) == [GPU_1]
    state, _ = built(state, "gpu:2")
    assert refused(state, "gpu:1", owner=uid(77)) == [(ReasonCode.INSUFFICIENT, "PCI gpu", 0)]


@pytest.mark.parametrize("owner", [None, uid(77)])
def test_an_orphan_that_is_adopted_does_not_stand_in_its_own_way(owner):
    state = audited(device_host(), seen(device_host(), domain(uid(77), [GPU_0])))
    _, claim = built(state, "gpu:1", owner=owner)
    assert addresses(claim) == [GPU_0 if owner else GPU_1]
