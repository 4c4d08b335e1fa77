"""The fleet's capacity in the read API of a scheduler."""

from __future__ import annotations

import json

from msgspec.structs import replace

from tests.support.api_states import PageFleet, simulated


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
    assert "must be one of host, zone, aggregate" in document["message"]
