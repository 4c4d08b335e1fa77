"""Bus: what happens in a process, as typed events to which its parts subscribe."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rtagent.model.base import Value
from rtagent.model.change import Call, Change
from rtagent.model.node_state import NodeState

E = TypeVar("E", bound=Value)


class Bus:
    """Passes each event to those who have subscribed to its type, in the order in which they have.

    A part subscribes at its construction, before there are other threads. Any thread may publish.
    It calls the subscribers itself, so each of them must return at once: one that has work wakes
    its thread. A claim costs one look-up and these calls.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Value], list[Callable[[Any], object]]] = {}

    def subscribe(self, event: type[E], subscriber: Callable[[E], object]) -> None:
        """Call `subscriber` with every event of exactly this type."""
        self._subscribers.setdefault(event, []).append(subscriber)

    def publish(self, event: Value) -> None:
        """Call the subscribers of the event."""
        for subscriber in self._subscribers.get(type(event), ()):
            subscriber(event)


class StatePublished(Value, frozen=True, kw_only=True):
    """A state was committed, or reloaded. Published outside all locks.

    :ivar changes: which have led to it; none after a reload.
    """

    state: NodeState
    changes: Sequence[Change]


class CallRefused(Value, frozen=True, kw_only=True):
    """A call was refused. :ivar reasons: as documents."""

    call: Call
    reasons: Sequence[Mapping[str, Any]]


class WriterDown(Value, frozen=True, kw_only=True):
    """The tracker has become `stale`, or has a `fault`. It may be published with locks of the
    tracker held.
    """


class AnnouncementWaits(Value, frozen=True, kw_only=True):
    """An event without a change waits to be written, and is the first one."""
