"""The methods of a scheduler with which agents report their hosts.

They are cast to every scheduler, and have no reply. A malformed report is set aside: it is logged,
counts in ``rtagent_rpc_total``, and its host is not selected until a good one comes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rtagent.errors import InvalidRequest
from rtagent.rpc.method import rpc_method
from rtagent.rpc.roles import AGENT
from rtagent.rpc.served_scheduler import ServedScheduler
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    InstanceMessage,
    SyncInstanceInfo,
    UpdateHostState,
    UpdateInstanceInfo,
    instances_from,
    is_uuid,
    report_from,
)
from rtagent.scheduler.tracked_host import INSTANCES, STATE


class Reported(NamedTuple):
    """What a message of an agent says of its sender. :ivar node_uuid: None: it is malformed."""

    host: object
    node_uuid: str | None
    epoch: int


def reported(arguments: Any) -> Reported | None:
    """Return what the arguments of a method say of their sender; None: it is no report."""
    if isinstance(arguments, InstanceMessage):
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


@rpc_method(AGENT, cast=True)
def update_host_state(served: ServedScheduler, arguments: UpdateHostState) -> None:
    """Report the state of a host."""
    with _named(served, STATE, arguments):
        report = report_from(arguments.report)
    served.hosts.update_host_state(report)


@rpc_method(AGENT, cast=True)
def update_instance_info(served: ServedScheduler, arguments: UpdateInstanceInfo) -> None:
    """Report new and changed instances of a host."""
    _change(served, "update_instance_info", arguments, arguments.instances)


@rpc_method(AGENT, cast=True)
def delete_instance_info(served: ServedScheduler, arguments: DeleteInstanceInfo) -> None:
    """Report that an instance is no longer on a host."""
    _change(served, "delete_instance_info", arguments, None)


@rpc_method(AGENT, cast=True)
def sync_instance_info(served: ServedScheduler, arguments: SyncInstanceInfo) -> None:
    """Report the digest of all instances of a host, or the instances themselves."""
    _change(served, "sync_instance_info", arguments, arguments.instances)


def _change(
    served: ServedScheduler, method: str, message: InstanceMessage, packed: str | None
) -> None:
    with _named(served, INSTANCES, message):
        instances = None if packed is None else instances_from(method, packed)
    served.hosts.change_instances(message, instances)


@contextmanager
def _named(served: ServedScheduler, kind: str, arguments: Any) -> Iterator[None]:
    """Set the node aside if its message cannot be used. Its agent hears nothing of that."""
    try:
        yield
    except InvalidRequest as error:
        sender = reported(arguments)
        if sender is not None and sender.node_uuid and isinstance(sender.host, str):
            served.hosts.set_aside(sender.host, sender.node_uuid, kind, error.message)
        raise
