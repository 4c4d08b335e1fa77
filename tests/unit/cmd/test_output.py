"""Columns as a table shows them and as programs get them."""

import json

import msgspec
import pytest

from rtagent.cmd.base import columns, row, rows
from rtagent.cmd.output import (
    AssignmentLines,
    Counts,
    DeviceLines,
    KeyValues,
    Lines,
    OrEmpty,
    YesNo,
    timestamp,
)
from rtagent.model import assignment
from rtagent.model.assignment import CellAssignment, CpuTopology
from tests.support.owned_hosts import DB_CLAIM, WEB_CLAIM
from tests.support.pci_hosts import GPU_0, vf

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


def document(value):
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("cell", "human", "machine"),
    [
        (YesNo(True), "yes", True),
        (YesNo("why"), "yes", "why"),
        (YesNo(None), "", None),
        (OrEmpty(None), "", None),
        (OrEmpty(0), "0", 0),
        (KeyValues({"a": 1, "b": None, "c": {}, "d": 0}), "a=1\nd=0",
         {"a": 1, "b": None, "c": {}, "d": 0}),
        (KeyValues({"a": {"b": {"c": 1}, "d": None}, "e": [1, 2]}), "a.b.c=1\ne=1,2",
         {"a": {"b": {"c": 1}, "d": None}, "e": [1, 2]}),
        (Counts({"available": 2, "claimed": 0}), "available=2", {"available": 2, "claimed": 0}),
        (Lines(["a", 1]), "a\n1", ["a", 1]),
        (timestamp("2030-01-02T03:04:05.999999Z"), "2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
        (timestamp("2030-01-02T03:04:05+00:00"), "2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
        (timestamp(None), "", None),
    ],
)  # fmt: skip
def test_a_column_has_a_form_for_tables_and_a_form_for_programs(cell, human, machine):
    assert (cell.human_readable(), cell.machine_readable()) == (human, machine)


def test_devices_are_shown_with_their_requests():
    devices = document((*WEB_CLAIM.pci, *DB_CLAIM.pci))
    assert DeviceLines(devices).human_readable().splitlines() == [
        f"{GPU_0} 10de:13f1 type-PCI, NUMA node 0, for gpu",
        f"{vf(0)} 8086:154c type-VF, NUMA node 0, for port-1",
    ]
    assert DeviceLines(devices).machine_readable() == devices


def test_an_assignment_has_a_line_for_each_cell_and_each_setting_of_the_guest():
    assigned = assignment.Assignment(
        cells=(FIRST, CellAssignment(id=0, memory=512)),
        shared_pcpus=frozenset({0, 1, 2}),
        emulator_pcpus=frozenset({1}),
        realtime=frozenset({1, 2}),
        realtime_priority=5,
        cpu_topology=CpuTopology(sockets=1, cores=2, threads=2),
        locked_memory=True,
    )
    assert AssignmentLines(document(assigned)).human_readable().splitlines() == [
        "guest cell 0: host cell 1, 1024 MB in pages of 2MiB; vCPU on CPU: 0:4 1:6 10:8;"
        " shared vCPUs 2-3 on CPUs 0-1; emulator on CPUs 10; unused siblings: CPUs 5,7",
        "guest cell 1: host cell 0, 512 MB",
        "shared vCPUs run on CPUs 0-2",
        "the emulator runs on CPUs 1",
        "realtime vCPUs 1-2",
        "realtime priority 5",
        "1 sockets, 2 cores, 2 threads",
        "memory is locked",
    ]
    assert AssignmentLines(document(assignment.Assignment())).human_readable() == ""


def test_columns_show_fields_by_name_and_by_path_also_of_what_is_absent():
    cells = columns("a", "c=b.c", "d=x.y", a=str)
    assert row(cells, {"a": 1, "b": {"c": 2}}) == (("a", "c", "d"), ("1", 2, None))
    assert rows(columns("id", "memory"), [FIRST]) == (("id", "memory"), [(1, 1024)])
