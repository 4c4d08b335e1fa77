"""What of the host a domain's document binds it to."""

import re

import pytest

from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.virt.libvirt.confinement import NOWHERE
from rtagent.virt.libvirt.domain import parse_domain

HOST = frozenset(range(8))
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
DEVICES = (
    f"<devices><hostdev mode='subsystem' type='pci'><source>{PCI}</source></hostdev>"
    f"<interface type='hostdev'><source>{VF}</source></interface>"
    "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'>"
    "<source><address uuid='0000000A-0000-0000-0000-000000000000'/></source></hostdev></devices>"
)


def parsed(*parts, vcpu="<vcpu>4</vcpu>"):
    return parse_domain(f"<domain><memory unit='MiB'>1536</memory>{vcpu}{''.join(parts)}</domain>")


def bound(*parts, vcpu="<vcpu>4</vcpu>"):
    return parsed(*parts, vcpu=vcpu).confinement


def occupied(*parts, vcpu="<vcpu>4</vcpu>"):
    return bound(*parts, vcpu=vcpu).occupancy(HOST, {})


def test_a_plain_domain_is_bound_to_nothing():
    assert bound() == NOWHERE
    assert occupied() == Occupancy()


@pytest.mark.parametrize(
    ("vcpu", "tuning", "expected"),
    [
        ("<vcpu cpuset='2-3'>1</vcpu>", "", {2, 3}),
        ("<vcpu cpuset='0-3,^1'>1</vcpu>", "", {0, 2, 3}),
        ("<vcpu>2</vcpu>", "<vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='6'/>", {4, 6}),
        ("<vcpu>2</vcpu>", "<emulatorpin cpuset='1'/>", {1}),
        (
            "<vcpu cpuset='0-1'>1</vcpu>",
            "<vcpupin vcpu='0' cpuset='4'/><emulatorpin cpuset='5'/>",
            {4, 5},
        ),
        # The set of <vcpu> is that of threads without a pin: of a vCPU, of the emulator.
        (
            "<vcpu cpuset='0-1'>2</vcpu>",
            "<vcpupin vcpu='0' cpuset='4'/><emulatorpin cpuset='5'/>",
            {0, 1, 4, 5},
        ),
        ("<vcpu cpuset='0-1'>1</vcpu>", "<vcpupin vcpu='0' cpuset='4'/>", {0, 1, 4}),
        # Everywhere is no confinement, of which others take nothing away.
        ("<vcpu cpuset='0-7'>1</vcpu>", "", set()),
        ("<vcpu cpuset='0-63'>1</vcpu>", "", set()),
        ("<vcpu>2</vcpu>", "<vcpupin vcpu='0' cpuset='3'/><emulatorpin cpuset='0-7'/>", {3}),
        # A guest that has every CPU for itself is confined: each vCPU to one.
        (
            "<vcpu>8</vcpu>",
            "".join(f"<vcpupin vcpu='{n}' cpuset='{n}'/>" for n in range(8)),
            set(range(8)),
        ),
    ],
)
def test_cpus_to_which_threads_are_pinned(vcpu, tuning, expected):
    assert occupied(f"<cputune>{tuning}</cputune>", vcpu=vcpu).pcpus == expected


@pytest.mark.parametrize(
    ("pin", "expected"),
    [("", {0, 1, 4, 5}), ("<iothreadpin iothread='1' cpuset='6'/>", {4, 5, 6})],
)
def test_cpus_of_io_threads(pin, expected):
    tuning = f"<vcpupin vcpu='0' cpuset='4'/><emulatorpin cpuset='5'/>{pin}"
    parts = "<iothreads>1</iothreads>", f"<cputune>{tuning}</cputune>"
    assert occupied(*parts, vcpu="<vcpu cpuset='0-1'>1</vcpu>").pcpus == expected


def test_every_cpuset_counts_while_online_cpus_are_unknown():
    confinement = bound(vcpu="<vcpu cpuset='0-7'>1</vcpu>")
    assert confinement.occupancy(frozenset(), {}).pcpus == HOST


