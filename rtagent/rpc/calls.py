"""What the parts of the client call their methods by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from oslo_context.context import RequestContext


class Calls(ABC):
    """A part of `rtagent.rpc.client.AgentAPI`."""

    @abstractmethod
    def _change(
        self,
        context: RequestContext,
        method: str,
        operation_id: str | None,
        timeout: float | None,
        **arguments: Any,
    ) -> Any:
        """A call that changes state; without an operation id, one is made."""

    @abstractmethod
    def _call(
        self,
        context: RequestContext,
        method: str,
        timeout: float | None,
        **arguments: Any,
    ) -> Any:
        """One call, repeated while it may succeed later. Arguments that are None are left out."""
