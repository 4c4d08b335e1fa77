"""Capabilities documents, as libvirt gives them."""

import itertools
from pathlib import Path

import pytest

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.topology import Cell
from rtagent.virt.libvirt.capabilities import parse_capabilities, parse_cells
from rtagent.virt.libvirt.document import BadDocument
from tests.data import read

ONE_SOCKET = read("libvirt/capabilities-one-socket.xml")
TWO_SOCKETS = read("libvirt/capabilities-two-sockets.xml")


def test_one_socket():
    host = parse_capabilities(ONE_SOCKET)

    assert host.host_uuid == "4c4c4544-0042-3510-8051-b4c04f4e4c31"
    assert host.arch == "x86_64"
    assert host.cpus == {0, 1}
    assert not host.hyperthreading
    pairs = itertools.product(("i686", "x86_64"), ("qemu", "kvm"))
    assert host.guests == tuple((arch, kind, "hvm") for arch, kind in pairs)
    info = host.cpu_info
    assert (info["arch"], info["model"], info["vendor"]) == ("x86_64", "Broadwell", "Intel")
    assert info["topology"] == {"cells": 1, "sockets": 1, "dies": 1, "cores": 2, "threads": 1}
    assert "avx512f" in info["features"]
    assert info["features"] == sorted(info["features"])


def test_two_sockets_with_one_cpu_offline():
    host = parse_capabilities(TWO_SOCKETS)

    assert host.cpus == {0, 1, 2, 3, 4, 6, 7}
    assert host.hyperthreading
    assert host.cpu_info["topology"]["cells"] == 2
    assert host.cpu_info["maxphysaddr"] == {"mode": "emulate", "bits": 46}
    aarch64 = parse_capabilities(read("libvirt/capabilities-aarch64.xml"))
    assert "maxphysaddr" not in aarch64.cpu_info


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("<domain/>", "no <capabilities>"),
        ("<capabilities><host/></capabilities>", "its <cpu>"),
        (TWO_SOCKETS.replace("bits='46'", "bits='many'"), "maxphysaddr bits"),
        ("<capabilities><host><cpu/></host></capabilities>", "no <arch>"),
        # The name of a lock file contains it.
        (ONE_SOCKET.replace("4c4c4544-0042-3510-8051-b4c04f4e4c31", "../../x"), "not a uuid"),
    ],
)
def test_an_invalid_document_names_the_element(odd, message):
    with pytest.raises(BadDocument, match=message):
        parse_capabilities(odd)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "\N{ARABIC-INDIC DIGIT THREE}", "-1"])
def test_cpu_with_a_number_that_cannot_be_used_is_left_out_and_another_part_is_refused(number):
    odd = ONE_SOCKET.replace('<cpu id="1"', f'<cpu id="{number}"')
    assert parse_capabilities(odd).cpus == {0}
    text = ONE_SOCKET.replace('cores="2"', f'cores="{number}"')

    with pytest.raises(BadDocument, match="<topology cores> is ") as caught:
        parse_capabilities(text)

    assert len(str(caught.value)) < 400


DOCUMENTS = Path(__file__).parents[3] / "data" / "capabilities"
LARGE, HUGE = 2048, 1048576


def cells(name):
    return parse_cells((DOCUMENTS / f"{name}.xml").read_text())


def test_cells_without_cpus():
    _, _, third, fourth = cells("cells-without-cpus")
    for cell in (third, fourth):
        assert (cell.cpus, cell.siblings, cell.sockets) == (frozenset(), (), frozenset())
        assert cell.memory_mb == 264241152 // 1024
    assert (third.pages[LARGE], fourth.pages[HUGE]) == (8192, 128)


def test_offline_cpus():
    first, second = cells("offline-cpus")
    assert (first.offline, second.offline) == ({3, 19}, {25, 28, 29, 30, 31})
    assert frozenset({9}) in second.siblings
    assert frozenset({8, 24}) in second.siblings
    assert not first.offline & first.cpus
    assert second.sockets == {1}


def test_an_offline_cpu_reported_like_an_online_one():
    cpus = f"<cpus>{CPU.format(4, '4')}{CPU.format(5, '5')}</cpus>"
    (cell,) = parse_cells(document(f"<cell id='1'>{cpus}</cell>"), frozenset({0, 4}))
    assert cell.siblings == (frozenset({4}),)
    assert cell.offline == {5}


