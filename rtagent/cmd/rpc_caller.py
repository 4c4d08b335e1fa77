"""RpcCaller: calls an agent, or a scheduler, over RPC for a command; RpcReader reads with it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import oslo_messaging
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.api.client import Reader
from rtagent.errors import AgentUnreachable, ConfigError, RtAgentError
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from rtagent.rpc.roles import OPERATOR
from rtagent.rpc.transport import get_transport

#: Errors of a server that does not have a method, by their names.
UNKNOWN = ("NoSuchMethod", "UnsupportedVersion")

#: Makes a client on a transport.
MakeApi = Callable[[Any], Any]


class RpcCaller:
    """Makes each call once, on behalf of the user who runs the command."""

    def __init__(
        self, conf: cfg.ConfigOpts, api: MakeApi, where: str, program: str, timeout: float
    ) -> None:
        """:param where: the queue of the calls, which starts with their topic.
        :param program: the daemon that answers.
        :param timeout: seconds for a reply.
        :raises ConfigError: the URL of the transport is invalid.
        """
        self._where, self._program, self._timeout = where, program, timeout
        self._topic = where.partition(".")[0]
        self._context = RequestContext(user_id=getpass.getuser(), roles=[OPERATOR])
        self._transport = _transport(conf)
        self._api = api(self._transport)
        self._connected = False

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the client and return its reply.

        :raises AgentUnreachable: there is no reply; the call may have had its effect.
        :raises ConfigError: [upgrade_levels] forbids the version that the method needs.
        :raises RtAgentError: the error that was returned.
        """
        self._connected = True
        try:
            return getattr(self._api, method)(self._context, *arguments, **named)
        except oslo_messaging.RPCVersionCapError as exc:
            raise ConfigError(
                group="upgrade_levels",
                option=self._topic,
                value=exc.version_cap,
                rule=f"{method} needs {exc.version}: unset the option when every"
                f" {self._program} is upgraded",
            ) from exc
        except oslo_messaging.MessagingTimeout as exc:
            raise self._unreachable(f"no reply within {self._timeout:g} s") from exc
        except oslo_messaging.MessagingException as exc:
            if getattr(exc, "exc_type", None) in UNKNOWN:
                raise RtAgentError(
                    f"{self._where} serves an earlier release, without {method}: upgrade it"
                ) from exc
            raise self._unreachable(explained(exc)) from exc

    def close(self) -> None:
        """Close the connections, unless that would wait for an unreachable broker."""
        if self._connected:
            self._transport.cleanup()

    def _unreachable(self, why: str) -> AgentUnreachable:
        self._connected = False
        remedy = f"are {self._program} and the message broker running?"
        return AgentUnreachable(where=self._where, why=why, remedy=remedy)


class RpcReader(Reader):
    """The read API's documents of another host."""

    def __init__(self, caller: RpcCaller) -> None:
        self._caller = caller

    def request(self, target: str) -> tuple[int, bytes]:
        reply = self._caller.call("get_document", path=target)
        return reply["status"], reply["body"].encode()


def agent_caller(
    conf: cfg.ConfigOpts, host: str, node_uuid: str | None, timeout: float
) -> RpcCaller:
    """Return the caller of the agent of one host. :param node_uuid: of its node, if known."""

    def api(transport: oslo_messaging.RPCTransport) -> AgentAPI:
        return AgentAPI(transport, host, node_uuid=node_uuid, timeout=timeout, attempts=1)

    return RpcCaller(conf, api, f"{AGENT}.{host}", "rtagentd", timeout)


def scheduler_caller(conf: cfg.ConfigOpts, timeout: float) -> RpcCaller:
    """Return the caller of any scheduler."""

    def api(transport: oslo_messaging.RPCTransport) -> SchedulerAPI:
        return SchedulerAPI(transport, timeout=timeout, attempts=1)

    return RpcCaller(conf, api, SCHEDULER, "rtagent-scheduler", timeout)


def _transport(conf: cfg.ConfigOpts) -> oslo_messaging.RPCTransport:
    try:
        return get_transport(conf)
    except oslo_messaging.MessagingException as exc:  # it is not connected yet
        raise ConfigError(
            group="DEFAULT", option="transport_url", value="(not shown)", rule=str(exc)
        ) from exc
