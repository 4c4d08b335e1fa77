"""The walk through placements: complete, in order, and bounded."""

import itertools

import pytest

from rtagent.numa.search import Search, deficient


class Accepting:
    """Devices that accept these placements, as they are ordered, and foretell nothing."""

    def __init__(self, *accepted):
        self.accepted = accepted

    def weight(self, number):
        return 0

    def possible(self, cells):
        return True

    def refusal(self, cells):
        return () if cells in self.accepted else ("no",)


class All(Accepting):
    """Devices that need each of some cells."""

    def possible(self, cells):
        return cells.issuperset(self.accepted)

    def refusal(self, cells):
        return () if self.possible(frozenset(cells)) else ("no",)


def test_the_preferred_cell_first():
    assert Search([[2, 0, 1], [2, 0, 1]]).placement() == (2, 0)


def test_no_step_is_taken_back_without_devices():
    """Each row would take the only cell of the one after it."""
    rows = [[1, 0], [2, 1], [3, 2], [4, 3], [4]]
    search = Search(rows, steps=len(rows) + 1)
    assert search.placement() == (0, 1, 2, 3, 4)
    assert not search.gave_up


def test_nothing_to_be_found_is_not_giving_up():
    search = Search([[0], [0]])
    assert (search.placement(), search.gave_up) == (None, False)


@pytest.mark.parametrize("accepted", list(itertools.permutations(range(4), 3)))
def test_every_order_is_tried(accepted):
    assert Search([[0, 1, 2, 3]] * 3, Accepting(accepted)).placement() == accepted


def test_the_first_of_those_accepted():
    assert Search([[0, 1, 2]] * 2, Accepting((2, 1), (1, 2))).placement() == (1, 2)


def test_what_a_set_of_cells_has_ruled_out_is_not_tried_in_another_order():
    """The last two guest cells reach two of the three cells needed, in whatever order the first
    four stand: 24 orders of one set."""
    rows = [[1, 2, 3, 6]] * 4 + [[4, 0], [5, 0]]
    search = Search(rows, All(0, 4, 5), steps=30)
    assert (search.placement(), search.gave_up) == (None, False)


def test_what_is_out_of_reach_is_not_looked_for():
    search = Search([[0, 1, 2, 3]] * 3, All(7), steps=1)
    assert (search.placement(), search.gave_up) == (None, False)


def test_giving_up_after_so_many_steps():
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
def test_who_is_crowded(rows, crowded):
    assert deficient(rows) == crowded
