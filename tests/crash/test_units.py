"""Host CPUs and devices have one owner and are not lost when an agent is killed at any point of any
commit. A device for one-time use is not assigned again before it was cleared.
"""

import itertools
from pathlib import Path

from tests.crash.agent_home import ChildHome
from tests.crash.host import ONE_TIME
from tests.crash.move_agents import MoveAgents
from tests.crash.move_sequences import SOURCE, devices
from tests.crash.test_boundaries import COMMIT
from tests.support.workload.deployment import migrated


def test_unit_is_neither_lost_nor_assigned_twice(
    database_url: str, turn: int, tmp_path: Path, long: bool
):
    """Each call at one point on each database, at another on each; in a long run at each."""
    agents = MoveAgents({SOURCE: ChildHome(tmp_path, migrated(database_url), ONE_TIME)})
    points = itertools.islice(itertools.cycle(COMMIT), 3 * turn, None)
    try:
        recording = agents.record(devices())
        plan = [COMMIT if long else [next(points)] for _ in recording]
        agents.replay(devices(), recording, plan)
    finally:
        agents.close()
