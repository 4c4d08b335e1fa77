"""The file with the uuid of the node, and the ids of the machine."""

import stat

import pytest

from rtagent.errors import IdentityError
from rtagent.identity import machine
from rtagent.identity.machine import ComputeId

UUID = "11111111-1111-1111-1111-111111111111"
OTHER_UUID = "22222222-2222-2222-2222-222222222222"


def test_file_is_written_once(tmp_path):
    file = ComputeId(str(tmp_path))
    assert file.read() is None

    file.write(UUID)
    file.write(UUID)

    assert file.path.name == "compute_id"
    assert ComputeId(str(tmp_path)).read() == UUID
    assert stat.S_IMODE(file.path.stat().st_mode) & 0o222 == 0o200
    assert [path.name for path in tmp_path.iterdir()] == ["compute_id"]


def test_file_of_a_start_that_was_killed_is_replaced(tmp_path):
    (tmp_path / ".compute_id.new").write_text("1111")

    ComputeId(str(tmp_path)).write(UUID)

    assert ComputeId(str(tmp_path)).read() == UUID


def test_uuid_is_never_replaced(tmp_path):
    ComputeId(str(tmp_path)).write(UUID)

    with pytest.raises(IdentityError, match="another uuid"):
        ComputeId(str(tmp_path)).write(OTHER_UUID)

    assert ComputeId(str(tmp_path)).read() == UUID


def test_uuid_may_have_upper_case_and_blanks(tmp_path):
    (tmp_path / "compute_id").write_text(f" {UUID.upper()}\n\n")

    assert ComputeId(str(tmp_path)).read() == UUID


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", UUID[:-1].encode()])
def test_invalid_file_is_refused_with_the_remedy(tmp_path, content):
    (tmp_path / "compute_id").write_bytes(content)

    with pytest.raises(IdentityError) as caught:
        ComputeId(str(tmp_path)).read()

    assert str(tmp_path / "compute_id") in str(caught.value)
    assert "write the node's uuid into it" in str(caught.value)


def test_unreadable_file_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "compute_id").mkdir()

    with pytest.raises(IdentityError, match=r"Is a directory.*write the node's uuid"):
        ComputeId(str(tmp_path)).read()


def test_unwritable_state_directory_is_named(tmp_path):
    with pytest.raises(IdentityError, match="missing/compute_id cannot be written"):
        ComputeId(str(tmp_path / "missing")).write(UUID)


def test_writer_is_machine_boot_and_directory(tmp_path):
    (tmp_path / "machine-id").write_text("abc\n")
    (tmp_path / "boot").write_text("def\n")
    (tmp_path / "link").symlink_to(tmp_path)

    found = machine.writer(
        str(tmp_path / "link"), machine_id=tmp_path / "machine-id", boot_id=tmp_path / "boot"
    )

    assert (found.machine_id, found.boot_id, found.state_path) == ("abc", "def", str(tmp_path))


@pytest.mark.parametrize("content", [None, b"\n", b"\xff\xfe", b"9" * 5000])
def test_machine_without_an_id_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "machine-id").write_bytes(content)

    with pytest.raises(IdentityError, match=r"machine-id .*systemd-machine-id-setup"):
        machine.writer(str(tmp_path), machine_id=tmp_path / "machine-id")
