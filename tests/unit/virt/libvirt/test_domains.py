"""What is read of which domain, what an odd one costs, and the documents that are kept."""

import random
from uuid import UUID

import libvirt
import pytest
from msgspec.structs import replace

from rtagent.model.domain_usage import EVERY_KIND, HostResource, Occupancy
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domains import LONGEST, ROUND, Domains, ReadDocuments
from rtagent.virt.libvirt.storage import Storage
from rtagent.virt.libvirt.workers import CallWorkers
from rtagent.virt.simulate import domain_xml

RUNNING, SHUT_OFF = {"state.state": 1}, {"state.state": 5}
#: The host's CPUs.
ONLINE = frozenset(range(4))
HOST = HostFacts(online=ONLINE)
A, B, C = (str(UUID(int=number)) for number in range(1, 4))


class Guest:
    """A domain as libvirt's binding shows it; `document` may be an error to raise."""

    def __init__(self, uuid, vcpus=1, memory_mb=64, stats=RUNNING):
        self.uuid, self.stats = uuid, stats
        self.document = domain_xml(uuid, vcpus=vcpus, memory_mb=memory_mb)
        self.reads = 0
        self.hangs = None

    def UUIDString(self):
        return self.uuid

    def name(self):
        return f"name of {self.uuid}"

    def XMLDesc(self, flags):
        self.reads += 1
        if self.hangs is not None:
            self.hangs.wait()
        if isinstance(self.document, Exception):
            raise self.document
        return self.document


class Libvirt:
    """A connection with guests, which may fail to report their sizes, and what observes them."""

    def __init__(self, *guests, timeout=60.0):
        self.guests = list(guests)
        self.domains = Domains(CallWorkers(timeout), Storage("/instances", timeout))
        self.session = Session(self, ())
        self.alive = True
        self.no_sizes = None
        self.on_listing = lambda: None

    def getAllDomainStats(self, stats, flags):
        if stats != libvirt.VIR_DOMAIN_STATS_STATE and self.no_sizes is not None:
            raise self.no_sizes
        self.on_listing()
        return [(guest, guest.stats) for guest in self.guests]

    def getLibVersion(self):
        return 9000000

    def isAlive(self):
        return self.alive

    def look(self, host=HOST):
        return self.domains.look(self.session, host)


def no_domain():
    """As libvirt raises it."""
    connection = libvirt.open("test:///default")
    try:
        connection.lookupByUUIDString(C)
    except libvirt.libvirtError as error:
        return error
    finally:
        connection.close()
    raise AssertionError


def sizes(look):
    return {d.uuid: (d.active, d.vcpus, d.memory_mb) for d in look.domains.values()}


def test_a_dropped_document_is_kept_again_although_it_is_still_the_same():
    virt = Libvirt(Guest(A))
    virt.look()
    virt.domains.documents.retain(())
    assert virt.domains.documents.get(A) is None
    virt.domains.mark(A)
    virt.look()
    assert virt.domains.documents.get(A) is not None


def test_a_marked_domain_is_read_at_the_next_observation():
    a, b = Guest(A), Guest(B)
    virt = Libvirt(a, b)
    virt.look()
    a.document = domain_xml(A, vcpus=2, memory_mb=128)

    virt.domains.mark(A)
    assert sizes(virt.look()) == {A: (True, 2, 128), B: (True, 1, 64)}
    assert (a.reads, b.reads) == (2, 1)


def test_a_mark_during_an_observation_applies_to_the_next():
    a = Guest(A)
    virt = Libvirt(a)
    virt.on_listing = lambda: virt.domains.mark(A)
    virt.look()
    virt.on_listing = lambda: None
    virt.look()
    assert a.reads == 2


def test_everything_is_read_again_after_a_reconnect():
    a = Guest(A)
    virt = Libvirt(a)
    virt.look()
    virt.session = Session(virt, ())
    virt.look()
    assert a.reads == 2


