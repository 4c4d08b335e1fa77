"""What is read of which domain, what an odd one costs, and the documents that are kept."""

import random
from uuid import UUID

import libvirt
import pytest
from msgspec.structs import replace

from rtagent.model.domain_usage import EVERY_KIND, HostResource, Occupancy
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.domains import ROUND, Domains
from rtagent.virt.libvirt.host_facts import HostFacts
from rtagent.virt.libvirt.read_documents import LONGEST, ReadDocuments
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
    """A connection with guests, which may fail to report their sizes."""

    def __init__(self, *guests):
        self.guests = list(guests)
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


@pytest.fixture
def domains():
    return Domains(CallWorkers(timeout=60.0), Storage("/instances", 60.0))


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


def test_a_dropped_document_is_kept_again_although_it_is_still_the_same(domains):
    session = Session(Libvirt(Guest(A)), ())
    domains.look(session, HOST)
    domains.documents.retain(())
    assert domains.documents.get(A) is None
    domains.mark(A)
    domains.look(session, HOST)
    assert domains.documents.get(A) is not None


def test_a_marked_domain_is_read_at_the_next_observation(domains):
    a, b = Guest(A), Guest(B)
    session = Session(Libvirt(a, b), ())
    domains.look(session, HOST)
    a.document = domain_xml(A, vcpus=2, memory_mb=128)

    domains.mark(A)
    assert sizes(domains.look(session, HOST)) == {A: (True, 2, 128), B: (True, 1, 64)}
    assert (a.reads, b.reads) == (2, 1)


def test_a_mark_during_an_observation_applies_to_the_next(domains):
    a = Guest(A)
    virt = Libvirt(a)
    session = Session(virt, ())
    virt.on_listing = lambda: domains.mark(A)
    domains.look(session, HOST)
    virt.on_listing = lambda: None
    domains.look(session, HOST)
    assert a.reads == 2


def test_everything_is_read_again_after_a_reconnect(domains):
    a = Guest(A)
    for _ in range(2):
        domains.look(Session(Libvirt(a), ()), HOST)
    assert a.reads == 2


def test_statistics_take_precedence_over_the_document(domains):
    stats = {**RUNNING, "vcpu.current": 3, "balloon.maximum": 100 * 1024 + 1}
    look = domains.look(Session(Libvirt(Guest(A, stats=stats)), ()), HOST)
    assert sizes(look) == {A: (True, 3, 101)}


def test_a_domain_that_returns_is_read_again(domains):
    a, b = Guest(A), Guest(B)
    virt = Libvirt(a, b)
    session = Session(virt, ())
    domains.look(session, HOST)
    virt.guests = [b]
    assert sizes(domains.look(session, HOST)) == {B: (True, 1, 64)}
    virt.guests = [a, b]
    a.document = domain_xml(A, vcpus=2, memory_mb=64)
    assert sizes(domains.look(session, HOST))[A] == (True, 2, 64)


def test_states_are_used_when_sizes_cannot_be_read(domains):
    virt = Libvirt(Guest(A, vcpus=2))
    virt.no_sizes = libvirt.libvirtError("monitor is busy")
    look = domains.look(Session(virt, ()), HOST)
    assert sizes(look) == {A: (True, 2, 64)}
    assert [problem.item for problem in look.problems] == ["domain statistics"]


@pytest.mark.parametrize("odd", ["<network/>", "nonsense", libvirt.libvirtError("cannot read it")])
def test_an_invalid_domain_is_present_and_a_problem(domains, odd):
    a, b = Guest(A), Guest(B)
    a.document = odd
    session = Session(Libvirt(a, b), ())

    look = domains.look(session, HOST)
    assert sizes(look) == {A: (True, None, None), B: (True, 1, 64)}
    assert look.domains[A].name == f"name of {A}"
    assert [problem.item for problem in look.problems] == [f"domain {A}"]

    a.document = domain_xml(A, vcpus=2, memory_mb=64)
    assert sizes(domains.look(session, HOST))[A] == (True, 2, 64)


class Forgetful(Guest):
    """The first error has lost its cause: libvirt's binding had none any more."""

    def XMLDesc(self, flags):
        if not self.reads:
            self.reads += 1
            raise libvirt.libvirtError("virDomainGetXMLDesc() failed")
        return super().XMLDesc(flags)


def test_a_domain_whose_error_has_lost_its_cause_is_read_again(domains):
    look = domains.look(Session(Libvirt(Forgetful(A)), ()), HOST)
    assert sizes(look) == {A: (True, 1, 64)} and not look.problems


def test_a_domain_that_was_never_read_has_the_sizes_of_the_statistics(domains):
    stats = {**RUNNING, "vcpu.current": 3, "balloon.maximum": 100 * 1024}
    guests = Guest(A, stats=stats), Guest(B, stats={**stats, **SHUT_OFF})
    for guest in guests:
        guest.document = libvirt.libvirtError("cannot read it")
    look = domains.look(Session(Libvirt(*guests), ()), HOST)
    assert sizes(look) == {A: (True, 3, 100), B: (False, 3, 100)}
    assert look.domains[A].domain_usage().occupancy == Occupancy(unknown=EVERY_KIND)
    assert look.domains[B].domain_usage().occupancy == Occupancy()


