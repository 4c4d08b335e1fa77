"""Step: what an audit wants to change about one owner, or about the host."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.device import PciDevice
from rtagent.model.holding import Holding
from rtagent.model.migration import TakenOver
from rtagent.model.specific import SpecificInventory
from rtagent.model.topology import Topology


class Move(Value, frozen=True, kw_only=True):
    """A claim's own change.

    :ivar verb: of `claims.LIFE_CYCLE`: ``appear``, ``expire``, ``suspect``, ``trust`` or
        ``evacuated``.
    :ivar reason: why, in words that an operator reads.
    :ivar taken_over: of one that was evacuated: where and by what.
    """

    claim_uuid: str
    verb: str
    reason: str
    taken_over: TakenOver | None = None


class Step(Value, frozen=True, kw_only=True):
    """All that an audit wants of one key; it holds only if the key is untouched since the base.

    :ivar key: an owner's id, `host.device_key` of a device, or `host.HOST`.
    :ivar joined: it is applied together with the step before it, which touches its key.
    :ivar hold: what its domain uses, to be counted from now on. :ivar unhold: count it no more.
    :ivar device: as it is recorded from now on. :ivar removal: an address: recorded no more.
    :ivar specific: what there is of specific resources.
    """

    key: str
    joined: bool = False
    moves: tuple[Move, ...] = ()
    hold: Holding | None = None
    unhold: bool = False
    device: PciDevice | None = None
    removal: str | None = None
    specific: tuple[SpecificInventory, ...] | None = None
    topology: Topology | None = None
    disk_available_least: int | None = None


class Outcome(Value, frozen=True, kw_only=True):
    """:ivar applied: keys. :ivar skipped: keys that were touched since the base."""

    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def plus(self, other: Outcome) -> Outcome:
        return Outcome(applied=self.applied + other.applied, skipped=self.skipped + other.skipped)
