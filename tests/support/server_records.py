"""Records of servers and operations in memory, as documents."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from rtagent.conductor.ports import Begun
from rtagent.db.schema import to_document
from rtagent.model.server import Server, ServerOperation


class MemoryServerStore:
    """A `ServerStore` whose rows are lost with the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._servers: dict[str, str] = {}
        self._operations: dict[str, str] = {}

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
            self._put(operation, server)
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
            self._put(replace(operation, beat=known.beat), None if deleted else server)
            if server is not None and deleted:
                self._servers.pop(server.uuid, None)
                for each in self.operations(server_uuid=server.uuid):
                    if each.state != "running":
                        del self._operations[each.uuid]
            for each in owed:
                self._operations.setdefault(each.uuid, to_document(each))
            if operation.state != "running" and self.server(operation.server_uuid) is None:
                self._operations.pop(operation.uuid, None)
            return True

    def beat(self, operation: ServerOperation) -> bool:
        with self._lock:
            known = self.operation(operation.uuid)
            mine = (operation.owner, operation.epoch)
            if known is None or known.owner is None or (known.owner, known.epoch) != mine:
                return False
            self._put(replace(known, beat=known.beat + 1))
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
            self._put(taken)
            return taken

    def server(self, uuid: str) -> Server | None:
        document = self._servers.get(uuid)
        return msgspec.json.decode(document, type=Server, strict=False) if document else None

    def servers(self) -> Sequence[Server]:
        found = [self.server(uuid) for uuid in list(self._servers)]
        return sorted(filter(None, found), key=lambda each: (each.created_at, each.uuid))

    def operation(self, uuid: str) -> ServerOperation | None:
        document = self._operations.get(uuid)
        if not document:
            return None
        return msgspec.json.decode(document, type=ServerOperation, strict=False)

    def operations(
        self, *, server_uuid: str | None = None, running: bool = False
    ) -> Sequence[ServerOperation]:
        found = filter(None, [self.operation(uuid) for uuid in list(self._operations)])
        chosen = [
            each
            for each in found
            if server_uuid in (None, each.server_uuid) and (not running or each.state == "running")
        ]
        return sorted(chosen, key=lambda each: (each.created_at, each.uuid))

    def _put(self, operation: ServerOperation, server: Server | None = None) -> None:
        self._operations[operation.uuid] = to_document(operation)
        if server is not None:
            self._servers[server.uuid] = to_document(server)
