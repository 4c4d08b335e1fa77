"""Guests on named hosts: what they are given, and why they are refused."""

import itertools
from decimal import Decimal

import pytest

from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.decision import Reason, ReasonCode, Refused
from rtagent.model.numa_usage import NumaUsage, Occupancy, assigned
from rtagent.model.topology import Cell, Topology
from rtagent.numa.fit import Fitted
from rtagent.numa.limits import CellLimits
from tests.numa_hosts import (
    HUGE,
    LARGE,
    NO_SMT,
    PAGES,
    SMT4,
    THREE_CELLS,
    TWO_CELLS,
    asked,
    cell,
    host,
    pinned,
    placed,
    topology,
)

ONE_CELL = topology(cell(0))


def given(answer):
    assert isinstance(answer, Fitted), str(answer)
    return answer.assignment


def refused(answer):
    assert isinstance(answer, Refused)
    return [(reason.code, reason.resource, reason.where) for reason in answer.reasons]


def pins(answer):
    return [dict(one.cpu_pinning) for one in given(answer).cells]


def use(answer):
    return assigned(given(answer))


class TestThreads:
    @pytest.mark.parametrize(
        ("there", "vcpus", "taken", "cpus"),
        [
            (ONE_CELL, 2, "", [0, 1]),
            (ONE_CELL, 3, "", [0, 1, 2]),
            (ONE_CELL, 1, "0", [1]),
            (ONE_CELL, 2, "0", [2, 3]),
            (ONE_CELL, 3, "0", [1, 2, 3]),
            (ONE_CELL, 4, "0,2,4,6", [1, 3, 5, 7]),
            (NO_SMT, 3, "", [0, 1, 2]),
            (SMT4, 2, "0-1", [2, 3]),
            (SMT4, 5, "0-1", [2, 4, 5, 6, 7]),
        ],
    )
    def test_prefer_takes_whole_cores_and_spares_them(self, there, vcpus, taken, cpus):
        where = host(there, "0-15", usage=Occupancy(pcpus=parse_cpu_spec(taken)).usage)
        assert sorted(pins(placed(pinned(vcpus), where))[0].values()) == cpus

    @pytest.mark.parametrize(
        ("there", "vcpus", "taken", "cpus"),
        [
            (ONE_CELL, 1, "", [0]),
            (ONE_CELL, 1, "0", [2]),
            (ONE_CELL, 3, "0", [2, 3, 4]),
            (ONE_CELL, 6, "0", [2, 3, 4, 5, 6, 7]),
            (SMT4, 4, "0,4", [1, 2, 5, 6]),
            (SMT4, 3, "0,4", [1, 2, 3]),
            (SMT4, 5, "0,4", [1, 2, 3, 5, 6]),
        ],
    )
    def test_require_takes_siblings_and_lets_one_stand_alone(self, there, vcpus, taken, cpus):
        where = host(there, "0-15", usage=Occupancy(pcpus=parse_cpu_spec(taken)).usage)
        guest = pinned(vcpus, cpu_thread_policy="require")
        assert sorted(pins(placed(guest, where))[0].values()) == cpus

    @pytest.mark.parametrize(
        ("there", "vcpus", "taken"),
        [(ONE_CELL, 7, "0"), (ONE_CELL, 1, "0,2,4,6"), (NO_SMT, 1, ""), (SMT4, 3, "0-2,4-5")],
    )
    def test_require_settles_for_nothing_else(self, there, vcpus, taken):
        where = host(there, "0-15", usage=Occupancy(pcpus=parse_cpu_spec(taken)).usage)
        answer = placed(pinned(vcpus, cpu_thread_policy="require"), where)
        assert {reason[:2] for reason in refused(answer)} == {(ReasonCode.INSUFFICIENT, "PCPU")}

    def test_isolate_keeps_the_siblings_from_everyone(self):
        where = host(ONE_CELL, "0-7")
        first = placed(pinned(3, cpu_thread_policy="isolate"), where)
        assert pins(first) == [{0: 0, 1: 2, 2: 4}]
        assert given(first).cells[0].cpuset_kept == {1, 3, 5}
        left = host(ONE_CELL, "0-7", usage=use(first))
        assert pins(placed(pinned(2), left)) == [{0: 6, 1: 7}]
        assert refused(placed(pinned(3), left)) == [(ReasonCode.INSUFFICIENT, "PCPU", "cell 0")]

    def test_isolate_needs_whole_cores_that_nobody_shares(self):
        guest = pinned(1, cpu_thread_policy="isolate")
        for shared in ("1,3,5,7", None):
            answer = placed(guest, host(ONE_CELL, "0,2,4,6", shared))
            assert refused(answer) == [(ReasonCode.INSUFFICIENT, "PCPU", "cell 0")]

    def test_isolate_without_smt_is_plain_pinning(self):
        answer = placed(pinned(4, cpu_thread_policy="isolate"), host(NO_SMT, "0-7"))
        assert pins(answer) == [{0: 0, 1: 1, 2: 2, 3: 3}]
        assert given(answer).cells[0].cpuset_kept == set()

    def test_a_core_with_a_thread_offline_is_idle_with_the_other(self):
        half = topology(
            cell(1, cores=1, threads=1, first=0),
            Cell(id=0, cpus=frozenset({4}), memory_mb=4096, offline=frozenset({5})),
        )
        answer = placed(pinned(1, cpu_thread_policy="isolate"), host(half, "4-5"))
        assert pins(answer) == [{0: 4}]


