"""Rows of ``servers`` and ``server_operations``: the records of conductors.

A row of an operation has one owner at a time. Each write of the owner names owner and epoch, so a
conductor whose operation was taken over writes nothing any more.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, delete, insert, select, update

from rtagent.db.schema import server_operations, servers, to_document
from rtagent.db.transaction import Transactions
from rtagent.errors import StoreDamaged
from rtagent.model.server import Server, ServerOperation

T = TypeVar("T")

_SERVERS, _OPERATIONS = servers.c, server_operations.c
_OWNERSHIP = (_OPERATIONS.owner, _OPERATIONS.epoch, _OPERATIONS.beat)
#: The columns of an operation that are fields of it, too.
_COLUMNS = ("uuid", "server_uuid", "kind", "state", "owner", "epoch", "beat", "created_at")

_server_decoder = msgspec.json.Decoder(Server, strict=False)
_operation_decoder = msgspec.json.Decoder(ServerOperation, strict=False)


class SqlServerStore:
    """The servers and operations of an engine of `open_engine`. Thread-safe.

    Every method is one transaction, and raises `StoreUnavailable` if it is unknown whether the
    database executed it. It may be repeated then.
    """

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def begin(
        self, operation: ServerOperation, server: Server, seen: Server | None
    ) -> Literal["begun", "busy", "exists", "absent"]:
        """Record a new operation, and that it runs on its server.

        :param seen: the server as it was read; None: it is new.
        """
        with self._transactions.write_repeatable(serial=True) as connection:
            if _operation(connection, operation.uuid) is not None:
                return "begun"  # the call is repeated
            known = _server(connection, server.uuid)
            if seen is None and known is not None:
                return "exists"
            if seen is not None and known is None:
                return "absent"
            if known is not None and (known.operation_uuid is not None or known != seen):
                return "busy"
            _put_server(connection, server)
            connection.execute(insert(server_operations), _operation_row(operation))
            return "begun"

    def save(
        self,
        operation: ServerOperation,
        server: Server | None = None,
        *,
        deleted: bool = False,
        owed: Collection[ServerOperation] = (),
    ) -> bool:
        """Record how far an operation is, and its server if it changed.

        :param deleted: the server and its finished operations are removed instead.
        :param owed: new operations without an owner, which are recorded once.
            The row of a finished one whose server is gone is deleted.
        :return: False: the operation has another owner, and nothing was recorded.
        """
        with self._transactions.write_repeatable() as connection:
            row = _operation_row(operation)
            del row["beat"], row["owner"]
            # While no conductor works on an operation, it keeps its last owner's epoch.
            mine = update(server_operations).where(
                _OPERATIONS.uuid == operation.uuid,
                _OPERATIONS.epoch == operation.epoch,
                _OPERATIONS.state == "running",
            )
            if not connection.execute(mine.values(**row, owner=operation.owner)).rowcount:
                # A repetition of the call that has finished it, or has deleted this row. Since
                # then, other operations may have written the server.
                known = _operation(connection, operation.uuid)
                finished = deleted or operation.state != "running"
                return finished and (known is None or _is_same_end(known, operation))
            if server is not None and deleted:
                _delete_server(connection, server)
            elif server is not None:
                _put_server(connection, server)
            for each in owed:
                if _operation(connection, each.uuid) is None:
                    connection.execute(insert(server_operations), _operation_row(each))
            if operation.state != "running" and _server(connection, operation.server_uuid) is None:
                connection.execute(
                    delete(server_operations).where(_OPERATIONS.uuid == operation.uuid)
                )
            return True

    def beat(self, operation: ServerOperation) -> bool:
        """Increase the beat of an operation. Return False if its owner is another one, or none."""
        with self._transactions.write_repeatable() as connection:
            mine = update(server_operations).where(
                _OPERATIONS.uuid == operation.uuid,
                _OPERATIONS.owner == operation.owner,
                _OPERATIONS.owner.is_not(None),
                _OPERATIONS.epoch == operation.epoch,
            )
            return bool(connection.execute(mine.values(beat=_OPERATIONS.beat + 1)).rowcount)

    def take(self, operation: ServerOperation, owner: str) -> ServerOperation | None:
        """Become the owner of an operation, unless it changed since it was read. Return it."""
        with self._transactions.write_repeatable(serial=True) as connection:
            found = _operation(connection, operation.uuid)
            if found is None or found.state != "running":
                return None
            if (found.owner, found.epoch) == (owner, operation.epoch + 1):
                return found  # the call is repeated
            if (found.epoch, found.beat) != (operation.epoch, operation.beat):
                return None
            if operation.owner is None and found.owner is not None:
                return None
            taken = replace(found, owner=owner, epoch=found.epoch + 1)
            connection.execute(
                update(server_operations)
                .where(_OPERATIONS.uuid == taken.uuid)
                .values(**_operation_row(taken))
            )
            return taken

    def server(self, uuid: str) -> Server | None:
        """Return a server, or None."""
        with self._transactions.query() as connection:
            return _server(connection, uuid)

    def servers(self) -> Sequence[Server]:
        """Return all servers, oldest first."""
        query = select(_SERVERS.uuid, _SERVERS.document)
        with self._transactions.query() as connection:
            rows = connection.execute(query.order_by(_SERVERS.created_at, _SERVERS.uuid)).all()
        return [_decode("servers", row, _server_decoder) for row in rows]

    def operation(self, uuid: str) -> ServerOperation | None:
        """Return an operation, or None."""
        with self._transactions.query() as connection:
            return _operation(connection, uuid)

    def operations(
        self, *, server_uuid: str | None = None, running: bool = False
    ) -> Sequence[ServerOperation]:
        """Return operations, oldest first: of a server, or those that are not finished."""
        query = select(_OPERATIONS.uuid, _OPERATIONS.document, *_OWNERSHIP)
        if server_uuid is not None:
            query = query.where(_OPERATIONS.server_uuid == server_uuid)
        if running:
            query = query.where(_OPERATIONS.state == "running")
        ordered = query.order_by(_OPERATIONS.created_at, _OPERATIONS.uuid)
        with self._transactions.query() as connection:
            return [_owned(row) for row in connection.execute(ordered).all()]


def _is_same_end(known: ServerOperation, operation: ServerOperation) -> bool:
    """Whether the end of an operation is recorded: an epoch has one owner, who ends it once."""
    return (known.epoch, known.state) == (operation.epoch, operation.state)


def _server(connection: Connection, uuid: str) -> Server | None:
    query = select(_SERVERS.uuid, _SERVERS.document).where(_SERVERS.uuid == uuid)
    row = connection.execute(query).one_or_none()
    return None if row is None else _decode("servers", row, _server_decoder)


def _operation(connection: Connection, uuid: str) -> ServerOperation | None:
    query = select(_OPERATIONS.uuid, _OPERATIONS.document, *_OWNERSHIP)
    row = connection.execute(query.where(_OPERATIONS.uuid == uuid)).one_or_none()
    return None if row is None else _owned(row)


def _owned(row: Any) -> ServerOperation:
    """Return the operation of a row. Its owner is in the columns, because beats write only them."""
    found = _decode("server_operations", row, _operation_decoder)
    return replace(found, owner=row.owner, epoch=row.epoch, beat=row.beat)


def _decode(table: str, row: Any, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(row.document)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreDamaged(
            f"{table} {row.uuid}: the document cannot be read ({error}): restore the last backup"
        ) from error


def _put_server(connection: Connection, server: Server) -> None:
    row = {
        "name": server.name,
        "vm_state": server.vm_state,
        "host": server.place and server.place.host,
        "operation_uuid": server.operation_uuid,
        "created_at": server.created_at,
        "document": to_document(server),
    }
    changed = update(servers).where(_SERVERS.uuid == server.uuid).values(**row)
    if not connection.execute(changed).rowcount:
        connection.execute(insert(servers), {"uuid": server.uuid, **row})


def _delete_server(connection: Connection, server: Server) -> None:
    """Delete a server and its finished operations. Owed calls stay until they are made."""
    connection.execute(delete(servers).where(_SERVERS.uuid == server.uuid))
    connection.execute(
        delete(server_operations).where(
            _OPERATIONS.server_uuid == server.uuid, _OPERATIONS.state != "running"
        )
    )


def _operation_row(operation: ServerOperation) -> dict[str, Any]:
    columns = {name: getattr(operation, name) for name in _COLUMNS}
    return {**columns, "document": to_document(operation)}
