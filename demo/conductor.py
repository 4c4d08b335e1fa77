"""A conductor that moves guests by calling the agent over the message bus."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from oslo_context.context import RequestContext
from rich.console import Console

from rtagent.rpc.client import AgentAPI
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(user_id="conductor", overwrite=False)


class Conductor:
    """:param transport_url: of the broker. :param host: the host whose agent is called."""

    def __init__(self, console: Console, transport_url: str, host: str) -> None:
        self._console = console
        self._transport = open_transport(transport_url)
        self._agent = AgentAPI(self._transport, host, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transport.cleanup()

    def call(self, method: str, what: str, **arguments: Any) -> Any:
        """Make the call and print it with its answer.

        :param what: the subject of the call, printed in parentheses.
        """
        self._console.print(f"> {method}({what})", style="bold", highlight=False)
        answer = getattr(self._agent, method)(CONTEXT, **arguments)
        if answer is not None:
            devices = ", ".join(device["address"] for device in answer["pci"])
            shown = f"claim {answer['uuid']}: {answer['state']}, holds {devices}"
            self._console.print(f"  {shown}", highlight=False, soft_wrap=True)
        return answer