class TestEmulator:
    def test_isolated_it_comes_out_of_guest_cell_0(self):
        guest = pinned(4, numa_nodes="2", emulator_threads_policy="isolate")
        answer = placed(guest, host(NO_SMT, "0-7"))
        cells = given(answer).cells
        assert [len(one.cpuset_reserved) for one in cells] == [1, 0]
        assert given(answer).emulator_pcpus == cells[0].cpuset_reserved
        assert given(answer).pcpus == 5
        assert not cells[0].cpuset_reserved & set(cells[0].cpu_pinning.values())

    def test_isolated_it_puts_guest_cell_0_where_there_is_room_for_it(self):
        guest = pinned(4, numa_nodes="2", emulator_threads_policy="isolate")
        answer = placed(guest, host(THREE_CELLS_AND_A_HALF, "0-6"))
        assert [one.id for one in given(answer).cells] == [2, 0]

    @pytest.mark.parametrize("threads", ["prefer", "require"])
    def test_isolated_it_needs_a_cpu_more(self, threads):
        guest = {"emulator_threads_policy": "isolate", "cpu_thread_policy": threads}
        (one,) = given(placed(pinned(6, **guest), host(ONE_CELL, "0-7"))).cells
        assert one.cpuset_reserved == {6}
        assert isinstance(placed(pinned(8, **guest), host(ONE_CELL, "0-8")), Refused)
        full = host(ONE_CELL, "0-7", usage=Occupancy(pcpus=frozenset({0, 1})).usage)
        answer = placed(pinned(6, **guest), full)
        (reason,) = answer.reasons
        assert (reason.requested, reason.available) == (7, 6)

    def test_isolated_of_a_mixed_guest_whose_cell_0_has_no_dedicated_cpu(self):
        guest = asked(
            4,
            numa_nodes="2",
            cpu_policy="mixed",
            cpu_dedicated_mask="2-3",
            emulator_threads_policy="isolate",
        )
        first, second = given(placed(guest, host(NO_SMT, "0-1,4-5", "2-3,6-7"))).cells
        assert (first.cpu_pinning, len(first.cpuset_reserved)) == ({}, 1)
        assert (len(second.cpu_pinning), second.cpuset_reserved) == (2, frozenset())

    def test_isolated_with_isolated_threads_it_has_a_core_too(self):
        guest = pinned(3, cpu_thread_policy="isolate", emulator_threads_policy="isolate")
        (one,) = given(placed(guest, host(ONE_CELL, "0-7"))).cells
        assert (one.cpuset_reserved, one.cpuset_kept) == ({6}, {1, 3, 5, 7})
        four = pinned(4, cpu_thread_policy="isolate", emulator_threads_policy="isolate")
        assert isinstance(placed(four, host(ONE_CELL, "0-7")), Refused)

    def test_shared_it_runs_on_the_shared_cpus_of_the_host(self):
        guest = pinned(emulator_threads_policy="share")
        answer = placed(guest, host(TWO_CELLS, "2-7,10-15", "0-1,8"))
        assert given(answer).emulator_pcpus == {0, 1, 8}

    def test_shared_it_stays_with_the_vcpus_where_there_are_none(self):
        guest = pinned(emulator_threads_policy="share")
        assert given(placed(guest, host(TWO_CELLS, "0-15"))).emulator_pcpus == {0, 1}

    def test_shared_it_would_starve_among_realtime_vcpus(self):
        guest = pinned(emulator_threads_policy="share", cpu_realtime="yes")
        answer = placed(guest, host(TWO_CELLS, "0-15"))
        assert refused(answer) == [(ReasonCode.NOT_CONFIGURED, "emulator threads", "cn1")]
        assert "cpu_shared_set" in str(answer)

    def test_unsaid_it_keeps_off_realtime_vcpus(self):
        guest = pinned(4, cpu_realtime="yes", cpu_realtime_mask="^0-1")
        answer = given(placed(guest, host(TWO_CELLS, "0-15")))
        assert answer.emulator_pcpus == {answer.cells[0].cpu_pinning[vcpu] for vcpu in (0, 1)}
        assert answer.realtime == {2, 3}


