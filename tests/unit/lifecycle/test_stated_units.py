"""Units that a caller states, and those of them that others hold."""

import pytest

from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.stated_units import (
    completed_device,
    completed_resource,
    held_by_others,
    unrecorded,
    without_units,
)
from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import PCI, PCPU, RESOURCE
from rtagent.model.domain_usage import Occupancy
from tests.support.claims import given, stated
from tests.support.device_states import NAMESPACES, PMEM, VGPU_TYPE, after, device_host, policy
from tests.support.hosts import NOON, call, domain_usage, observed, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, VF_IDS, gpu, record, vf


def test_recorded_devices_are_not_recorded_again():
    state = device_host()
    assert unrecorded(state, [given(GPU_0)]) == ()
    (made,) = unrecorded(state, [given("0000:99:00.0", numa_node=1)])
    device = (made.address, made.device.product_id, made.device.numa_node)
    assert device == ("0000:99:00.0", "13f1", 1)
    assert (made.present, made.listed) == (False, False)


def test_device_keeps_its_request_and_gets_the_rest_from_its_record():
    state = device_host(pci=policy(report_in_placement=True))
    stated = given(vf(0), VF_IDS, request_id="port", parent_addr="0000:00:00.0", managed=False)
    made = completed_device(state, stated)
    assert (made.request_id, made.parent_addr, made.dev_type) == ("port", PF_0, "type-VF")
    assert made.managed
    assert completed_device(state, given(GPU_0)).provider is not None


def test_resource_of_a_parent_device_gets_its_parent():
    card = gpu(vgpus=2)
    state = device_host(record([card]), pci=policy(pmem=(PMEM,), mdev_types=(VGPU_TYPE,)))
    (mdevs,) = (each for each in state.resource_inventories if each.provider)
    mdev = AssignedResource(resource_class="VGPU", identifier=mdevs.identifiers[0])
    assert completed_resource(state, mdev).parent_addr == GPU_0
    namespace = AssignedResource(resource_class=PMEM.resource_class, identifier="ns1")
    made = completed_resource(state, namespace)
    assert (made.parent_addr, made.namespace) == (None, NAMESPACES[1])
    assert made.provider == state.node.uuid


def test_units_that_others_hold_are_left_out_and_all_amounts_stay():
    state = device_host(pci=policy(pmem=(PMEM,)))
    adopted = adopt_claim(state, call("adopt"), NOON, stated(cpus=(2,), namespaces=["ns0"]))
    state, _ = after(state, adopted)
    asked = stated(cpus=(2, 3), namespaces=["ns0", "ns1"])
    rest = without_units(asked, {("PCPU", "2"), ("RESOURCE", "ns0")})
    before = state.usage
    state, claim = after(state, adopt_claim(state, call("adopt"), NOON, rest))
    assert claim.units == {("PCPU", "3"), ("RESOURCE", "ns1")}
    assert (state.usage.vcpus - before.vcpus, state.usage.pcpus - before.pcpus) == (1, 1)
    assert state.usage.memory_mb - before.memory_mb == 1024
    assert claim.numa_topology.cells[0].cpuset == {0}


def test_request_without_a_topology_stays_without():
    asked = stated()
    assert without_units(asked, {("PCPU", "2")}) == asked


OTHER = uid(78)
MDEVS = tuple(
    AssignedResource(resource_class="VGPU", identifier=f"{GPU_0}/nvidia-11/{n}", parent_addr=GPU_0)
    for n in range(2)
)


def with_orphan(active=True, **occupancy):
    """A host with a domain that has no claim."""
    usage = domain_usage(OTHER, active=active, occupancy=Occupancy(**occupancy))
    return observed(device_host(pci=policy(pmem=(PMEM,))), usage)


def claim_of(asked):
    return adopt_claim(device_host(pci=policy(pmem=(PMEM,))), call(), NOON, asked).claims[0]


def held(state, asked):
    return [(each.kind, each.name) for each in held_by_others(state, claim_of(asked))]


@pytest.mark.parametrize(
    ("used", "asked", "expected"),
    [
        ({"devices": frozenset({GPU_1})}, {"devices": [GPU_0, GPU_1]}, [(PCI, GPU_1)]),
        ({"mdev_parents": frozenset({GPU_1})}, {"devices": [GPU_1]}, [(PCI, GPU_1)]),
        ({"namespaces": frozenset({"ns0"})}, {"namespaces": ["ns0", "ns1"]}, [(RESOURCE, "ns0")]),
    ],
)
def test_units_of_a_running_domain_without_a_claim_are_held_by_it(used, asked, expected):
    state = with_orphan(**used)
    assert held(state, stated(**asked)) == expected
    assert held(state, stated(OTHER, **asked)) == []
    assert held(with_orphan(active=False, **used), stated(**asked)) == []


def test_several_domains_can_run_on_a_host_cpu_and_one_claim_holds_it():
    state = with_orphan(pcpus=frozenset({2, 3}))
    assert held(state, stated(cpus=(2, 3))) == []
    state, claim = after(state, adopt_claim(state, call(), NOON, stated(cpus=(3,))))
    (unit,) = held_by_others(state, claim_of(stated(cpus=(2, 3))))
    assert (unit.kind, unit.name, unit.owner_id) == (PCPU, "3", claim.owner_id)
    assert str(unit) == f"host CPU 3 is held by claim {claim.uuid} of instance {claim.owner_id}"


def test_mediated_device_of_a_device_that_another_owner_has_as_a_whole():
    state, claim = after(
        device_host(), adopt_claim(device_host(), call(), NOON, stated(devices=[given(GPU_0)]))
    )
    assert held(state, stated(resources=MDEVS[:1])) == [(PCI, GPU_0)]
    assert held(state, stated(claim.owner_id, resources=MDEVS[:1])) == []
