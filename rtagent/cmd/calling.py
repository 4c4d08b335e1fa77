"""Caller: the agent's RPC server, with an end to every wait."""

from __future__ import annotations

import getpass
import queue
import threading
from collections.abc import Callable
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import oslo_messaging
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.errors import AgentUnreachable, ConfigError
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.methods import TOPIC
from rtagent.rpc.transport import get_transport

#: Seconds beyond a call's own, for the way to the broker.
GRACE = 5.0

REMEDY = "are rtagentd and the message broker running?"


class Caller:
    """Makes calls in the name of the user who runs the command.

    :param host: whose agent. :param timeout: seconds for an answer.
    :raises ConfigError: the transport's URL.
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, timeout: float) -> None:
        self._host, self._timeout = host, timeout
        self._context = RequestContext(user_id=getpass.getuser())
        self._transport = _transport(conf)
        self._agent = AgentAPI(self._transport, host, timeout=timeout, attempts=1)
        self._answered = False

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """The answer of a method of `AgentAPI`.

        :raises AgentUnreachable: there is none; whether the call had an effect is not known.
        :raises RtAgentError: as the agent told it.
        """
        make = getattr(self._agent, method)
        try:
            return self._bounded(lambda: make(self._context, *arguments, **named))
        except oslo_messaging.MessagingTimeout as exc:
            raise self._unreachable(f"no answer within {self._timeout:g} s") from exc
        except oslo_messaging.MessagingException as exc:
            raise self._unreachable(str(exc).splitlines()[0]) from exc

    def _bounded(self, make: Callable[[], Any]) -> Any:
        """In a thread of its own, left behind in the end: the library waits for its broker for as
        long as it takes."""
        answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                answers.put((make(), None))
            except BaseException as error:  # handed over to the thread that waits for it
                answers.put((None, error))

        threading.Thread(target=run, name="call", daemon=True).start()
        try:
            answer, error = answers.get(timeout=self._timeout + GRACE)
        except queue.Empty:
            raise self._unreachable("the message broker does not answer") from None
        self._answered = not isinstance(error, oslo_messaging.MessagingException)
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """Let go of the connections, unless that would have to wait for the broker."""
        if self._answered:
            self._transport.cleanup()

    def _unreachable(self, why: str) -> AgentUnreachable:
        return AgentUnreachable(where=f"{TOPIC}.{self._host}", why=why, remedy=REMEDY)


def _transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    try:
        return get_transport(conf)
    except oslo_messaging.MessagingException as exc:  # nothing has been connected to yet
        raise ConfigError(
            group="DEFAULT", option="transport_url", value="(not shown)", rule=str(exc)
        ) from exc
