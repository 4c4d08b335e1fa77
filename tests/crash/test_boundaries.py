"""An agent dies at each boundary of each kind of transaction, on each kind of database."""

import pytest

from rtagent.db.failpoints import POINTS
from tests.crash.changes import CHANGES
from tests.crash.scene import Scene
from tests.crash.tour import tour

COMMIT = [point for point in POINTS if point.startswith("commit")]


@pytest.mark.parametrize("point", COMMIT)
def test_every_change_is_whole_or_not_there_and_is_made_once(child_scene: Scene, point: str):
    tour(child_scene, point, CHANGES)
