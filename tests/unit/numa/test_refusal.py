"""The reasons of a refusal."""

import pytest

from rtagent.model.decision import ReasonCode
from rtagent.model.topology import Topology
from rtagent.numa.fit import Fitted
from tests.support.numa_hosts import (
    PAGES,
    THREE_CELLS,
    TWO_CELLS,
    fit_guest,
    host,
    pinned,
    pinned_usage,
    reasons_of,
    required,
)


def test_pinning_without_a_dedicated_set_names_the_option():
    answer = fit_guest(pinned(), host())
    assert reasons_of(answer) == [(ReasonCode.NOT_CONFIGURED, "PCPU", "cn1")]
    assert str(answer) == (
        "PCPU: 2 CPUs requested at cn1, which this host offers only with"
        " [compute] cpu_dedicated_set"
    )


def test_shared_vcpus_without_a_shared_set_name_the_option_if_a_dedicated_set_is_configured():
    answer = fit_guest(required(numa_nodes="1"), host(dedicated="0-15"))
    assert reasons_of(answer) == [(ReasonCode.NOT_CONFIGURED, "VCPU", "cn1")]
    assert "[compute] cpu_shared_set" in str(answer)


def test_shared_emulator_is_refused_if_it_would_starve_among_realtime_vcpus():
    guest = pinned(emulator_threads_policy="share", cpu_realtime="yes")
    answer = fit_guest(guest, host(TWO_CELLS, "0-15"))
    assert reasons_of(answer) == [(ReasonCode.NOT_CONFIGURED, "emulator threads", "cn1")]
    assert "cpu_shared_set" in str(answer)


@pytest.mark.parametrize("specs", [{}, {"numa_nodes": "2"}])
def test_shared_emulator_needs_no_shared_cpus_if_a_vcpu_is_not_realtime(specs):
    realtime = {"cpu_realtime": "yes", "cpu_realtime_mask": "^0"}
    guest = pinned(4, emulator_threads_policy="share", **realtime, **specs)
    assert isinstance(fit_guest(guest, host(TWO_CELLS, "0-15")), Fitted)


@pytest.mark.parametrize("size", ["small", "large", "any", "2MB"])
def test_guest_whose_memory_would_be_in_a_file_has_no_page_size(size):
    where = host(PAGES, file_backed_memory_mb=4096)
    name = "2MiB" if size == "2MB" else size
    guest = required(2, 1024, numa_nodes="2", mem_page_size=size)
    assert str(fit_guest(guest, where)) == (
        f"{name} pages: 1024 MB requested at cn1, which this host offers only with"
        " [libvirt] file_backed_memory = 0"
    )
    assert isinstance(fit_guest(required(2, 1024, numa_nodes="2"), where), Fitted)


def test_guest_with_more_cells_than_the_host():
    answer = fit_guest(pinned(3, 3072, numa_nodes="3"), host(TWO_CELLS, "0-15"))
    assert reasons_of(answer) == [(ReasonCode.EXCEEDS_HOST, "NUMA_CELL", "cn1")]


def test_host_without_cells():
    without_cells = host(Topology(cpus=frozenset(range(4)), memory_mb=4096, disk_mb=0))
    answer = fit_guest(required(numa_nodes="1"), without_cells)
    assert reasons_of(answer) == [(ReasonCode.NOT_OFFERED, "NUMA_CELL", "cn1")]


def test_refusal_has_the_reasons_of_every_cell_nearest_miss_first():
    where = host(THREE_CELLS, "0-5", usage=pinned_usage("2,4-5"))
    answer = fit_guest(pinned(2, 16384), where)
    assert [str(reason) for reason in answer.reasons] == [
        "MEMORY_MB: 16384 MB requested at cell 0, which has 8192 in all",
        "MEMORY_MB: 16384 MB requested at cell 1, which has 8192 in all",
        "MEMORY_MB: 16384 MB requested at cell 2, which has 8192 in all",
        "PCPU: 2 CPUs requested at cell 1, 1 available",
        "PCPU: 2 CPUs requested at cell 2, 0 available",
    ]


def test_guest_cells_that_all_fit_one_host_cell_only():
    where = host(THREE_CELLS, "0-5", usage=pinned_usage("2,4"))
    answer = fit_guest(pinned(4, numa_nodes="2"), where)
    assert [str(reason) for reason in answer.reasons] == [
        "NUMA_CELL: 2 cells requested at cells 0, 1 available",
        "PCPU: 2 CPUs requested at cell 1, 1 available",
        "PCPU: 2 CPUs requested at cell 2, 1 available",
    ]


def test_reasons_leave_out_cells_that_some_of_the_guest_cells_fit():
    """Three guest cells fit two host cells, one of which is too small for the first."""
    cells = {"numa_cpus_0": "0-1", "numa_cpus_1": "2", "numa_cpus_2": "3"}
    memory = {f"numa_mem_{number}": "512" for number in range(3)}
    guest = pinned(4, 1536, numa_nodes="3", **cells, **memory)
    where = host(THREE_CELLS, "0-5", usage=pinned_usage("2,4-5"))
    answer = fit_guest(guest, where)
    assert sorted(str(reason) for reason in answer.reasons) == [
        "NUMA_CELL: 3 cells requested at cells 0-1, 2 available",
        "PCPU: 1 CPUs requested at cell 2, 0 available",
        "PCPU: 2 CPUs requested at cell 2, 0 available",
    ]
