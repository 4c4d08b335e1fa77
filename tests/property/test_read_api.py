"""Requests for any path and query."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from rtagent.api.routes import COLLECTIONS, ITEMS, answer
from tests.support.api_states import populated, sources

SEGMENT = st.sampled_from([*COLLECTIONS, *ITEMS]) | st.text(max_size=20)
QUERY = st.sampled_from(
    ["", "?", "?state=active", "?instance=%ff", "?status=available&node=x", "?state=%00&state=x"]
)
TARGET = st.builds(
    lambda segments, query: "/" + "/".join(segments) + query,
    st.lists(SEGMENT, max_size=3),
    QUERY | st.text(max_size=20).map("?".__add__),
)


@given(TARGET | st.text(max_size=40))
@example("/metrics?x=1")
@example("/events")
@example("//claims//")
@example("http://[::1/claims")
def test_every_target_is_answered_from_one_state(target):
    reply = answer(sources(), target)
    assert reply.status in (200, 400, 404)
    if reply.media_type.startswith("text/event-stream"):
        assert b": complete" in reply.body  # nothing has happened
    elif reply.media_type.startswith("text/plain"):
        assert b"rtagent_revision 5.0\n" in reply.body
    elif reply.media_type.startswith("text/html"):
        assert b"revision 5" in reply.body
    else:
        assert json.loads(reply.body)["revision"] == populated().revision
