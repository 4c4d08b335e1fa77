"""The hosts in the read API of a scheduler."""

from __future__ import annotations

import json

from rtagent.api.scheduler_hosts import hosts
from tests.support.host_states import SEEN, host_state


def test_age_is_that_of_the_last_message():
    (shown,) = hosts([host_state()], SEEN + 7, 60)["hosts"]
    assert (shown["age"], shown["alive"]) == (7, True)
    (shown,) = hosts([host_state()], SEEN + 61, 60)["hosts"]
    assert (shown["age"], shown["alive"]) == (61, False)


def test_host_of_which_no_message_ever_came_has_no_age():
    (shown,) = hosts([host_state(seen=float("-inf"))], SEEN, 60)["hosts"]
    assert (shown["age"], shown["alive"]) == (None, False)
    json.dumps(shown["age"], allow_nan=False)
