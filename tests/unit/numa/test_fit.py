"""Where guests go: cells that other cells need, and cells that have devices."""

import itertools

import pytest

from rtagent.model.decision import Reason, ReasonCode
from rtagent.numa.fit import Fitted
from tests.support.numa_hosts import (
    THREE_CELLS,
    TWO_CELLS,
    assigned_to,
    cell,
    cells_of,
    fit_guest,
    host,
    pinned,
    topology,
)

#: Two CPUs; one.
NARROW = topology(cell(0, cores=2, threads=1), cell(1, cores=1, threads=1, first=2))


def test_guest_cell_leaves_a_host_cell_to_one_that_fits_no_other():
    """The first guest cell would go to host cell 0, the only one that the second fits."""
    guest = pinned(
        3,
        1024,
        numa_nodes="2",
        numa_cpus_0="0",
        numa_mem_0="512",
        numa_cpus_1="1-2",
        numa_mem_1="512",
    )
    assert cells_of(fit_guest(guest, host(NARROW, "0-2"))) == [1, 0]


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


class DevicesOn:
    """Devices on some cells; the guest asks for one of them, or for none."""

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


@pytest.mark.parametrize("accepted", list(itertools.permutations(range(3), 2)))
def test_placement_has_the_pins_of_its_own_cells(accepted):
    """Three host cells, two pinned guest cells, devices that accept one of six placements."""
    guest = pinned(4, numa_nodes="2")
    answer = fit_guest(guest, host(THREE_CELLS, "0-5"), devices=OnePlacement(accepted))
    cells = assigned_to(answer).cells
    assert tuple(one.id for one in cells) == accepted
    for number, one in enumerate(cells):
        first = 2 * one.id
        assert one.cpu_pinning == {2 * number: first, 2 * number + 1: first + 1}


def test_guest_goes_where_its_devices_are():
    where = host(THREE_CELLS, "0-5")
    answer = fit_guest(pinned(1), where, devices=DevicesOn({2}, wanted=True))
    assert cells_of(answer) == [2]


def test_guest_without_devices_avoids_cells_that_have_some():
    where = host(THREE_CELLS, "0-5")
    answer = fit_guest(pinned(1), where, devices=DevicesOn({0, 2}, wanted=False))
    assert cells_of(answer) == [1]


def test_guest_without_devices_takes_such_a_cell_if_it_fits_no_other():
    where = host(THREE_CELLS, "0-1,4-5")
    answer = fit_guest(pinned(1), where, devices=DevicesOn({0, 2}, wanted=False))
    assert cells_of(answer) == [0]


def test_refusal_has_the_reasons_of_the_devices():
    where = host(THREE_CELLS, "0-1,2-3")
    answer = fit_guest(pinned(1), where, devices=DevicesOn({2}, wanted=True))
    assert answer.reasons == (no_devices(),)


def test_refusal_leaves_out_devices_if_the_cells_do_not_fit():
    answer = fit_guest(pinned(9), host(TWO_CELLS, "0-15"), devices=DevicesOn(set(), wanted=True))
    assert {reason.resource for reason in answer.reasons} == {"PCPU"}


def test_refusal_says_that_the_search_gave_up():
    last = OnePlacement((2, 1))
    guest, where = pinned(4, numa_nodes="2"), host(THREE_CELLS, "0-5")
    assert isinstance(fit_guest(guest, where, devices=last, steps=10), Fitted)
    answer = fit_guest(guest, where, devices=last, steps=9)
    assert {reason.code for reason in answer.reasons} == {
        ReasonCode.UNDECIDED,
        ReasonCode.INSUFFICIENT,
    }
    assert "bound" in str(answer)
