"""Record: what the database holds, read with plain SQL and nothing of ours."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text

from rtagent.model.base import Value

Row = Mapping[str, Any]


class Record(Value, frozen=True, kw_only=True):
    """Every row of one node, of one moment."""

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

    def story(self, claim_uuid: str) -> list[Row]:
        """A claim's events, the oldest first."""
        return [event for event in self.events if event["claim_uuid"] == claim_uuid]


def open_plain(url: str) -> Engine:
    """An engine that shows several reads one moment; none of ours."""
    if url.startswith("sqlite"):
        # Its transactions see one moment by themselves, once they are begun.
        return create_engine(url, connect_args={"timeout": 30})
    return create_engine(url, isolation_level="REPEATABLE READ", pool_pre_ping=True)


def read(engine: Engine) -> Record:
    """The only node's rows."""
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
    assert len(found) == len(rows), f"a {key} is there twice"
    return found
