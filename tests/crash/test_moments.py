"""Agents are killed at random moments while many callers make operations."""

import random
import time

from rtagent.testing.failpoints import POINTS
from tests.crash.scenario import Scenario
from tests.support.workload.caller import Stream
from tests.support.workload.checker import Checker, held, shown
from tests.support.workload.deployment import Home

COMMIT = [point for point in POINTS if point.startswith("commit")]


def kill_under_load(home: Home, seed: object, processes: int, operations: int) -> None:
    """Kill the agent in turn at a random moment and within a commit of several callers' operations.

    :param processes: how many processes are started.
    :param operations: about how many operations a process answers.
    """
    rng = random.Random(repr(seed))
    assert home.start()
    checker = Checker(home.url, vcpus=home.vcpus)
    with Stream(home, seed) as stream:
        for number in range(processes):
            if number % 2 == 0:
                stream.wait_answers(rng.randint(1, operations))
                time.sleep(rng.random() * 0.02)
                home.kill()
                ready = home.start(f"{rng.choice(COMMIT)}:{rng.randint(5, operations)}")
            else:
                if ready:
                    home.wait_died()
                checker.check(stream.ledger)
                assert home.start()
            checker.check(stream.ledger)
    checker.check(stream.ledger)
    assert shown(home.invoke("get_claims_for_host")["claims"]) == held(stream.ledger)
    checker.close()


def test_an_agent_killed_under_load(child: Scenario, long: bool):
    kill_under_load(child.home, 0, 80 if long else 4, 60)


def test_a_daemon_killed_under_load(daemon_on, database: str, long: bool):
    kill_under_load(daemon_on(database).home, database, 40 if long else 2, 40)
