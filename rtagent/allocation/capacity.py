"""Check whether the host as a whole has enough vCPUs, CPUs, memory and disk."""

from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.derived import derived
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.policy import AdditionalInventory
from rtagent.model.provider_names import provider_name
from rtagent.model.usage import Inventory, Usage, inventories

#: Resource class, field of `Usage` and of `Inventories`, unit.
_RESOURCES = (
    ("VCPU", "vcpus", "vCPUs"),
    ("PCPU", "pcpus", "CPUs"),
    ("MEMORY_MB", "memory_mb", "MB"),
    ("DISK_GB", "disk_mb", "MB"),
)


class Capacity(Value, frozen=True, kw_only=True):
    """The quantities that an owner can claim that has nothing on the host.

    Free quantities may be negative. A request for none of a resource fits all the same.

    :ivar disk_checked: False: the disk is shared, and Placement counts it.
    """

    free_vcpus: int
    free_pcpus: int
    free_memory_mb: int
    free_disk_mb: int
    total_vcpus: int
    total_pcpus: int
    total_memory_mb: int
    total_disk_mb: int
    disk_checked: bool = True

    def fits(
        self, vcpus: int, pcpus: int, memory_mb: int, disk_mb: int, *, judged: bool = True
    ) -> bool:
        """Return whether the host as a whole has enough for a new owner, without limits of its own.

        CPUs are not checked if the host has no dedicated ones: the NUMA fit names the option.

        :param judged: the policy's ``judges_amounts``.
        """
        if self.total_pcpus and not _fits(pcpus, self.free_pcpus, self.total_pcpus):
            return False
        return not judged or (
            vcpus <= self.total_vcpus
            and (vcpus <= self.free_vcpus or not vcpus)
            and memory_mb <= self.total_memory_mb
            and (memory_mb <= self.free_memory_mb or not memory_mb)
            and (not self.disk_checked or _fits(disk_mb, self.free_disk_mb, self.total_disk_mb))
        )

    def shortfalls(self, plain: Usage, where: str) -> Iterator[Reason]:
        """Yield why a new owner does not fit, with the reasons of `shortfalls`.

        :param plain: what it requires of a host that judges amounts.
        """
        for resource, field, unit in _RESOURCES:
            asked = getattr(plain, field)
            total, free = getattr(self, f"total_{field}"), getattr(self, f"free_{field}")
            if resource == "PCPU" and not total:
                continue  # as in `shortfalls`
            if (resource == "DISK_GB" and not self.disk_checked) or _fits(asked, free, total):
                continue
            larger = asked > total
            yield Reason(
                code=ReasonCode.EXCEEDS_HOST if larger else ReasonCode.INSUFFICIENT,
                resource=resource,
                where=where,
                requested=asked,
                available=total if larger else max(0, free),
                unit=unit,
            )


@derived
def capacity_of(state: NodeState) -> Capacity:
    """Return what a new owner can claim; nothing if the host has not been observed."""
    if state.topology is None:
        return Capacity(
            free_vcpus=0,
            free_pcpus=0,
            free_memory_mb=0,
            free_disk_mb=0,
            total_vcpus=0,
            total_pcpus=0,
            total_memory_mb=0,
            total_disk_mb=0,
        )
    has, used = inventories(state.topology, state.policy), state.usage
    return Capacity(
        free_vcpus=has.vcpus.claimable - used.vcpus,
        free_pcpus=has.pcpus.claimable - used.pcpus,
        free_memory_mb=has.memory_mb.claimable - used.memory_mb,
        free_disk_mb=has.disk_mb.claimable - used.disk_mb,
        total_vcpus=has.vcpus.total,
        total_pcpus=has.pcpus.total,
        total_memory_mb=has.memory_mb.total,
        total_disk_mb=has.disk_mb.total,
        disk_checked=not state.policy.placement.disk_provider,
    )


def _fits(quantity: int, free: int, total: int) -> bool:
    return quantity <= total and (quantity <= free or not quantity)


