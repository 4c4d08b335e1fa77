"""The methods of a scheduler with which agents report their hosts.

They are cast to every scheduler, and have no reply. A malformed report is set aside: it is logged,
counts in ``rtagent_rpc_total``, and its host is not selected until a good one comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from rtagent.errors import InvalidRequest
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.rpc.method import rpc_method
from rtagent.rpc.roles import AGENT
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    SyncInstanceInfo,
    UpdateHostState,
    UpdateInstanceInfo,
    instances_from,
    is_uuid,
    report_from,
)
from rtagent.scheduler.tracked_host import INSTANCES, STATE

_OF_INSTANCES = (UpdateInstanceInfo, DeleteInstanceInfo, SyncInstanceInfo)


class ReportReceiver(Protocol):
    """What receives reports, see `rtagent.scheduler.host_manager.HostManager`."""

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

    def set_aside(self, host: str, node_uuid: str, kind: str, why: str) -> None:
        """Select a node no more, because a message of this kind cannot be used."""
        ...


class Reported(NamedTuple):
    """What a message of an agent says of its sender. :ivar node_uuid: None: it is malformed."""

    host: object
    node_uuid: str | None
    epoch: int


def reported(arguments: Any) -> Reported | None:
    """Return what the arguments of a method say of their sender; None: it is no report."""
    if isinstance(arguments, _OF_INSTANCES):
        return Reported(arguments.host, arguments.node_uuid, arguments.epoch)
    if not isinstance(arguments, UpdateHostState):
        return None
    node = arguments.report.get("node")
    node = node if isinstance(node, dict) else {}
    uuid, epoch = node.get("uuid"), arguments.report.get("epoch")
    return Reported(
        node.get("host"),
        uuid if isinstance(uuid, str) and is_uuid(uuid) else None,
        epoch if isinstance(epoch, int) else 0,
    )


class ReportEndpoint:
    """Serves the reports."""

    def __init__(self, hosts: ReportReceiver) -> None:
        self._hosts = hosts

    @rpc_method(AGENT, cast=True)
    def update_host_state(self, arguments: UpdateHostState) -> None:
        """Report the state of a host."""
        with self._named(STATE, arguments):
            report = report_from(arguments.report)
        self._hosts.update_host_state(report)

    @rpc_method(AGENT, cast=True)
    def update_instance_info(self, arguments: UpdateInstanceInfo) -> None:
        """Report new and changed instances of a host."""
        with self._named(INSTANCES, arguments):
            instances = instances_from("update_instance_info", arguments.instances)
        self._hosts.update_instance_info(
            arguments.host,
            arguments.node_uuid,
            arguments.epoch,
            arguments.revision,
            instances,
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
        with self._named(INSTANCES, arguments):
            instances = None if text is None else instances_from("sync_instance_info", text)
        self._hosts.sync_instance_info(
            arguments.host,
            arguments.node_uuid,
            arguments.epoch,
            arguments.revision,
            arguments.digest,
            instances,
        )

    @contextmanager
    def _named(self, kind: str, arguments: Any) -> Iterator[None]:
        """Set the node aside if its message cannot be used. Its agent hears nothing of that."""
        try:
            yield
        except InvalidRequest as error:
            sender = reported(arguments)
            if sender is not None and sender.node_uuid and isinstance(sender.host, str):
                self._hosts.set_aside(sender.host, sender.node_uuid, kind, error.message)
            raise