CPU = "<cpu id='{}' socket_id='0' core_id='0' siblings='{}'/>"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("<cell/>", "<cell id> is None"),
        ("<cell id='3'><cpus><cpu id='a'/></cpus></cell>", "cell 3: <cpu id> is 'a'"),
    ],
)
def test_cell_whose_numbers_cannot_be_read_is_set_aside(cell, message):
    cells, (report,) = reported(f"{cell}<cell id='4'/>")
    assert [cell.id for cell in cells] == [4]
    assert message in report


MEMORY = "<memory unit='MiB'>8</memory>"


@pytest.mark.parametrize(
    ("odd", "lost", "message"),
    [
        ("<memory>much</memory>", {"memory_mb": 0, "pages": {}}, "cell 3: <memory> is 'much'"),
        (f"{MEMORY}<pages size='4'>x</pages>", {"memory_mb": 0, "pages": {}}, "<pages> is 'x'"),
        (
            f"{MEMORY}<distances><sibling id='3' value='near'/></distances>",
            {"distances": {}, "memory_mb": 8},
            "cell 3: <sibling value> is 'near'",
        ),
        (
            f"{MEMORY}<cpus><cpu id='1' socket_id='x' siblings='1'/></cpus>",
            {"sockets": frozenset(), "cpus": {1}, "memory_mb": 8},
            "cell 3: <cpu socket_id> is 'x'",
        ),
    ],
)
def test_part_of_a_cell_that_cannot_be_read_is_set_aside(odd, lost, message):
    (cell, other), (report,) = reported(f"<cell id='3'>{odd}</cell><cell id='4'>{MEMORY}</cell>")
    assert {name: getattr(cell, name) for name in lost} == lost
    assert (other.id, other.memory_mb) == (4, 8)
    assert message in report


def pairs(**odd):
    """Return the CPUs of two cores, 0 with 2 and 1 with 3. :param odd: other lists, by `cpuN`."""
    lists = {"cpu0": "0,2", "cpu1": "1,3", "cpu2": "0,2", "cpu3": "1,3", **odd}
    return "".join(CPU.format(name[3:], siblings) for name, siblings in lists.items())


def reported(text):
    reports = []
    return parse_cells(document(text), report=reports.append), reports


@pytest.mark.parametrize(
    ("odd", "siblings", "report"),
    [
        ({"cpu0": "x"}, ["0,2", "1,3"], "cell 3: <cpu siblings>: 'x'"),
        ({"cpu0": "0-3"}, ["0,2", "1,3"], "<cpu siblings> of CPUs 0 contradict"),
        ({"cpu0": "0", "cpu1": "1,3,7"}, ["0", "1,3", "2"], "<cpu siblings> of CPUs 2 contradict"),
        ({"cpu0": "0-2", "cpu1": "0-1,3"}, ["0", "1", "2", "3"], "of CPUs 0-3 contradict"),
    ],
)
def test_an_odd_list_of_siblings_is_set_aside(odd, siblings, report):
    (cell,), reports = reported(f"<cell id='3'><cpus>{pairs(**odd)}</cpus></cell>")
    assert cell.cpus == frozenset(range(4))
    assert [format_cpu_spec(core) for core in cell.siblings] == siblings
    assert len(reports) == 1
    assert report in reports[0]


def test_cpus_of_several_cells_are_in_the_first_one():
    """With ``numa=fake=2``, Linux lists the CPUs of a node in each of its parts."""
    part = f"<memory unit='MiB'>100</memory><cpus>{pairs()}<cpu id='4'/></cpus></cell>"
    (first, second), reports = reported(f"<cell id='0'>{part}<cell id='1'>{part}")
    assert first.cpus == frozenset(range(4))
    assert second == Cell(id=1, cpus=frozenset(), memory_mb=100)
    assert reports == ["cell 1: CPUs 0-4 are listed in another cell, too"]


def test_a_cell_that_is_listed_again_is_set_aside():
    (cell,), reports = reported("<cell id='0'><memory unit='MiB'>1</memory></cell><cell id='0'/>")
    assert (cell.memory_mb, reports) == (1, ["cell 0 is listed twice"])


def document(text):
    return f"<capabilities><host><topology><cells>{text}</cells></topology></host></capabilities>"
