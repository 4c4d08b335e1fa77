import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.ports import HostIdentity
from rtagent.testing.hypervisor import FakeHypervisor
from tests.support.pci_hosts import GPU_0, GPU_1, gpu

A = "00000000-0000-0000-0000-00000000000a"
B = "00000000-0000-0000-0000-00000000000b"


def sizes(hypervisor):
    return {d.uuid: (d.active, d.vcpus, d.memory_mb) for d in hypervisor.observe().domains.values()}


def test_observations_show_the_changes():
    hypervisor = FakeHypervisor()
    hypervisor.start_domain(A, vcpus=2, memory_mb=512)
    hypervisor.define(B, vcpus=1, memory_mb=256)
    assert sizes(hypervisor) == {A: (True, 2, 512), B: (False, 1, 256)}

    hypervisor.shut_off(A)
    hypervisor.destroy(B)
    assert sizes(hypervisor) == {A: (False, 2, 512)}


def test_identity_returns_name_and_uuid():
    hypervisor = FakeHypervisor(hostname="node-1", host_uuid=A)
    assert hypervisor.identity() == HostIdentity(hostname="node-1", host_uuid=A)


@pytest.mark.parametrize("call", ["identity", "observe"])
def test_a_lost_hypervisor_is_unavailable(call):
    hypervisor = FakeHypervisor()
    hypervisor.lost = True
    with pytest.raises(HypervisorUnavailable):
        getattr(hypervisor, call)()


def test_an_unreadable_domain_is_present_and_a_problem():
    hypervisor = FakeHypervisor()
    hypervisor.start_domain(A, vcpus=2, memory_mb=512)
    hypervisor.unreadable.add(A)

    seen = hypervisor.observe()

    assert seen.complete
    assert seen.domains[A].domain_usage().occupancy.unknown == frozenset(HostResource)
    assert [problem.item for problem in seen.problems] == [f"domain {A}"]


def test_a_domain_that_is_shut_off_occupies_nothing_and_stays_bound_as_in_libvirt():
    hypervisor = FakeHypervisor()
    bound = Occupancy(pcpus=frozenset({3}), memory_mb={0: 64})
    hypervisor.start_domain("a", 1, 64, occupancy=bound)
    assert hypervisor.observe().domains["a"].occupancy == bound
    hypervisor.shut_off("a")
    seen = hypervisor.observe().domains["a"]
    assert (seen.active, seen.vcpus, seen.occupancy) == (False, 1, Occupancy())
    layout = hypervisor.guest("a")
    assert layout is not None
    assert layout.usage.occupancy == bound


def test_domains_may_change_between_steps():
    steps = []

    def between(step):
        steps.append(step)
        if step == f"read {A}":
            hypervisor.destroy(B)
            hypervisor.start_domain("new", vcpus=1, memory_mb=1)

    hypervisor = FakeHypervisor(between=between)
    hypervisor.start_domain(B, vcpus=1, memory_mb=256)
    hypervisor.start_domain(A, vcpus=2, memory_mb=512)

    assert sizes(hypervisor) == {A: (True, 2, 512), B: (True, None, None)}
    assert steps == ["devices", "list", f"read {A}", f"read {B}", "finish"]


def test_devices_are_added_and_removed():
    hypervisor, words = FakeHypervisor(), []
    hypervisor.start(words.append)
    assert hypervisor.observe().devices == ()

    hypervisor.plug(gpu(GPU_0), gpu(GPU_1))
    hypervisor.create_mdev(A, "nvidia-11", GPU_0)
    hypervisor.unplug(GPU_1)
    seen = hypervisor.observe()
    assert seen.devices == (gpu(GPU_0),)
    assert seen.mdevs == (Mdev(uuid=A, type="nvidia-11", parent_addr=GPU_0),)

    hypervisor.destroy_mdev(A)
    assert hypervisor.observe().mdevs == ()
    assert words == ["device"] * 4


def test_a_failed_device_listing_is_a_problem():
    hypervisor = FakeHypervisor()
    hypervisor.plug(gpu(GPU_0))
    hypervisor.unlisted = True

    seen = hypervisor.observe()

    assert (seen.devices, seen.complete) == (None, True)
    assert [problem.item for problem in seen.problems] == ["node devices"]


def test_the_connection_may_be_lost_during_an_observation():
    hypervisor = FakeHypervisor()
    hypervisor.between = lambda step: setattr(hypervisor, "lost", step == "finish")
    with pytest.raises(HypervisorUnavailable):
        hypervisor.observe()


def test_an_incomplete_observation_says_so():
    hypervisor = FakeHypervisor()
    hypervisor.incomplete = True
    assert not hypervisor.observe().complete


def test_events_are_delivered_until_stop():
    words: list[str] = []
    hypervisor = FakeHypervisor()
    hypervisor.start(words.append)
    hypervisor.start_domain(A, vcpus=2, memory_mb=512)
    hypervisor.announce("connection")
    hypervisor.stop()
    hypervisor.destroy(A)
    assert words == ["lifecycle", "connection"]
