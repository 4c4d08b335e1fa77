"""Servers, and the operations on them, as a conductor records them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from rtagent.model.base import Value
from rtagent.model.migration import MigrationFacts
from rtagent.model.request_spec import RequestSpec

#: States of a server, with Nova's names.
BUILDING, ACTIVE, STOPPED, RESIZED = "building", "active", "stopped", "resized"
SHELVED_OFFLOADED, ERROR, DELETED = "shelved_offloaded", "error", "deleted"

#: ``running``: not finished, whether or not a process works on it. ``failed``: it was undone.
OperationState = Literal["running", "done", "failed"]


class Place(Value, frozen=True, kw_only=True):
    """A claim of a server on a host.

    :ivar node_uuid: of the node; every call for the claim names it.
    :ivar claim: the claim as the agent returned it last.
    """

    host: str
    node_uuid: str
    claim: Mapping[str, Any]


class ServerMove(Value, frozen=True, kw_only=True):
    """A resize or cold migration that waits to be confirmed or reverted.

    :ivar source: where the server was. :ivar spec: its request before the move.
    :ivar was: its vm_state before the move.
    """

    migration: MigrationFacts
    source: Place
    spec: RequestSpec
    was: str


class Server(Value, frozen=True, kw_only=True):
    """A server.

    :ivar spec: the request that it was built from, with its current flavor.
    :ivar place: its claim on the host that it is on; None: it is on no host.
    :ivar move: the move that waits to be confirmed or reverted.
    :ivar document: a domain document with its disks and networks; None: a minimal one is made.
    :ivar consumer_generation: what its consumer in Placement has is of a later generation: a
        conductor that lost an operation of the server may still write with this or an earlier one.
    :ivar operation_uuid: the operation that runs on it. There is at most one.
    """

    uuid: str
    name: str
    spec: RequestSpec
    vm_state: str
    created_at: datetime
    updated_at: datetime
    task_state: str | None = None
    place: Place | None = None
    move: ServerMove | None = None
    document: str | None = None
    consumer_generation: int = 0
    operation_uuid: str | None = None

    @property
    def runs(self) -> bool:
        """Whether its guest should run."""
        return self.vm_state in (ACTIVE, RESIZED) and not (self.move and self.move.was == STOPPED)


class ServerOperation(Value, frozen=True, kw_only=True):
    """An operation on a server, and how far it is.

    :ivar kind: names the table of steps. :ivar step: the step that was begun last.
    :ivar forward: False: it is being undone, from ``step`` backwards.
    :ivar attempt: counts hosts that were tried, from 1.
    :ivar progress: the results of the steps, see `rtagent.conductor.progress`.
    :ivar error: why it stopped, is being undone, or has failed, as a document; None: no error.
    :ivar owner: the conductor that works on it; None: no conductor does.
    :ivar epoch: counts the owners. :ivar beat: a counter that the owner increases.
    """

    uuid: str
    server_uuid: str
    kind: str
    step: str
    created_at: datetime
    updated_at: datetime
    state: OperationState = "running"
    forward: bool = True
    attempt: int = 1
    progress: Mapping[str, Any] = {}
    error: Mapping[str, Any] | None = None
    owner: str | None = None
    epoch: int = 1
    beat: int = 0