def test_statistics_take_precedence_over_the_document():
    a = Guest(A, stats={**RUNNING, "vcpu.current": 3, "balloon.maximum": 100 * 1024 + 1})
    assert sizes(Libvirt(a).look()) == {A: (True, 3, 101)}
    # They count persistent memory, which is none of the host's memory.
    pmem = "<source><path>/p</path></source><target><size unit='MiB'>20</size></target>"
    devices = f"<devices><memory model='virtio-pmem'>{pmem}</memory></devices>"
    a.document = a.document.replace("</domain>", f"{devices}</domain>")
    assert sizes(Libvirt(a).look()) == {A: (True, 3, 81)}


def test_a_domain_that_returns_is_read_again():
    a, b = Guest(A), Guest(B)
    virt = Libvirt(a, b)
    virt.look()
    virt.guests = [b]
    assert sizes(virt.look()) == {B: (True, 1, 64)}
    virt.guests = [a, b]
    a.document = domain_xml(A, vcpus=2, memory_mb=64)
    assert sizes(virt.look())[A] == (True, 2, 64)


def test_states_are_used_when_sizes_cannot_be_read():
    virt = Libvirt(Guest(A, vcpus=2))
    virt.no_sizes = libvirt.libvirtError("monitor is busy")
    look = virt.look()
    assert sizes(look) == {A: (True, 2, 64)}
    assert [problem.item for problem in look.problems] == ["domain statistics"]


@pytest.mark.parametrize("odd", ["<network/>", "nonsense", libvirt.libvirtError("cannot read it")])
def test_an_invalid_domain_is_present_and_a_problem(odd):
    a, b = Guest(A), Guest(B)
    a.document = odd
    virt = Libvirt(a, b)

    look = virt.look()
    assert sizes(look) == {A: (True, None, None), B: (True, 1, 64)}
    assert look.domains[A].name == f"name of {A}"
    assert [problem.item for problem in look.problems] == [f"domain {A}"]

    a.document = domain_xml(A, vcpus=2, memory_mb=64)
    assert sizes(virt.look())[A] == (True, 2, 64)


class Forgetful(Guest):
    """The first error has lost its cause: libvirt's binding had none any more."""

    def XMLDesc(self, flags):
        if not self.reads:
            self.reads += 1
            raise libvirt.libvirtError("virDomainGetXMLDesc() failed")
        return super().XMLDesc(flags)


def test_a_domain_whose_error_has_lost_its_cause_is_read_again():
    look = Libvirt(Forgetful(A)).look()
    assert sizes(look) == {A: (True, 1, 64)} and not look.problems


def test_a_domain_that_was_never_read_has_the_sizes_of_the_statistics():
    stats = {**RUNNING, "vcpu.current": 3, "balloon.maximum": 100 * 1024}
    guests = Guest(A, stats=stats), Guest(B, stats={**stats, **SHUT_OFF})
    for guest in guests:
        guest.document = libvirt.libvirtError("cannot read it")
    look = Libvirt(*guests).look()
    assert sizes(look) == {A: (True, 3, 100), B: (False, 3, 100)}
    assert look.domains[A].domain_usage().occupancy == Occupancy(unknown=EVERY_KIND)
    assert look.domains[B].domain_usage().occupancy == Occupancy()


@pytest.mark.parametrize(("announced", "unknown"), [(False, frozenset()), (True, EVERY_KIND)])
def test_a_domain_that_cannot_be_read_again_keeps_what_was_read(announced, unknown):
    a = pinned(Guest(A), "1-2")
    virt = Libvirt(a)
    before = virt.look().domains[A]
    a.document = libvirt.libvirtError("cannot read it")
    if announced:
        virt.domains.mark(A)
    looks = [virt.look() for _ in range(ROUND)]
    occupancy = replace(before.occupancy, unknown=unknown)
    assert looks[-1].domains[A] == replace(before, occupancy=occupancy)
    assert [each.item for each in looks[-1].problems] == [f"domain {A}"]
    pinned(a, "3")
    again = virt.look()
    assert again.domains[A].occupancy.pcpus == {3}
    assert again.problems == ()


def test_a_domain_that_has_started_is_read_again_before_its_event_comes():
    a = Guest(A, stats=SHUT_OFF)
    virt = Libvirt(a)
    virt.look()
    a.stats = RUNNING
    pinned(a, "1-2")
    assert virt.look().domains[A].occupancy.pcpus == {1, 2}
    a.stats = SHUT_OFF
    virt.look()
    a.stats, a.document = RUNNING, libvirt.libvirtError("cannot read it")
    assert virt.look().domains[A].occupancy.unknown == EVERY_KIND


