"""What the state directory remembers of a node, and what is reported if it cannot."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import StoreUnavailable
from rtagent.identity.witness import MARK, RESTORE, FileWitness
from rtagent.model.store_restore import ClaimDifference, StoreRestore
from rtagent.model.stored import Position
from rtagent.ports import Mark
from tests.support.hosts import NOON, host, stored, uid
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


def test_missing_mark_of_a_known_node_is_logged(open_witness, reports, tmp_path):
    open_witness(revision=0)
    assert not reports.logged
    (tmp_path / MARK).unlink()
    open_witness(revision=4)
    ((level, sentence),) = reports.logged
    assert level == "warning"
    assert str(tmp_path / MARK) in sentence and "may not be noticed" in sentence


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
