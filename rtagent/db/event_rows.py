"""Rows of ``event_outbox``: the events of each commit, in the transaction of the commit.

The events of one commit share a row, so that a claim does not pay for a row of its own. The newest
events stay, whether or not they were published: readers that come later begin with them, and the
highest number in the table is that of the last event. A commit removes those beyond a bound, so the
bound applies even while nothing is published.
"""

import contextlib
import json
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Dialect, Engine, bindparam, delete, func, insert, select, update

from rtagent.db.checked_rows import CheckedRow
from rtagent.db.keyed_table import KeyedTable, KeyedWriter, TableRows
from rtagent.db.schema import event_outbox, event_positions
from rtagent.db.transaction import Statement, Transactions
from rtagent.model.base import Value, made_from
from rtagent.model.change import Change
from rtagent.model.event import VERSION, EventDocument, RecordedEvents, event_id
from rtagent.model.node_state import NodeState

#: How many events are kept, at least. At most `STEP` more are there, and those of one commit.
KEPT = 10_000
#: How many events are removed at once.
STEP = 256

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode


class EventRow(Value, frozen=True, kw_only=True):
    """The events of a commit.

    :ivar sequence: the number of the last one. :ivar events: how many there are.
    :ivar document: a JSON array.
    """

    sequence: int
    events: int
    epoch: int
    document: str


EVENTS = KeyedTable(event_outbox, EventRow, "sequence")


def net_events(before: NodeState, after: NodeState, changes: Sequence[Change]) -> EventRow | None:
    """Return the events of the changes that lead from one state to the other, in their order."""
    number = after.event_sequence - before.event_sequence
    if not number:
        return None
    node, sequence, epoch = before.node, before.event_sequence, before.epoch
    revision = after.revision - sum(not change.announces for change in changes)
    events = []
    for change in changes:
        revision += not change.announces
        for each in change.notifications:
            sequence += 1
            events.append(
                made_from(
                    EventDocument,
                    change,
                    id=event_id(epoch, sequence),
                    event_type=each.type,
                    version=VERSION,
                    sequence=sequence,
                    epoch=epoch,
                    revision=revision,
                    host=node.host,
                    node_uuid=node.uuid,
                    payload=each.payload,
                )
            )
    return EventRow(sequence=sequence, events=number, epoch=epoch, document=_text(events))


def _text(events: Sequence[EventDocument]) -> str:
    """Return the events as a JSON array. A character without an UTF-8 encoding becomes a question
    mark, because text from outside must not make a commit fail.
    """
    try:
        return _encode(events).decode()
    except UnicodeError:
        text = json.dumps(msgspec.to_builtins(events), ensure_ascii=False)
        return text.encode(errors="replace").decode()


class EventWriter:
    """Append events in an open transaction."""

    def __init__(self, dialect: Dialect, kept: int) -> None:
        self._kept = kept
        self._rows = KeyedWriter(dialect, EVENTS)
        old = (
            event_outbox.c.node_uuid == bindparam("its_node"),
            event_outbox.c.sequence <= bindparam("last"),
        )
        self._delete = Statement(dialect, delete(event_outbox).where(*old), ())

    def write(self, connection: Connection, node_uuid: str, row: EventRow | None) -> None:
        """Append the events of a commit, and remove those beyond the bound."""
        if row is None:
            return
        self._rows.write(connection, node_uuid, TableRows(new=[row]))
        if row.sequence // STEP > (row.sequence - row.events) // STEP:
            last = row.sequence - self._kept
            self._delete.run(connection, [{"its_node": node_uuid, "last": last}])


def read_sequence(connection: Connection, node_uuid: str) -> int:
    """Read the number of the last event of a node; 0: there is none."""
    number = event_outbox.c.sequence
    highest = select(func.max(number)).where(event_outbox.c.node_uuid == node_uuid)
    found = connection.scalar(highest) or 0
    if type(found) is not int:  # a damaged number: only SQLite can have it
        found = connection.scalar(highest.where(func.typeof(number) == "integer")) or 0
    return found


def _recorded(checked: CheckedRow) -> RecordedEvents:
    fields = checked.values
    documents: tuple[msgspec.Raw, ...] = ()
    if not checked.faults:
        with contextlib.suppress(msgspec.MsgspecError):
            documents = _decode(fields["document"])
    return RecordedEvents(
        last=fields["sequence"],
        epoch=fields["epoch"] or 0,
        documents=tuple(bytes(each) for each in documents),
    )


class SqlEventLog:
    """An `EventLog` on an engine of `open_engine`. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def read(self, node_uuid: str, after: int, rows: int) -> tuple[RecordedEvents, ...]:
        """Read the rows as `EventLog` says. A damaged row has no events: they count as dropped. A
        row whose number cannot be read is left out.
        """
        query = (
            select(*EVENTS.checked.selected)
            .where(event_outbox.c.node_uuid == node_uuid, event_outbox.c.sequence > after)
            .order_by(event_outbox.c.sequence)
            .limit(rows)
        )
        with self._transactions.query() as connection:
            found = map(EVENTS.checked.read, connection.execute(query))
            return tuple(_recorded(row) for row in found if row.values["sequence"] is not None)

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
