"""OutboxSource: what the outbox's thread reads and changes of the node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rtagent.model.base import Value
from rtagent.model.node_state import NodeState


class OutboxSource(Value, frozen=True, kw_only=True):
    """Callables of the node; each may be called from any thread.

    :ivar state: returns the published state.
    :ivar ready: whether allocations may be written: Placement has inventories of this node, and the
        claims are known to be complete.
    :ivar owns: whether the agent has created or adopted a provider that Placement still has, by
        uuid; raises `PlacementError`.
    :ivar pushing: whether inventories are being written to Placement.
    :ivar enqueue: puts consumers into the outbox; raises `Unavailable`.
    :ivar remove: removes the rows of consumers that have these revisions from the outbox; raises
        `Unavailable`.
    """

    state: Callable[[], NodeState]
    ready: Callable[[], bool]
    owns: Callable[[str], bool]
    pushing: Callable[[], bool]
    enqueue: Callable[[Collection[str]], None]
    remove: Callable[[Mapping[str, int]], None]
