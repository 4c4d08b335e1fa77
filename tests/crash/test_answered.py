"""What was answered is held, whatever becomes of the agent right afterwards."""

import itertools

import pytest

from tests.crash.scene import Scene
from tests.stream.deed import Deed


def deeds(scene: Scene, rounds: int):
    """A claim's life, step by step, again and again."""
    claim: Deed | None = None
    for step in itertools.islice(itertools.cycle(range(4)), rounds):
        if claim is None or step == 0:
            claim = scene.writer.claim()
            yield claim
        elif step == 1:
            yield scene.writer.step("renew_claim", claim.claim_uuid)
        elif step == 2:
            yield scene.writer.step("activate_claim", claim.claim_uuid)
        else:
            yield scene.writer.step("release_claim", claim.claim_uuid)


def killed_after_each_answer(scene: Scene, rounds: int) -> None:
    scene.live()
    for deed in deeds(scene, rounds):
        scene.do(deed)
        scene.home.kill()
        scene.judge()
        scene.live()
        scene.confirm()


def test_an_agent_killed_after_each_answer(child: Scene, long: bool):
    killed_after_each_answer(child, 200 if long else 20)


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"])
def test_a_daemon_killed_after_each_answer(daemon_on, database: str, long: bool):
    killed_after_each_answer(daemon_on(database), 200 if long else 6)
