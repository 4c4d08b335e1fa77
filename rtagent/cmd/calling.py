"""Caller: the agent's RPC server, for a command."""

from __future__ import annotations

import getpass
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
        self._reached = False

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """The answer of a method of `AgentAPI`.

        :raises AgentUnreachable: there is none; whether the call had an effect is not known.
        :raises RtAgentError: as the agent told it.
        """
        self._reached = True
        try:
            return getattr(self._agent, method)(self._context, *arguments, **named)
        except oslo_messaging.MessagingTimeout as exc:
            raise self._unreachable(f"no answer within {self._timeout:g} s") from exc
        except oslo_messaging.MessagingException as exc:
            raise self._unreachable(str(exc).splitlines()[0]) from exc

    def close(self) -> None:
        """Let go of the connections, unless that would have to wait for the broker."""
        if self._reached:
            self._transport.cleanup()

    def _unreachable(self, why: str) -> AgentUnreachable:
        self._reached = False
        return AgentUnreachable(where=f"{TOPIC}.{self._host}", why=why, remedy=REMEDY)


def _transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    try:
        return get_transport(conf)
    except oslo_messaging.MessagingException as exc:  # nothing has been connected to yet
        raise ConfigError(
            group="DEFAULT", option="transport_url", value="(not shown)", rule=str(exc)
        ) from exc
