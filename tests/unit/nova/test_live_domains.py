"""What an audit of a host that Nova serves sees of libvirt's domains."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.nova.live_domains import LiveDomains, uri_of
from rtagent.testing.hypervisor import FakeHypervisor
from tests.support.audits import CLAIM, OWNER, active
from tests.support.hosts import TOPOLOGY, uid

ENCRYPTED = Occupancy(pcpus=frozenset({3}), mdevs=frozenset({uid(7)}), mem_encryption="amd-sev")
ENCRYPTED = replace(ENCRYPTED, unknown=frozenset({HostResource.CPUS, HostResource.ENCRYPTION}))


def seen(state, *owners):
    world = FakeHypervisor(TOPOLOGY)
    for owner in owners:
        world.start_domain(owner, 1, 512, occupancy=ENCRYPTED)
    return LiveDomains(world, lambda: state).observe()


def owner_with(**facts):
    state = active()
    claim = state.claims[CLAIM]
    changed = replace(claim, instance=replace(claim.instance, **facts))
    return replace(state, claims=state.claims.set(CLAIM, changed))


def test_domains_are_observed_and_nothing_else():
    found = seen(active(), OWNER, uid(9))
    assert found.complete and found.has_domains
    assert found.domains.keys() == {OWNER, uid(9)}
    assert (found.topology, found.devices, found.namespaces) == (None, None, None)


def test_what_nova_assigns_elsewhere_is_left_out():
    (domain,) = seen(active(), OWNER).domains.values()
    assert domain.occupancy == Occupancy(pcpus=frozenset({3}), unknown={HostResource.CPUS})


@pytest.mark.parametrize(
    "facts",
    [{"vm_state": "building"}, {"vm_state": "active", "task_state": "migrating"}],
    ids=["built", "moved"],
)
def test_domain_of_a_server_in_work_counts_as_unreadable_if_it_is_missing(facts):
    (domain,) = seen(owner_with(**facts)).domains.values()
    assert (domain.uuid, domain.domain_usage()) == (OWNER, None)
    assert seen(owner_with(**facts), OWNER).domains[OWNER].domain_usage() is not None


def test_missing_domain_of_another_server_is_missing():
    assert seen(owner_with(vm_state="active")).domains == {}


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
