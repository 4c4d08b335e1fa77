"""The node, the process that writes for it, its drain, and the aggregates that it is in."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from rtagent.model.base import Document, Name, Text, Uuid, Value


class Node(Value, frozen=True, kw_only=True):
    """One hypervisor, served by one agent.

    :ivar uuid: from the node's identity file. Placement's root provider has the same uuid.
    :ivar host: the service's host (``[DEFAULT] host``).
    :ivar hypervisor_hostname: libvirt's host name.
    """

    uuid: str
    host: str
    hypervisor_hostname: str
    host_ip: str = ""


class Writer(Value, frozen=True, kw_only=True):
    """The process that writes for a node. Distinguishes two machines with one name."""

    machine_id: str
    boot_id: str
    state_path: str


class Ratios(Value, frozen=True, kw_only=True):
    """The allocation ratios in a node's record; None for a ratio that was never set."""

    cpu: Decimal | None = None
    ram: Decimal | None = None
    disk: Decimal | None = None


class NodeRecord(Value, frozen=True, kw_only=True):
    """A node's record, as the identity check reads it.

    :ivar report_count: the number of heartbeats of the host's service, or None.
    :ivar last_seen_up: the time of the last one, or None.
    :ivar rebooted_at: when the agent first ran after the last reboot that it noticed, or None.
    """

    node: Node
    epoch: int
    revision: int
    writer: Writer | None = None
    report_count: int | None = None
    last_seen_up: datetime | None = None
    deleted_at: datetime | None = None
    rebooted_at: datetime | None = None


class NodeHost(Value, frozen=True, kw_only=True):
    """The host of a node.

    :ivar host: of the service; None: no key of a host has reported the node.
    :ivar epoch: the last one of its agent; None: the node is not in ``compute_nodes``.
    """

    host: str | None = None
    epoch: int | None = None

    def allows(self, host: str | None, epoch: int) -> bool:
        """Whether the agent of a host can report the node. :param host: None: any."""
        return host in (None, self.host) and (self.epoch is None or epoch <= self.epoch)


class Drain(Value, frozen=True, kw_only=True):
    """A node that drains creates no claims; all else goes on.

    :ivar reason: why, or "". :ivar deadline: when the node should be empty, or None.
    :ivar since: when it began. :ivar actor: who began it.
    """

    since: datetime
    reason: str = ""
    deadline: datetime | None = None
    actor: str = ""

    def __str__(self) -> str:
        until = f" (until {self.deadline:%Y-%m-%dT%H:%M:%SZ})" if self.deadline else ""
        return f"the node is being drained{until}{f': {self.reason}' if self.reason else ''}"


class Aggregate(Document, frozen=True, kw_only=True):
    """A named group of hosts.

    :ivar uuid: also the uuid of the aggregate in Placement.
    :ivar metadata: keys that filters and weighers read. ``availability_zone`` is one of them.
    :ivar hosts: names of service hosts, sorted.
    """

    uuid: Uuid
    name: Name
    metadata: Mapping[Name, Text] = {}
    hosts: tuple[Name, ...] = ()

    @property
    def availability_zone(self) -> str | None:
        """The availability zone of its hosts, or None."""
        return self.metadata.get("availability_zone")
