"""Guests on simulated hosts: every order, repeated, and what libvirt then finds in the file."""

import contextlib
import fcntl
import os

import libvirt
import pytest
from msgspec.structs import replace

from rtagent.conductor.errors import OperationTaken
from rtagent.errors import ClaimMismatch, EnactmentFailed, HypervisorUnavailable
from rtagent.virt.enactor import LibvirtEnactor
from rtagent.virt.libvirt.hostfile import signature
from rtagent.virt.simulate import Machine, host_uri, simulate
from rtagent.virt.simulate.file import edit
from tests.support.guests import VGPU, guest_domain, plain_domain
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
    yield connection
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
    uuid, claims = domain.uuid, [domain.claim.uuid]
    assert enactor.state("a", uuid) == "absent"
    steps = [
        (lambda: enactor.define("a", domain), "stopped"),
        (lambda: enactor.start("a", domain), "running"),
        (lambda: enactor.stop("a", uuid, claims), "stopped"),
        (lambda: enactor.start("a", domain), "running"),
        (lambda: enactor.undefine("a", uuid, claims), "absent"),
        (lambda: enactor.stop("a", uuid, claims), "absent"),
    ]
    for order, state in steps:
        order()
        assert enactor.state("a", uuid) == state
        expected = {"absent": {}, "stopped": {uuid: (False, 65536)}}
        assert domains(hosts) == expected.get(state, {uuid: (True, 65536)})
        before = signature(hosts / "a.xml")
        order()
        assert signature(hosts / "a.xml") == before, "agents read a changed host anew"


def test_mediated_devices_exist_from_the_start_until_the_domain_is_undefined(enactor, hosts):
    domain = guest_domain(resources=(VGPU,))
    enactor.define("a", domain)
    assert mdevs(hosts) == []
    enactor.start("a", domain)
    assert len(mdevs(hosts)) == 1
    enactor.stop("a", domain.uuid, [domain.claim.uuid])
    enactor.start("a", domain)
    assert len(mdevs(hosts)) == 1
    enactor.undefine("a", domain.uuid, [domain.claim.uuid])
    assert mdevs(hosts) == []


def _orders(claim, check=lambda: None):
    """Every order for a server, as it is given for a claim."""
    uuid, claims = claim.uuid, [claim.claim.uuid]
    return {
        "define": lambda enactor: enactor.define("a", claim, check=check),
        "start": lambda enactor: enactor.start("a", claim, check),
        "stop": lambda enactor: enactor.stop("a", uuid, claims, check),
        "undefine": lambda enactor: enactor.undefine("a", uuid, claims, check),
        "migrate": lambda enactor: enactor.live_migrate("a", "b", claim, claims, check),
    }


@pytest.fixture(params=_orders(guest_domain()))
def order(request):
    """Returns an order for a claim."""
    return lambda *arguments: _orders(*arguments)[request.param]


@pytest.mark.parametrize("active", [True, False])
def test_a_domain_of_another_claim_is_not_touched(enactor, hosts, order, active):
    mine, other = (guest_domain(owner=uid(7)) for _ in range(2))
    enactor.define("a", mine)
    if active:
        enactor.start("a", mine)
    with pytest.raises(ClaimMismatch, match=mine.claim.uuid):
        order(other)(enactor)
    assert domains(hosts) == {mine.uuid: (active, 65536)}


def test_a_domain_of_no_claim_is_not_touched(enactor, hosts, order):
    plain = plain_domain("test").replace(uid(1), guest_domain().uuid)
    with edit(hosts / "a.xml") as world:
        unclaimed = world.put_domain(plain)
        world.set_active(unclaimed, True)
    with pytest.raises(ClaimMismatch, match="no claim"):
        order(guest_domain(owner=unclaimed))(enactor)
    assert domains(hosts)[unclaimed][0]


def test_an_order_is_checked_while_nobody_else_can_change_the_host(enactor, hosts, order):
    """What the check forbids has no effect. Meanwhile the lock of the host is kept."""
    domain = guest_domain()
    enactor.define("a", domain)
    enactor.start("a", domain)
    before = signature(hosts / "a.xml")

    def check():
        with pytest.raises(BlockingIOError):
            directory = os.open(hosts, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise OperationTaken(operation_uuid=uid())

    with pytest.raises(OperationTaken):
        order(domain, check)(enactor)
    assert signature(hosts / "a.xml") == before


def test_live_migration_and_its_repetition(enactor, hosts):
    domain, there = (guest_domain(cpu, owner=uid(7)) for cpu in (2, 5))
    enactor.define("a", domain)
    enactor.start("a", domain)
    for _ in range(2):
        enactor.live_migrate("a", "b", there, [domain.claim.uuid])
        assert (domains(hosts), domains(hosts, "b")) == ({}, {domain.uuid: (True, 65536)})
    # The caller died when it ran on both.
    enactor.define("a", domain)
    enactor.start("a", domain)
    enactor.live_migrate("a", "b", there, [domain.claim.uuid])
    assert (domains(hosts), domains(hosts, "b")) == ({}, {domain.uuid: (True, 65536)})


def test_a_guest_that_runs_nowhere_does_not_migrate(enactor, hosts):
    domain = guest_domain()
    enactor.define("a", domain)
    with pytest.raises(EnactmentFailed, match="runs neither at the source nor"):
        enactor.live_migrate("a", "b", domain, [domain.claim.uuid])
    assert enactor.state("a", domain.uuid) == "stopped"


@pytest.mark.parametrize(
    ("action", "order", "why"),
    [
        ("define", lambda e, d: e.define("a", replace(d, document="<pool/>")), "<pool>"),
        ("start", lambda e, d: e.start("a", d), "it is not defined"),
    ],
)
def test_refusals_name_host_server_and_action(enactor, action, order, why):
    domain = guest_domain()
    with pytest.raises(EnactmentFailed) as raised:
        order(enactor, domain)
    assert type(raised.value) is EnactmentFailed
    assert raised.value.kwargs["host"] == "a"
    assert raised.value.kwargs["server_uuid"] == domain.uuid
    assert raised.value.kwargs["action"] == action
    assert why in raised.value.kwargs["why"]


@pytest.mark.parametrize("host", ["c", "../a", "a/../b", "", "-a", "a b"])
def test_unknown_hosts_are_unavailable(enactor, host):
    domain = guest_domain()
    for order in (
        lambda: enactor.state(host, domain.uuid),
        lambda: enactor.define(host, domain),
        lambda: enactor.start(host, domain),
        lambda: enactor.undefine(host, domain.uuid, [domain.claim.uuid]),
    ):
        with pytest.raises(HypervisorUnavailable):
            order()


def test_host_name_is_no_path(enactor, hosts):
    with pytest.raises(HypervisorUnavailable, match="a host name has letters"):
        enactor.state(f"../{hosts.name}/a", uid())