class TestCpuSets:
    def test_pinning_needs_the_option_and_names_it(self):
        answer = placed(pinned(), host())
        assert refused(answer) == [(ReasonCode.NOT_CONFIGURED, "PCPU", "cn1")]
        assert str(answer) == (
            "PCPU: 2 CPUs requested at cn1, which this host offers only with"
            " [compute] cpu_dedicated_set"
        )

    def test_without_a_shared_set_beside_a_dedicated_one_nothing_is_shared(self):
        answer = placed(asked(numa_nodes="1"), host(dedicated="0-15"))
        assert refused(answer) == [(ReasonCode.NOT_CONFIGURED, "VCPU", "cn1")]
        assert "[compute] cpu_shared_set" in str(answer)

    def test_without_any_set_all_is_shared(self):
        (one,) = given(placed(asked(numa_nodes="1"), host())).cells
        assert one.shared_pcpus == set(range(8))

    def test_a_guest_without_cells_floats_on_the_shared_set(self):
        assert given(placed(asked(), host(shared="0-3"))).shared_pcpus == {0, 1, 2, 3}
        assert given(placed(asked(), host())).shared_pcpus == set()

    def test_cpus_that_are_not_online_are_not_granted(self):
        answer = placed(pinned(4), host(ONE_CELL, "5-20"))
        assert refused(answer) == [(ReasonCode.EXCEEDS_CELL, "PCPU", "cell 0")]

    def test_a_held_cpu_that_has_become_shared_is_not_shared_yet(self):
        where = host(ONE_CELL, "4-7", "0-3", usage=Occupancy(pcpus=frozenset({2})).usage)
        (one,) = given(placed(asked(numa_nodes="1"), where)).cells
        assert one.shared_pcpus == {0, 1, 3}

    def test_what_a_foreign_domain_is_confined_to_is_not_granted(self):
        where = host(ONE_CELL, "0-7", usage=Occupancy(pcpus=parse_cpu_spec("0-5")).usage)
        assert pins(placed(pinned(2), where)) == [{0: 6, 1: 7}]
        assert refused(placed(pinned(3), where)) == [(ReasonCode.INSUFFICIENT, "PCPU", "cell 0")]


