"""The methods of a scheduler with which agents report their hosts.

They are cast to every scheduler, and have no reply. A malformed report is set aside: it changes
nothing, is logged, and counts in ``rtagent_rpc_total``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.method import rpc_method
from rtagent.rpc.roles import AGENT
from rtagent.rpc.trust.caller import Caller
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    SyncInstanceInfo,
    UpdateHostState,
    UpdateInstanceInfo,
    instances_from,
    report_from,
)

#: The most nodes of a host that the database does not have: the present one, and earlier ones that
#: are still in the view.
MAX_NODES = 4

_OF_INSTANCES = (UpdateInstanceInfo, DeleteInstanceInfo, SyncInstanceInfo)


class Hosts(Protocol):
    """What receives reports, see `rtagent.scheduler.host_manager.HostManager`."""

    def host_of(self, node_uuid: str) -> str | None:
        """Return the service host that has reported a node; None: the node is not known."""
        ...

    def unregistered_nodes(self, host: str) -> int:
        """Return the number of nodes of a service host that the database does not have."""
        ...

    def is_registered(self, node_uuid: str) -> bool:
        """Return whether the database has a node."""
        ...

    def update_host_state(self, report: HostReport) -> None:
        """Take the state of a host."""
        ...

    def update_instance_info(
        self,
        host: str,
        node_uuid: str,
        epoch: int,
        revision: int,
        instances: Sequence[InstanceInfo],
    ) -> None:
        """Take new and changed instances of a host."""
        ...

    def delete_instance_info(
        self, host: str, node_uuid: str, epoch: int, revision: int, uuid: str
    ) -> None:
        """Take the end of an instance."""
        ...

    def sync_instance_info(
        self,
        host: str,
        node_uuid: str,
        epoch: int,
        revision: int,
        digest: str,
        instances: Sequence[InstanceInfo] | None,
    ) -> None:
        """Compare the instances of a host, or take all of them."""
        ...


def check_host(hosts: Hosts, caller: Caller, method: str, arguments: Any) -> None:
    """Refuse the report of an agent about another host, about the node of another host, or about
    more nodes than a host has.

    :raises SignatureInvalid: the caller's key is of another host than the report, or the node would
        be one more than `MAX_NODES`.
    """
    if caller.host is None:
        return
    if isinstance(arguments, UpdateHostState):
        node = arguments.report.get("node")
        node = node if isinstance(node, dict) else {}
        host, node_uuid = node.get("host"), node.get("uuid")
    elif isinstance(arguments, _OF_INSTANCES):
        host, node_uuid = arguments.host, arguments.node_uuid
    else:
        return
    whose = f"the key {caller.name} is of the host {caller.host}"
    if host != caller.host:
        reason = f"{whose}, and the report is of {host}: make a key for each agent with rtagent key"
        raise _not_its_host(method, caller, f"{reason} generate")
    known = hosts.host_of(node_uuid) if isinstance(node_uuid, str) else None
    if known not in (None, host):
        reason = f"{whose}, and the node {node_uuid} is of {known}: if {known} was renamed"
        raise _not_its_host(method, caller, f"{reason} to {host}, restart the schedulers")
    if known is None and isinstance(node_uuid, str) and not hosts.is_registered(node_uuid):
        _check_number(hosts, caller, method)


def _check_number(hosts: Hosts, caller: Caller, method: str) -> None:
    """Refuse a node that the database does not have, if the host has too many of them."""
    if hosts.unregistered_nodes(str(caller.host)) >= MAX_NODES:
        reason = (
            f"the host {caller.host} has {MAX_NODES} nodes that are not in the database: if it was"
            " reinstalled so often, restart the schedulers"
        )
        raise _not_its_host(method, caller, reason)


def _not_its_host(method: str, caller: Caller, reason: str) -> SignatureInvalid:
    return SignatureInvalid(method=method, key=caller.name, reason=reason, skew=None)


class ReportEndpoint:
    """Serves the reports."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    @rpc_method(AGENT, cast=True)
    def update_host_state(self, arguments: UpdateHostState) -> None:
        """Report the state of a host."""
        self._hosts.update_host_state(report_from(arguments.report))

    @rpc_method(AGENT, cast=True)
    def update_instance_info(self, arguments: UpdateInstanceInfo) -> None:
        """Report new and changed instances of a host."""
        self._hosts.update_instance_info(
            arguments.host,
            arguments.node_uuid,
            arguments.epoch,
            arguments.revision,
            instances_from("update_instance_info", arguments.instances),
        )

    @rpc_method(AGENT, cast=True)
    def delete_instance_info(self, arguments: DeleteInstanceInfo) -> None:
        """Report that an instance is no longer on a host."""
        self._hosts.delete_instance_info(
            arguments.host,
            arguments.node_uuid,
            arguments.epoch,
            arguments.revision,
            arguments.instance_uuid,
        )

    @rpc_method(AGENT, cast=True)
    def sync_instance_info(self, arguments: SyncInstanceInfo) -> None:
        """Report the digest of all instances of a host, or the instances themselves."""
        text = arguments.instances
        instances = None if text is None else instances_from("sync_instance_info", text)
        self._hosts.sync_instance_info(
            arguments.host,
            arguments.node_uuid,
            arguments.epoch,
            arguments.revision,
            arguments.digest,
            instances,
        )
