"""Columns as a table shows them and as programs get them."""

import io
import json
import re

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from rtagent.api import numa
from rtagent.cmd.base import columns, row, rows
from rtagent.cmd.numa import draw
from rtagent.cmd.output import (
    AssignedResources,
    AssignmentLines,
    CellLines,
    Counts,
    DeviceLines,
    KeyValues,
    Lines,
    OrEmpty,
    PciPools,
    PciRequests,
    YesNo,
    timestamp,
)
from rtagent.model import assignment
from rtagent.model.assignment import CellAssignment, CpuTopology
from rtagent.model.device import Tags
from rtagent.model.policy import NetworkPolicy, Policy
from rtagent.state.compute_node import numa_topology
from tests.support.owned_hosts import DB_CLAIM, VGPU, WEB_CLAIM, pinned_host
from tests.support.pci_hosts import GPU_0, gpu, nic, pools_of, port, record, vf

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


def test_assigned_resources_are_shown_with_class_and_identifier():
    resources = document(WEB_CLAIM.resources)
    assert AssignedResources(resources).human_readable().splitlines() == [
        f"VGPU {VGPU[0]}",
        "CUSTOM_PMEM_NAMESPACE_4GB ns_9",
    ]


def test_pci_requests_are_shown_without_empty_fields():
    requests = document([port("eth0", physical_network=None)])
    assert PciRequests(requests).human_readable() == (
        "count=1 request_id=eth0 spec=physical_network:none source=neutron_port requester_id=eth0"
    )


def test_pools_are_shown_with_their_tags():
    _, *functions = nic(vfs=2)
    tracked = record([gpu(numa_node=None)]) | record(functions, Tags(trusted=True))
    pools = [pool.as_dict() for pool in pools_of(tracked)]
    assert PciPools(pools).human_readable().splitlines() == [
        "1 of 10de:13f1 type-PCI",
        "2 of 8086:154c type-VF, NUMA node 0, parent_ifname=p20, trusted=yes",
    ]
    assert PciPools(pools).machine_readable() == pools


def test_the_cells_of_a_host_have_the_numbers_of_its_map():
    networks = NetworkPolicy(physnets={"net-1": frozenset({0})}, tunnels=frozenset({0}))
    policy = Policy(numa=replace(pinned_host().policy.numa, networks=networks))
    state = replace(pinned_host(), policy=policy)
    lines = CellLines(numa_topology(state)).human_readable().splitlines()
    assert lines[:7] == [
        "cell 0: 1536 of 8192 MB assigned, 0 shared vCPUs assigned",
        "  shared CPUs 0-1",
        "  dedicated CPUs 2-7",
        "  pinned CPUs 2-5",
        "  4KiB pages: 262144 used, 0 reserved, 1835008 in all",
        "  2MiB pages: 256 used, 64 reserved, 512 in all",
        "  networks net-1, tunnels",
    ]
    file = io.StringIO()
    draw(document(numa.document(state)), Console(file=file, width=100))
    for line in lines:
        if words := re.search(r"[0-9]+ (of|used,).*", line):
            assert words[0] in file.getvalue()
    assert CellLines(None).human_readable() == ""


def shown(assigned: assignment.Assignment) -> list[str]:
    return AssignmentLines(document(assigned)).human_readable().splitlines()


def test_an_assignment_has_a_line_for_each_cell():
    second = CellAssignment(id=0, memory=512)
    third = CellAssignment(id=0, memory=512, cpuset=frozenset({4}))
    assert shown(assignment.Assignment(cells=(FIRST, second, third))) == [
        "guest cell 0: host cell 1, 1024 MB in pages of 2MiB; vCPU on CPU: 0:4 1:6 10:8;"
        " shared vCPUs 2-3 on CPUs 0-1; emulator on CPUs 10; unused siblings: CPUs 5,7",
        "guest cell 1: host cell 0, 512 MB",
        "guest cell 2: host cell 0, 512 MB; shared vCPUs 4",
    ]


def test_an_assignment_has_a_line_for_each_setting_of_the_guest():
    whole_guest = assignment.Assignment(
        shared_pcpus=frozenset({0, 1, 2}),
        emulator_pcpus=frozenset({1}),
        realtime=frozenset({1, 2}),
        realtime_priority=5,
        cpu_topology=CpuTopology(sockets=1, cores=2, threads=2),
        locked_memory=True,
    )
    assert shown(whole_guest) == [
        "shared vCPUs run on CPUs 0-2",
        "the emulator runs on CPUs 1",
        "realtime vCPUs 1-2",
        "realtime priority 5",
        "1 sockets, 2 cores, 2 threads",
        "memory is locked",
    ]


@pytest.mark.parametrize("value", [None, document(assignment.Assignment())])
def test_an_empty_assignment_is_an_empty_cell(value):
    assert AssignmentLines(value).human_readable() == ""
    assert AssignmentLines(value).machine_readable() == value


def test_columns_show_fields_by_name_and_by_path_also_of_what_is_absent():
    cells = columns("a", "c=b.c", "d=x.y", a=str)
    assert row(cells, {"a": 1, "b": {"c": 2}}) == (("a", "c", "d"), ("1", 2, None))
    assert rows(columns("id", "memory"), [FIRST]) == (("id", "memory"), [(1, 1024)])
