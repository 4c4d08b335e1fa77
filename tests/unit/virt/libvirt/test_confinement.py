"""What of the host a domain's document binds it to."""

import re

import pytest
from msgspec.structs import replace

from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.topology import Cell
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domain import parse_domain
from tests.support.claims import domain_document, layout
from tests.support.hosts import uid

HOST = HostFacts(online=frozenset(range(8)))
WITH_VDPA = replace(HOST, vdpas={"/dev/vhost-vdpa-0": "0000:20:02.2"})
POOLS = {4: 1048576, 2048: 2048, 1048576: 4}
MEMORY = {"cpus": frozenset(), "memory_mb": 16384, "pages": POOLS}
TWO = HostFacts(cells=tuple(Cell(id=n, **MEMORY) for n in (0, 1)), hugepage_kib=2048)
THREE = replace(TWO, cells=(*TWO.cells, Cell(id=2, cpus=frozenset(), memory_mb=1024)))
ONE = replace(TWO, cells=TWO.cells[:1])
CELLS = (
    "<cpu><numa><cell id='0' cpus='0-1' memory='512' unit='MiB'/>"
    "<cell id='1' cpus='2-3' memory='1048576'/></numa></cpu>"
)
EACH_ITS_OWN = (
    "<numatune><memory mode='strict' nodeset='0-1'/>"
    "<memnode cellid='0' mode='strict' nodeset='1'/>"
    "<memnode cellid='1' mode='preferred' nodeset='0'/></numatune>"
)
HUGE = "<memoryBacking><hugepages><page size='1' unit='KiB'/></hugepages></memoryBacking>"
PCI = "<address domain='0x0000' bus='0x08' slot='0x00' function='0x0'/>"
VF = "<address type='pci' domain='0x0000' bus='0x20' slot='0x02' function='0x1'/>"
MDEV = (
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'>"
    "<source><address uuid='0000000A-0000-0000-0000-000000000000'/></source></hostdev>"
)
DEVICES = (
    f"<devices><hostdev mode='subsystem' type='pci'><source>{PCI}</source></hostdev>"
    f"<interface type='hostdev'><source>{VF}</source></interface>"
    "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"
    f"{MDEV}</devices>"
)


def parsed(*parts, vcpu="<vcpu>4</vcpu>"):
    return parse_domain(f"<domain><memory unit='MiB'>1536</memory>{vcpu}{''.join(parts)}</domain>")


def occupied(*parts, vcpu="<vcpu>4</vcpu>"):
    return parsed(*parts, vcpu=vcpu).confinement.occupancy(HOST)


def adoption_problem(devices, **host):
    document = domain_document(uid(1), devices=devices)
    return layout(document, uid(1), HOST.online, **host).problem


def test_a_mediated_device_of_no_pci_device_uses_nothing_that_claims_have():
    uuid = "0000000a-0000-0000-0000-000000000000"
    other = replace(HOST, other_mdevs=frozenset({uuid}))
    confinement = parsed(DEVICES).confinement
    assert (confinement.occupancy(HOST).mdevs, confinement.occupancy(other).mdevs) == (
        {uuid},
        set(),
    )
    problem = adoption_problem(MDEV, other_mdevs=other.other_mdevs)
    assert f"its device {uuid} is of no PCI device" in problem


@pytest.mark.parametrize(
    "devices",
    [
        "<interface type='vdpa'><source dev='/dev/vhost-vdpa-1'/></interface>",
        "<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-1'/></disk>",
    ],
)
def test_a_vdpa_device_of_no_pci_device_uses_nothing_that_claims_have(devices):
    other = replace(HOST, vdpas={"/dev/vhost-vdpa-1": None})
    confinement = parsed(f"<devices>{devices}</devices>").confinement
    assert confinement.occupancy(other) == Occupancy()
    assert confinement.occupancy(HOST).unknown == {HostResource.DEVICES}
    problem = adoption_problem(devices, vdpas=other.vdpas)
    assert "its device /dev/vhost-vdpa-1 is of no PCI device" in problem


def pin(vcpu, cpus):
    return f"<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>"


