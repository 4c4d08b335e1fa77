"""AgentAPI and SchedulerAPI: the Python clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.calls import Calls, document_of
from rtagent.rpc.method import Method, add_methods
from rtagent.rpc.methods import AGENT_API, SCHEDULER_API


class AgentAPI:
    """The agent of one host. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.methods.AGENT_API` that is not a cast, made from
    that table::

        api.instance_claim(context, instance, tag="t", operation_id=None, timeout=None)

    The arguments are those of the schema: required ones by position or name, in the order of the
    schema, the others by name (see ``help(AgentAPI)``). They are JSON primitives or values of
    `rtagent.model`. An argument that is None is not sent. ``timeout`` is in seconds, for each
    attempt. A method that changes state makes an ``operation_id`` if it gets none.

    Replies are JSON primitives, as in the schemas. Errors are those of `rtagent.errors`, and
    oslo.messaging's own if there is no reply (`rtagent.rpc.calls.UNANSWERED`).

    A call is repeated, with the same operation id, when it or its reply is lost, or when the error
    says that a repetition may succeed. If no attempt succeeds the outcome may be unknown: repeat
    the call with the same ``operation_id``, or abort it. (If the id was made here, a note of the
    error has it.)

    Every attempt ends, also without a broker, with oslo.messaging's ``MessageDeliveryFailure``:
    after some seconds if the broker takes no connections; after the timeout and about 20 seconds
    if the broker hangs.

    API version history:

    * 1.9 - That of release 0.2.0, and the first one that is supported.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        *,
        node_uuid: str | None = None,
        timeout: float | None = None,
        attempts: int = 3,
        verify: bool | None = None,
    ) -> None:
        """:param transport: from `rtagent.rpc.transport.get_transport`; its configuration's
            ``[upgrade_levels] rtagent`` is the highest version that is sent.
        :param node_uuid: the node that every call is for: another one refuses it with
            `NodeNotFound`. None if it is not known; the reply of `ping` has it.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: the maximum number of attempts for a call.
        :param verify: whether each reply must be signed by the server, or is a `ReplyNotVerified`;
            None: ``[rpc] verify_replies``.
        :raises ConfigError: a file of ``[rpc]`` is wrong.
        """
        self._calls = Calls(
            transport, AGENT, host, timeout=timeout, attempts=attempts, verify=verify
        )
        self._node_uuid = node_uuid

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        """Make a call of the table, under an operation id of its own if it needs one."""
        made_id = method.takes_operation_id and arguments.get("operation_id") is None
        if made_id:
            arguments = {**arguments, "operation_id": str(uuid.uuid4())}
        arguments = {"node_uuid": self._node_uuid, **arguments}
        try:
            return self._calls.call(context, method.name, document_of(arguments), timeout)
        except Exception as error:
            if made_id:
                error.add_note(f"operation id {arguments['operation_id']}")
            raise


def source_of(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The ``source`` argument of a move's claim: what the guest has at its source.

    :param claim: the guest's claim at the source, from `get_claim` there.
    """
    topology, devices = claim["numa_topology"] or {}, dict[str, list[str]]()
    for device in claim["pci"]:
        purpose = device["alias_name"] or device["request_id"]
        devices.setdefault(purpose, []).append(device["address"])
    sizes = [cell["pagesize"] for cell in topology.get("cells", ())]
    return {"page_sizes": sizes, "devices": devices}


add_methods(AgentAPI, AGENT_API)


class SchedulerAPI:
    """The schedulers: any one of them serves a call. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.methods.SCHEDULER_API` that is not a cast,
    made from that table::

        api.select_destinations(context, request_spec, instance_uuids, alternates=True)

    Arguments, replies, errors and repetitions are as for `rtagent.rpc.client.AgentAPI`; there are
    also the errors of `rtagent.scheduler.errors`. A repeated `select_destinations` selects again;
    what was selected for a reply that was lost is forgotten after ``[scheduler] assume_timeout``.
    With a key, a call that needs the role ``operator`` is sent to one scheduler: the one that
    answers a ping.

    API version history:

    * 1.3 - That of release 0.2.0, and the first one that is supported.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str | None = None,
        *,
        timeout: float | None = None,
        attempts: int = 3,
        verify: bool | None = None,
    ) -> None:
        """:param transport: from `rtagent.rpc.transport.get_transport`; its configuration's
            ``[upgrade_levels] scheduler`` is the highest version that is sent.
        :param host: that of one scheduler; None: any scheduler.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: the maximum number of attempts for a call.
        :param verify: whether each reply must be signed by the server, or is a `ReplyNotVerified`;
            None: ``[rpc] verify_replies``.
        :raises ConfigError: a file of ``[rpc]`` is wrong.
        """
        self._transport, self._host = transport, host
        self._options: dict[str, Any] = {"timeout": timeout, "attempts": attempts, "verify": verify}
        self._calls = Calls(transport, SCHEDULER, host, **self._options)

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        calls = self._calls_to_one(context) if method.for_one_server else self._calls
        return calls.call(context, method.name, document_of(arguments), timeout)

    def _calls_to_one(self, context: RequestContext) -> Calls:
        """Return what calls one scheduler.

        A signature for any scheduler could be copied to one that has not served the call; after a
        later change, the copy would undo that.
        """
        if self._host is not None or not self._calls.signs:
            return self._calls
        host = self._calls.call(context, "ping", {})["host"]
        return Calls(self._transport, SCHEDULER, host, **self._options)


add_methods(SchedulerAPI, SCHEDULER_API)
