"""What the state directory remembers of a node, and what is reported if it cannot."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import StoreUnavailable
from rtagent.identity.witness import MARK, RESTORE, FileWitness, MarkFile
from rtagent.model.store_restore import ClaimDifference, StoreRestore
from rtagent.model.stored import Position
from rtagent.ports import Mark
from tests.support.hosts import NODE, NOON, host, stored, uid
from tests.support.trackers import Reports

AT = Position(epoch=3, revision=12)
RESTORED = StoreRestore(
    found=Position(epoch=2, revision=7),
    acknowledged=AT,
    acknowledged_at=NOON,
    noticed_at=NOON + timedelta(hours=1),
    revision=13,
    compared=True,
    differences=(
        ClaimDifference(claim_uuid=uid(1), owner_id=uid(2), acknowledged="active", stored=None),
    ),
)


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def open_witness(tmp_path, reports):
    def make(revision: int = 12) -> FileWitness:
        return FileWitness(str(tmp_path), replace(stored(host()), revision=revision), reports)

    return make


def test_mark_and_restore_are_read_again(open_witness):
    first = open_witness()
    assert (first.mark, first.restore) == (None, None)
    first.record(Mark(position=AT, at=NOON))
    first.keep(RESTORED)
    first.sync()
    again = open_witness()
    assert (again.mark, again.restore) == (Mark(position=AT, at=NOON), RESTORED)
    again.keep(replace(RESTORED, accepted_at=NOON))
    assert open_witness().restore == replace(RESTORED, accepted_at=NOON)


def test_restore_that_cannot_be_read_is_not_accepted(open_witness, reports, tmp_path):
    (tmp_path / RESTORE).write_text("{")
    found = open_witness(revision=0).restore
    assert found is not None and found.accepted_at is None
    assert [level for level, _ in reports.logged] == ["error"]
    open_witness().keep(replace(found, accepted_at=NOON))
    assert open_witness().restore == replace(found, accepted_at=NOON)


def test_mark_that_cannot_be_written_is_reported_until_it_can(open_witness, reports, tmp_path):
    witness = open_witness()
    witness.sync()
    assert reports.parts["mark"] == ("pass", "")
    directory = tmp_path / MARK
    directory.unlink()
    directory.mkdir()
    witness.record(Mark(position=AT, at=NOON))
    witness.sync()
    assert reports.parts["mark"][0] == "warn"
    assert str(tmp_path / MARK) in reports.parts["mark"][1]
    directory.rmdir()
    witness.sync()
    assert reports.parts["mark"] == ("pass", "")
    assert open_witness().mark == Mark(position=AT, at=NOON)


def test_unusable_mark_is_reported_and_replaced_when_it_can_be(open_witness, reports, tmp_path):
    (tmp_path / MARK).mkdir()
    witness = open_witness()
    ((level, sentence),) = reports.logged
    assert level == "warning" and f"{MARK} cannot be used" in sentence
    witness.record(Mark(position=AT, at=NOON))
    witness.sync()
    assert reports.parts["mark"][0] == "warn"
    (tmp_path / MARK).rmdir()
    witness.sync()
    assert reports.parts["mark"] == ("pass", "")
    witness.close()
    assert open_witness().mark == Mark(position=AT, at=NOON)


def test_restore_that_cannot_be_kept_names_its_path(open_witness, tmp_path):
    witness = open_witness()
    (tmp_path / RESTORE).mkdir()
    with pytest.raises(StoreUnavailable, match=RESTORE):
        witness.keep(RESTORED)
    assert witness.restore is None


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
