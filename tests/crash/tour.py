"""A tour: one life after the other, each ended at the same boundary by another change."""

from collections.abc import Iterable

from tests.crash.changes import CHANGES, Change
from tests.crash.scene import Scene

#: Where a commit's transaction is durable; at all others that a commit passes it is not.
DURABLE = "commit.after"


def tour(scene: Scene, point: str, names: Iterable[str]) -> None:
    """Each of the changes is cut off at the boundary, and repeated in the next life."""
    before: Change | None = None
    for name in names:
        try:
            before = _cut(scene, point, name, before)
        except Exception as error:
            error.add_note(f"{name}, cut off at {point}")
            raise
    scene.live()
    _repeat(scene, before)


def _cut(scene: Scene, point: str, name: str, before: Change | None) -> Change:
    """One life, from the repetition of what ended the last one to its own end."""
    cause, make = CHANGES[name]
    failpoint = f"{point}/{cause}"
    if cause == "audit":  # prepared by an audit, which the failpoint must not end
        scene.live()
        _repeat(scene, before)
        change = make(scene)
        scene.home.kill()
        scene.live(failpoint)
    elif cause == "policy":  # each life begins with one, which shows its configuration
        scene.keep_back(50)
        scene.live(f"{failpoint}:2")
        scene.wait_right()
        _repeat(scene, before)
        change = make(scene)
    else:
        scene.live(failpoint)
        _repeat(scene, before)
        change = make(scene)
    scene.confirm()
    scene.dies_of(change.ask)
    change.settle(landed=point == DURABLE)
    return change


def _repeat(scene: Scene, change: Change | None) -> None:
    if change is not None:
        change.repeat()
    scene.confirm()
