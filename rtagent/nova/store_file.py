"""The store of a node: an SQLite database in Nova's state directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.event_rows import SqlEventLog
from rtagent.db.store import SqlStore
from rtagent.db.transaction import errors_of
from rtagent.model.base import Value
from rtagent.ports import EventLog, Store

#: The directory of rtagent's files in ``[DEFAULT] state_path``.
DIRECTORY = "rtagent"


class NodeStore(Value, frozen=True, kw_only=True):
    """:ivar store: claims. :ivar events: what was recorded of them.
    :ivar sql_errors: failed transactions by kind. :ivar close: closes every connection.
    """

    store: Store
    events: EventLog
    sql_errors: Callable[[], Mapping[str, int]]
    close: Callable[[], None]


def state_directory(nova: Any) -> Path:
    """Return the directory of rtagent's files. :param nova: Nova's configuration."""
    return Path(nova.state_path) / DIRECTORY


def open_store(
    directory: Path, node_uuid: str, operation_timeout: float, events_kept: int
) -> NodeStore:
    """Open the database of a node.

    :param operation_timeout: seconds. :param events_kept: how many of the last events stay.
    :raises StoreUnavailable: SchemaMismatch:
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    engine = open_engine(f"sqlite:///{directory / node_uuid}.sqlite", operation_timeout)
    migrate.ready(engine)
    return NodeStore(
        store=SqlStore(engine, events_kept=events_kept),
        events=SqlEventLog(engine),
        sql_errors=errors_of(engine).counts,
        close=engine.dispose,
    )
