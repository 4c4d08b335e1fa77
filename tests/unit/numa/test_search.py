"""The search for a placement: complete, in order of preference, and bounded."""

import itertools

import pytest

from rtagent.numa.search import Search, deficient


class Accepting:
    """Devices that accept these placements, in their order, and rule out nothing beforehand."""

    def __init__(self, *accepted):
        self.accepted = accepted

    def weight(self, number):
        return 0

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells in self.accepted else ("no",)


class NeedingAll(Accepting):
    """Devices that accept placements on all of these cells, in any order."""

    def possible(self, cells):
        return cells.issuperset(self.accepted)

    def refusal(self, cells):
        return () if self.possible(frozenset(cells)) else ("no",)


def test_preferred_cell_is_tried_first():
    assert Search([[2, 0, 1], [2, 0, 1]]).placement() == (2, 0)


def test_search_without_devices_never_backtracks():
    """Each guest cell prefers the only host cell that the next one fits."""
    rows = [[1, 0], [2, 1], [3, 2], [4, 3], [4]]
    search = Search(rows, steps=len(rows) + 1)
    assert search.placement() == (0, 1, 2, 3, 4)
    assert not search.gave_up


def test_search_without_a_result_has_not_given_up():
    search = Search([[0], [0]])
    assert (search.placement(), search.gave_up) == (None, False)


@pytest.mark.parametrize("accepted", list(itertools.permutations(range(4), 3)))
def test_every_order_of_the_cells_is_tried(accepted):
    assert Search([[0, 1, 2, 3]] * 3, Accepting(accepted)).placement() == accepted


def test_first_accepted_placement_is_returned():
    assert Search([[0, 1, 2]] * 2, Accepting((2, 1), (1, 2))).placement() == (1, 2)


def test_set_of_cells_that_failed_is_not_tried_in_another_order():
    """The last two guest cells fit two of the three host cells that the devices need, whatever the
    order of the first four: 24 orders of one set."""
    rows = [[1, 2, 3, 6]] * 4 + [[4, 0], [5, 0]]
    search = Search(rows, NeedingAll(0, 4, 5), steps=30)
    assert (search.placement(), search.gave_up) == (None, False)


def test_cells_that_no_guest_cell_fits_end_the_search_at_once():
    search = Search([[0, 1, 2, 3]] * 3, NeedingAll(7), steps=1)
    assert (search.placement(), search.gave_up) == (None, False)


def test_search_gives_up_after_so_many_steps():
    search = Search([[0, 1, 2]] * 2, Accepting(), steps=9)
    assert (search.placement(), search.gave_up) == (None, True)
    search = Search([[0, 1, 2]] * 2, Accepting(), steps=10)
    assert (search.placement(), search.gave_up) == (None, False)


@pytest.mark.parametrize(
    ("rows", "crowded"),
    [
        ([], set()),
        ([[0], [1]], set()),
        ([[0, 1], [0]], set()),
        ([[]], {0}),
        ([[0], [1, 2], [0]], {0, 2}),
        ([[0, 1], [0, 1], [2], [0, 1]], {0, 1, 3}),
    ],
)
def test_guest_cells_that_fit_too_few_host_cells(rows, crowded):
    assert deficient(rows) == crowded
