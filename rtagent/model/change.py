"""Change: the only way in which a node's state changes.

The store writes a Change and memory folds the same Change: the two cannot follow different logic.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.event import Notification
from rtagent.model.migration import Migration
from rtagent.model.node import Drain
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology

#: The cause of a change that has events alone.
ANNOUNCEMENT = "event"


class Operation(Value, frozen=True, kw_only=True):
    """The record that an operation id has had its effect.

    :ivar claim_uuid: the claim whose current state answers a repeat, or None.
    :ivar ended: the claim with this uuid was ended before it was created: a creating call with this
        operation id is refused.
    """

    operation_id: str
    digest: str
    method: str
    claim_uuid: str | None = None
    ended: bool = False


class Call(Value, frozen=True, kw_only=True):
    """One call that changes state.

    :ivar operation_id: a UUID chosen by the caller. A claim that the call creates has this uuid.
    :ivar digest: of the method and its arguments: the same id with another digest is a conflict.
    :ivar actor: the user id of the request's context, or a part of the agent ("audit").
    """

    method: str
    operation_id: str
    digest: str
    request_id: str = ""
    actor: str = ""

    def operation(self, *claims: Claim) -> Operation:
        """The record of this call. A repeat is answered with the first of the claims."""
        return Operation(
            operation_id=self.operation_id,
            digest=self.digest,
            method=self.method,
            claim_uuid=claims[0].uuid if claims else None,
        )

    def change(self, now: datetime, **parts: Any) -> Change:
        """A change that is caused by this call."""
        return Change(
            cause=self.method, at=now, actor=self.actor, request_id=self.request_id, **parts
        )


def ended_operation(claim_uuid: str) -> Operation:
    """The record that refuses a later creating call whose claim would have this uuid."""
    return Operation(operation_id=claim_uuid, digest="", method="abort", ended=True)


class Event(Value, frozen=True, kw_only=True):
    """One line of a claim's history.

    :ivar before: the claim before, or None at its creation. :ivar after: the claim after.
    """

    before: Claim | None
    after: Claim
    action: str
    reason: str = ""


class Change(Value, frozen=True, kw_only=True):
    """A change of state, applied completely or not at all.

    :ivar cause: the RPC method, or ``audit``, ``policy``, ``purge``, ``reload``, `ANNOUNCEMENT`.
    :ivar puts: new or changed claims, live. :ivar ends: claims that it releases.
    :ivar domain_usages: of foreign or drifting domains, new or changed.
    :ivar domain_usage_removals: domain uuids.
    :ivar migrations: new or changed. :ivar migration_removals: uuids.
    :ivar devices: new or changed. :ivar device_removals: addresses.
    :ivar resource_inventories: all inventories of assigned resources; None: unchanged.
    :ivar disk_available_least: GB, observed.
    :ivar drain: the node drains from now on. :ivar undrained: it no longer does.
    :ivar written: consumers whose allocations Placement has: their rows leave the outbox.
    :ivar unwritten: consumers whose allocations have to be written (again).
    :ivar events: lines of the claims' history.
    :ivar notifications: what consumers of events get. Audits add drift, the state writer the rest.
    """

    cause: str
    at: datetime
    actor: str = ""
    request_id: str = ""
    puts: tuple[Claim, ...] = ()
    ends: tuple[Claim, ...] = ()
    domain_usages: tuple[DomainUsage, ...] = ()
    domain_usage_removals: tuple[str, ...] = ()
    migrations: tuple[Migration, ...] = ()
    migration_removals: tuple[str, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    device_removals: tuple[str, ...] = ()
    resource_inventories: tuple[ResourceInventory, ...] | None = None
    topology: Topology | None = None
    policy: Policy | None = None
    failed_builds: int | None = None
    disk_available_least: int | None = None
    drain: Drain | None = None
    undrained: bool = False
    written: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    events: tuple[Event, ...] = ()
    notifications: tuple[Notification, ...] = ()

    @property
    def announces(self) -> bool:
        """Whether it has events alone, and leaves the state and its revision as they are."""
        return self.cause == ANNOUNCEMENT

    @property
    def owners(self) -> frozenset[str]:
        """Every owner that this change affects."""
        claims = (claim.owner_id for claim in self.puts + self.ends)
        domains = (domain_usage.domain_uuid for domain_usage in self.domain_usages)
        return frozenset((*claims, *domains, *self.domain_usage_removals))

    @property
    def concerns_devices(self) -> bool:
        """Whether it changes a device, an assigned resource, or a claim's share of either.

        A claim may have given back its last one.
        """
        before = tuple(event.before for event in self.events if event.before is not None)
        return bool(
            self.devices
            or self.device_removals
            or self.resource_inventories is not None
            or any(claim.pci or claim.resources for claim in self.puts + self.ends + before)
        )
