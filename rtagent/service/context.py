"""What the parts of a node's process share, and the events that they report."""

from __future__ import annotations

from typing import Protocol

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter


class NodeEvents(Protocol):
    """The events that the threads of a node report. Every method is thread-safe and returns at
    once.
    """

    def ready(self) -> None:
        """Claims are granted: the first good audit after a start or a loss has ended."""
        ...

    def lost(self) -> None:
        """The hypervisor is unavailable: calls that create claims are refused."""
        ...

    def returned(self) -> None:
        """The store is back, and the state was reloaded from it."""
        ...

    def policy_changed(self) -> None:
        """The policy has changed."""
        ...

    def service_changed(self) -> None:
        """The service was disabled or enabled."""
        ...

    def fatal(self, error: RtAgentError) -> None:
        """This process must end, and an operator has to correct the cause.

        Another process has fenced it, the hypervisor is another machine than before, or the
        configuration does not fit the host.
        """
        ...


class PartContext(Value, frozen=True, kw_only=True):
    """The objects that every part uses."""

    settings: SettingsHolder
    clock: Clock
    reporter: Reporter


class NodeContext(PartContext, frozen=True, kw_only=True):
    """The objects that every part of a node agent uses. :ivar events: the receiver of events that
    concern other parts.
    """

    events: NodeEvents