def test_a_domain_that_went_while_it_was_read_says_nothing():
    a = Guest(A)
    a.document = no_domain()
    look = Libvirt(a).look()
    assert look.domains[A].domain_usage() is None
    assert look.problems == ()


def test_a_hanging_domain_is_skipped_until_its_call_returns(release):
    a, b = Guest(A), Guest(B)
    a.hangs = release
    virt = Libvirt(a, b, timeout=4.0)  # what does not hang must answer on a machine that is busy
    for _ in range(12):  # more than may hang at a time
        look = virt.look()
        assert sizes(look) == {A: (True, None, None), B: (True, 1, 64)}
        assert [problem.item for problem in look.problems] == [f"domain {A}"]
    assert a.reads == 1

    release.set()
    while sizes(virt.look())[A] != (True, 1, 64):
        pass  # the left thread has only to end


def test_a_connection_error_is_raised():
    a = Guest(A)
    a.document = libvirt.libvirtError("end of file")
    virt = Libvirt(a)
    virt.alive = False
    with pytest.raises(libvirt.libvirtError):
        virt.look()


def pinned(guest, cpuset):
    """The guest, kept to these CPUs; it needs to be read again."""
    plain = domain_xml(guest.uuid, vcpus=1, memory_mb=64)
    guest.document = plain.replace("<vcpu>", f"<vcpu cpuset='{cpuset}'>")
    return guest


def test_an_idle_observation_returns_the_same_values():
    virt = Libvirt(pinned(Guest(A), "1-2"))
    first = virt.look().domains[A]
    for number in range(20):
        host = replace(HOST, interfaces={f"tap{number}": None})
        assert virt.look(host).domains[A] is first


VDPA = "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"
MACVTAP = "<interface type='direct'><source dev='ens1f0v0' mode='passthrough'/></interface>"


@pytest.mark.parametrize(
    ("element", "name", "host"),
    [
        (VDPA, "/dev/vhost-vdpa-0", {"vdpas": {"/dev/vhost-vdpa-0": "0000:20:02.0"}}),
        (MACVTAP, "ens1f0v0", {"interfaces": {"ens1f0v0": "0000:20:02.0"}}),
    ],
)
def test_a_device_that_a_document_names_is_unknown_until_it_is_listed(element, name, host):
    a = Guest(A)
    a.document = a.document.replace("</domain>", f"<devices>{element}</devices></domain>")
    virt = Libvirt(a)
    look = virt.look()
    assert look.domains[A].occupancy == Occupancy(unknown=frozenset({HostResource.DEVICES}))
    (problem,) = look.problems
    assert (problem.item, problem.message) == (f"domain {A}", f"no device of the host has {name}")

    look = virt.look(replace(HOST, **host))

    assert look.domains[A].occupancy == Occupancy(devices=frozenset({"0000:20:02.0"}))
    assert look.problems == ()
    assert a.reads == 1


NOISE = random.Random(7)


def noise(length: int) -> str:
    """Text that can hardly be compressed."""
    return "".join(chr(NOISE.randrange(33, 0x2FFF)) for _ in range(length))


def test_the_documents_that_were_not_read_for_longest_make_way():
    documents = ReadDocuments(capacity=5_000)
    for name in ("a", "b", "c", "a", "d", "e", "f"):  # two or three of them fit
        documents.keep(name, noise(500))
    left = [name for name in "abcdef" if documents.get(name)]
    assert 2 <= len(left) < 5
    assert left == sorted(["b", "c", "a", "d", "e", "f"][-len(left) :])


def test_a_document_that_is_too_long_is_not_kept():
    documents = ReadDocuments()
    documents.keep("a", "<a/>")
    documents.keep("a", "x" * (LONGEST + 1))
    assert documents.get("a") is None


def test_a_document_that_was_read_again_unchanged_counts_as_read_now():
    documents = ReadDocuments()
    documents.keep("a", "<a/>")
    read = documents.get("a")
    assert documents.confirm("a")
    assert (documents.get("a").xml, documents.get("a").at >= read.at) == ("<a/>", True)
    assert not documents.confirm("b")
