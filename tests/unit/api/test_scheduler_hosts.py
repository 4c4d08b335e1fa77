"""The hosts in the read API of a scheduler."""

from __future__ import annotations

import json

import pytest

from rtagent.api.scheduler_hosts import host, hosts
from rtagent.scheduler.errors import HostNotFound
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


@pytest.mark.parametrize(
    ("name", "why"), [("cn2", "its messages are set aside: has 9"), ("cn3", "no host cn3")]
)
def test_why_a_host_is_not_known_is_said(name, why):
    with pytest.raises(HostNotFound, match=why):
        host([host_state()], name, SEEN, 60, {"cn2": "has 9 cells"})
