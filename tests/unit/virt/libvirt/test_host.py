"""What is read of a host from several documents, and what an unreadable one costs."""

import pytest

from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.host import read_host
from tests.data import read
from tests.support.node_devices import unsupported

PC = read("libvirt/domain-capabilities-pc.xml")
Q35 = read("libvirt/domain-capabilities-q35.xml")
UEFI, IDE = "COMPUTE_FIRMWARE_UEFI", "COMPUTE_STORAGE_BUS_IDE"


class Libvirt:
    """A connection to QEMU on another machine. :param guests: documents by machine type."""

    def __init__(self, guests, host="two-sockets", cpu="<cpu/>"):
        self.guests, self.host, self.cpu = guests, host, cpu

    def getCapabilities(self):
        return read(f"libvirt/capabilities-{self.host}.xml")

    def getDomainCapabilities(self, emulator, arch, machine, kind, flags):
        if machine not in self.guests:
            raise unsupported()
        return self.guests[machine]

    def baselineCPU(self, documents, flags):
        return self.cpu

    def getInfo(self):
        return ["x86_64", 4096, 8, 2000, 2, 1, 2, 2]

    def getCPUMap(self):
        return 8, [True] * 8, 8

    def getType(self):
        return "QEMU"

    def getURI(self):
        return "qemu+tls://cn7.example/system"

    def getHostname(self):
        return "cn7.example"

    def getVersion(self):
        return 9_001_000

    def getLibVersion(self):
        return 9_000_000

    def isAlive(self):
        return True


def host(guests, **of_host):
    return read_host(Session(Libvirt(guests, **of_host), ()), None)


@pytest.mark.parametrize(("name", "machine"), [("two-sockets", "q35"), ("aarch64", "virt")])
def test_traits_are_those_of_the_default_machine_type_and_the_one_for_modern_guests(name, machine):
    assert {UEFI, IDE} & host({None: PC}, host=name).topology.traits == {IDE}
    assert {UEFI, IDE} <= host({None: PC, machine: Q35}, host=name).topology.traits


def with_sev(document, contexts):
    sev = f"<sev supported='yes'><maxGuests>{contexts}</maxGuests></sev>"
    return document.replace('<sev supported="no"/>', sev)


def test_an_unreadable_document_of_guests_hides_nothing_else():
    seen = host({None: PC, "q35": "<domainCapabilities>"})
    (problem,) = seen.odd
    assert problem.item == "guests of type q35"
    assert "not well-formed" in problem.message
    assert {UEFI, IDE} & seen.topology.traits == {IDE}
    assert len(seen.topology.cells) == 2


def test_an_unreadable_number_of_encrypted_guests_hides_nothing_else():
    seen = host({None: with_sev(PC, "many"), "q35": with_sev(Q35, 59)})
    assert [problem.item for problem in seen.odd] == ["memory encryption"]
    assert "<maxGuests> is 'many'" in seen.odd[0].message
    assert [(model.model, model.contexts) for model in seen.topology.mem_encryption] == [
        ("amd-sev", 59)
    ]
    assert {UEFI, IDE} <= seen.topology.traits


def test_unreadable_features_of_the_cpu_leave_those_that_the_host_lists():
    seen = host({}, cpu="<cpu><feature")
    assert [problem.item for problem in seen.odd] == ["features of the CPU"]
    assert seen.topology.cpu_info["features"]
