"""Record: the content of the database, read with plain SQL and without code of the package."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text

from rtagent.model.base import Value

Row = Mapping[str, Any]


class Record(Value, frozen=True, kw_only=True):
    """Every row of one node at one moment."""

    node: Row
    claims: Mapping[str, Row]
    operations: Mapping[str, Row]
    events: Sequence[Row]
    domains: Mapping[str, Row]

    @property
    def live(self) -> dict[str, Row]:
        return {uuid: row for uuid, row in self.claims.items() if row["state"] != "released"}

    @property
    def stats(self) -> Mapping[str, int]:
        found: Mapping[str, int] = json.loads(self.node["stats"])
        return found

    def history(self, claim_uuid: str) -> list[Row]:
        """Return a claim's events, the oldest first."""
        return [event for event in self.events if event["claim_uuid"] == claim_uuid]


def open_plain(url: str) -> Engine:
    """Make an engine whose transactions read one moment, without code of the package."""
    if url.startswith("sqlite"):
        # A transaction of SQLite reads one moment once it has begun.
        return create_engine(url, connect_args={"timeout": 30})
    return create_engine(url, isolation_level="REPEATABLE READ", pool_pre_ping=True)


def read(engine: Engine) -> Record:
    """Read the rows of the only node."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("BEGIN"))
        (node,) = _rows(connection, "compute_nodes")
        return Record(
            node=node,
            claims=_by("uuid", _rows(connection, "claims")),
            operations=_by("operation_id", _rows(connection, "operations")),
            events=_rows(connection, "claim_events ORDER BY id"),
            domains=_by("domain_uuid", _rows(connection, "foreign_domains")),
        )


def _rows(connection: Connection, where: str) -> list[Row]:
    return list(connection.execute(text(f"SELECT * FROM {where}")).mappings())


def _by(key: str, rows: Sequence[Row]) -> dict[str, Row]:
    found = {str(row[key]): row for row in rows}
    assert len(found) == len(rows), f"a {key} occurs twice"
    return found
