"""The request id of requests to Placement."""

import pytest
from oslo_context import context

from rtagent.model.change import Change
from rtagent.placement.mirror import request_id_of
from rtagent.placement.request_id import current_request_id, use_request_id
from tests.support.hosts import NOON, uid


def change(request_id: str = "", cause: str = "test") -> Change:
    return Change(cause=cause, at=NOON, request_id=request_id)


def test_requests_of_the_thread_carry_the_id_of_the_call():
    use_request_id(f"req-{uid(7)}")
    assert current_request_id() == f"req-{uid(7)}"
    assert context.get_current().request_id != f"req-{uid(7)}"


@pytest.mark.parametrize("unsendable", ["", "ü", "a\r\nX-Auth-Token: b"])
def test_without_a_sendable_id_a_new_one_is_used(unsendable: str):
    ids = set()
    for _ in range(2):
        use_request_id(unsendable)
        ids.add(current_request_id())
    assert len(ids) == 2 and all(each.startswith("req-") for each in ids)


def test_the_most_recent_call_is_the_cause():
    changes = (change("a"), change("b"), change(), change("no matter", "ping"))
    assert request_id_of(changes, lambda each: each.cause != "ping") == "b"
    assert request_id_of((change(),), lambda each: True) == ""
