"""Step: what an audit changes about one owner, one device, or the host."""

from __future__ import annotations

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import TakenOver
from rtagent.model.topology import Topology


class ClaimTransition(Value, frozen=True, kw_only=True):
    """A transition of a claim that an audit plans.

    :ivar verb: of `transitions.LIFE_CYCLE`: ``appear``, ``expire``, ``suspect``, ``trust`` or
        ``evacuated``.
    :ivar reason: why, for the operator.
    :ivar taken_over: for ``evacuated``: by which node, and in which migration.
    """

    claim_uuid: str
    verb: str
    reason: str
    taken_over: TakenOver | None = None


class Step(Value, frozen=True, kw_only=True):
    """Everything that an audit changes under one key. It applies only if the key is untouched since
    the audit's base.

    :ivar key: an owner's id, `device_key` of a device, `HOST`, or `ASSIGNED_RESOURCES`.
    :ivar joined: it is applied together with the step before it, which touches its key.
    :ivar domain_usage: usage of the owner's domain to record.
    :ivar removes_domain_usage: the recorded usage of the owner's domain is to be removed.
    :ivar device: a device to record. :ivar removed_device: the address of a record to be removed.
    :ivar resource_inventories: all inventories of assigned resources; None: unchanged.
    :ivar disk_available_least: GB; None: unchanged.
    """

    key: str
    joined: bool = False
    transitions: tuple[ClaimTransition, ...] = ()
    domain_usage: DomainUsage | None = None
    removes_domain_usage: bool = False
    device: PciDevice | None = None
    removed_device: str | None = None
    resource_inventories: tuple[ResourceInventory, ...] | None = None
    topology: Topology | None = None
    disk_available_least: int | None = None


class Outcome(Value, frozen=True, kw_only=True):
    """:ivar applied: keys. :ivar skipped: keys that were touched since the audit's base."""

    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def plus(self, other: Outcome) -> Outcome:
        """The outcome of both."""
        return Outcome(applied=self.applied + other.applied, skipped=self.skipped + other.skipped)
