"""The messages of agents and schedulers to all schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import oslo_messaging

from rtagent.model.base import Value
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.rpc import roles
from rtagent.rpc.bounded_casts import BoundedCasts, Message
from rtagent.rpc.topics import SCHEDULER
from rtagent.scheduler.report import instances_digest
from rtagent.scheduler.report_documents import instances_text, report_document

#: The version of the schedulers' API that these messages need.
VERSION = "1.0"


class Numbered(Value, frozen=True, kw_only=True):
    """What every message about instances has. :ivar revision: its number in the epoch."""

    host: str
    node_uuid: str
    epoch: int
    revision: int

    def cast(self, method: str, **arguments: Any) -> Message:
        """Return a message about instances."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Message(method=method, arguments={**fields, **arguments})


def scheduler_casts(
    transport: oslo_messaging.RPCTransport, role: str = roles.AGENT
) -> BoundedCasts:
    """Return what casts to the schedulers. :param role: of the sender."""
    return BoundedCasts(transport, SCHEDULER, VERSION, role)


def host_state(report: HostReport) -> Message:
    """Return the message that has a report."""
    return Message(method="update_host_state", arguments={"report": report_document(report)})


def changed_instances(number: Numbered, instances: Sequence[InstanceInfo]) -> Message:
    """Return the message that has new and changed instances."""
    return number.cast("update_instance_info", instances=instances_text(instances))


def removed_instance(number: Numbered, uuid: str) -> Message:
    """Return the message that an instance has left the host."""
    return number.cast("delete_instance_info", instance_uuid=uuid)


def whole_list(number: Numbered, instances: Sequence[InstanceInfo]) -> Message:
    """Return the message that has all instances."""
    digest = instances_digest(info.uuid for info in instances)
    return number.cast("sync_instance_info", digest=digest, instances=instances_text(instances))


def dropped_claim(operation_id: str) -> Message:
    """Return the message by which every scheduler forgets an assumed claim."""
    return Message(method="drop_assumed_claim", arguments={"operation_id": operation_id})


def list_digest(number: Numbered, uuids: Iterable[str]) -> Message:
    """Return the message that has the digest of all instances alone."""
    return number.cast("sync_instance_info", digest=instances_digest(uuids))
