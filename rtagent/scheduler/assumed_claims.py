"""Assumed claims: claims of selections that the agent's messages do not show yet.

They are counted on top of the last report. So a report that crossed a selection neither loses nor
doubles them. Their owners are listed until the instance list is as new as the report that counts
them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rtagent.errors import InvariantViolated
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node_state import NodeState
from rtagent.model.units import MB_IN_GB, round_up
from rtagent.scheduler.instance_lists import HostInstances
from rtagent.scheduler.replica import replica_for


class AssumedClaim(Value, frozen=True, kw_only=True):
    """A claim that is assumed.

    :ivar here: the instance counts as one of the host.
    :ivar until: when it is forgotten, on the monotonic clock.
    :ivar granted_at: epoch and number of the first message about instances that names the claim,
        so that the agent has granted it; None: there is no such message yet. A later report that
        does not name the claim shows that the claim has ended.
    """

    claim: Claim
    here: bool
    until: float
    granted_at: tuple[int, int] | None = None

    def granted(self, epoch: int, number: int) -> AssumedClaim:
        """Return the claim as granted, with the position of the message that names it."""
        return self if self.granted_at is not None else replace(self, granted_at=(epoch, number))


def with_assumed(
    replica: NodeState, assumed: Iterable[AssumedClaim], instances: HostInstances
) -> NodeState:
    """Return a replica in which these claims are counted, too.

    A claim is counted without its units if another owner has got them since. The agent will
    refuse it, so nothing is lost if its quantities are counted until then.

    :param instances: on the host.
    """
    for each in assumed:
        own = replica
        # A wrong report about one owner must not prevent that other claims are counted.
        with contextlib.suppress(Exception):
            own = own_replica(replica, instances, each.claim.owner_id)
        replica = _with(own, each.claim)
    return replica


def own_replica(replica: NodeState, instances: HostInstances, owner_id: str) -> NodeState:
    """Return the replica with the claims that an owner has on the host as claims."""
    info = instances.counted(owner_id)
    return replica if info is None else replica_for(replica, info)


def owners_of(assumed: Iterable[AssumedClaim]) -> Mapping[str, InstanceInfo]:
    """Return the owners of assumed claims, by uuid."""
    owners = dict[str, InstanceInfo]()
    for each in assumed:
        claim = each.claim
        known = owners.get(claim.owner_id, InstanceInfo(uuid=claim.owner_id, here=False))
        owners[claim.owner_id] = replace(
            known, here=known.here or each.here, claims=(*known.claims, claim)
        )
    return owners


def _with(replica: NodeState, claim: Claim) -> NodeState:
    without_units = replace(claim, numa_topology=None, pci=(), resources=())
    for counted in (claim, without_units):
        with contextlib.suppress(InvariantViolated):
            return replica.fold(_change(replica, counted))
    return replica


def _change(replica: NodeState, claim: Claim) -> Change:
    least = replica.disk_available_least
    if least is not None:
        least -= round_up(claim.disk_mb, MB_IN_GB)
    return Change(cause="assume", at=claim.created_at, puts=(claim,), disk_available_least=least)