EMULATOR = "<emulatorpin cpuset='5'/>"
WITH_IO = "<vcpu cpuset='0-1'>1</vcpu><iothreads>1</iothreads>"
SECOND_IS_IN = "<vcpus><vcpu id='0' enabled='no'/><vcpu id='1' enabled='yes'/></vcpus>"


@pytest.mark.parametrize(
    ("vcpu", "tuning", "pcpus", "vcpus"),
    [
        ("<vcpu cpuset='0-3,^1'>1</vcpu>", "", {0, 2, 3}, [{0, 2, 3}]),
        ("<vcpu placement='auto' cpuset='2-3'>1</vcpu>", "", set(), []),
        ("<vcpu>2</vcpu>", pin(0, 4) + pin(1, 6), {4, 6}, [{4}, {6}]),
        ("<vcpu>2</vcpu>", EMULATOR, {5}, []),
        # The set of <vcpu> is that of threads without a pin: of a vCPU, of the emulator.
        ("<vcpu cpuset='0-1'>2</vcpu>", pin(0, 4) + EMULATOR, {0, 1, 4, 5}, [{4}, {0, 1}]),
        ("<vcpu cpuset='0-1'>1</vcpu>", pin(0, 4), {0, 1, 4}, [{4}]),
        (WITH_IO, pin(0, 4) + EMULATOR, {0, 1, 4, 5}, [{4}]),
        (WITH_IO, f"{pin(0, 4)}{EMULATOR}<iothreadpin cpuset='6'/>", {4, 5, 6}, [{4}]),
        # Everywhere is no confinement, of which others take nothing away.
        ("<vcpu cpuset='0-7'>1</vcpu>", "", set(), []),
        ("<vcpu>2</vcpu>", pin(0, 3) + pin(1, "0-7"), {3}, [{3}]),
        # A guest that has every CPU for itself is confined: each vCPU to one.
        (
            "<vcpu>8</vcpu>",
            "".join(map(pin, range(8), range(8))),
            HOST.online,
            [{n} for n in range(8)],
        ),
        # vCPUs that are not plugged in do not run, and a pin may name one that does not exist.
        ("<vcpu current='1'>2</vcpu>", pin(1, 4) + pin(9, 5), {4, 5}, []),
        (f"<vcpu current='1'>2</vcpu>{SECOND_IS_IN}", pin(0, 3) + pin(1, 4), {3, 4}, [{4}]),
    ],
)
def test_cpus_to_which_threads_are_pinned(vcpu, tuning, pcpus, vcpus):
    seen = occupied(f"<cputune>{tuning}</cputune>", vcpu=vcpu)
    assert (seen.pcpus, list(seen.vcpus)) == (pcpus, vcpus)


def test_where_memory_is_is_unknown_while_the_host_was_never_read():
    kinds = {HostResource.CELLS, HostResource.PAGES}
    bound_memory = parsed("<memoryBacking><hugepages/></memoryBacking>").confinement
    assert bound_memory.occupancy(HostFacts()).unknown == kinds
    assert bound_memory.occupancy(HOST).unknown == set()
    assert parsed("<cputune><vcpupin vcpu='0' cpuset='2'/></cputune>").confinement.occupancy(
        HostFacts()
    ) == Occupancy(pcpus=frozenset({2}), vcpus=(frozenset({2}),))


def placed(host, *parts, memory_mb=1536):
    """The MB by host cell, and the pages by host cell and size."""
    document = f"<domain><memory unit='MiB'>{memory_mb}</memory>{''.join(parts)}</domain>"
    seen = parse_domain(document).confinement.occupancy(host)
    return seen.memory_mb, seen.pages


def backing(pages=""):
    return f"<memoryBacking><hugepages>{pages}</hugepages></memoryBacking>"


def tune(nodes, mode="strict"):
    return f"<numatune><memory mode='{mode}' nodeset='{nodes}'/></numatune>"


ONE_OF_TWO = "<numatune><memory nodeset='1'/><memnode cellid='1' nodeset='0'/></numatune>"
LARGE = backing("<page size='2048'/>")
BOTH = backing("<page size='2' unit='M' nodeset='0'/><page size='1' unit='GiB' nodeset='1'/>")
GIANT = backing("<page size='1' unit='GiB'/>")
IN_BOTH = ({0: 1536, 1: 1536}, {0: {2048: 768}, 1: {2048: 768}})


