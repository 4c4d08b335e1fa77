"""The node and who may write for it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from rtagent.model.base import Value


class Node(Value, frozen=True, kw_only=True):
    """One hypervisor, served by one agent.

    :ivar uuid: from the node's identity file; Placement's root provider has the same.
    :ivar host: the service's host (``[DEFAULT] host``).
    :ivar hypervisor_hostname: libvirt's name of the machine.
    """

    uuid: str
    host: str
    hypervisor_hostname: str
    host_ip: str = ""


class Writer(Value, frozen=True, kw_only=True):
    """The process that writes for a node: enough to tell two machines with one name apart.

    :ivar process: drawn anew by each process, so that it knows an epoch of its own making.
    """

    machine_id: str
    boot_id: str
    state_path: str
    process: str = ""


class Ratios(Value, frozen=True, kw_only=True):
    """The allocation ratios kept on a node's record; None where none was ever set."""

    cpu: Decimal | None = None
    ram: Decimal | None = None
    disk: Decimal | None = None


class NodeRecord(Value, frozen=True, kw_only=True):
    """A node's row as identity sees it.

    :ivar last_seen_up: the last heartbeat of the service of that host, or None.
    """

    node: Node
    epoch: int
    revision: int
    writer: Writer | None = None
    last_seen_up: datetime | None = None
    deleted_at: datetime | None = None
