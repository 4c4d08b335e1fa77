"""SqlEventLog: reads recorded events, and remembers how far they were published."""

from __future__ import annotations

from sqlalchemy import Engine, delete, insert, select, update

from rtagent.db.event_rows import read_events
from rtagent.db.schema import event_positions
from rtagent.db.transaction import Transactions
from rtagent.model.event_log import RecordedEvents


class SqlEventLog:
    """An `EventLog` on an engine of `open_engine`. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def read(self, node_uuid: str, after: int, rows: int) -> tuple[RecordedEvents, ...]:
        with self._transactions.query() as connection:
            return read_events(connection, node_uuid, after, rows)

    def published(self, node_uuid: str) -> int | None:
        query = select(event_positions.c.sequence).where(event_positions.c.node_uuid == node_uuid)
        with self._transactions.query() as connection:
            found: int | None = connection.scalar(query)
            return found

    def set_published(self, node_uuid: str, sequence: int | None) -> None:
        its_row = event_positions.c.node_uuid == node_uuid
        with self._transactions.write_repeatable() as connection:
            if sequence is None:
                connection.execute(delete(event_positions).where(its_row))
                return
            changed = update(event_positions).where(its_row).values(sequence=sequence)
            if connection.execute(changed).rowcount != 1:
                row = {"node_uuid": node_uuid, "sequence": sequence}
                connection.execute(insert(event_positions).values(row))
