"""A database that is taken back to any earlier commit is noticed, on each kind of database."""

from pathlib import Path

from sqlalchemy import Engine

from tests.property.restored_nodes import check_every_copy
from tests.support.stores import SqlDatabase

TOUR = (("claim", 0), ("claim", 0), ("activate", 0), ("release", 0))


def test_database_that_is_taken_back_to_any_commit_is_noticed(engine: Engine, tmp_path: Path):
    check_every_copy(tmp_path, SqlDatabase(engine), TOUR)