@pytest.mark.parametrize(
    ("tuning", "expected"),
    [
        ("<memory mode='strict' nodeset='1'/>", {1: 1536}),
        ("<memory mode='preferred' nodeset='1'/>", {1: 1536}),
        ("<memory nodeset='0-1'/>", {}),
        ("<memory placement='auto'/>", {}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("cells", ["", CELLS])
def test_memory_counts_for_a_single_bound_cell(cells, tuning, expected):
    assert occupied(cells, f"<numatune>{tuning}</numatune>").memory_mb == expected


def test_guest_cells_may_be_bound_to_different_host_cells():
    assert occupied(CELLS, EACH_ITS_OWN).memory_mb == {1: 512, 0: 1024}
    one = EACH_ITS_OWN.replace("nodeset='1'", "nodeset='0'")
    assert occupied(CELLS, one).memory_mb == {0: 1536}


def test_an_unnamed_guest_cell_uses_the_default_binding():
    tuning = (
        "<numatune><memory nodeset='1'/><memnode cellid='1' mode='strict' nodeset='0'/></numatune>"
    )
    assert occupied(CELLS, tuning).memory_mb == {1: 512, 0: 1024}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ("<page size='2048'/>", {1: {2048: 256}, 0: {2048: 512}}),
        ("<page size='2' unit='MiB'/>", {1: {2048: 256}, 0: {2048: 512}}),
        ("<page size='2' unit='M' nodeset='0'/>", {1: {2048: 256}}),
        (
            "<page size='2048' nodeset='0'/><page size='1' unit='GiB' nodeset='1'/>",
            {1: {2048: 256}, 0: {1048576: 1}},
        ),
        (
            "<page size='4'/><page size='1' unit='GiB' nodeset='0-1'/>",
            {1: {1048576: 1}, 0: {1048576: 1}},
        ),
    ],
)
def test_pages_are_counted_by_host_cell(pages, expected):
    backing = f"<memoryBacking><hugepages>{pages}</hugepages></memoryBacking>"
    assert occupied(CELLS, EACH_ITS_OWN, backing).pages == expected


def test_pages_of_a_guest_without_cells():
    backing = "<memoryBacking><hugepages><page size='2048'/></hugepages></memoryBacking>"
    assert occupied(backing, "<numatune><memory nodeset='1'/></numatune>").pages == {1: {2048: 768}}
    assert occupied(backing).pages == {}  # it is unknown to which cell they belong


def test_pages_without_a_size_count_as_memory():
    backing = "<memoryBacking><hugepages/></memoryBacking>"
    seen = occupied(backing, "<numatune><memory nodeset='1'/></numatune>")
    assert (seen.memory_mb, seen.pages) == ({1: 1536}, {})


@pytest.mark.parametrize(
    ("odd", "message", "kinds"),
    [
        ("<cputune><vcpupin vcpu='0' cpuset='x'/></cputune>", "<vcpupin cpuset>: .*'x'", "cpus"),
        ("<cputune><emulatorpin cpuset='3-1'/></cputune>", "<emulatorpin cpuset>", "cpus"),
        ("<numatune><memory nodeset='9'/><memnode nodeset='1'/></numatune>", "cellid", "cells"),
        (CELLS.replace("id='0'", "id='a'") + EACH_ITS_OWN, "<cell id> is 'a'", "cells"),
        ("<cpu><numa><cell id='0'/></numa></cpu><numatune/>", "memory of guest cell 0", "cells"),
        (f"{HUGE}<numatune><memory nodeset='99999999999'/></numatune>", "nodeset", "cells pages"),
        ("<memoryBacking><hugepages><page/></hugepages></memoryBacking>", "size> is N", "pages"),
        (HUGE.replace("KiB", "b"), "less than 1 KiB", "pages"),
        (HUGE.replace("KiB", "ell"), "'ell' is not a unit", "pages"),
    ],
)
def test_what_an_invalid_element_says_is_unknown_and_the_rest_counts(odd, message, kinds):
    bind = "" if "numatune" in odd else "<numatune><memory nodeset='0'/></numatune>"
    facts = parsed(odd, bind, DEVICES, vcpu="<vcpu cpuset='5'>4</vcpu>")
    (problem,) = facts.problems
    assert re.search(message, problem)
    seen = facts.confinement.occupancy(HOST, {})
    assert seen.unknown == {HostResource(kind) for kind in kinds.split()}
    assert (seen.pcpus, len(seen.devices)) == ({5}, 2)


def test_assigned_devices_are_parsed():
    assert bound(DEVICES).occupancy(HOST, {"/dev/vhost-vdpa-0": "0000:20:02.2"}) == Occupancy(
        devices=frozenset({"0000:08:00.0", "0000:20:02.1", "0000:20:02.2"}),
        mdevs=frozenset({"0000000a-0000-0000-0000-000000000000"}),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bus='0x08'", "bus='0x100'", "bus"),
        (f"<source>{PCI}</source>", "", "<hostdev type='pci'> has no source address"),
        ("uuid='0000000A-0000-0000-0000-000000000000'", "uuid='A'", "<address uuid> .* is 'A'"),
        ("uuid='0000000A-0000-0000-0000-000000000000'", "", "'uuid' of its source"),
        ("<source dev='/dev/vhost-vdpa-0'/>", "<source/>", "'dev' of its source"),
    ],
)
def test_a_device_that_is_not_named_is_unknown_and_the_others_count(old, new, message):
    assert old in DEVICES
    facts = parsed(DEVICES.replace(old, new))
    seen = facts.confinement.occupancy(HOST, {"/dev/vhost-vdpa-0": "0000:20:02.2"})
    assert seen.unknown == {HostResource.DEVICES}
    assert re.search(message, *facts.problems)
    assert len(seen.devices) + len(seen.mdevs) == 3


def test_a_device_that_no_host_offers_is_neither_in_use_nor_unknown():
    odd = DEVICES.replace("domain='0x0000' bus='0x08'", "domain='0x10000' bus='0xe1'")
    facts = parsed(odd)
    assert facts.confinement.occupancy(HOST, {}).devices == {"0000:20:02.1"}
    assert (facts.confinement.unknown, facts.problems) == (frozenset(), ())
