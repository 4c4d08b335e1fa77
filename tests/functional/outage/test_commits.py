"""The connection to the database is lost during a COMMIT.

What differs by database is the store's: `tests/functional/db/test_outages.py` tries both.
"""

import random
import threading
import time

import pytest

from rtagent.errors import StoreUnavailable
from tests.functional.outage.site import Site
from tests.servers.daemon import wait_until
from tests.servers.proxy import CommitLoss
from tests.support.workload.caller import attempt
from tests.support.workload.ledger import Operation, OperationFactory

#: No heartbeats: only calls write. A new attempt of the daemon has time to succeed.
QUIET = {
    "DEFAULT": {"report_interval": 3600, "service_down_time": 7200},
    "database": {"operation_timeout": 4},
}


@pytest.fixture
def site(postgresql, site_with) -> Site:
    """A site whose daemon has done the writes of its start."""
    made: Site = site_with(postgresql, proxied=True, attempts=1, timeout=60, config=QUIET)
    made.home.set_reserve(100)
    wait_until(lambda: made.record().node["memory_mb_used"] == 100)
    return made


def is_granted(site: Site, operation: Operation) -> bool:
    try:
        attempt(site.home, operation)
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("loss", list(CommitLoss))
def test_lost_commit_is_resolved_to_what_the_database_has(site: Site, loss: CommitLoss):
    """The caller's answer agrees with the database, and a repetition is granted once."""
    factory = OperationFactory(random.Random(1))
    for _ in range(5):
        operation = factory.claim()
        site.home.proxy.lose_commit(loss)
        granted = is_granted(site, operation)
        assert (operation.claim_uuid in site.record().live) is granted
        if granted is (loss is CommitLoss.UNANSWERED):
            break  # else the COMMIT of an audit was lost, after the writes of the start
    else:
        pytest.fail("no claim lost its COMMIT")

    site.home.proxy.release()  # too late
    wait_until(site.ready)
    assert attempt(site.home, operation)["state"] == "building"
    assert [e["action"] for e in site.record().history(operation.claim_uuid)] == ["create"]


def test_late_commit_arrives_while_the_daemon_resolves_it(site: Site):
    operation = OperationFactory(random.Random(2)).claim()
    site.home.proxy.lose_commit(CommitLoss.LATE)
    threading.Timer(0.3, site.home.proxy.release).start()
    granted = is_granted(site, operation)
    assert (operation.claim_uuid in site.record().live) is granted
    wait_until(site.ready)
    attempt(site.home, operation)


def test_connections_are_lost_at_any_moment(mariadb, site_with, long: bool):
    rng = random.Random("mariadb")
    site = site_with(mariadb, proxied=True)
    with site.stream("moments") as stream:
        for _ in range(60 if long else 10):
            stream.wait_answers(rng.randint(1, 20))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.01)
                site.home.proxy.cut()
            else:
                site.home.proxy.lose_commit(rng.choice(list(CommitLoss)))
            site.checker.check(stream.ledger)
        site.home.proxy.release()
        stream.wait_answers(20)
    site.wait_well()
    site.confirm(stream)
