"""The connection to the database is lost during a COMMIT."""

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

DATABASES = ["postgresql", "mariadb"]

#: No heartbeats: only calls write. A new attempt of the daemon has time to succeed.
QUIET = {
    "DEFAULT": {"report_interval": 3600, "service_down_time": 7200},
    "database": {"operation_timeout": 4},
}


@pytest.mark.parametrize("database", DATABASES)
def test_lost_commit_is_resolved_to_what_the_database_has(request, site_with, database: str):
    """The caller's answer agrees with the database, and a repetition is granted once."""
    server = request.getfixturevalue(database)
    site: Site = site_with(server, proxied=True, attempts=1, timeout=60, config=QUIET)
    # The daemon has done the writes of its start.
    site.home.set_reserve(100)
    wait_until(lambda: site.record().node["memory_mb_used"] == 100)
    made = OperationFactory(random.Random(1))
    for loss in CommitLoss:
        operation = made.claim()
        site.home.proxy.lose_commit(loss)
        granted = is_granted(site, operation)
        assert granted is (loss is CommitLoss.UNANSWERED)
        assert (operation.claim_uuid in site.record().live) is granted

        site.home.proxy.release()  # too late
        wait_until(site.ready)
        assert attempt(site.home, operation)["state"] == "building"
        history = site.record().history(operation.claim_uuid)
        assert [event["action"] for event in history] == ["create"]

    operation = made.claim()
    site.home.proxy.lose_commit(CommitLoss.LATE)
    threading.Timer(0.3, site.home.proxy.release).start()  # while the daemon resolves it
    granted = is_granted(site, operation)
    assert (operation.claim_uuid in site.record().live) is granted
    wait_until(site.ready)
    attempt(site.home, operation)


def is_granted(site: Site, operation: Operation) -> bool:
    try:
        attempt(site.home, operation)
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("database", DATABASES)
def test_connections_are_lost_at_any_moment(request, site_with, database: str, long: bool):
    rng = random.Random(database)
    site = site_with(request.getfixturevalue(database), proxied=True)
    with site.stream(database) as stream:
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