class _Check(Value, frozen=True, kw_only=True):
    """The check of one resource.

    :ivar alone: the usage of the new claim if it were its owner's only claim. It must not exceed
        the host's total, at any allocation ratio.
    :ivar before: the current usage of the owner's claims. :ivar after: their usage with the new
        claim.
    :ivar others: the usage of all other owners.
    :ivar limit: the maximum usage, including the reserved quantity; None: the capacity that the
        host advertises.
    """

    resource: str
    unit: str
    inventory: Inventory
    alone: int
    before: int
    after: int
    others: int
    limit: int | None

    def shortfall(self, where: str) -> Reason | None:
        """Return why the new claim does not fit; None: it fits."""
        if self.alone > self.inventory.total:
            return self.reason(ReasonCode.EXCEEDS_HOST, where, self.alone, self.inventory.total)
        if self.limit is None:
            claimable = self.inventory.claimable
        else:
            claimable = self.limit - self.inventory.reserved
        added, available = self.after - self.before, claimable - self.others - self.before
        if added and added > available:
            return self.reason(ReasonCode.INSUFFICIENT, where, added, max(0, available))
        return None

    def reason(self, code: ReasonCode, where: str, requested: int, available: int) -> Reason:
        return Reason(
            code=code,
            resource=self.resource,
            where=where,
            requested=requested,
            available=available,
            unit=self.unit,
        )


def shortfalls(
    state: NodeState, owner_id: str, usage: Usage, limits: Mapping[str, int] = {}
) -> Iterator[Reason]:
    """Return a reason for each resource of which the host has too little for a new claim; empty if
    it fits.

    An owner whose domain already runs here, such as an adopted orphan, is counted once.

    :param usage: what the new claim requires. :param limits: as `Requirements.limits`.
    """
    if not limits and state.is_new(owner_id):
        required = usage.vcpus, usage.pcpus, usage.memory_mb, usage.disk_mb
        if capacity_of(state).fits(*required, judged=state.policy.judges_amounts):
            return
    for check in _checks(state, owner_id, usage, limits):
        reason = check.shortfall(state.node.hypervisor_hostname)
        if reason is not None:
            yield reason


def additional_shortfall(
    state: NodeState, owner_id: str, inventory: AdditionalInventory, quantity: int
) -> Reason | None:
    """Return why a new claim cannot have a quantity of what a provider file offers;
    None: it can.
    """
    check = _additional_check(state, owner_id, inventory, quantity)
    where = provider_name(state.node, inventory.suffix)
    if quantity > inventory.max_unit:
        return check.reason(ReasonCode.EXCEEDS_HOST, where, quantity, inventory.max_unit)
    if quantity < inventory.min_unit:
        return check.reason(ReasonCode.BELOW_MINIMUM, where, quantity, inventory.min_unit)
    if quantity % inventory.step_size:
        return check.reason(ReasonCode.NOT_A_MULTIPLE, where, quantity, inventory.step_size)
    return check.shortfall(where)


def _additional_check(
    state: NodeState, owner_id: str, inventory: AdditionalInventory, quantity: int
) -> _Check:
    pool, reuse = (inventory.suffix, inventory.resource_class), state.policy.same_host_resize_reuse
    claims, new = state.claims_of(owner_id), Usage(quantities={pool: quantity})
    used = state.usage.quantities.get(pool, 0)
    before = owner_usage(claims, reuse=reuse).quantities.get(pool, 0)
    return _Check(
        resource=inventory.resource_class,
        unit="units",
        inventory=Inventory(
            total=inventory.total, reserved=inventory.reserved, ratio=inventory.allocation_ratio
        ),
        alone=quantity,
        before=before,
        after=owner_usage(claims, reuse=reuse, new=new).quantities.get(pool, 0),
        others=used - state.usage_of(owner_id).quantities.get(pool, 0),
        limit=None,
    )


def _checks(
    state: NodeState, owner_id: str, usage: Usage, limits: Mapping[str, int]
) -> Iterator[_Check]:
    assert state.topology is not None, "nothing is claimed on a host that was never observed"
    inventory = inventories(state.topology, state.policy)
    claims, domain = state.claims_of(owner_id), state.usage_of_domain(owner_id)
    reuse = state.policy.same_host_resize_reuse
    alone = owner_usage((), domain, new=usage)
    before = owner_usage(claims, reuse=reuse)
    after = owner_usage(claims, domain, reuse=reuse, new=usage)
    others = state.usage.minus(state.usage_of(owner_id))
    for resource, field, unit in _RESOURCES:
        if resource != "PCPU" and not state.policy.judges_amounts:
            continue  # whatever the limits are: Placement decides
        if resource == "PCPU" and not inventory.pcpus.total:
            continue  # the NUMA fit refuses the claim and names the option
        if resource == "DISK_GB" and state.policy.placement.disk_provider and field not in limits:
            continue  # the host does not know what others use of the shared disk: Placement does
        yield _Check(
            resource=resource,
            unit=unit,
            inventory=getattr(inventory, field),
            alone=getattr(alone, field),
            before=getattr(before, field),
            after=getattr(after, field),
            others=getattr(others, field),
            limit=limits.get(field),
        )
