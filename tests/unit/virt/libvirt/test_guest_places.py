"""What names host CPUs, cells and pages in the document of another host, once a claim is applied.

The rows are those of the table in doc/source/user/documents.rst.
"""

import libvirt
import pytest
from lxml import etree

from rtagent.virt.libvirt.guest import apply
from tests.support.guests import SCHEMA, granted, plain_domain

#: CPUs 4-5 of cell 0 and 20-21 of cell 1, which the emulator has too; pages of 2 MiB.
PINNED = granted(numa_nodes="2", cpu_policy="dedicated", mem_page_size="2MB")
#: CPUs 0-3 and 16-19; neither cells nor pages.
FLOATING = granted()


def guest(inner="", tuned="", device=""):
    """A guest of a host on which it has CPUs, cells and caches from 60 on, and pages of 1 GiB."""
    numbers = (
        "<vcpu placement='static' cpuset='60-61'>4</vcpu><iothreads>2</iothreads>"
        f"<cputune><shares>7</shares>{tuned}</cputune>{inner}"
    )
    whole = plain_domain("test").replace("<vcpu>1</vcpu>", numbers)
    return whole.replace("</devices>", f"{device}</devices>")


def plugged(model, source, target="<node>1</node>"):
    """A guest with a memory device."""
    cells = "".join(f"<cell id='{n}' cpus='{n}' memory='512' unit='MiB'/>" for n in range(2))
    inner = f"<maxMemory slots='4' unit='MiB'>9000</maxMemory><cpu><numa>{cells}</numa></cpu>"
    target = f"<target><size unit='MiB'>512</size>{target}</target>"
    return guest(inner, device=f"<memory model='{model}'>{source}{target}</memory>")


def applied(document, claim):
    SCHEMA.assertValid(etree.fromstring(document))
    once = apply(document, claim)
    SCHEMA.assertValid(etree.fromstring(once))
    assert apply(once, claim) == once
    virt = libvirt.open("test:///default")
    try:
        virt.defineXMLFlags(once, libvirt.VIR_DOMAIN_DEFINE_VALIDATE).undefine()
    finally:
        virt.close()
    return etree.fromstring(once)


def canonical(elements):
    whole = etree.Element("found")
    whole.extend(elements)
    return etree.canonicalize(etree.tostring(whole, encoding="unicode"), strip_text=True)


def assert_found(domain, path, expected):
    there = etree.fromstring(f"<found>{expected}</found>")
    assert canonical(domain.iterfind(path)) == canonical(there)


PLUGGED = "<source><pagesize unit='MiB'>1024</pagesize><nodemask>60</nodemask></source>"
MAPPED = '<source><pagesize unit="KiB">2048</pagesize><nodemask>1</nodemask></source>'
BLOCK = "<node>1</node><block unit='MiB'>2</block><requested unit='MiB'>512</requested>"
NAMESPACE = "<source><path>/dev/dax60.0</path></source>"
IN_FILE = "<source><path>/images/memory</path></source>"
EPC = "<source><nodemask>{}</nodemask></source>"
#: Elements of <cputune>, of the other host.
PINS = "<vcpupin vcpu='0' cpuset='60'/><vcpupin vcpu='3' cpuset='61'/>"
EMULATOR = "<emulatorpin cpuset='{}'/>"
IO_PIN = "<iothreadpin iothread='{}' cpuset='{}'/>"
MONITOR = "<monitor level='3' vcpus='{}'/></cachetune>"
CACHE = "<cachetune vcpus='0-1'><cache id='60' level='3' type='both' size='3' unit='MiB'/>"
CACHES = CACHE + MONITOR.format(0) + "<cachetune vcpus='2'>" + MONITOR.format(2)
MEMORY_TUNE = "<memorytune vcpus='0-1'><node id='60' bandwidth='20'/></memorytune>"
#: Other elements of it.
INTERLEAVED = "<numatune><memory mode='interleave' nodeset='60-61'/></numatune>"
BOUND_TO_1 = '<memnode cellid="1" mode="strict" nodeset="1"/>'
BOUND = "<numatune><memnode cellid='1' mode='strict' nodeset='60'/></numatune>"
CELL = "<cpu><numa><cell id='1' cpus='0-3' memory='2048' unit='MiB'/></numa></cpu>"
GIANT = "<memoryBacking><hugepages><page size='1' unit='G'/></hugepages></memoryBacking>"


