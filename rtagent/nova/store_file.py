"""The store of a node: an SQLite database in Nova's state directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.ports import Store

#: The directory of the databases in ``[DEFAULT] state_path``.
DIRECTORY = "rtagent"


def state_directory(nova: Any) -> Path:
    """Return the directory of rtagent's files. :param nova: Nova's configuration."""
    return Path(nova.state_path) / DIRECTORY


def open_store(
    directory: Path, node_uuid: str, operation_timeout: float
) -> tuple[Store, Callable[[], None]]:
    """Open the database of a node, and return its store with the function that closes it.

    :param operation_timeout: seconds.
    :raises StoreUnavailable: SchemaMismatch:
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    engine = open_engine(f"sqlite:///{directory / node_uuid}.sqlite", operation_timeout)
    migrate.ready(engine)
    return SqlStore(engine), engine.dispose
