"""Guests on a host with QEMU: every order, repeated, lost, and refused."""

import contextlib
import multiprocessing
import os
import signal
import threading

import libvirt
import psutil
import pytest
from lxml import etree

from rtagent.conductor.errors import OperationTaken
from rtagent.errors import ClaimMismatch, EnactmentFailed, HypervisorUnavailable
from rtagent.virt.enactor import LibvirtEnactor
from rtagent.virt.enactor.host import NAMESPACE
from tests.servers.daemon import wait_until
from tests.servers.libvirtd import Libvirtd
from tests.support.guests import guest_domain, plain_domain
from tests.support.hosts import uid

HOST = "here"
PROCESSES = multiprocessing.get_context("spawn")


@pytest.fixture
def connect(libvirtd):
    """Makes enactors that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(**options):
            options = {"shutdown_timeout": 0.0, "virt_type": "qemu", **options}
            made = LibvirtEnactor(libvirtd.uri, **options)
            stack.callback(made.close)
            return made

        yield make


def live(virsh, uuid):
    return etree.fromstring(virsh.lookupByUUIDString(uuid).XMLDesc())


def test_a_life_in_which_every_order_is_repeated(connect, virsh):
    enactor, domain = connect(), guest_domain(1)
    uuid, claims = domain.uuid, [domain.claim.uuid]
    assert enactor.state(HOST, uuid) == "absent"
    for order, state in (
        (lambda: enactor.define(HOST, domain), "stopped"),
        (lambda: enactor.start(HOST, domain), "running"),
        (lambda: enactor.define(HOST, domain), "running"),
        (lambda: enactor.stop(HOST, uuid, claims), "stopped"),
        (lambda: enactor.start(HOST, domain), "running"),
        (lambda: enactor.undefine(HOST, uuid, claims), "absent"),
        (lambda: enactor.stop(HOST, uuid, claims), "absent"),
    ):
        for _ in range(2):
            order()
            assert enactor.state(HOST, uuid) == state
        if state == "running":
            assert live(virsh, uuid).find("cputune/vcpupin").get("cpuset") == "1"
    assert virsh.listAllDomains() == []


def test_paused_guest_runs(connect, virsh):
    enactor, domain = connect(), guest_domain()
    enactor.define(HOST, domain)
    enactor.start(HOST, domain)
    virsh.lookupByUUIDString(domain.uuid).suspend()
    assert enactor.state(HOST, domain.uuid) == "running"
    enactor.start(HOST, domain)
    assert virsh.lookupByUUIDString(domain.uuid).state()[0] == libvirt.VIR_DOMAIN_PAUSED


def test_definition_of_a_running_guest_is_replaced_for_its_next_start(connect, virsh):
    enactor = connect()
    small, large = (guest_domain(owner=uid(7), memory_mb=size) for size in (64, 96))
    enactor.define(HOST, small)
    enactor.start(HOST, small)
    enactor.define(HOST, large, replaced=[small.claim.uuid])
    assert live(virsh, small.uuid).findtext("memory") == str(64 * 1024)
    enactor.stop(HOST, small.uuid, [small.claim.uuid])
    enactor.start(HOST, large)
    assert live(virsh, small.uuid).findtext("memory") == str(96 * 1024)


def test_guest_that_ignores_the_request_to_shut_down_is_switched_off(connect):
    enactor, domain = connect(shutdown_timeout=0.5), guest_domain()
    enactor.define(HOST, domain)
    enactor.start(HOST, domain)
    enactor.stop(HOST, domain.uuid, [domain.claim.uuid])  # it has no operating system
    assert enactor.state(HOST, domain.uuid) == "stopped"


def test_libvirt_refuses(connect, virsh):
    enactor = connect()
    domain = guest_domain(4000)  # the machine has no such CPU
    enactor.define(HOST, domain)
    with pytest.raises(EnactmentFailed) as raised:
        enactor.start(HOST, domain)
    assert raised.value.kwargs["action"] == "start"
    assert enactor.state(HOST, domain.uuid) == "stopped"
    with pytest.raises(EnactmentFailed, match="cannot start"):
        enactor.start(HOST, guest_domain())  # it is not defined
    invalid = plain_domain().replace("<devices>", "<devices><toaster/>")
    with pytest.raises(EnactmentFailed, match="cannot define"):
        enactor.define(HOST, guest_domain(document=invalid))


def test_host_that_dies_is_unavailable_until_it_returns(connect, libvirtd):
    enactor, domain = connect(), guest_domain()
    enactor.define(HOST, domain)
    enactor.start(HOST, domain)
    libvirtd.kill()
    with pytest.raises(HypervisorUnavailable):
        enactor.state(HOST, domain.uuid)
    libvirtd.start()

    def returned():
        with contextlib.suppress(HypervisorUnavailable):
            return enactor.state(HOST, domain.uuid) != "absent"
        return False

    wait_until(returned)
    enactor.undefine(HOST, domain.uuid, [domain.claim.uuid])
    assert enactor.state(HOST, domain.uuid) == "absent"


def test_calls_to_a_hanging_host_are_bounded(connect, libvirtd):
    enactor, domain = connect(call_timeout=1.0), guest_domain()
    with contextlib.suppress(HypervisorUnavailable):
        enactor.state(HOST, domain.uuid)
    libvirtd.freeze()
    try:
        with pytest.raises(HypervisorUnavailable):
            enactor.state(HOST, domain.uuid)
    finally:
        libvirtd.thaw()


def test_a_call_that_hung_is_checked_when_the_host_answers(connect, libvirtd):
    """It was given up long ago, and the server may have been started again since."""
    enactor, domain, taken = connect(call_timeout=1.0), guest_domain(), threading.Event()
    connect().define(HOST, domain)
    connect().start(HOST, domain)
    assert enactor.state(HOST, domain.uuid) == "running"

    def check():
        if taken.is_set():
            raise OperationTaken(operation_uuid=uid())

    libvirtd.freeze()
    try:
        with pytest.raises(HypervisorUnavailable):
            enactor.undefine(HOST, domain.uuid, [domain.claim.uuid], check)
        taken.set()
    finally:
        libvirtd.thaw()
    for thread in threading.enumerate():
        if thread.name == "bounded-call":
            thread.join()
    assert enactor.state(HOST, domain.uuid) == "running"


@pytest.mark.parametrize("order", ["define", "start", "stop", "undefine"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_domain_of_another_claim_or_of_none_is_not_touched(connect, virsh, order, marked):
    enactor, other = connect(), guest_domain(owner=uid(7))
    mine = guest_domain(owner=other.uuid)
    enactor.define(HOST, mine)
    enactor.start(HOST, mine)
    domain = virsh.lookupByUUIDString(mine.uuid)
    if not marked:
        remove = (libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, None, NAMESPACE)
        both = libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG
        domain.setMetadata(*remove, both)
    before = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    arguments = (other.uuid, [other.claim.uuid]) if order in ("stop", "undefine") else (other,)
    with pytest.raises(ClaimMismatch, match=mine.claim.uuid if marked else "no claim"):
        getattr(enactor, order)(HOST, *arguments)
    assert domain.isActive()
    assert domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == before


def test_servers_of_one_name_fit_one_host(connect, virsh):
    enactor = connect()
    for domain in (guest_domain(name="web"), guest_domain(name="web")):
        enactor.define(HOST, domain)
    every = virsh.listAllDomains()
    assert {domain.name() for domain in every} == {domain.UUIDString() for domain in every}
    title = libvirt.VIR_DOMAIN_METADATA_TITLE
    assert [domain.metadata(title, None) for domain in every] == ["web", "web"]


def test_orders_from_many_threads(connect, virsh):
    enactor = connect()
    guests = [guest_domain() for _ in range(4)]
    failures = []

    def build(domain):
        try:
            enactor.define(HOST, domain)
            enactor.start(HOST, domain)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=build, args=(each,)) for each in guests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(enactor.state(HOST, each.uuid) == "running" for each in guests)


def _order_after_a_stop(uri, domain):
    """Give an order in a process that is suspended after its check. Exit with 0 if it failed."""
    enactor = LibvirtEnactor(uri, shutdown_timeout=0.0)
    enactor.state(HOST, domain.uuid)
    try:
        enactor.stop(
            HOST, domain.uuid, [domain.claim.uuid], lambda: os.kill(os.getpid(), signal.SIGSTOP)
        )
    except HypervisorUnavailable:
        os._exit(0)
    os._exit(1)


class Impatient(Libvirtd):
    """A daemon that closes the session of a client that does not answer for two seconds."""

    def prepare(self):
        super().prepare()
        with (self.directory / "etc" / "libvirtd.conf").open("a") as conf:
            conf.write("keepalive_interval = 1\nkeepalive_count = 1\n")

    def sessions(self):
        sockets = psutil.Process(self.pid).net_connections("unix")
        return sum(each.laddr.endswith("/libvirt-sock") for each in sockets)


def test_a_process_that_was_suspended_after_its_check_has_lost_its_session():
    with Impatient() as libvirtd:
        enactor, domain = LibvirtEnactor(libvirtd.uri, virt_type="qemu"), guest_domain()
        enactor.define(HOST, domain)
        enactor.start(HOST, domain)
        before = libvirtd.sessions()
        process = PROCESSES.Process(target=_order_after_a_stop, args=(libvirtd.uri, domain))
        process.start()
        late = psutil.Process(process.pid)
        wait_until(lambda: late.status() == psutil.STATUS_STOPPED)
        assert libvirtd.sessions() > before
        wait_until(lambda: libvirtd.sessions() <= before)
        late.resume()
        process.join(60)
        assert process.exitcode == 0
        assert enactor.state(HOST, domain.uuid) == "running"
        enactor.close()
        libvirtd.clear()
