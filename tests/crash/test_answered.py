"""A claim that was answered is durable: the agent is killed right after each answer."""

import itertools

from tests.crash.scenario import Scenario
from tests.support.workload.ledger import Operation


def life_of_claims(scenario: Scenario, rounds: int):
    """Yield the operations of a claim's life, one claim after the other."""
    claim: Operation | None = None
    for step in itertools.islice(itertools.cycle(range(4)), rounds):
        if claim is None or step == 0:
            claim = scenario.factory.claim()
            yield claim
        elif step == 1:
            yield scenario.factory.step("renew_claim", claim.claim_uuid)
        elif step == 2:
            yield scenario.factory.step("activate_claim", claim.claim_uuid)
        else:
            yield scenario.factory.step("release_claim", claim.claim_uuid)


def killed_after_each_answer(scenario: Scenario, rounds: int) -> None:
    scenario.start()
    for operation in life_of_claims(scenario, rounds):
        scenario.do(operation)
        scenario.home.kill()
        scenario.check_database()
        scenario.start()
        scenario.check()


def test_an_agent_killed_after_each_answer(child: Scenario, long: bool):
    killed_after_each_answer(child, 200 if long else 4)


def test_a_daemon_killed_after_each_answer(daemon_on, database: str, long: bool):
    killed_after_each_answer(daemon_on(database), 200 if long else 4)
