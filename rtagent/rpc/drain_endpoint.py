"""The methods that drain the node, and their arguments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from rtagent.errors import InvalidRequest
from rtagent.model.base import TIME, Text
from rtagent.model.change import Call
from rtagent.rpc import replies
from rtagent.rpc.method import Change, rpc_method
from rtagent.rpc.roles import OPERATOR
from rtagent.tracker import ResourceTracker

Time = Annotated[str, Meta(pattern=TIME, max_length=20)]


class DrainNode(Change, frozen=True, kw_only=True):
    """:ivar reason: for operators and callers.
    :ivar deadline: when the node should be empty, as ``2030-01-31T18:00:00Z``; null: there is no
        deadline. Nothing is stopped then.
    """

    reason: Text = ""
    deadline: Time | None = None


class DrainEndpoint:
    """Serves the methods."""

    def __init__(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker

    @rpc_method(OPERATOR, by_position=("reason",))
    def drain_node(self, arguments: DrainNode, call: Call) -> replies.Draining:
        """Create no claims from now on: every call that would create one is refused with
        ``NodeDraining``. Activations, renewals, ends, moves to other hosts and reads go on. The
        drain lasts until ``undrain_node``, also over restarts. On a node that drains, replace
        reason and deadline."""
        self._tracker.drains.begin(arguments.reason, _moment(arguments.deadline), call)
        return self._draining()

    @rpc_method(OPERATOR)
    def undrain_node(self, arguments: Change, call: Call) -> replies.Draining:
        """Create claims again."""
        self._tracker.drains.end(call)
        return self._draining()

    def _draining(self) -> replies.Draining:
        state = self._tracker.snapshot()
        drain = state.drain
        return replies.Draining(
            node=state.node.hypervisor_hostname,
            draining=drain is not None,
            reason=drain.reason if drain else "",
            deadline=drain.deadline if drain else None,
            since=drain.since if drain else None,
            claims=len(state.claims),
        )


def _moment(text: str | None) -> datetime | None:
    """:raises InvalidRequest: there is no such day."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        wrong = {"path": "$.deadline", "message": f"{text!r} is not a time: {error}"}
        raise InvalidRequest(method="drain_node", errors=[wrong]) from error