@pytest.mark.parametrize(
    ("host", "parts", "expected"),
    [
        # The only cell of the host.
        (ONE, [LARGE], ({0: 1536}, {0: {2048: 768}})),
        # Bound to one cell.
        (TWO, [LARGE, tune("1")], ({1: 1536}, {1: {2048: 768}})),
        # They may be in any of several cells.
        (TWO, [LARGE], IN_BOTH),
        (TWO, [LARGE, tune("0-1")], IN_BOTH),
        (TWO, [LARGE, tune("0", "preferred")], IN_BOTH),
        (TWO, [LARGE, "<numatune><memory placement='auto'/></numatune>"], IN_BOTH),
        # Never more than a cell has.
        (TWO, [GIANT], ({0: 2048, 1: 2048}, {0: {2**20: 2}, 1: {2**20: 2}})),
        (
            replace(TWO, cells=(replace(TWO.cells[0], pages={4: 1024, 2048: 100}), TWO.cells[1])),
            [LARGE],
            ({0: 200, 1: 1536}, {0: {2048: 100}, 1: {2048: 768}}),
        ),
        # The default size: as the kernel says, or any.
        (TWO, [backing(), tune("1")], ({1: 1536}, {1: {2048: 768}})),
        (replace(TWO, hugepage_kib=2**20), [backing(), tune("1")], ({1: 2048}, {1: {2**20: 2}})),
        (
            replace(TWO, hugepage_kib=None),
            [backing(), tune("1")],
            ({1: 1536 + 2048}, {1: {2048: 768, 2**20: 2}}),
        ),
        # A size for other guest cells than the one that there is; the smallest size.
        (TWO, [backing("<page size='2048' nodeset='1'/>"), tune("1")], ({1: 1536}, {})),
        (TWO, [backing("<page size='4'/>"), tune("1")], ({1: 1536}, {})),
        # Ordinary memory that is bound to no cell, or to all of several, counts in none.
        (TWO, [], ({}, {})),
        (ONE, [], ({}, {})),
        (TWO, [tune("0-1")], ({}, {})),
        (ONE, [tune("0")], ({0: 1536}, {})),
        (THREE, [tune("1-2")], ({1: 1536, 2: 1024}, {})),
        (TWO, [backing("<page size='4'/>")], ({}, {})),
        # Each guest cell on its own host cell; what names none is bound like the whole.
        (TWO, [CELLS, EACH_ITS_OWN], ({1: 512, 0: 1024}, {})),
        (TWO, [CELLS, ONE_OF_TWO], ({1: 512, 0: 1024}, {})),
        (
            TWO,
            [CELLS, EACH_ITS_OWN, BOTH],
            ({1: 1536, 0: 1024}, {1: {2048: 256, 2**20: 1}, 0: {2**20: 1}}),
        ),
    ],
)  # fmt: skip
def test_memory_and_pages_by_host_cell(host, parts, expected):
    assert placed(host, *parts) == expected


def device(model="dimm", source="", target="<size unit='MiB'>512</size><node>0</node>"):
    return f"<memory model='{model}'><source>{source}</source><target>{target}</target></memory>"


IN_1 = "<nodemask>1</nodemask>"
OWN = f"{IN_1}<pagesize unit='KiB'>2048</pagesize>"
BOTH_CELLS, ONE_GIB = "<nodemask>0-1</nodemask>", "<pagesize unit='GiB'>1</pagesize>"
GROWN = "<size unit='MiB'>512</size><requested>4096</requested><current>2048</current>"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        # A device is backed like its guest cell, unless it says otherwise.
        (device(), ({0: 1536}, {0: {2048: 768}})),
        (device(source=OWN), ({0: 1024, 1: 512}, {0: {2048: 512}, 1: {2048: 256}})),
        (device(source=BOTH_CELLS), ({0: 1536, 1: 512}, {0: {2048: 768}, 1: {2048: 256}})),
        (device(source="<pagesize unit='KiB'>4</pagesize>"), ({0: 1536}, {0: {2048: 512}})),
        (device(source=ONE_GIB), ({0: 2048}, {0: {2048: 512, 2**20: 1}})),
        (device("virtio-mem", OWN, GROWN), ({0: 1024, 1: 512}, {0: {2048: 512}, 1: {2048: 256}})),
        # What the host has in a file, in a namespace or for SGX is none of its memory.
        (device("virtio-pmem", "<path>/images/pmem</path>"), ({0: 1024}, {0: {2048: 512}})),
        (device("sgx-epc", "<nodemask>0</nodemask>"), ({0: 1024}, {0: {2048: 512}})),
        (device("virtio-pmem", IN_1), ({0: 1024, 1: 512}, {0: {2048: 512}, 1: {2048: 256}})),
        # It has no size.
        (device(target="<node>0</node>"), ({0: 1024}, {0: {2048: 512}})),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "cells", ["", "<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/></numa></cpu>"]
)
def test_memory_devices_by_host_cell(cells, devices, expected):
    """`<memory>` has the size of the devices in it."""
    sized = 1536 if "<size" in devices else 1024
    parts = LARGE, tune("0"), cells, f"<devices>{devices}</devices>"
    assert placed(TWO, *parts, memory_mb=sized) == expected


