"""What is ours survives a restart."""

import pytest

from rtagent.errors import PlacementError
from rtagent.placement.ownership import NAME, MemoryOwnership, OwnershipFile
from tests.unit.placement.values import contents

OURS = contents({"VCPU"}, {"CUSTOM_A", "CUSTOM_B"})


def test_it_survives_a_restart(tmp_path):
    OwnershipFile(tmp_path).remember("u1", OURS)
    OwnershipFile(tmp_path).remember("u2", contents({"DISK_GB"}))
    assert OwnershipFile(tmp_path).of("u1") == OURS
    assert OwnershipFile(tmp_path).of("u2") == contents({"DISK_GB"})


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_the_last_word_counts(tmp_path, kind):
    ownership = OwnershipFile(tmp_path) if kind == "file" else MemoryOwnership()
    assert ownership.of("u1") == contents()
    ownership.remember("u1", OURS)
    ownership.remember("u1", contents(traits={"CUSTOM_A"}))
    assert ownership.of("u1") == contents(traits={"CUSTOM_A"})


def test_what_is_known_already_is_not_written(tmp_path):
    ownership = OwnershipFile(tmp_path)
    ownership.remember("u1", OURS)
    (tmp_path / NAME).unlink()
    ownership.remember("u1", OURS)
    assert not (tmp_path / NAME).exists()


def test_the_file_is_replaced_whole(tmp_path):
    OwnershipFile(tmp_path).remember("u1", OURS)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_file_that_cannot_be_read_is_named_and_kept(tmp_path):
    (tmp_path / NAME).write_text("{broken")
    with pytest.raises(PlacementError, match=f"{tmp_path}/{NAME} cannot be read"):
        OwnershipFile(tmp_path).of("u1")
    assert (tmp_path / NAME).read_text() == "{broken"


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    ownership = OwnershipFile(tmp_path / "missing")
    with pytest.raises(PlacementError, match=r"placement\.json cannot be written: No such file"):
        ownership.remember("u1", OURS)
    assert ownership.of("u1") == contents()
