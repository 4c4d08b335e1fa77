"""The message about a damaged database names its last copy."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from rtagent.db.backup import SUFFIX, backup
from rtagent.db.engine import open_engine
from rtagent.db.restore import check_files
from rtagent.errors import StoreDamaged


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with two copies, the last one in ``last``."""
    file = tmp_path / "rtagent.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (a)")
    for name in ("first", "last"):
        backup(open_engine(f"sqlite:///{file}", 5), tmp_path / name)
    return file


def message(database: Path) -> str:
    database.write_bytes(b"damaged" * 1000)
    with pytest.raises(StoreDamaged) as caught:
        check_files(open_engine(f"sqlite:///{database}", 5))
    return caught.value.message


def test_the_last_copy_is_named_with_its_time(database: Path):
    assert f"(the last copy is {database.parent / 'last'}, of 2" in message(database)


def test_a_copy_that_is_gone_is_said_to_be_gone(database: Path):
    (database.parent / "last").unlink()
    assert f"(the last copy, {database.parent / 'last'}, cannot be read" in message(database)


@pytest.mark.parametrize("note", [b"", b"relative", b"/a\x1b[2J", b"\xff", b"/x" * 10**5])
def test_a_note_of_anything_else_does_no_harm(database: Path, note: bytes):
    Path(f"{database}{SUFFIX}").write_bytes(note)
    assert "\x1b" not in message(database)


def test_a_note_that_cannot_be_written_does_not_fail_the_backup(database: Path):
    Path(f"{database}{SUFFIX}").unlink()
    Path(f"{database}{SUFFIX}").mkdir()
    backup(open_engine(f"sqlite:///{database}", 5), database.parent / "third")
    assert "(the last copy" not in message(database)


def test_a_path_that_is_no_text_does_not_fail_the_backup(database: Path):
    copy = Path(os.fsdecode(os.fsencode(database.parent) + b"/\xff"))
    backup(open_engine(f"sqlite:///{database}", 5), copy)
    assert copy.exists()
    assert "(the last copy" not in message(database)
