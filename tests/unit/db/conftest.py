from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """SQLite with the tables."""
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    return engine