class TestOvercommit:
    LIMITS = CellLimits(cpu_allocation_ratio=Decimal("1.5"), ram_allocation_ratio=Decimal("1.5"))

    def test_shared_vcpus_within_the_ratio(self):
        used = NumaUsage(vcpus={0: 10})
        where = host(ONE_CELL, usage=used)
        assert isinstance(placed(asked(2, numa_nodes="1"), where, self.LIMITS), Fitted)
        answer = placed(asked(3, numa_nodes="1"), where, self.LIMITS)
        (reason,) = answer.reasons
        assert (reason.resource, reason.requested, reason.available) == ("VCPU", 3, 2)

    def test_never_more_vcpus_than_the_cell_has_cpus(self):
        answer = placed(asked(9, 1024, numa_nodes="1"), host(ONE_CELL), self.LIMITS)
        assert refused(answer) == [(ReasonCode.EXCEEDS_CELL, "VCPU", "cell 0")]

    def test_memory_within_the_ratio(self):
        where = host(ONE_CELL, usage=NumaUsage(memory_mb={0: 8192}))
        assert isinstance(placed(asked(1, 4096, numa_nodes="1"), where, self.LIMITS), Fitted)
        answer = placed(asked(1, 4097, numa_nodes="1"), where, self.LIMITS)
        (reason,) = answer.reasons
        assert (reason.resource, reason.requested, reason.available) == ("MEMORY_MB", 4097, 4096)

    def test_never_more_memory_than_the_cell_has_in_small_pages(self):
        answer = placed(asked(1, 8193, numa_nodes="1"), host(ONE_CELL), self.LIMITS)
        assert refused(answer) == [(ReasonCode.EXCEEDS_CELL, "MEMORY_MB", "cell 0")]
        huge = host(topology(cell(0, huge={HUGE: 6})))
        answer = placed(asked(1, 2049, numa_nodes="1"), huge, self.LIMITS)
        assert answer.reasons[0].available == 2048

    @pytest.mark.parametrize("policy", [{}, {"cpu_policy": "mixed", "cpu_dedicated_mask": "0"}])
    def test_with_dedicated_cpus_memory_is_never_overcommitted(self, policy):
        where = host(ONE_CELL, "0-3", "4-7", usage=NumaUsage(memory_mb={0: 8000}))
        assert isinstance(placed(pinned(2, 192, **policy), where, self.LIMITS), Fitted)
        answer = placed(pinned(2, 193, **policy), where, self.LIMITS)
        assert refused(answer) == [(ReasonCode.INSUFFICIENT, "MEMORY_MB", "cell 0")]

    def test_the_ratio_is_of_the_shared_part_of_a_mixed_guest(self):
        where = host(ONE_CELL, "0-5", "6-7", usage=NumaUsage(vcpus={0: 2}))
        guest = asked(5, cpu_policy="mixed", cpu_dedicated_mask="^0")
        assert isinstance(placed(guest, where, self.LIMITS), Fitted)
        guest = asked(5, cpu_policy="mixed", cpu_dedicated_mask="^0-1")
        assert refused(placed(guest, where, self.LIMITS)) == [
            (ReasonCode.INSUFFICIENT, "VCPU", "cell 0")
        ]

    def test_a_ratio_below_one_binds_no_dedicated_cpu(self):
        half = CellLimits(cpu_allocation_ratio=Decimal("0.5"), ram_allocation_ratio=Decimal("0.5"))
        assert isinstance(placed(pinned(8, 8192), host(ONE_CELL, "0-7"), half), Fitted)


