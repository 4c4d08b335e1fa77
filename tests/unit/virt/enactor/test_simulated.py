"""Guests on simulated hosts: every order, repeated, and what libvirt then finds in the file."""

import contextlib
import threading

import libvirt
import pytest
from lxml import etree

from rtagent.errors import HypervisorUnavailable
from rtagent.virt.enactor import LibvirtEnactor
from rtagent.virt.errors import EnactmentFailed
from rtagent.virt.libvirt.hostfile import signature
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.support.guest_domains import VGPU, guest_domain
from tests.support.guests import plain_domain
from tests.support.hosts import uid

MACHINE = Machine(sockets=1, cores=8, threads=1, memory_mb=4096, shared_gpus=1)


@pytest.fixture
def hosts(tmp_path):
    """The directory of the hosts a and b."""
    for name in ("a", "b"):
        simulate(tmp_path / f"{name}.xml", MACHINE)
    return tmp_path


@pytest.fixture
def enactor(hosts):
    made = LibvirtEnactor(f"test://{hosts}/{{host}}.xml")
    yield made
    made.close()


@contextlib.contextmanager
def virsh(hosts, host):
    connection = libvirt.open(host_uri(hosts / f"{host}.xml"))
    try:
        yield connection
    finally:
        connection.close()


def domains(hosts, host="a"):
    """What libvirt finds: uuid -> (active, KiB)."""
    with virsh(hosts, host) as connection:
        every = connection.listAllDomains()
        return {each.UUIDString(): (bool(each.isActive()), each.info()[1]) for each in every}


def mdevs(hosts, host="a"):
    with virsh(hosts, host) as connection:
        return [each.name() for each in connection.listAllDevices() if "mdev_" in each.name()]


def test_a_life_in_which_every_order_is_repeated(enactor, hosts):
    domain = guest_domain(2, 3)
    uuid = domain.uuid
    assert enactor.state("a", uuid) == "absent"
    steps = [
        (lambda: enactor.define("a", domain), "stopped"),
        (lambda: enactor.start("a", domain), "running"),
        (lambda: enactor.stop("a", uuid), "stopped"),
        (lambda: enactor.start("a", domain), "running"),
        (lambda: enactor.undefine("a", uuid), "absent"),
        (lambda: enactor.stop("a", uuid), "absent"),
    ]
    for order, state in steps:
        for _ in range(2):
            order()
            assert enactor.state("a", uuid) == state
            expected = {"absent": {}, "stopped": {uuid: (False, 65536)}}
            assert domains(hosts) == expected.get(state, {uuid: (True, 65536)})


def test_mediated_devices_exist_from_the_start_until_the_domain_is_undefined(enactor, hosts):
    domain = guest_domain(resources=(VGPU,))
    enactor.define("a", domain)
    assert mdevs(hosts) == []
    enactor.start("a", domain)
    assert len(mdevs(hosts)) == 1
    enactor.stop("a", domain.uuid)
    assert len(mdevs(hosts)) == 1
    enactor.undefine("a", domain.uuid)
    assert mdevs(hosts) == []


def test_definition_is_replaced_and_the_state_stays(enactor, hosts):
    domain, larger = (guest_domain(owner=uid(7), memory_mb=size) for size in (64, 128))
    enactor.define("a", domain)
    enactor.define("a", larger)
    assert domains(hosts) == {domain.uuid: (False, 131072)}
    enactor.start("a", larger)
    enactor.define("a", domain)
    assert domains(hosts) == {domain.uuid: (True, 65536)}


def test_domain_has_what_the_claim_assigns(enactor, hosts):
    domain = guest_domain(2, 3)
    enactor.define("a", domain)
    with virsh(hosts, "a") as connection:
        root = etree.fromstring(connection.lookupByUUIDString(domain.uuid).XMLDesc())
    assert [pin.get("cpuset") for pin in root.iterfind("cputune/vcpupin")] == ["2", "3"]


def test_live_migration_and_its_repetition(enactor, hosts):
    domain, there = (guest_domain(cpu, owner=uid(7)) for cpu in (2, 5))
    enactor.define("a", domain)
    enactor.start("a", domain)
    for _ in range(2):
        enactor.live_migrate("a", "b", there)
        assert (domains(hosts), domains(hosts, "b")) == ({}, {domain.uuid: (True, 65536)})
    # The caller died when it ran on both.
    enactor.define("a", domain)
    enactor.start("a", domain)
    enactor.live_migrate("a", "b", there)
    assert (domains(hosts), domains(hosts, "b")) == ({}, {domain.uuid: (True, 65536)})


def test_a_guest_that_runs_nowhere_does_not_migrate(enactor, hosts):
    domain = guest_domain()
    enactor.define("a", domain)
    with pytest.raises(EnactmentFailed, match="runs neither at the source nor"):
        enactor.live_migrate("a", "b", domain)
    assert enactor.state("a", domain.uuid) == "stopped"


def test_repetitions_leave_the_file_alone(enactor, hosts):
    """Agents read a host anew whenever its file changes."""
    domain = guest_domain()
    enactor.define("a", domain)
    enactor.start("a", domain)
    enactor.define("a", guest_domain())
    before = signature(hosts / "a.xml")
    enactor.start("a", domain)
    enactor.define("a", domain)
    enactor.stop("a", uid())
    enactor.undefine("a", uid())
    assert signature(hosts / "a.xml") == before


@pytest.mark.parametrize(
    ("action", "order", "why"),
    [
        ("define", lambda e, d: e.define("a", d), "a domain named 'web' exists already"),
        ("start", lambda e, d: e.start("a", d), "it is not defined"),
    ],
)
def test_refusals_name_host_server_and_action(enactor, action, order, why):
    enactor.define("a", guest_domain(name="web"))
    domain = guest_domain(name="web")
    with pytest.raises(EnactmentFailed) as raised:
        order(enactor, domain)
    assert raised.value.kwargs["host"] == "a"
    assert raised.value.kwargs["server_uuid"] == domain.uuid
    assert raised.value.kwargs["action"] == action
    assert why in raised.value.kwargs["why"]


def test_document_for_another_hypervisor_is_refused(enactor):
    with pytest.raises(EnactmentFailed, match="'qemu': a simulated host runs"):
        enactor.define("a", guest_domain(document=plain_domain("qemu")))


@pytest.mark.parametrize("host", ["c", "../a", "a/../b", "", "-a", "a b"])
def test_unknown_hosts_are_unavailable(enactor, host):
    domain = guest_domain()
    for order in (
        lambda: enactor.state(host, domain.uuid),
        lambda: enactor.define(host, domain),
        lambda: enactor.start(host, domain),
        lambda: enactor.undefine(host, domain.uuid),
    ):
        with pytest.raises(HypervisorUnavailable):
            order()


def test_host_name_is_no_path(enactor, hosts):
    with pytest.raises(HypervisorUnavailable, match="a host name has letters"):
        enactor.state(f"../{hosts.name}/a", uid())


def test_orders_from_many_threads_are_all_kept(enactor, hosts):
    guests = [guest_domain() for _ in range(8)]

    def build(domain):
        enactor.define("a", domain)
        enactor.start("a", domain)

    threads = [threading.Thread(target=build, args=(each,)) for each in guests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert domains(hosts) == {each.uuid: (True, 65536) for each in guests}
