"""Change: the only way in which state moves. The store writes it and memory folds it, so that the
two cannot have different logic."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.device import PciDevice
from rtagent.model.holding import Holding
from rtagent.model.migration import Migration
from rtagent.model.policy import Policy
from rtagent.model.specific import SpecificInventory
from rtagent.model.topology import Topology


class Call(Value, frozen=True, kw_only=True):
    """Who asks, and under which operation id.

    :ivar digest: of the method and its arguments: the same id with another digest is a conflict.
    :ivar actor: the user id of the request's context, or the agent's own part ("audit").
    """

    method: str
    operation_id: str
    digest: str
    request_id: str = ""
    actor: str = ""


class Operation(Value, frozen=True, kw_only=True):
    """The record that an operation id has had its effect.

    :ivar claim_uuid: the claim whose present state answers a repeat, or None.
    :ivar ended: the id belongs to a creating call that was aborted before it was seen.
    """

    operation_id: str
    digest: str
    method: str
    claim_uuid: str | None = None
    ended: bool = False


class Event(Value, frozen=True, kw_only=True):
    """One line of a claim's history.

    :ivar before: the claim before, or None at its creation. :ivar after: the claim after.
    """

    before: Claim | None
    after: Claim
    action: str
    reason: str = ""


class Change(Value, frozen=True, kw_only=True):
    """One transition, whole: all of it or nothing.

    :ivar cause: the RPC method, or ``audit``, ``reload``.
    :ivar puts: claims that are new or changed, live. :ivar ends: claims that are released by it.
    :ivar holdings: foreign or drifting domains, new or changed. :ivar unholdings: domain uuids.
    :ivar migrations: new or changed. :ivar migration_removals: uuids.
    :ivar devices: new or changed. :ivar device_removals: addresses.
    :ivar specific: what there is of specific resources.
    :ivar disk_available_least: GB, observed.
    """

    cause: str
    at: datetime
    actor: str = ""
    request_id: str = ""
    puts: tuple[Claim, ...] = ()
    ends: tuple[Claim, ...] = ()
    holdings: tuple[Holding, ...] = ()
    unholdings: tuple[str, ...] = ()
    migrations: tuple[Migration, ...] = ()
    migration_removals: tuple[str, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    device_removals: tuple[str, ...] = ()
    specific: tuple[SpecificInventory, ...] | None = None
    topology: Topology | None = None
    policy: Policy | None = None
    failed_builds: int | None = None
    disk_available_least: int | None = None
    operations: tuple[Operation, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def owners(self) -> frozenset[str]:
        """Every owner that this touches."""
        claims = (claim.owner_id for claim in self.puts + self.ends)
        held = (holding.domain_uuid for holding in self.holdings)
        return frozenset((*claims, *held, *self.unholdings))
