"""Records of servers and operations in memory, as documents."""

import threading
from collections.abc import Collection, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from rtagent.conductor.ports import Begun
from rtagent.db.schema import to_document
from rtagent.model.server import Server, ServerOperation

T = TypeVar("T", Server, ServerOperation)


class MemoryServerStore:
    """A `ServerStore` whose rows are lost with the process.

    What is written goes through its document once, as in a database.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._servers: dict[str, Server] = {}
        self._operations: dict[str, ServerOperation] = {}

    def begin(self, operation: ServerOperation, server: Server, seen: Server | None) -> Begun:
        with self._lock:
            if operation.uuid in self._operations:
                return "begun"
            known = self.server(server.uuid)
            if known is None and seen is not None:
                return "absent"
            if known is not None and seen is None:
                return "exists"
            if known is not None and (known.operation_uuid is not None or known != seen):
                return "busy"
            self._operations[operation.uuid] = _stored(operation)
            self._servers[server.uuid] = _stored(server)
            return "begun"

    def save(
        self,
        operation: ServerOperation,
        server: Server | None = None,
        *,
        deleted: bool = False,
        owed: Collection[ServerOperation] = (),
    ) -> bool:
        with self._lock:
            known = self.operation(operation.uuid)
            if known is None or (known.epoch, known.state) != (operation.epoch, "running"):
                finished = deleted or operation.state != "running"
                ended = known is None or (known.epoch, known.state) == (
                    operation.epoch,
                    operation.state,
                )
                return finished and ended
            self._operations[operation.uuid] = _stored(replace(operation, beat=known.beat))
            if server is not None and not deleted:
                self._servers[server.uuid] = _stored(server)
            if server is not None and deleted:
                self._servers.pop(server.uuid, None)
                for each in self.operations(server_uuid=server.uuid):
                    if each.state != "running":
                        del self._operations[each.uuid]
            for each in owed:
                self._operations.setdefault(each.uuid, _stored(each))
            if operation.state != "running" and self.server(operation.server_uuid) is None:
                self._operations.pop(operation.uuid, None)
            return True

    def beat(self, operation: ServerOperation) -> bool:
        with self._lock:
            known = self.operation(operation.uuid)
            mine = (operation.owner, operation.epoch)
            if known is None or known.owner is None or (known.owner, known.epoch) != mine:
                return False
            self._operations[known.uuid] = replace(known, beat=known.beat + 1)
            return True

    def take(self, operation: ServerOperation, owner: str) -> ServerOperation | None:
        with self._lock:
            found = self.operation(operation.uuid)
            if found is None or found.state != "running":
                return None
            if (found.owner, found.epoch) == (owner, operation.epoch + 1):
                return found
            if (found.owner, found.epoch, found.beat) != (
                operation.owner,
                operation.epoch,
                operation.beat,
            ):
                return None
            taken = replace(found, owner=owner, epoch=found.epoch + 1)
            self._operations[taken.uuid] = taken
            return taken

    def server(self, uuid: str) -> Server | None:
        return self._servers.get(uuid)

    def servers(self) -> Sequence[Server]:
        return sorted(self._servers.values(), key=lambda server: (server.created_at, server.uuid))

    def operation(self, uuid: str) -> ServerOperation | None:
        return self._operations.get(uuid)

    def operations(
        self, *, server_uuid: str | None = None, running: bool = False
    ) -> Sequence[ServerOperation]:
        chosen = [
            operation
            for operation in list(self._operations.values())
            if server_uuid in (None, operation.server_uuid)
            and (not running or operation.state == "running")
        ]
        return sorted(chosen, key=lambda operation: (operation.created_at, operation.uuid))


def _stored(value: T) -> T:
    """Return the value that is read when this one was written."""
    return msgspec.json.decode(to_document(value), type=type(value), strict=False)
