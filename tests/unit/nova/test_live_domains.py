"""What an audit of a host that Nova serves sees of libvirt's domains."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rtagent.model.assignment import ResourceInventory
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.nova.live_domains import LiveDomains, uri_of
from rtagent.testing.hypervisor import FakeHypervisor
from tests.support.audits import OWNER, active
from tests.support.hosts import TOPOLOGY, uid
from tests.support.pci_hosts import GPU_0

ENCRYPTED = Occupancy(pcpus=frozenset({3}), mdevs=frozenset({uid(7)}), mem_encryption="amd-sev")
ENCRYPTED = replace(ENCRYPTED, unknown=frozenset({HostResource.CPUS, HostResource.ENCRYPTION}))

MDEV = Mdev(uuid=uid(7), type="nvidia-11", parent_addr=GPU_0)


def seen(state, *owners, idle=lambda missing: missing):
    world = FakeHypervisor(TOPOLOGY)
    world.mdevs[uid(7)] = MDEV
    for owner in owners:
        world.start_domain(owner, 1, 512, occupancy=ENCRYPTED)
    return LiveDomains(world, lambda: state, idle).observe()


def test_domains_are_observed_and_nothing_else():
    found = seen(active(), OWNER, uid(9))
    assert found.complete and found.has_domains
    assert found.domains.keys() == {OWNER, uid(9)}
    assert (found.topology, found.devices, found.namespaces) == (None, None, None)


def test_mediated_devices_of_the_inventories_are_observed_with_their_parents():
    name = f"{GPU_0}/nvidia-11/{uid(7)}"
    inventory = ResourceInventory(provider=GPU_0, resource_class="VGPU", identifiers=(name,))
    found = seen(replace(active(), resource_inventories=(inventory,)), OWNER)
    assert found.domains[OWNER].occupancy.mdevs == {uid(7)}
    assert found.mdevs == (MDEV,)


def test_encryption_of_a_domain_is_observed():
    assert seen(active(), OWNER).domains[OWNER].occupancy.mem_encryption == "amd-sev"


def test_what_others_assign_is_left_out():
    (domain,) = seen(active(), OWNER).domains.values()
    assert (domain.occupancy.mdevs, domain.occupancy.unknown) == (set(), {HostResource.CPUS})


def test_domain_of_a_server_in_work_counts_as_unreadable_if_it_is_missing():
    (domain,) = seen(active(), idle=lambda missing: ()).domains.values()
    assert (domain.uuid, domain.domain_usage()) == (OWNER, None)


def test_missing_domain_of_an_idle_server_is_missing():
    assert seen(active()).domains == {}


def test_nova_is_asked_about_servers_whose_domain_is_missing_alone():
    asked = []

    def idle(missing):
        asked.append(missing)
        return missing

    seen(active(), OWNER, uid(9), idle=idle)
    assert asked == []
    seen(active(), uid(9), idle=idle)
    assert asked == [[OWNER]]


def test_domain_that_has_started_meanwhile_is_not_missing():
    world = FakeHypervisor(TOPOLOGY)

    def start(missing):
        world.start_domain(OWNER, 1, 512)
        return missing

    assert OWNER in LiveDomains(world, active, start).observe().domains


def test_no_domain_is_missing_while_nova_does_not_answer():
    def fail(missing):
        raise RuntimeError("the conductor is away")

    observation = seen(active(), uid(9), idle=fail)
    assert observation.complete
    assert observation.domains[OWNER].gone
    assert observation.domains[uid(9)].domain_usage() is not None
    (problem,) = observation.problems
    assert problem.item == "Nova's database" and "the conductor is away" in problem.message


@pytest.mark.parametrize(
    ("driver", "uri", "virt_type", "used"),
    [
        ("libvirt.LibvirtDriver", "test:///host.xml", "qemu", "test:///host.xml"),
        ("libvirt.LibvirtDriver", None, "kvm", "qemu:///system"),
        ("libvirt.LibvirtDriver", None, "lxc", "lxc:///"),
    ],
)
def test_libvirt_is_that_of_the_driver(driver, uri, virt_type, used):
    libvirt = SimpleNamespace(connection_uri=uri, virt_type=virt_type)
    assert uri_of(SimpleNamespace(compute_driver=driver, libvirt=libvirt)) == used


def test_another_driver_has_no_libvirt():
    assert uri_of(SimpleNamespace(compute_driver="ironic.IronicDriver")) is None