@pytest.mark.parametrize(
    ("document", "path", "pinned"),
    [
        (guest(), "vcpu", '<vcpu cpuset="4-5,20-21" placement="static">4</vcpu>'),
        (guest(tuned=PINS), "*/vcpupin[@vcpu='3']", '<vcpupin cpuset="21" vcpu="3"/>'),
        (guest(tuned=EMULATOR.format(60)), "*/emulatorpin", EMULATOR.format("4-5,20-21")),
        (guest(tuned=IO_PIN.format(2, 60)), "*/iothreadpin", IO_PIN.format(2, "4-5,20-21")),
        (guest(tuned="<vcpusched vcpus='0' scheduler='rr' priority='3'/>"), "*/vcpusched", ""),
        (guest(tuned=CACHES), "*/cachetune", ""),
        (guest(tuned=MEMORY_TUNE), "*/memorytune", ""),
        (guest(INTERLEAVED), "numatune/memory", '<memory mode="strict" nodeset="0-1"/>'),
        (guest(BOUND + CELL), "*/memnode[@cellid='1']", BOUND_TO_1),
        (guest(GIANT), "*/hugepages/page", '<page nodeset="0-1" size="2048" unit="KiB"/>'),
        (plugged("dimm", PLUGGED), "devices/memory/source", MAPPED),
        (plugged("virtio-mem", PLUGGED, BLOCK), "devices/memory/source", MAPPED),
        (plugged("sgx-epc", EPC.format("60-61"), ""), "devices/memory/source", EPC.format("0-1")),
        (plugged("nvdimm", NAMESPACE), "devices/memory", ""),
    ],
)
def test_the_numbers_of_another_host_are_replaced(document, path, pinned):
    domain = applied(document, PINNED)
    assert domain.findtext("cputune/shares") == "7"
    assert_found(domain, path, pinned)
    floating = '<vcpu cpuset="0-3,16-19" placement="static">4</vcpu>' if path == "vcpu" else ""
    assert_found(applied(document, FLOATING), path, floating)


IO = "<iothreadsched iothreads='1' scheduler='fifo' priority='2'/>"


@pytest.mark.parametrize("claim", [PINNED, FLOATING])
@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        (plugged("nvdimm", IN_FILE), "devices/memory/source", IN_FILE),
        (plugged("virtio-pmem", IN_FILE, ""), "devices/memory/source", IN_FILE),
        (guest(tuned=IO), "cputune/iothreadsched", IO),
    ],
)
def test_what_names_nothing_of_a_host_stays(document, path, expected, claim):
    assert_found(applied(document, claim), path, expected)


def test_a_guest_without_host_cells_keeps_its_cells_with_plugged_memory():
    """libvirt refuses memory devices to a guest without cells."""
    assert len(applied(plugged("dimm", PLUGGED), FLOATING).findall("cpu/numa/cell")) == 2
    assert applied(guest(), FLOATING).find("cpu/numa") is None


def vcpus(number, plugged_in):
    rows = (
        f"<vcpu id='{n}' enabled='{'yes' if n < plugged_in else 'no'}' hotpluggable='yes'/>"
        for n in range(number)
    )
    return guest(f"<vcpus>{''.join(rows)}</vcpus>").replace(">4</vcpu>", f">{number}</vcpu>")


@pytest.mark.parametrize(
    ("number", "plugged_in", "kept"), [(4, 4, True), (4, 2, False), (8, 4, False), (2, 2, False)]
)
def test_a_list_of_vcpus_stays_if_it_plugs_in_those_of_the_claim(number, plugged_in, kept):
    domain = applied(vcpus(number, plugged_in), FLOATING)
    assert (domain.find("vcpus") is not None) is kept
    assert domain.findtext("vcpu") == "4"
