"""The hosts and the fleet's capacity in the read API of a scheduler."""

import json

import pytest
from msgspec.structs import replace

from rtagent.api.scheduler_documents import host, hosts
from rtagent.scheduler.errors import HostNotFound
from tests.support.api_states import PageFleet, simulated
from tests.support.host_states import SEEN, host_state


def read(target: str, fleet: PageFleet, **sources):
    reply = replace(fleet.sources, **sources).answer(target)
    return reply.status, json.loads(reply.body)


def fleet() -> PageFleet:
    return PageFleet(simulated(0), simulated(32), simulated(3))


def test_the_flavors_of_the_guests_are_counted_on_all_hosts():
    status, document = read("/capacity", fleet())
    assert (status, document["complete"]) == (200, True)
    flavors = document["capacity"]["flavors"]
    assert flavors
    for flavor in flavors:
        assert (flavor["summary"]["hosts"], flavor["pending"], flavor["groups"]) == (3, 0, [])
        assert flavor["summary"]["refused"][0]["why"].endswith("disabled: a faulty fan")


def test_one_flavor_is_shown_by_hosts():
    made = fleet()
    name = read("/capacity", made)[1]["capacity"]["flavors"][0]["name"]
    _, document = read(f"/capacity?flavor={name}&by=host", made)
    [flavor] = document["capacity"]["flavors"]
    rooms = [group["summary"]["room"] for group in flavor["groups"]]
    assert (len(rooms), sum(rooms)) == (3, flavor["summary"]["room"])
    assert read("/capacity?flavor=none", made)[1]["capacity"]["flavors"] == []


def test_hosts_without_a_report_are_named():
    aside = {"cn9": "ValueError: odd", "compute-0000": "it has a report"}
    _, document = read("/capacity", fleet(), aside=lambda: aside)
    assert document["capacity"]["without_report"] == {"cn9": "ValueError: odd"}


def test_groups_are_of_hosts_zones_or_aggregates():
    status, document = read("/capacity?by=rack", fleet())
    assert (status, document["error"]) == (400, "InvalidRequest")
    assert "not one of host, zone, aggregate" in document["message"]


@pytest.mark.parametrize(
    ("seen", "age", "alive"),
    [(SEEN - 7, 7, True), (SEEN - 61, 61, False), (float("-inf"), None, False)],
)
def test_age_is_that_of_the_last_message(seen, age, alive):
    (shown,) = hosts([host_state(seen=seen)], SEEN, 60)["hosts"]
    assert (shown["age"], shown["alive"]) == (age, alive)


@pytest.mark.parametrize(
    ("name", "why"), [("cn2", "its messages are set aside: has 9"), ("cn3", "no host cn3")]
)
def test_why_a_host_is_not_known_is_said(name, why):
    with pytest.raises(HostNotFound, match=why):
        host([host_state()], name, SEEN, 60, {"cn2": "has 9 cells"})
