"""The file of the high-water mark: what survives, and what is recognised as damaged."""

import os
from datetime import UTC, datetime

import pytest

from rtagent.identity.witness import MarkFile
from rtagent.model.stored import Position
from rtagent.ports import Mark
from tests.support.hosts import NODE, uid

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def mark(revision: int, epoch: int = 1) -> Mark:
    return Mark(position=Position(epoch=epoch, revision=revision), at=NOW)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "high_water_mark"


def read(path) -> MarkFile:
    return MarkFile(path, NODE.uuid)


def written(path, *revisions: int) -> MarkFile:
    file = read(path)
    for revision in revisions:
        file.write(mark(revision))
    return file


def test_position_below_zero_is_written_as_zero(path):
    """Only damage of the node's record makes one; it must not end the agent."""
    read(path).write(mark(-1, epoch=-1))
    assert read(path).mark == mark(0, epoch=0)


@pytest.mark.parametrize("epochs", [(1, 2), (2, 1)], ids=["second slot", "first slot"])
def test_higher_epoch_is_the_later_mark(path, epochs):
    file = read(path)
    for epoch in epochs:
        file.write(mark(7, epoch))
    assert read(path).mark == mark(7, 2)


@pytest.mark.parametrize("length", range(0, 52, 4))
def test_torn_write_leaves_the_mark_before(path, length):
    written(path, 5, 6)
    whole = path.read_bytes()
    written(path, 7)  # into the slot of 5
    torn = path.read_bytes()[:length] + whole[length:]
    path.write_bytes(torn)
    found = read(path)
    assert found.mark == mark(6)
    assert bool(found.doubt) == (torn != whole)


@pytest.mark.parametrize("content", [b"", b"\0" * 1024, b"x" * 2000, os.urandom(600)])
def test_content_without_a_mark_is_reported_and_replaced(path, content):
    path.write_bytes(content)
    file = read(path)
    assert file.mark is None and str(path) in file.doubt
    file.write(mark(9))
    file.write(mark(10))
    again = read(path)
    assert (again.mark, again.doubt) == (mark(10), "")


def test_mark_of_another_node_does_not_count(path):
    written(path, 900, 901)
    other = MarkFile(path, uid(99))
    assert other.mark is None and "of another node" in other.doubt
    other.write(mark(1))
    assert MarkFile(path, uid(99)).mark == mark(1)


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_file_that_was_removed_or_replaced_is_written_anew_by_a_sync(path, replaced):
    file = written(path, 5)
    old = path.read_bytes()
    file.write(mark(6))
    path.unlink()
    if replaced:
        path.write_bytes(old)
    file.sync()
    assert read(path).mark == mark(6)
    file.write(mark(7))
    assert read(path).mark == mark(7)


def test_closed_file_takes_no_more_writes(path):
    file = written(path, 5)
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        file.write(mark(6))
    assert file.mark == mark(6)
    assert read(path).mark == mark(5)
