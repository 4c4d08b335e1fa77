"""The agents and the schedulers over RPC, as ports of a conductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.conductor.errors import InvalidReply
from rtagent.errors import AgentUnreachable
from rtagent.model.base import Value
from rtagent.model.converter import Converter
from rtagent.model.server import RequestSpec
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from rtagent.scheduler.selection import Selections

REMEDY = "is it running, and the message broker?"


class RpcAgents:
    """The agents of all hosts. Thread-safe. It makes each call once."""

    def __init__(
        self, transport: oslo_messaging.RPCTransport, context: RequestContext, timeout: float
    ) -> None:
        """:param timeout: seconds for a reply."""
        self._transport, self._context, self._timeout = transport, context, timeout
        self._apis: dict[tuple[str, str | None], AgentAPI] = {}

    def call(self, host: str, node_uuid: str | None, method: str, **arguments: Any) -> Any:
        """Call a method of an agent, and return its reply.

        :raises AgentUnreachable: there is no answer. :raises RtAgentError: the agent's error.
        """
        api = self._apis.get((host, node_uuid))
        if api is None:
            api = AgentAPI(
                self._transport, host, node_uuid=node_uuid, timeout=self._timeout, attempts=1
            )
            self._apis[host, node_uuid] = api
        return _answered(
            f"the agent of {host}",
            lambda: getattr(api, method)(self._context, **arguments),
        )


class RpcScheduler:
    """The schedulers. Thread-safe. It makes each call once."""

    def __init__(
        self, transport: oslo_messaging.RPCTransport, context: RequestContext, timeout: float
    ) -> None:
        """:param timeout: seconds for a reply."""
        self._context = context
        self._api = SchedulerAPI(transport, timeout=timeout, attempts=1)

    def select_destinations(
        self, spec: RequestSpec, instance_uuids: Sequence[str], *, alternates: bool
    ) -> Sequence[Selections]:
        """Select a host for each instance.

        :raises AgentUnreachable: no scheduler answers. :raises NoValidHost:
        :raises InvalidReply: the scheduler is of another version.
        """
        reply = _answered(
            "the scheduler",
            lambda: self._api.select_destinations(
                self._context, spec, list(instance_uuids), alternates=alternates
            ),
        )
        return selections_of(reply, instance_uuids)

    def is_forced_down(self, host: str) -> bool:
        """Return whether an operator has forced a service host down.

        :raises AgentUnreachable: there is no answer. :raises RtAgentError: the scheduler's error.
        """
        reply = _answered("the scheduler", lambda: self._api.get_service(self._context, host=host))
        return bool(reply["forced_down"])

    def forget_claim(self, operation_id: str) -> None:
        """Report that no claim will be made with a selection's operation id."""
        _answered("the scheduler", lambda: self._api.forget_claim(self._context, operation_id))


class _Reply(Value, frozen=True):
    selections: tuple[Selections, ...]


_replies = Converter(_Reply, strict=False, str_keys=True)


def selections_of(reply: object, instance_uuids: Sequence[str]) -> Sequence[Selections]:
    """Return the selections of a scheduler's reply.

    :raises InvalidReply: it does not have its form, or is about other instances.
    """
    try:
        found = _replies.convert(reply).selections
    except msgspec.ValidationError as error:
        why = str(error)
    else:
        selected = [each.instance_uuid for each in found]
        if selected == list(instance_uuids):
            return found
        why = f"it selects for {', '.join(selected) or 'no instance'}"
    raise InvalidReply(where="the scheduler", method="select_destinations", why=why)


def _answered(where: str, call: Callable[[], Any]) -> Any:
    """Make a call. :raises AgentUnreachable: there is no answer."""
    try:
        return call()
    except oslo_messaging.MessagingTimeout as error:
        raise AgentUnreachable(where=where, why="no reply in time", remedy=REMEDY) from error
    except oslo_messaging.MessagingException as error:
        why = str(error).partition("\n")[0]
        raise AgentUnreachable(where=where, why=why, remedy=REMEDY) from error
