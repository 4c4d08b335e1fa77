"""The rows that a store has for one node, as values."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import Migration
from rtagent.model.node import Drain, Node, Ratios
from rtagent.model.outbox import OutboxRow
from rtagent.model.topology import Topology


class Position(Value, frozen=True, kw_only=True):
    """Epoch and revision of a node's record. Both only grow, so a record that has less of either
    than an agent has acknowledged is an older copy.
    """

    epoch: int
    revision: int

    def behind(self, other: Position) -> bool:
        """Return whether epoch or revision is less than the other's."""
        return self.epoch < other.epoch or self.revision < other.revision


class Stored(Value, frozen=True, kw_only=True):
    """Everything that a store has for one node. Released claims are not included.

    :ivar epoch: the epoch of the writer that read the rows.
    :ivar ratios: allocation ratios of the node's record.
    :ivar disk_available_least: GB. :ivar rebooted_at: see `NodeRecord`.
    :ivar event_sequence: the number of the last event.
    :ivar damage: a sentence for each damaged row. What the row may hold is in the other fields.
    :ivar unknown: reasons why it is not known what is held. Nothing must be granted then.
    """

    node: Node
    revision: int
    epoch: int
    claims: tuple[Claim, ...] = ()
    domain_usages: tuple[DomainUsage, ...] = ()
    migrations: tuple[Migration, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    resource_inventories: tuple[ResourceInventory, ...] = ()
    topology: Topology | None = None
    ratios: Ratios = Ratios()
    failed_builds: int = 0
    disk_available_least: int | None = None
    drain: Drain | None = None
    rebooted_at: datetime | None = None
    outbox: tuple[OutboxRow, ...] = ()
    event_sequence: int = 0
    damage: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
