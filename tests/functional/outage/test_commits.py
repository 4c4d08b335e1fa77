"""The connection to the database's server is lost while COMMIT is under way."""

import random
import threading
import time

import pytest

from rtagent.errors import StoreUnavailable
from tests.functional.outage.site import Site
from tests.servers.daemon import wait_until
from tests.servers.proxy import Fate
from tests.stream.caller import attempt
from tests.stream.deed import Writer

DATABASES = ["postgresql", "mariadb"]

#: Nothing is written but what callers ask for.
QUIET = {"DEFAULT": {"report_interval": 3600, "service_down_time": 7200}}


@pytest.fixture(params=DATABASES)
def site(request: pytest.FixtureRequest, site_with) -> Site:
    """Its first writes are done."""
    server = request.getfixturevalue(request.param)
    made: Site = site_with(server, proxied=True, attempts=1, timeout=60, config=QUIET)
    made.home.set_reserve(100)
    wait_until(lambda: made.record().node["memory_mb_used"] == 100)
    return made


@pytest.mark.parametrize("fate", list(Fate))
def test_a_lost_commit_is_resolved_to_the_truth(site: Site, fate: Fate):
    """What the caller is told is what the database has; and a repetition is granted, once."""
    deed = Writer(random.Random(1)).claim()
    site.home.proxy.doom(fate)
    try:
        attempt(site.home, deed)
        granted = True
    except StoreUnavailable:
        granted = False
    assert granted is (fate is Fate.UNANSWERED)
    assert (deed.claim_uuid in site.record().live) is granted

    site.home.proxy.release()  # too late
    wait_until(site.ready)
    assert attempt(site.home, deed)["state"] == "building"
    assert [e["action"] for e in site.record().story(deed.claim_uuid)] == ["create"]


def test_a_commit_that_arrives_while_its_outcome_is_asked_for(site: Site):
    deed = Writer(random.Random(2)).claim()
    site.home.proxy.doom(Fate.LATE)
    threading.Timer(0.3, site.home.proxy.release).start()
    try:
        attempt(site.home, deed)
        granted = True
    except StoreUnavailable:
        granted = False
    assert (deed.claim_uuid in site.record().live) is granted
    wait_until(site.ready)
    attempt(site.home, deed)


@pytest.mark.parametrize("database", DATABASES)
def test_connections_lost_at_any_moment(request, site_with, database: str, long: bool):
    rng = random.Random(database)
    site = site_with(request.getfixturevalue(database), proxied=True)
    with site.stream(database) as stream:
        for _ in range(60 if long else 10):
            stream.wait_answers(rng.randint(1, 20))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.01)
                site.home.proxy.cut()
            else:
                site.home.proxy.doom(rng.choice(list(Fate)))
            site.judge.judge(stream.ledger)
        site.home.proxy.release()
        stream.wait_answers(20)
    site.wait_well()
    site.confirm(stream)
