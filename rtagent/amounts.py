"""Whether plain amounts fit: vCPUs, memory, disk."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.base import MB_IN_GB, Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.host import HostState
from rtagent.model.inventory import Inventory, inventories
from rtagent.model.owners import owner_usage
from rtagent.model.request import Limits


class _Line(Value, frozen=True, kw_only=True):
    """One amount put to the test.

    :ivar alone: what the claim would count for by itself, which is never more than there is.
    :ivar held: what its owner's claims count for already. :ivar needed: what he would count for.
    :ivar others: what everybody else does.
    :ivar limit: reserved included, or None for what the host advertises.
    """

    resource: str
    unit: str
    inventory: Inventory
    alone: int
    held: int
    needed: int
    others: int
    limit: int | None

    @property
    def available(self) -> int:
        if self.limit is None:
            return self.inventory.claimable - self.others - self.held
        return self.limit - self.inventory.reserved - self.others - self.held

    def reason(self, where: str) -> Reason | None:
        if self.alone > self.inventory.total:
            return self._reason(ReasonCode.EXCEEDS_HOST, where, self.alone, self.inventory.total)
        added = self.needed - self.held
        if added and added > self.available:
            return self._reason(ReasonCode.INSUFFICIENT, where, added, max(0, self.available))
        return None

    def _reason(self, code: ReasonCode, where: str, requested: int, available: int) -> Reason:
        return Reason(
            code=code,
            resource=self.resource,
            where=where,
            requested=requested,
            available=available,
            unit=self.unit,
        )


def shortfalls(state: HostState, claim: Claim) -> Iterator[Reason]:
    """What the host lacks for a new claim; nothing when it fits.

    An owner whose domain is here already (an orphan that is adopted) counts once, not twice.
    """
    for line in _lines(state, claim):
        reason = line.reason(state.node.hypervisor_hostname)
        if reason is not None:
            yield reason


def _lines(state: HostState, claim: Claim) -> Iterator[_Line]:
    assert state.topology is not None, "nothing is claimed on a host that was never seen"
    offered = inventories(state.topology, state.policy)
    claims, holding = state.claims_of(claim.owner_id), state.holdings.get(claim.owner_id)
    alone = owner_usage((claim,), holding)
    reuse = state.policy.same_host_resize_reuse
    held = owner_usage(claims, None, reuse=reuse)
    needed = owner_usage((*claims, claim), holding, reuse=reuse)
    others = state.usage.minus(state.usage_of(claim.owner_id))
    limits = _limits_mb(claim.limits)
    for resource, name, unit in (
        ("VCPU", "vcpus", "vCPUs"),
        ("PCPU", "pcpus", "CPUs"),
        ("MEMORY_MB", "memory_mb", "MB"),
        ("DISK_GB", "disk_mb", "MB"),
    ):
        if resource == "PCPU" and not offered.pcpus.total:
            continue  # the fit says so, and which option it takes
        yield _Line(
            resource=resource,
            unit=unit,
            inventory=getattr(offered, name),
            alone=getattr(alone, name),
            held=getattr(held, name),
            needed=getattr(needed, name),
            others=getattr(others, name),
            limit=limits[name],
        )


def _limits_mb(limits: Limits) -> dict[str, int | None]:
    disk = None if limits.disk_gb is None else limits.disk_gb * MB_IN_GB
    return {"vcpus": limits.vcpu, "pcpus": None, "memory_mb": limits.memory_mb, "disk_mb": disk}