def test_a_device_with_pages_of_its_own_counts_in_a_guest_without_any():
    devices = f"<devices>{device(source=OWN)}</devices>"
    assert placed(TWO, devices) == ({1: 512}, {1: {2048: 256}})
    odd = devices.replace("512", "many")
    facts = parse_domain(f"<domain><memory>1</memory>{odd}</domain>")
    assert facts.confinement.unknown == {HostResource.CELLS, HostResource.PAGES}


@pytest.mark.parametrize(
    ("odd", "message", "kinds"),
    [
        ("<cputune><vcpupin vcpu='0' cpuset='x'/></cputune>", "<vcpupin cpuset>: .*'x'", "cpus"),
        ("<numatune><memory nodeset='9'/><memnode nodeset='1'/></numatune>", "cellid", "cells"),
        (CELLS.replace("id='0'", "id='a'") + EACH_ITS_OWN, "<cell id> is 'a'", "cells"),
        ("<cpu><numa><cell id='0'/></numa></cpu><numatune/>", "memory of guest cell 0", "cells"),
        (f"{HUGE}<numatune><memory nodeset='99999999999'/></numatune>", "nodeset", "cells pages"),
        ("<memoryBacking><hugepages><page/></hugepages></memoryBacking>", "size> is N", "pages"),
        (HUGE.replace("KiB", "b"), "less than 1 KiB", "pages"),
    ],
)
def test_what_an_invalid_element_says_is_unknown_and_the_rest_counts(odd, message, kinds):
    bind = "" if "numatune" in odd else "<numatune><memory nodeset='0'/></numatune>"
    facts = parsed(odd, bind, DEVICES, vcpu="<vcpu cpuset='5'>4</vcpu>")
    (problem,) = facts.problems
    assert re.search(message, problem)
    seen = facts.confinement.occupancy(WITH_VDPA)
    assert seen.unknown == {HostResource(kind) for kind in kinds.split()}
    assert (seen.pcpus, len(seen.devices)) == ({5}, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bus='0x08'", "bus='0x100'", "bus"),
        (f"<source>{PCI}</source>", "", "<hostdev type='pci'> has no source address"),
        ("uuid='0000000A-0000-0000-0000-000000000000'", "uuid='A'", "<address uuid> .* is 'A'"),
        ("<source dev='/dev/vhost-vdpa-0'/>", "<source/>", "'dev' of its source"),
    ],
)
def test_a_device_that_is_not_named_is_unknown_and_the_others_count(old, new, message):
    assert old in DEVICES
    facts = parsed(DEVICES.replace(old, new))
    seen = facts.confinement.occupancy(WITH_VDPA)
    assert seen.unknown == {HostResource.DEVICES}
    assert re.search(message, *facts.problems)
    assert len(seen.devices) + len(seen.mdevs) == 3


def test_a_device_that_no_host_offers_is_neither_in_use_nor_unknown():
    odd = DEVICES.replace("domain='0x0000' bus='0x08'", "domain='0x10000' bus='0xe1'")
    facts = parsed(odd)
    assert facts.confinement.occupancy(HOST).devices == {"0000:20:02.1"}
    assert (facts.confinement.unknown, facts.problems) == (frozenset(), ())
