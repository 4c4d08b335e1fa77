"""Assignments: where the emulator runs, and where shared vCPUs float."""

import pytest

from tests.support.numa_hosts import (
    NO_SMT,
    TWO_CELLS,
    assigned_to,
    cell,
    cells_of,
    fit_guest,
    host,
    pinned,
    required,
    topology,
)

#: Two CPUs; two; three.
UNEQUAL_CELLS = topology(
    cell(0, cores=2, threads=1, first=0),
    cell(1, cores=2, threads=1, first=2),
    cell(2, cores=3, threads=1, first=4),
)


def test_isolated_emulator_gets_a_cpu_with_guest_cell_0():
    guest = pinned(4, numa_nodes="2", emulator_threads_policy="isolate")
    assignment = assigned_to(fit_guest(guest, host(NO_SMT, "0-7")))
    first, second = assignment.cells
    assert (len(first.cpuset_reserved), len(second.cpuset_reserved)) == (1, 0)
    assert assignment.emulator_pcpus == first.cpuset_reserved
    assert assignment.pcpus == 5
    assert not first.cpuset_reserved & set(first.cpu_pinning.values())


def test_guest_cell_0_goes_where_the_isolated_emulator_fits():
    guest = pinned(4, numa_nodes="2", emulator_threads_policy="isolate")
    assert cells_of(fit_guest(guest, host(UNEQUAL_CELLS, "0-6"))) == [2, 0]


def test_isolated_emulator_of_a_mixed_guest_whose_cell_0_has_no_dedicated_cpu():
    guest = required(
        4,
        numa_nodes="2",
        cpu_policy="mixed",
        cpu_dedicated_mask="2-3",
        emulator_threads_policy="isolate",
    )
    answer = fit_guest(guest, host(NO_SMT, "0-1,4-5", "2-3,6-7"))
    first, second = assigned_to(answer).cells
    assert (first.cpu_pinning, len(first.cpuset_reserved)) == ({}, 1)
    assert (len(second.cpu_pinning), second.cpuset_reserved) == (2, frozenset())


def test_shared_emulator_runs_on_the_shared_cpus_of_the_host():
    guest = pinned(emulator_threads_policy="share")
    answer = fit_guest(guest, host(TWO_CELLS, "2-7,10-15", "0-1,8"))
    assert assigned_to(answer).emulator_pcpus == {0, 1, 8}


def test_shared_emulator_runs_with_the_vcpus_on_a_host_without_shared_cpus():
    guest = pinned(emulator_threads_policy="share")
    answer = fit_guest(guest, host(TWO_CELLS, "0-15"))
    assert assigned_to(answer).emulator_pcpus == {0, 1}


@pytest.mark.parametrize("mask", ["^0", "^0-1", "2-3"])
def test_shared_emulator_of_a_realtime_guest_runs_with_its_first_other_vcpu(mask):
    guest = pinned(4, emulator_threads_policy="share", cpu_realtime="yes", cpu_realtime_mask=mask)
    assignment = assigned_to(fit_guest(guest, host(TWO_CELLS, "0-15")))
    assert assignment.emulator_pcpus == {assignment.cells[0].cpu_pinning[0]}
    assert not assignment.emulator_pcpus & {
        assignment.cells[0].cpu_pinning[vcpu] for vcpu in assignment.realtime
    }


def test_first_vcpu_that_is_not_realtime_may_be_in_any_guest_cell():
    guest = pinned(
        4,
        numa_nodes="2",
        emulator_threads_policy="share",
        cpu_realtime="yes",
        cpu_realtime_mask="^3",
    )
    assignment = assigned_to(fit_guest(guest, host(TWO_CELLS, "0-15")))
    assert assignment.emulator_pcpus == {assignment.cells[1].cpu_pinning[3]}


def test_emulator_without_a_policy_avoids_realtime_vcpus():
    guest = pinned(4, cpu_realtime="yes", cpu_realtime_mask="^0-1")
    assignment = assigned_to(fit_guest(guest, host(TWO_CELLS, "0-15")))
    pins = assignment.cells[0].cpu_pinning
    assert assignment.emulator_pcpus == {pins[0], pins[1]}
    assert assignment.realtime == {2, 3}


def test_all_cpus_are_shared_when_no_set_is_configured():
    (one,) = assigned_to(fit_guest(required(numa_nodes="1"), host())).cells
    assert one.shared_pcpus == set(range(8))


@pytest.mark.parametrize("specs", [{}, {"numa_nodes": "1"}])
def test_memory_is_in_a_file_if_the_host_has_such_memory(specs):
    where = host(file_backed_memory_mb=4096)
    assert assigned_to(fit_guest(required(**specs), where)).file_backed
    assert not assigned_to(fit_guest(required(**specs), host())).file_backed


def test_guest_without_cells_floats_on_the_shared_set():
    assert assigned_to(fit_guest(required(), host(shared="0-3"))).shared_pcpus == {0, 1, 2, 3}
    assert assigned_to(fit_guest(required(), host())).shared_pcpus == set()
