"""The queue of decisions: a repeat joins the call in flight."""

import pytest

from rtagent.errors import ClaimConflict
from tests.support.hosts import call, request, uid
from tests.support.trackers import claim, gated_tracker


def test_repeat_joins_the_call_in_flight(pool):
    tracker, store = gated_tracker()
    build, same = request(), call()
    first = pool.submit(claim, tracker, build, same)
    assert store.entered.acquire(timeout=120)
    again = pool.submit(claim, tracker, build, same)
    other = pool.submit(claim, tracker, build, call(operation_id=same.operation_id, digest="other"))
    with pytest.raises(ClaimConflict):
        other.result(120)
    store.admission.release()
    assert first.result(120) == again.result(120)
    assert store.commits == [1]


def test_callers_with_different_operation_ids_do_not_join(pool):
    tracker, store = gated_tracker()
    owner = uid()
    first = pool.submit(claim, tracker, request(owner=owner))
    assert store.entered.acquire(timeout=120)
    second = pool.submit(claim, tracker, request(owner=owner))
    store.admission.release(2)
    assert first.result(120)
    with pytest.raises(ClaimConflict, match="has the live claim"):
        second.result(120)
