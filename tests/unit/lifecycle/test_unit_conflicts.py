"""Units that other claims and running domains hold."""

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.stated_units import held_by_claims, held_by_others
from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import PCI, PCPU, RESOURCE
from rtagent.model.domain_usage import DomainUsage, Occupancy
from tests.support.claims import given, stated
from tests.support.device_states import PMEM, after, device_host, policy
from tests.support.hosts import NOON, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1

OTHER = uid(78)
MDEVS = tuple(
    AssignedResource(resource_class="VGPU", identifier=f"{GPU_0}/nvidia-11/{n}", parent_addr=GPU_0)
    for n in range(2)
)


def with_orphan(active=True, **occupancy):
    """A host with a domain that has no claim."""
    usage = DomainUsage(
        domain_uuid=OTHER,
        name="vm",
        active=active,
        vcpus=1,
        memory_mb=1,
        occupancy=Occupancy(**occupancy),
    )
    state = device_host(pci=policy(pmem=(PMEM,)))
    state = replace(state, domain_usages=Map({OTHER: usage}))
    sums = state.sums()
    return replace(state, usage=sums.usage, counters=sums.counters)


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


def test_only_units_that_claims_of_others_hold_are_named_in_order():
    state = with_orphan(pcpus=frozenset({4}))
    state, claim = after(state, adopt_claim(state, call(), NOON, stated(cpus=(3, 2))))
    units = [(PCPU, name) for name in ("4", "3", "2")]
    assert [each.name for each in held_by_claims(state, OTHER, units)] == ["2", "3"]
    assert held_by_claims(state, claim.owner_id, units) == ()


def test_unit_that_a_domain_holds_names_no_claim():
    (unit,) = held_by_others(
        with_orphan(devices=frozenset({GPU_0})), claim_of(stated(devices=[GPU_0]))
    )
    assert str(unit) == f"PCI device {GPU_0} is held by the domain of instance {OTHER}"
    assert unit.as_dict() == {
        "kind": PCI,
        "name": GPU_0,
        "owner_id": OTHER,
        "claim_uuid": None,
        "message": str(unit),
    }


def test_mediated_devices_of_one_parent_have_different_owners():
    state, _ = after(
        device_host(), adopt_claim(device_host(), call(), NOON, stated(resources=MDEVS[:1]))
    )
    assert held(state, stated(resources=MDEVS[1:])) == []
    assert held(state, stated(resources=MDEVS[:1])) == [(RESOURCE, MDEVS[0].identifier)]
    assert held(state, stated(devices=[GPU_0])) == [(PCI, GPU_0)]


def test_mediated_device_of_a_device_that_another_owner_has_as_a_whole():
    state, claim = after(
        device_host(), adopt_claim(device_host(), call(), NOON, stated(devices=[given(GPU_0)]))
    )
    assert held(state, stated(resources=MDEVS[:1])) == [(PCI, GPU_0)]
    assert held(state, stated(claim.owner_id, resources=MDEVS[:1])) == []
