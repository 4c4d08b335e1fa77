"""Times that are kept as spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtagent.rpc.trust.replays import GAP, MOST, Spans

TIMES = st.lists(st.integers(-20 * MOST, 20 * MOST).map(lambda number: number * GAP // 3))


def spans(*times: int) -> Spans:
    made = Spans()
    for time in times:
        made.add(time)
    return made


@given(TIMES)
def test_every_time_that_was_added_is_contained_and_the_number_of_spans_is_bounded(
    times: list[int],
):
    made = spans(*times)
    assert all(time in made for time in times)
    assert len(made) <= MOST


@given(TIMES.filter(lambda times: len(times) <= MOST), st.integers())
def test_no_time_is_contained_that_is_not_between_two_near_ones(times: list[int], other: int):
    before = [time for time in times if time <= other]
    after = [time for time in times if time >= other]
    between = bool(before and after) and min(after) - max(before) <= GAP
    assert (other in spans(*times)) == between


def test_times_between_distant_ones_are_not_contained():
    made = spans(0, 10 * GAP, 11 * GAP)
    assert 1 not in made and 10 * GAP - 1 not in made and 11 * GAP + 1 not in made
    assert 10 * GAP + 1 in made


def test_the_oldest_spans_become_one_if_there_are_too_many():
    made = spans(*(number * 3 * GAP for number in range(MOST + 1)))
    assert len(made) == MOST
    assert GAP in made and 4 * GAP not in made