@pytest.mark.parametrize(("announced", "unknown"), [(False, frozenset()), (True, EVERY_KIND)])
def test_a_domain_that_cannot_be_read_again_keeps_what_was_read(domains, announced, unknown):
    a = pinned(Guest(A), "1-2")
    session = Session(Libvirt(a), ())
    before = domains.look(session, HOST).domains[A]
    a.document = libvirt.libvirtError("cannot read it")
    if announced:
        domains.mark(A)
    looks = [domains.look(session, HOST) for _ in range(ROUND)]
    assert looks[-1].domains[A] == replace(
        before, occupancy=replace(before.occupancy, unknown=unknown)
    )
    assert [each.item for each in looks[-1].problems] == [f"domain {A}"]
    pinned(a, "3")
    again = domains.look(session, HOST)
    assert again.domains[A].occupancy.pcpus == {3}
    assert again.problems == ()


def test_a_domain_that_has_started_is_read_again_before_its_event_comes(domains):
    a = Guest(A, stats=SHUT_OFF)
    session = Session(Libvirt(a), ())
    domains.look(session, HOST)
    a.stats = RUNNING
    pinned(a, "1-2")
    assert domains.look(session, HOST).domains[A].occupancy.pcpus == {1, 2}
    a.stats = SHUT_OFF
    domains.look(session, HOST)
    a.stats, a.document = RUNNING, libvirt.libvirtError("cannot read it")
    assert domains.look(session, HOST).domains[A].occupancy.unknown == EVERY_KIND


def test_a_domain_that_went_while_it_was_read_says_nothing(domains):
    a = Guest(A)
    a.document = no_domain()
    look = domains.look(Session(Libvirt(a), ()), HOST)
    assert look.domains[A].domain_usage() is None
    assert look.problems == ()


def test_a_hanging_domain_is_skipped_until_its_call_returns(release):
    # What does not hang must answer within this, on a machine that is busy.
    impatient = Domains(CallWorkers(timeout=4.0), Storage("/instances", 4.0))
    a, b = Guest(A), Guest(B)
    a.hangs = release
    session = Session(Libvirt(a, b), ())
    for _ in range(12):  # more than may hang at a time
        look = impatient.look(session, HOST)
        assert sizes(look) == {A: (True, None, None), B: (True, 1, 64)}
        assert [problem.item for problem in look.problems] == [f"domain {A}"]
    assert a.reads == 1

    release.set()
    while sizes(impatient.look(session, HOST))[A] != (True, 1, 64):
        pass  # the left thread has only to end


def test_a_connection_error_is_raised(domains):
    a = Guest(A)
    a.document = libvirt.libvirtError("end of file")
    virt = Libvirt(a)
    virt.alive = False
    with pytest.raises(libvirt.libvirtError):
        domains.look(Session(virt, ()), HOST)


def pinned(guest, cpuset):
    """The guest, kept to these CPUs; it needs to be read again."""
    plain = domain_xml(guest.uuid, vcpus=1, memory_mb=64)
    guest.document = plain.replace("<vcpu>", f"<vcpu cpuset='{cpuset}'>")
    return guest


def test_an_idle_observation_returns_the_same_values(domains):
    session = Session(Libvirt(pinned(Guest(A), "1-2")), ())
    first = domains.look(session, HOST).domains[A]
    for number in range(20):
        host = replace(HOST, interfaces={f"tap{number}": None})
        assert domains.look(session, host).domains[A] is first


VDPA = "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"
MACVTAP = "<interface type='direct'><source dev='ens1f0v0' mode='passthrough'/></interface>"


def with_device(guest, element):
    devices = f"<devices>{element}</devices>"
    guest.document = guest.document.replace("</domain>", f"{devices}</domain>")
    return guest


@pytest.mark.parametrize(
    ("element", "name", "host"),
    [
        (VDPA, "/dev/vhost-vdpa-0", {"vdpas": {"/dev/vhost-vdpa-0": "0000:20:02.0"}}),
        (MACVTAP, "ens1f0v0", {"interfaces": {"ens1f0v0": "0000:20:02.0"}}),
    ],
)
def test_a_device_that_a_document_names_is_unknown_until_it_is_listed(domains, element, name, host):
    a = with_device(Guest(A), element)
    session = Session(Libvirt(a), ())
    look = domains.look(session, HOST)
    assert look.domains[A].occupancy == Occupancy(unknown=frozenset({HostResource.DEVICES}))
    (problem,) = look.problems
    assert (problem.item, problem.message) == (f"domain {A}", f"no device of the host has {name}")

    look = domains.look(session, replace(HOST, **host))

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
