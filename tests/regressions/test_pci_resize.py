"""A guest with devices is resized or migrated.

LP1512880, LP1641750, LP1983753, LP1941005, LP1809095, LP1893221: a resize asked for the old
flavor's devices; a guest with one GPU of two could not grow to two on its own host; the source's
devices were free only at the next audit; which device replaced which was unknown; the claim of a
live migration considered no NUMA cell.
"""

import pytest

from rtagent import claims
from rtagent.model.decision import Refused
from rtagent.model.request import BuildRequest, PciRequest
from tests.support.hosts import call, uid
from tests.support.move_host import GUEST, Host, facts, guest
from tests.support.pci_hosts import GPU_0, GPU_1, flavor, gpu, port, record, two_gpus_and_a_nic, vf

PORT = port("port-1", vendor_id="8086", product_id="154c")
#: The conductor's request for the old flavor. A resize may repeat it, or replace it by another.
OLD = PciRequest(count=1, alias_name="gpu", request_id="old")


SMALL, LARGE = flavor("gpu:1"), flavor("gpu:2")


@pytest.fixture
def here():
    """A host with a guest that has a GPU, and a port with a device of its own."""
    host = Host().with_devices(two_gpus_and_a_nic())
    claim = host.build(SMALL, pci_requests=(OLD, PORT))
    assert [device.address for device in claim.pci] == [GPU_0, vf(0)]
    return host


def resized(here, to, migration):
    return here.claim_move(migration, to, old=SMALL, pci_requests=(OLD, PORT))


def test_resize_from_one_gpu_to_two_on_a_host_with_two_and_revert(here):
    migration = facts()
    grown = resized(here, LARGE, migration)
    assert [device.address for device in grown.pci] == [GPU_0, GPU_1, vf(0)]
    replaced = {name: (each.before, each.after) for name, each in grown.pci_replaced.items()}
    assert replaced == {"gpu": ((GPU_0,), (GPU_0, GPU_1)), "port-1": ((vf(0),), (vf(0),))}
    here.start_move_out(migration)
    here.drop_at_dest(migration)
    assert here.allocated() == {GPU_0: GUEST, vf(0): GUEST}
    here.finish_revert(migration)
    assert here.allocated() == {GPU_0: GUEST, vf(0): GUEST}


def test_confirmed_resize_on_one_host_frees_no_shared_device(here):
    migration = facts()
    resized(here, LARGE, migration)
    here.start_move_out(migration)
    here.finish_move(migration)
    here.drop_at_source(migration)
    assert here.allocated() == dict.fromkeys((GPU_0, GPU_1, vf(0)), GUEST)


def test_confirmed_resize_to_another_host_frees_the_sources_devices_at_once(here):
    migration = facts(dest_node="h2.example", dest_compute="h2")
    here.start_move_out(migration)
    here.drop_at_source(migration)
    assert here.allocated() == {}
    here.build(LARGE, owner=uid(5))
    assert here.allocated() == dict.fromkeys((GPU_0, GPU_1), uid(5))


def test_resize_with_unchanged_requests_keeps_the_devices(here):
    same = resized(here, SMALL, facts())
    assert [device.address for device in same.pci] == [GPU_0, vf(0)]


def test_resize_requests_the_devices_of_the_new_flavor(here):
    none = resized(here, flavor(), facts())
    assert [device.address for device in none.pci] == [vf(0)]


def test_devices_that_two_claims_share_are_unavailable_to_others(here):
    resized(here, SMALL, facts())
    build = BuildRequest(instance=guest(LARGE, uid(5)))
    refused = claims.instance_claim(here.state, call(), here.now, build)
    assert isinstance(refused, Refused)
    assert [reason.available for reason in refused.reasons] == [1]


def test_live_migration_observes_the_numa_policy_of_devices_as_a_build_does():
    near = flavor("gpu:1", **{"hw:numa_nodes": "1", "hw:pci_numa_affinity_policy": "required"})
    for arrives in (True, False):
        there = Host.named(2).with_devices(record([gpu(GPU_1, 1)]))
        migration = facts("live-migration")
        claim = there.claim_move(migration, near, old=near) if arrives else there.build(near)
        assert [cell.id for cell in claim.numa_topology.cells] == [1]
        assert [device.address for device in claim.pci] == [GPU_1]
    without_cell = Host.named(2).with_devices(record([gpu(GPU_1, None)]))
    refused = without_cell.try_move(facts("live-migration"), near, old=near)
    assert isinstance(refused, Refused)
