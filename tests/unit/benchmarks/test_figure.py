"""What a figure says of itself."""

import pytest

from benchmarks.figure import Figure


@pytest.mark.parametrize(
    ("value", "floor", "target", "at_least", "met"),
    [
        (3.0, 2.0, 1.5, False, True),
        (3.1, 2.0, 1.5, False, False),
        (70.0, 100.0, 0.7, True, True),
        (69.0, 100.0, 0.7, True, False),
        (25.0, None, 25.0, False, True),
        (1999.0, None, 2000.0, True, False),
    ],
)
def test_a_target_is_met_by_the_ratio_where_there_is_a_floor(value, floor, target, at_least, met):
    figure = Figure(name="x", value=value, unit="ms", floor=floor, target=target, at_least=at_least)
    assert figure.met is met
    assert figure.as_dict()["met"] is met
    assert figure.ratio == (None if floor is None else value / floor)
