"""An agent dies at any moment, under a stream of callers who want definite answers."""

import random
import time

import pytest

from rtagent.db.failpoints import POINTS
from tests.crash.scene import Scene
from tests.stream.caller import Stream
from tests.stream.home import Home
from tests.stream.judge import Judge, held, shown

COMMIT = [point for point in POINTS if point.startswith("commit")]


def lives_under_a_stream(home: Home, seed: object, lives: int, deeds: int) -> None:
    """Lives end by turns at no particular moment, and within a commit that carries what several
    callers have queued.

    :param deeds: how many are done in a life, about.
    """
    rng = random.Random(repr(seed))
    assert home.start()
    judge = Judge(home.url, vcpus=home.vcpus)
    with Stream(home, seed) as stream:
        for life in range(lives):
            if life % 2 == 0:
                stream.wait_answers(rng.randint(1, deeds))
                time.sleep(rng.random() * 0.02)
                home.kill()
                ready = home.start(f"{rng.choice(COMMIT)}:{rng.randint(5, deeds)}")
            else:
                if ready:
                    home.wait_died()
                judge.judge(stream.ledger)
                assert home.start()
            judge.judge(stream.ledger)
    judge.judge(stream.ledger)
    assert shown(home.invoke("get_claims_for_host")["claims"]) == held(stream.ledger)
    judge.close()


@pytest.mark.parametrize("seed", range(2))
def test_an_agent_killed_under_a_stream_of_claims(child: Scene, seed: int, long: bool):
    lives_under_a_stream(child.home, seed, 40 if long else 8, 60)


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"])
def test_a_daemon_killed_under_a_stream_of_claims(daemon_on, database: str, long: bool):
    lives_under_a_stream(daemon_on(database).home, database, 40 if long else 4, 40)