class TestPages:
    @pytest.mark.parametrize(
        ("request_", "memory_mb", "size"),
        [
            ("small", 1024, 4),
            ("large", 1024, HUGE),
            ("large", 512, LARGE),
            ("any", 1000, LARGE),
            ("any", 1001, 4),
            ("2MB", 1024, LARGE),
            ("1048576", 2048, HUGE),
        ],
    )
    def test_the_largest_that_fits_the_request(self, request_, memory_mb, size):
        guest = asked(1, memory_mb, mem_page_size=request_)
        (one,) = given(placed(guest, host(topology(PAGES.cells[0])))).cells
        assert (one.pagesize, one.pages) == (size, memory_mb * 1024 // size)

    def test_the_size_is_chosen_anew_for_each_cell(self):
        guest = asked(2, 4096, numa_nodes="2", mem_page_size="any")
        sizes = {one.id: one.pagesize for one in given(placed(guest, host(PAGES))).cells}
        assert sizes == {0: HUGE, 1: 4}

    def test_pages_are_never_overcommitted(self):
        generous = CellLimits(ram_allocation_ratio=Decimal(16))
        used = NumaUsage(pages={(0, HUGE): 1}, memory_mb={0: 1024})
        where = host(topology(PAGES.cells[0]), usage=used)
        answer = placed(asked(1, 2048, mem_page_size="1GB"), where, generous)
        (reason,) = answer.reasons
        assert (reason.resource, reason.requested, reason.available) == ("1GiB pages", 2, 1)

    def test_reserved_pages_are_the_hosts(self):
        where = host(topology(PAGES.cells[0]), reserved_huge_pages={0: {HUGE: 1}})
        assert isinstance(placed(asked(1, 1024, mem_page_size="1GB"), where), Fitted)
        assert isinstance(placed(asked(1, 2048, mem_page_size="1GB"), where), Refused)

    def test_memory_given_without_a_size_is_gone_from_the_small_pages(self):
        where = host(ONE_CELL, usage=NumaUsage(memory_mb={0: 8000}))
        assert isinstance(placed(asked(1, 192, mem_page_size="small"), where), Fitted)
        answer = placed(asked(1, 193, mem_page_size="small"), where)
        assert refused(answer) == [(ReasonCode.INSUFFICIENT, "4KiB pages", "cell 0")]

    def test_memory_in_huge_pages_leaves_the_small_ones(self):
        used = NumaUsage(memory_mb={0: 2048}, pages={(0, HUGE): 2})
        where = host(topology(PAGES.cells[0]), "0-7", usage=used)
        assert isinstance(placed(pinned(1, 5120), where), Fitted)

    @pytest.mark.parametrize(
        ("request_", "memory_mb", "code", "resource"),
        [
            ("1GB", 1500, ReasonCode.NOT_A_MULTIPLE, "1GiB pages"),
            ("16MB", 1024, ReasonCode.NOT_OFFERED, "16MiB pages"),
            ("1GB", 3072, ReasonCode.EXCEEDS_CELL, "1GiB pages"),
            ("large", 1026, ReasonCode.EXCEEDS_CELL, "2MiB pages"),
            ("large", 1025, ReasonCode.NOT_A_MULTIPLE, "1GiB pages"),
        ],
    )
    def test_why_not(self, request_, memory_mb, code, resource):
        guest = asked(1, memory_mb, mem_page_size=request_)
        answer = placed(guest, host(topology(PAGES.cells[0])))
        assert refused(answer) == [(code, resource, "cell 0")]

    def test_a_host_of_one_size_has_no_large_pages(self):
        answer = placed(asked(mem_page_size="large"), host(ONE_CELL))
        assert refused(answer) == [(ReasonCode.NOT_OFFERED, "large pages", "cell 0")]

    def test_a_host_that_tells_of_no_pages_counts_memory(self):
        mute = topology(Cell(id=0, cpus=frozenset(range(8)), memory_mb=1024))
        where = host(mute, "0-7", usage=NumaUsage(memory_mb={0: 1000}))
        assert isinstance(placed(pinned(1, 24), where), Fitted)
        assert isinstance(placed(pinned(1, 25), where), Refused)


class TestOrder:
    USED = NumaUsage(pinned={0: 1}, vcpus={0: 1}, memory_mb={0: 512})

    def test_spread_over_the_cells(self):
        where = host(THREE_CELLS, "0-5", usage=self.USED)
        assert [one.id for one in given(placed(pinned(1), where)).cells] == [1]

    def test_packed_into_one_after_the_other(self):
        where = host(THREE_CELLS, "0-5", usage=self.USED, packing=True)
        assert [one.id for one in given(placed(pinned(1), where)).cells] == [0]

    def test_shared_guests_go_where_fewest_vcpus_are(self):
        where = host(THREE_CELLS, usage=NumaUsage(vcpus={0: 1, 1: 1}))
        assert given(placed(asked(1, numa_nodes="1"), where)).cells[0].id == 2

    def test_then_where_most_memory_is(self):
        where = host(THREE_CELLS, usage=NumaUsage(memory_mb={0: 10, 2: 10}))
        assert given(placed(asked(1, numa_nodes="1"), where)).cells[0].id == 1

    def test_equals_in_the_order_of_the_host(self):
        assert given(placed(pinned(1), host(THREE_CELLS, "0-5"))).cells[0].id == 0

    def test_a_guest_of_as_many_cells_takes_them_as_they_come(self):
        where = host(THREE_CELLS, "0-5", usage=NumaUsage(memory_mb={0: 10}))
        guest = pinned(3, 3072, numa_nodes="3")
        assert [one.id for one in given(placed(guest, where)).cells] == [0, 1, 2]


class TestCells:
    def test_a_cell_makes_way_for_one_that_fits_nowhere_else(self):
        """The first guest cell would go to host cell 0, which only the second can use."""
        guest = pinned(
            3,
            1024,
            numa_nodes="2",
            numa_cpus_0="0",
            numa_mem_0="512",
            numa_cpus_1="1-2",
            numa_mem_1="512",
        )
        where = host(NARROW, "0-2")
        assert [one.id for one in given(placed(guest, where)).cells] == [1, 0]

    def test_more_cells_than_the_host_has(self):
        answer = placed(pinned(3, 3072, numa_nodes="3"), host(TWO_CELLS, "0-15"))
        assert refused(answer) == [(ReasonCode.EXCEEDS_HOST, "NUMA_CELL", "cn1")]

    def test_a_host_of_no_cells(self):
        answer = placed(
            asked(numa_nodes="1"),
            host(Topology(cpus=frozenset(range(4)), memory_mb=4096, disk_mb=0)),
        )
        assert refused(answer) == [(ReasonCode.NOT_OFFERED, "NUMA_CELL", "cn1")]

    def test_a_refusal_tells_of_every_cell_nearest_first(self):
        where = host(THREE_CELLS, "0-5", usage=Occupancy(pcpus=frozenset({2, 4, 5})).usage)
        answer = placed(pinned(2, 16384), where)
        assert [str(reason) for reason in answer.reasons] == [
            "MEMORY_MB: 16384 MB requested at cell 0, which has 8192 in all",
            "MEMORY_MB: 16384 MB requested at cell 1, which has 8192 in all",
            "MEMORY_MB: 16384 MB requested at cell 2, which has 8192 in all",
            "PCPU: 2 CPUs requested at cell 1, 1 available",
            "PCPU: 2 CPUs requested at cell 2, 0 available",
        ]

    def test_cells_that_would_have_to_share_one(self):
        where = host(THREE_CELLS, "0-5", usage=Occupancy(pcpus=frozenset({2, 4})).usage)
        answer = placed(pinned(4, numa_nodes="2"), where)
        assert [str(reason) for reason in answer.reasons] == [
            "NUMA_CELL: 2 cells requested at cells 0, 1 available",
            "PCPU: 2 CPUs requested at cell 1, 1 available",
            "PCPU: 2 CPUs requested at cell 2, 1 available",
        ]

    def test_cells_that_others_of_the_crowd_could_use_are_not_the_trouble(self):
        """Three guest cells for two host cells, one of which is too small for the first."""
        cells = {"numa_cpus_0": "0-1", "numa_cpus_1": "2", "numa_cpus_2": "3"}
        memory = {f"numa_mem_{number}": "512" for number in range(3)}
        guest = pinned(4, 1536, numa_nodes="3", **cells, **memory)
        where = host(THREE_CELLS, "0-5", usage=Occupancy(pcpus=frozenset({2, 4, 5})).usage)
        answer = placed(guest, where)
        assert sorted(str(reason) for reason in answer.reasons) == [
            "NUMA_CELL: 3 cells requested at cells 0-1, 2 available",
            "PCPU: 1 CPUs requested at cell 2, 0 available",
            "PCPU: 2 CPUs requested at cell 2, 0 available",
        ]


class OnePlacement:
    """Devices that accept one placement, as it is ordered."""

    def __init__(self, accepted):
        self.accepted = accepted

    def weight(self, number):
        return 0

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells == self.accepted else (no_devices(),)


class On(OnePlacement):
    """Devices of some cells, wanted or only there."""

    def __init__(self, cells, wanted):
        self.cells, self.wanted = cells, wanted

    def weight(self, number):
        return -(number in self.cells) if self.wanted else (number in self.cells)

    def possible(self, cells):
        return not self.wanted or bool(self.cells & cells)

    def refusal(self, cells):
        return () if self.possible(frozenset(cells)) else (no_devices(),)


def no_devices():
    return Reason(
        code=ReasonCode.INSUFFICIENT,
        resource="PCI",
        where="cn1",
        requested=1,
        available=0,
        unit="devices",
    )


class TestDevices:
    @pytest.mark.parametrize("accepted", list(itertools.permutations(range(3), 2)))
    def test_each_placement_comes_with_the_pins_of_its_own_cells(self, accepted):
        """Three host cells, two pinned guest cells, a check that accepts one of six placements."""
        guest = pinned(4, numa_nodes="2")
        answer = placed(guest, host(THREE_CELLS, "0-5"), devices=OnePlacement(accepted))
        cells = given(answer).cells
        assert tuple(one.id for one in cells) == accepted
        for number, one in enumerate(cells):
            first = 2 * one.id
            assert one.cpu_pinning == {2 * number: first, 2 * number + 1: first + 1}

    def test_a_guest_goes_where_its_devices_are(self):
        where = host(THREE_CELLS, "0-5")
        answer = placed(pinned(1), where, devices=On({2}, wanted=True))
        assert given(answer).cells[0].id == 2

    def test_a_guest_without_devices_leaves_those_cells_to_others(self):
        where = host(THREE_CELLS, "0-5")
        answer = placed(pinned(1), where, devices=On({0, 2}, wanted=False))
        assert given(answer).cells[0].id == 1

    def test_but_takes_one_when_no_other_fits(self):
        where = host(THREE_CELLS, "0-1,4-5")
        answer = placed(pinned(1), where, devices=On({0, 2}, wanted=False))
        assert given(answer).cells[0].id == 0

    def test_a_refusal_of_devices_is_told(self):
        where = host(THREE_CELLS, "0-1,2-3")
        answer = placed(pinned(1), where, devices=On({2}, wanted=True))
        assert answer.reasons == (no_devices(),)

    def test_cells_that_do_not_fit_come_before_devices_that_are_missing(self):
        answer = placed(pinned(9), host(TWO_CELLS, "0-15"), devices=On(set(), wanted=True))
        assert {reason.resource for reason in answer.reasons} == {"PCPU"}

    def test_a_search_that_gives_up_says_so(self):
        last = OnePlacement((2, 1))
        guest, where = pinned(4, numa_nodes="2"), host(THREE_CELLS, "0-5")
        assert isinstance(placed(guest, where, devices=last, steps=10), Fitted)
        answer = placed(guest, where, devices=last, steps=9)
        assert {reason.code for reason in answer.reasons} == {
            ReasonCode.UNDECIDED,
            ReasonCode.INSUFFICIENT,
        }
        assert "bound" in str(answer)


#: Two CPUs; two; three.
THREE_CELLS_AND_A_HALF = topology(
    cell(0, cores=2, threads=1, first=0),
    cell(1, cores=2, threads=1, first=2),
    cell(2, cores=3, threads=1, first=4),
)
#: Two CPUs; one.
NARROW = topology(cell(0, cores=2, threads=1), cell(1, cores=1, threads=1, first=2))
