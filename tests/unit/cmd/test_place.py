"""A claim's place, as a person reads it and as a program does."""

import json

import msgspec
import pytest

from rtagent.cmd.place import Place
from rtagent.model.assignment import Assignment, CellAssignment, CpuTopology

FIRST = CellAssignment(
    id=1,
    memory=1024,
    cpuset=frozenset({2, 3}),
    shared_pcpus=frozenset({0, 1}),
    cpu_pinning={0: 4, 1: 6, 10: 8},
    cpuset_reserved=frozenset({10}),
    cpuset_kept=frozenset({5, 7}),
    pagesize=2048,
)


def shown(placed: Assignment) -> list[str]:
    return Place(json.loads(msgspec.json.encode(placed))).human_readable().splitlines()


def test_each_cell_is_a_line():
    assert shown(Assignment(cells=(FIRST, CellAssignment(id=0, memory=512)))) == [
        "guest cell 0: host cell 1, 1024 MB in pages of 2MiB; vCPU on CPU: 0:4 1:6 10:8;"
        " shared vCPUs 2-3 on CPUs 0-1; emulator on CPUs 10; kept idle: CPUs 5,7",
        "guest cell 1: host cell 0, 512 MB",
    ]


def test_what_holds_for_the_whole_guest_has_lines_of_its_own():
    placed = Assignment(
        shared_pcpus=frozenset({0, 1, 2}),
        emulator_pcpus=frozenset({1}),
        realtime=frozenset({1, 2}),
        realtime_priority=5,
        cpu_topology=CpuTopology(sockets=1, cores=2, threads=2),
        locked_memory=True,
    )
    assert shown(placed) == [
        "shared vCPUs float on CPUs 0-2",
        "the emulator runs on CPUs 1",
        "realtime vCPUs 1-2",
        "realtime priority 5",
        "1 sockets, 2 cores, 2 threads",
        "memory is locked",
    ]


@pytest.mark.parametrize("value", [None, json.loads(msgspec.json.encode(Assignment()))])
def test_no_place_in_particular_is_an_empty_cell(value):
    assert Place(value).human_readable() == ""
    assert Place(value).machine_readable() == value
