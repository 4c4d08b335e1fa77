"""LP1512880, LP1641750, LP1983753, LP1941005, LP1809095, LP1893221: a guest with devices moves.

It was that a resize asked for the old flavor's devices; that a guest with one GPU of two could not
grow to two on its own host; that the devices of the source were free only at the next audit; that
nobody knew which device took the place of which; and that the claim of a live migration looked at
no NUMA cell.
"""

from __future__ import annotations

import pytest

from rtagent import claims
from rtagent.model.decision import Refused
from rtagent.model.flavor import Flavor
from rtagent.model.instance import PciRequest
from rtagent.model.request import BuildRequest
from tests.builders import call, uid
from tests.move_rules import GUEST, Host, facts, guest
from tests.pci_hosts import GPU_0, GPU_1, gpu, port, record, two_gpus_and_a_nic, vf

PORT = port("port-1", vendor_id="8086", product_id="154c")
#: What the conductor made of the old flavor; a resize may bring it again, or another in its place.
OLD = PciRequest(count=1, alias_name="gpu", request_id="old")


def flavor(aliases: str = "", **extra_specs: str) -> Flavor:
    specs = {"pci_passthrough:alias": aliases} if aliases else {}
    return Flavor(vcpus=1, memory_mb=64, extra_specs={**specs, **extra_specs})


SMALL, LARGE = flavor("gpu:1"), flavor("gpu:2")


@pytest.fixture
def here():
    """With a guest that has a GPU, and a port of its own."""
    made = Host().offering(two_gpus_and_a_nic())
    build = BuildRequest(claim_uuid=uid(), instance=guest(SMALL, pci_requests=(OLD, PORT)))
    (claim,) = made.decided(claims.build, build, asked=call(operation_id=build.claim_uuid))
    made.decided(claims.activate, claim.uuid, asked=call("activate_claim"))
    assert [device.address for device in claim.pci] == [GPU_0, vf(0)]
    return made


def resized(here, to, told):
    return here.expects(told, to, old=SMALL, pci_requests=(OLD, PORT))


def test_from_one_gpu_to_two_on_a_host_with_exactly_two_and_back(here):
    told = facts()
    grown = resized(here, LARGE, told)
    assert [device.address for device in grown.pci] == [GPU_0, GPU_1, vf(0)]
    places = {name: (each.before, each.after) for name, each in grown.pci_replaced.items()}
    assert places == {"gpu": ((GPU_0,), (GPU_0, GPU_1)), "port-1": ((vf(0),), (vf(0),))}
    here.starts_out(told)
    here.drops_dest(told)
    assert here.holders() == {GPU_0: GUEST, vf(0): GUEST}
    here.takes_back(told)
    assert here.holders() == {GPU_0: GUEST, vf(0): GUEST}


def test_confirmed_here_nothing_that_the_two_claims_shared_is_freed(here):
    told = facts()
    resized(here, LARGE, told)
    here.starts_out(told)
    here.finishes(told)
    here.drops_source(told)
    assert here.holders() == dict.fromkeys((GPU_0, GPU_1, vf(0)), GUEST)


def test_confirmed_elsewhere_the_sources_devices_are_free_at_once(here):
    told = facts(dest_node="h2.example", dest_compute="h2")
    here.starts_out(told)
    here.drops_source(told)
    assert here.holders() == {}
    here.runs(LARGE, owner=uid(5))
    assert here.holders() == dict.fromkeys((GPU_0, GPU_1), uid(5))


def test_a_resize_that_leaves_the_devices_alone_keeps_them(here):
    same = resized(here, SMALL, facts())
    assert [device.address for device in same.pci] == [GPU_0, vf(0)]


def test_the_new_flavors_devices_are_what_is_asked_for(here):
    none = resized(here, flavor(), facts())
    assert [device.address for device in none.pci] == [vf(0)]


def test_nobody_else_is_offered_what_the_two_claims_share(here):
    resized(here, SMALL, facts())
    asked = BuildRequest(claim_uuid=uid(), instance=guest(LARGE, uid(5)))
    refused = claims.build(here.state, asked, call(), here.now)
    assert isinstance(refused, Refused)
    assert [reason.available for reason in refused.reasons] == [1]


def test_a_live_migration_is_as_particular_about_cells_as_a_build():
    near = flavor("gpu:1", **{"hw:numa_nodes": "1", "hw:pci_numa_affinity_policy": "required"})
    for arrives in (True, False):
        there = Host.named(2).offering(record([gpu(GPU_1, 1)]))
        told = facts("live-migration")
        claim = there.expects(told, near, old=near) if arrives else there.runs(near)
        assert [cell.id for cell in claim.numa_topology.cells] == [1]
        assert [device.address for device in claim.pci] == [GPU_1]
    nowhere = Host.named(2).offering(record([gpu(GPU_1, None)]))
    assert isinstance(nowhere.refuses(facts("live-migration"), near, old=near), Refused)
