"""SameHostFilter and DifferentHostFilter: hosts with or without certain instances."""

from __future__ import annotations

import pytest

from rtagent.model.host_report import InstanceInfo
from rtagent.scheduler.filters.hints import DifferentHostFilter, SameHostFilter
from tests.support.host_states import host_state
from tests.support.hosts import uid
from tests.support.scheduling import passes, scheduler_request, why_not

HOST = host_state(instances=[uid(11), uid(12), InstanceInfo(uuid=uid(13), here=False)])


@pytest.mark.parametrize(
    ("hint", "passing"),
    [
        (uid(11), True),
        (uid(20), False),
        ([uid(20), uid(12)], True),
        ([uid(20), uid(21)], False),
        (uid(13), False),
    ],
)
def test_same_host_wants_one_of_the_instances(hint, passing):
    request = scheduler_request(hints={"same_host": hint})
    assert passes(SameHostFilter, HOST, request) is passing


@pytest.mark.parametrize(
    ("hint", "passing"),
    [
        (uid(11), False),
        (uid(20), True),
        ([uid(20), uid(12)], False),
        ([uid(20), uid(21)], True),
        (uid(13), False),
    ],
)
def test_different_host_wants_none_of_the_instances(hint, passing):
    request = scheduler_request(hints={"different_host": hint})
    assert passes(DifferentHostFilter, HOST, request) is passing


def test_a_rejection_names_the_instance():
    request = scheduler_request(hints={"different_host": [uid(20), uid(12)]})
    assert uid(12) in why_not(DifferentHostFilter, HOST, request)


@pytest.mark.parametrize("kind", [SameHostFilter, DifferentHostFilter])
@pytest.mark.parametrize("value", [None, [], "", [""]])
def test_a_hint_without_a_value_is_no_hint(kind, value):
    request = scheduler_request(hints={"same_host": value, "different_host": value})
    assert passes(kind, HOST, request)
    assert passes(kind, HOST, scheduler_request(hints=None))
