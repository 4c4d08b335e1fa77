"""Where guests go, what they are assigned there, and why others are refused."""

import pytest

from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.usage import NumaUsage
from rtagent.numa.fit import Fitted
from tests.support.numa_hosts import (
    NO_SMT,
    PAGES,
    THREE_CELLS,
    TWO_CELLS,
    assigned_to,
    cells_of,
    fit_guest,
    host,
    pinned,
    pinned_usage,
    reasons_of,
    required,
)


class OnePlacement:
    """Devices that accept one placement, in its order."""

    def __init__(self, accepted):
        self.accepted = accepted

    def weight(self, number):
        return 0

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells == self.accepted else (no_devices(),)


def no_devices():
    where = {"resource": "PCI", "where": "cn1", "unit": "devices"}
    return Reason(code=ReasonCode.INSUFFICIENT, requested=1, available=0, **where)


def test_refusal_says_that_the_search_gave_up():
    last = OnePlacement((2, 1))
    guest, where = pinned(4, numa_nodes="2"), host(THREE_CELLS, "0-5")
    assert isinstance(fit_guest(guest, where, devices=last, steps=10), Fitted)
    answer = fit_guest(guest, where, devices=last, steps=9)
    codes = {reason.code for reason in answer.reasons}
    assert codes == {ReasonCode.UNDECIDED, ReasonCode.INSUFFICIENT}
    assert "bound" in str(answer)


USED = NumaUsage(pinned={0: 1}, vcpus={0: 1}, memory_mb={0: 512})
ONE_SHARED = required(1, numa_nodes="1")


@pytest.mark.parametrize(
    ("guest", "where", "cells"),
    [
        # Guests spread over the cells, or fill one after the other.
        (pinned(1), host(THREE_CELLS, "0-5", usage=USED), [1]),
        (pinned(1), host(THREE_CELLS, "0-5", usage=USED, packing=True), [0]),
        # Shared guests go where the fewest vCPUs are; then free memory decides.
        (ONE_SHARED, host(THREE_CELLS, usage=NumaUsage(vcpus={0: 1, 1: 1})), [2]),
        (ONE_SHARED, host(THREE_CELLS, usage=NumaUsage(memory_mb={0: 10, 2: 10})), [1]),
        # Equal cells keep the order of the host, and so do all of them for a guest of as many.
        (pinned(1), host(THREE_CELLS, "0-5"), [0]),
        (pinned(3, 3072, numa_nodes="3"), host(THREE_CELLS, "0-5", usage=USED), [0, 1, 2]),
    ],
)
def test_cells_are_tried_in_the_order_of_their_use(guest, where, cells):
    assert cells_of(fit_guest(guest, where)) == cells


def test_first_vcpu_that_is_not_realtime_may_be_in_any_guest_cell():
    emulator = {"emulator_threads_policy": "share"}
    guest = pinned(4, numa_nodes="2", cpu_realtime="yes", cpu_realtime_mask="^3", **emulator)
    assignment = assigned_to(fit_guest(guest, host(TWO_CELLS, "0-15")))
    assert assignment.emulator_pcpus == {assignment.cells[1].cpu_pinning[3]}


def test_guest_without_cells_floats_on_the_shared_set():
    assert assigned_to(fit_guest(required(), host(shared="0-3"))).shared_pcpus == {0, 1, 2, 3}
    assert assigned_to(fit_guest(required(), host())).shared_pcpus == set()


def test_pinned_cpu_that_has_joined_the_shared_set_is_not_shared_yet():
    where = host(NO_SMT, "4-7", "0-3", usage=pinned_usage("2"))
    first = assigned_to(fit_guest(required(numa_nodes="1"), where)).cells[0]
    assert first.shared_pcpus == {0, 1, 3}


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


def test_refusal_has_the_reasons_of_every_cell_nearest_miss_first():
    answer = fit_guest(pinned(2, 16384), host(TWO_CELLS, "0-1,8-9", usage=pinned_usage("8-9")))
    assert [str(reason) for reason in answer.reasons] == [
        "MEMORY_MB: 16384 MB requested at cell 0, which has 8192 in all",
        "MEMORY_MB: 16384 MB requested at cell 1, which has 8192 in all",
        "PCPU: 2 CPUs requested at cell 1, 0 available",
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
