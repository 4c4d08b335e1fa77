"""Progress: the results of an operation's steps. It is durable before each step."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rtagent.model.base import Converter, Value
from rtagent.model.migration import MigrationFacts
from rtagent.model.server import Place, RequestSpec, Selection


class Tried(Value, frozen=True, kw_only=True):
    """A host that was tried. :ivar error: why it was given up, as a document."""

    host: str
    error: Mapping[str, Any]


class Progress(Value, frozen=True, kw_only=True):
    """The results of the steps of an operation.

    :ivar spec: the request, with the new flavor of a resize.
    :ivar was: the server's vm_state before the operation.
    :ivar source: where the server was before a move; or the host that an owed call is for.
    :ivar selection: the host of this attempt. :ivar alternates: hosts to try next.
    :ivar allocations: of an evacuated server, before the first selection; None: it is not one, or
        the conductor writes none.
    :ivar consumer_generation: the highest generation of the server's consumer in Placement with
        which a write was decided. A late write may still have it.
    :ivar migration: the move's record. :ivar claim: at the selected host, as returned last.
    :ivar tried: hosts that were given up.
    :ivar again: after the undo another host is tried.
    :ivar call: of an owed call: the method and its arguments.
    :ivar places: of a forced delete: the claims to clear. :ivar migrations: and the migrations that
        may have allocations. :ivar reason: why it was forced.
    """

    spec: RequestSpec
    was: str
    source: Place | None = None
    selection: Selection | None = None
    alternates: tuple[Selection, ...] = ()
    allocations: Mapping[str, Any] | None = None
    consumer_generation: int = 0
    migration: MigrationFacts | None = None
    claim: Mapping[str, Any] | None = None
    tried: tuple[Tried, ...] = ()
    again: bool = False
    call: tuple[str, Mapping[str, Any]] | None = None
    places: tuple[Place, ...] = ()
    migrations: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def dest(self) -> Place:
        """The claim at the selected host."""
        assert self.selection is not None
        assert self.claim is not None
        return Place(
            host=self.selection.host, node_uuid=self.selection.provider_uuid, claim=self.claim
        )

    def document(self) -> dict[str, Any]:
        """Return it as JSON primitives."""
        found: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        return found


_progress = Converter(Progress, strict=False, str_keys=True)


def progress_of(document: Mapping[str, Any]) -> Progress:
    """Return the progress that `Progress.document` made a document of."""
    return _progress.convert(document)
