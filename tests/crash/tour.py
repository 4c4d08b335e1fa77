"""A tour: one life after the other, each ended at a boundary by a change."""

from collections.abc import Iterable

from tests.crash.changes import CHANGES, Change
from tests.crash.scene import Scene

#: Where a transaction is durable; at all the others of its boundaries it is not.
DURABLE = frozenset({"enroll.after", "commit.after"})

#: A boundary, and the name of a change of `CHANGES`.
Stop = tuple[str, str]


def tour(scene: Scene, stops: Iterable[Stop]) -> None:
    """Each change is cut off at its boundary, and repeated in the next life."""
    before: Change | None = None
    for point, name in stops:
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
    change.settle(landed=point in DURABLE)
    return change


def _repeat(scene: Scene, change: Change | None) -> None:
    if change is not None:
        change.repeat()
    scene.confirm()


def enrolments(scene: Scene, points: Iterable[str]) -> None:
    """Starts that are cut off at each of the boundaries: the first of all, and later ones."""
    for point in points:
        assert not scene.home.start(point)
    scene.live()
    scene.building()
    node = scene.confirm().node
    for point in points:
        scene.home.kill()
        assert not scene.home.start(point)
        epoch = scene.judge().node["epoch"]
        assert epoch == node["epoch"] + (point in DURABLE)
        scene.live()
        node = scene.confirm().node
        assert node["epoch"] == epoch + 1
