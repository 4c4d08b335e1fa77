"""RpcCaller: calls the agent over RPC for a command."""

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


class RpcCaller:
    """Makes each call once, on behalf of the user who runs the command."""

    def __init__(
        self, conf: cfg.ConfigOpts, host: str, node_uuid: str | None, timeout: float
    ) -> None:
        """:param host: the service host of the agent. :param node_uuid: of its node, if known.
        :param timeout: seconds for a reply.
        :raises ConfigError: the URL of the transport is invalid.
        """
        self._host, self._timeout = host, timeout
        self._context = RequestContext(user_id=getpass.getuser())
        self._transport = _transport(conf)
        self._agent = AgentAPI(
            self._transport, host, node_uuid=node_uuid, timeout=timeout, attempts=1
        )
        self._connected = False

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of `AgentAPI` and return its reply.

        :raises AgentUnreachable: there is no reply; the call may have had its effect.
        :raises RtAgentError: the error that the agent returned.
        """
        self._connected = True
        try:
            return getattr(self._agent, method)(self._context, *arguments, **named)
        except oslo_messaging.MessagingTimeout as exc:
            raise self._unreachable(f"no reply within {self._timeout:g} s") from exc
        except oslo_messaging.MessagingException as exc:
            raise self._unreachable(str(exc).splitlines()[0]) from exc

    def close(self) -> None:
        """Close the connections, unless that would wait for an unreachable broker."""
        if self._connected:
            self._transport.cleanup()

    def _unreachable(self, why: str) -> AgentUnreachable:
        self._connected = False
        return AgentUnreachable(where=f"{TOPIC}.{self._host}", why=why, remedy=REMEDY)


def _transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    try:
        return get_transport(conf)
    except oslo_messaging.MessagingException as exc:  # it is not connected yet
        raise ConfigError(
            group="DEFAULT", option="transport_url", value="(not shown)", rule=str(exc)
        ) from exc
