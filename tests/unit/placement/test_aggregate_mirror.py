"""Host aggregates in Placement."""

import pytest

from rtagent.errors import PlacementUnavailable
from rtagent.placement.aggregate_mirror import ATTEMPTS, AggregateMirror
from rtagent.testing.placement import MemoryPlacement
from tests.support.hosts import uid

P1, P2, GONE = uid(1), uid(2), uid(3)
A, B, OLD, OTHERS = uid(11), uid(12), uid(13), uid(14)


@pytest.fixture
def placement():
    made = MemoryPlacement()
    for uuid in (P1, P2):
        made.create_provider(uuid, uuid)
    made.requests.clear()
    return made


@pytest.fixture
def mirror(placement):
    return AggregateMirror(placement)


def test_nothing_is_asked_without_a_change(placement, mirror):
    mirror.sync({P1: frozenset()}, frozenset())
    assert placement.requests == []
    mirror.sync({P1: frozenset({A})}, {A})
    asked = len(placement.requests)
    mirror.sync({P1: frozenset({A})}, {A})
    assert len(placement.requests) == asked
    placement.aggregate(P1)
    mirror.verify()
    mirror.sync({P1: frozenset({A})}, {A})
    assert placement.aggregates(P1) == {A}


def test_provider_that_others_write_at_the_same_time_is_written_again(placement, mirror):
    placement.contended = ATTEMPTS
    assert mirror.sync({P1: frozenset({A})}, {A}).keys() == {P1}
    placement.contended = ATTEMPTS - 1
    placement.aggregate(P1, OTHERS)
    assert mirror.sync({P1: frozenset({A})}, {A}) == {}
    assert placement.aggregates(P1) == {A, OTHERS}


def test_outage_is_the_callers(placement, mirror):
    placement.failure = PlacementUnavailable("it is away")
    with pytest.raises(PlacementUnavailable):
        mirror.sync({P1: frozenset({A})}, {A})
    placement.failure = None
    mirror.sync({P1: frozenset({A})}, {A})
    assert placement.aggregates(P1) == {A}
