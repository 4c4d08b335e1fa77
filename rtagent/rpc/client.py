"""AgentAPI: the Python client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.model.deletion_reason import DeletionReason
from rtagent.rpc.calls import Calls
from rtagent.rpc.method import Method, add_methods
from rtagent.rpc.methods import METHODS
from rtagent.rpc.topics import AGENT

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
    "report_host_state": "1.3",
    **dict.fromkeys(("drain_node", "undrain_node", "get_document"), "1.4"),
    **dict.fromkeys(("adopt_domain", "test_adoption", "test_release", "unless_running"), "1.4"),
    **dict.fromkeys(("release_claim.reason", "abort_instance_claim.reason"), "1.4"),
    "shut_off": "1.6",
    "update_forced_down": "1.7",
    "instance_claims": "1.8",
}


class AgentAPI:
    """The agent of one host. Thread-safe; cheap to create.

    It has a method for each one of `rtagent.rpc.methods.METHODS` that is not a cast, made from that
    table::

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
    * 1.3 - The method `report_host_state`, which schedulers cast.
    * 1.4 - The methods `drain_node`, `undrain_node`, `get_document`, `adopt_domain`,
      `test_adoption` and `test_release`; ``unless_running`` and ``reason`` in the arguments of
      `release_claim` and `abort_instance_claim`; the errors ``NodeDraining``,
      ``DomainNotAdoptable``, ``GuestRunning``, ``NotAuthorized`` and ``DocumentTooLarge``.
    * 1.5 - ``time`` in the reply of `ping`; the error ``SignatureInvalid``, and ``NotAuthorized``
      and ``TooManyRequests`` of every method. Calls may be signed, and replies on request.
    * 1.6 - ``shut_off`` in the arguments of `adopt_domain` and `test_adoption`.
    * 1.7 - The method `update_forced_down`, which schedulers cast.
    * 1.8 - The method `instance_claims`.
    * 1.9 - ``net_name`` of a device in claims.
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
            transport,
            oslo_messaging.Target(topic=AGENT, server=host, version="1.0"),
            version_cap=transport.conf.upgrade_levels.rtagent,
            timeout=timeout,
            attempts=attempts,
            verify=verify,
        )
        # An agent of an earlier version does not know the argument.
        self._node_uuid = node_uuid if self._calls.can_send(SINCE["node_uuid"]) else None

    if TYPE_CHECKING:  # the methods of the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any:
        """Make a call of the table, under an operation id of its own if it needs one."""
        made_id = method.takes_operation_id and arguments.get("operation_id") is None
        if made_id:
            arguments = {**arguments, "operation_id": str(uuid.uuid4())}
        document = _document({"node_uuid": self._node_uuid, **arguments})
        version = max(_since(method, document), default=None)
        try:
            return self._calls.call(
                context, method.name, document, version=version, timeout=timeout
            )
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


add_methods(AgentAPI, (method for method in METHODS.values() if not method.cast))


def _document(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """JSON primitives, without the arguments that are None, and without limits that are."""
    given = {name: value for name, value in arguments.items() if value is not None}
    document: dict[str, Any] = msgspec.to_builtins(given)
    for claim in (document, *document.get("claims", ())):
        if cells := _cell_limits(claim):
            without_none = {name: value for name, value in cells.items() if value is not None}
            claim["limits"] = {**claim["limits"], "numa_topology": without_none}
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
