"""AgentAPI: the Python client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import msgspec
import oslo_messaging
from kombu.exceptions import OperationalError
from oslo_context.context import RequestContext
from retrying import Retrying

from rtagent import errors
from rtagent.errors import AllocationNotWritten, RtAgentError
from rtagent.model.deletion_reason import DeletionReason
from rtagent.rpc.broker_probe import broker_probe
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.method import Method
from rtagent.rpc.methods import METHODS, TOPIC

#: Seconds before the first repetition; each wait is twice as long as the one before.
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
#: Connection attempts after the first: in a cluster of three brokers, each broker is tried.
RECONNECTS = 2
#: Seconds within which a transport must reach its broker, in addition to those for a reply.
BROKER_TIMEOUT = 5.0
#: Seconds for which the call that probes the broker waits for its reply. The reply is ignored.
PROBE_TIMEOUT = 1.0

#: The version that added a method, an argument to methods of an earlier one, or a field to the
#: limits of NUMA cells, by its name. ``METHOD.ARGUMENT`` is of one method only, and
#: ``METHOD without ARGUMENT`` a call that needs the argument in earlier versions.
SINCE: Mapping[str, str] = {
    **dict.fromkeys(("get_restore", "accept_restore", "node_uuid"), "1.1"),
    **dict.fromkeys((each.method for each in DeletionReason), "1.2"),
    **dict.fromkeys(("devices", "network_metadata", "provider_mapping"), "1.2"),
    "claim_pci_devices.allocations": "1.2",
    "live_migration_claim without migration": "1.2",
    "rebuild_claim without migration": "1.2",
}

#: Errors of a call that got no reply. It may have had its effect.
UNANSWERED = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure)


class AgentAPI:
    """The agent of one host. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.methods.METHODS`, made from that table::

        api.instance_claim(context, instance, tag="t", operation_id=None, timeout=None)

    The arguments are those of the schema: required ones by position or name, in the order of the
    schema, the others by name (see ``help(AgentAPI)``). They are JSON primitives or values of
    `rtagent.model`. An argument that is None is not sent. ``timeout`` is in seconds, for each
    attempt. A method that changes state makes an ``operation_id`` if it gets none.

    Replies are JSON primitives, as in the schemas. Errors are those of `rtagent.errors`, and
    oslo.messaging's own if there is no reply (`UNANSWERED`).

    A call is repeated, with the same operation id, when it or its reply is lost, or when the error
    says that a repetition may succeed. If no attempt succeeds the outcome may be unknown: repeat
    the call with the same ``operation_id``, or abort it. (If the id was made here, a note of the
    error has it.)

    Every attempt ends, also without a broker, with oslo.messaging's ``MessageDeliveryFailure``:
    after some seconds if the broker takes no connections; after the timeout and about 20 seconds
    if the broker hangs.

    API version history:

    * 1.0 - Initial version.
    * 1.1 - ``node_uuid`` in the arguments of every method; ``node_uuid`` and ``agent_uuid`` in the
      reply of ``ping``; the methods ``get_restore`` and ``accept_restore``; the errors
      ``DuplicateHost``, ``StoreRestored`` and ``TooManyRequests``.
    * 1.2 - ``migration`` is optional in `live_migration_claim` and `rebuild_claim`; ``devices`` in
      the arguments of `unclaim_pci_devices`, `free_pci_device_claims_for_instance` and
      `free_pci_device_allocations_for_instance`; the errors ``PciDevicesNotClaimed`` and
      ``AllocationNotWritten``;
      ``network_metadata`` in ``numa_topology`` of the limits. In claims, ``provider`` of a device
      and of an assigned resource is the uuid of its resource provider, and ``parent_addr`` of an
      assigned resource is what was its ``provider``. The methods
      `delete_allocation_for_evacuated_instance`, `delete_allocation_for_migrated_instance` and
      `delete_allocation_for_shelve_offloaded_instance`. A claim follows its allocations:
      ``provider_mapping`` in the arguments of the methods that take ``allocations``, which
      `claim_pci_devices` does, too; both and ``quantities`` in claims; the error
      ``AllocationMismatch``. In claims, ``mem_encryption``, ``namespace`` of an assigned resource,
      and ``file_backed`` in ``numa_topology``.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        *,
        node_uuid: str | None = None,
        timeout: float | None = None,
        attempts: int = 3,
    ) -> None:
        """:param transport: from `rtagent.rpc.transport.get_transport`; its configuration's
            ``[upgrade_levels] rtagent`` is the highest version that is sent.
        :param node_uuid: the node that every call is for: another one refuses it with
            `NodeNotFound`. None if it is not known; the reply of `ping` has it.
        :param timeout: seconds for each attempt; None: ``rpc_response_timeout``.
        :param attempts: the maximum number of attempts for a call.
        """
        self._client = oslo_messaging.get_rpc_client(
            transport,
            oslo_messaging.Target(topic=TOPIC, server=host, version="1.0"),
            timeout=timeout,
            retry=RECONNECTS,
            version_cap=transport.conf.upgrade_levels.rtagent,
            serializer=ContextSerializer(),
        )
        self._timeout = transport.conf.rpc_response_timeout if timeout is None else timeout
        # An agent of an earlier version does not know the argument.
        self._node_uuid = node_uuid if self._client.can_send_version(SINCE["node_uuid"]) else None
        self._probe = broker_probe(transport)
        self._retrying = Retrying(
            stop_max_attempt_number=attempts,
            wait_exponential_multiplier=FIRST_WAIT * 1000 / 2,
            wait_exponential_max=LONGEST_WAIT * 1000,
            retry_on_exception=_may_succeed_later,
        )

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        """Call a method, and repeat the call while a repetition may succeed."""
        made_id = method.changes and arguments.get("operation_id") is None
        if made_id:
            arguments = {**arguments, "operation_id": str(uuid.uuid4())}
        document = _document({"node_uuid": self._node_uuid, **arguments})
        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        if since := _since(method, document):
            options["version"] = max(since)
        client = self._client.prepare(**options)
        seconds = BROKER_TIMEOUT + (self._timeout if timeout is None else timeout)

        def attempt() -> Any:
            self._probe.ensure_reached(self._probe_broker, seconds)
            try:
                return client.call(context, method.name, **document)
            except RtAgentError as error:
                raise _local(error) from None
            except OperationalError as error:  # oslo.messaging does not translate it
                raise oslo_messaging.MessageDeliveryFailure(str(error)) from error

        try:
            return self._retrying.call(attempt)
        except Exception as error:
            if made_id:
                error.add_note(f"operation id {arguments['operation_id']}")
            raise

    def _probe_broker(self) -> None:
        client = self._client.prepare(timeout=PROBE_TIMEOUT)
        client.call(RequestContext(overwrite=False), "ping")


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


def _signature(method: Method) -> Signature:
    """``self, context``, the arguments of a method, ``timeout``."""
    fields = {field.name: field for field in msgspec.structs.fields(method.arguments)}
    required = [n for n, field in fields.items() if field.required and n != "operation_id"]
    by_position = (*required, *method.by_position)
    parameters = [
        Parameter("self", Parameter.POSITIONAL_ONLY),
        Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=RequestContext),
    ]
    for name in (*by_position, *(name for name in fields if name not in by_position)):
        parameters.append(
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name in by_position else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if name in required else None,
                annotation=fields[name].type,
            )
        )
    parameters.append(
        Parameter("timeout", Parameter.KEYWORD_ONLY, default=None, annotation=float | None)
    )
    return Signature(parameters)


def _forward(method: Method) -> Callable[..., Any]:
    """The client's function for a method."""
    signature = _signature(method)

    def forward(*positional: Any, **named: Any) -> Any:
        arguments = signature.bind(*positional, **named).arguments
        api, context = arguments.pop("self"), arguments.pop("context")
        return api._call(method, context, arguments.pop("timeout", None), arguments)

    forward.__name__, forward.__qualname__ = method.name, f"{AgentAPI.__name__}.{method.name}"
    forward.__doc__ = f"{method.effect}\n\n:raises: {', '.join(method.all_errors)}"
    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


for _method in METHODS.values():
    setattr(AgentAPI, _method.name, _forward(_method))


def _document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """JSON primitives, without the arguments that are None, and without limits that are."""
    given = {name: value for name, value in arguments.items() if value is not None}
    document: dict[str, Any] = msgspec.to_builtins(given)
    if cells := _cell_limits(document):
        without_none = {name: value for name, value in cells.items() if value is not None}
        document["limits"] = {**document["limits"], "numa_topology": without_none}
    return document


def _since(method: Method, document: Mapping[str, Any]) -> list[str]:
    """The versions that this call needs, except the first one."""
    names = {
        method.name,
        *document,
        *_cell_limits(document),
        *(f"{method.name}.{name}" for name in document),
    }
    if "migration" not in document:
        names.add(f"{method.name} without migration")
    return [version for name, version in SINCE.items() if name in names]


def _cell_limits(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The limits of NUMA cells in a call's document; empty: there are none."""
    limits = document.get("limits")
    cells = limits.get("numa_topology") if isinstance(limits, Mapping) else None
    return cells if isinstance(cells, Mapping) else {}


def _may_succeed_later(error: BaseException) -> bool:
    if isinstance(error, AllocationNotWritten):
        return False  # the operation id is used up
    if isinstance(error, RtAgentError):
        return error.retriable
    return isinstance(error, UNANSWERED)


def _local(error: RtAgentError) -> RtAgentError:
    """The error as the agent raised it.

    oslo.messaging raises a subclass of its own, whose text contains the agent's traceback.
    """
    type_ = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    local: RtAgentError = type_(**error.kwargs)
    return local
