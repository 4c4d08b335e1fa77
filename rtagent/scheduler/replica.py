"""Replicas: node states made from reports, on which `allocate` decides as on the agent's own.

The usage of all owners is one total. What they use of devices and of assigned resources is that of
one domain, `OTHERS`, which stands for all of them. Units that several owners use have a second one,
`SHARED`, so that they stay in use when one of the owners is taken out.

Assumed claims are claims of selections that the agent's messages do not show yet. They are counted
on top of the last report. So a report that crossed a selection neither loses nor doubles them.
Their owners are listed until the instance list is as new as the report that counts them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping

from immutables import Map
from msgspec.structs import replace

from rtagent.errors import InvariantViolated
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.derived import derived
from rtagent.model.device import PciDevices
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.host_report import HostDescription, HostReport, HostUsage, InstanceInfo
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.owners import claimed_units, owner_usage
from rtagent.model.units import MB_IN_GB, round_up
from rtagent.model.usage import NOTHING, NumaUsage, Usage
from rtagent.pci.assigned_resources import used_by_domain
from rtagent.scheduler.instance_lists import HostInstances

#: The owner that stands for all owners, and the one of what several of them use: the nil and the
#: max uuid, which libvirt refuses for a domain.
OTHERS = "00000000-0000-0000-0000-000000000000"
SHARED = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def replica_of(report: HostReport, description: HostDescription) -> NodeState:
    """Return the node's state as a report has it.

    `allocate` gives a new owner exactly what the agent would give it. `NodeState.fold` adds claims.
    Its sums are right, but `NodeState.check` has no meaning: no claim explains the total.

    :param description: the one whose digest the report has.
    """
    usage = report.usage
    domains = (*report.unknown, *_users(usage))
    return replace(
        _frame(description),
        node=report.node,
        epoch=report.epoch,
        revision=report.revision,
        usage=_total(usage),
        domain_usages=Map({domain.domain_uuid: domain for domain in domains}),
        former_pools=frozenset((p.provider, p.resource_class) for p in usage.former_pools),
        counters=Map(report.counters),
        failed_builds=report.failed_builds,
        disk_available_least=report.disk_available_least,
    )


def replica_for(replica: NodeState, info: InstanceInfo) -> NodeState:
    """Return the replica for an owner that is on the host: what it has is taken out of the total
    and put in as its own. Then `allocate` gives this owner exactly what the agent would give it.

    :param replica: other claims may be folded into it, also of this owner.
    """
    domains, domain = replica.domain_usages, info.domain_usage
    # What a report says is unknown of a domain is not in its total.
    known = domain is None or domains.get(info.uuid) == domain
    new = tuple(claim for claim in info.claims if claim.uuid not in replica.claims)
    if known and not new:
        return replica
    reuse = replica.policy.same_host_resize_reuse
    own = NOTHING if known or domain is None else domain.usage(replica.policy.numa)
    had = owner_usage(new, own, reuse=reuse).plus(replica.usage_of(info.uuid))
    claims = (*new, *replica.claims_of(info.uuid))
    owned = tuple(dict.fromkeys(claim.uuid for claim in claims))
    users = {each: domains[each] for each in (OTHERS, SHARED) if each in domains}
    users[OTHERS] = _without(replica, users[OTHERS], info)
    if domain is not None:
        users[info.uuid] = domain
    after = replace(
        replica,
        claims=replica.claims.update({claim.uuid: claim for claim in new}),
        owners=replica.owners.set(info.uuid, owned) if owned else replica.owners,
        domain_usages=domains.update(users),
        units=replica.units.update(dict.fromkeys(claimed_units(new), info.uuid)),
    )
    return replace(after, usage=_positive(replica.usage.minus(had)).plus(after.usage_of(info.uuid)))


@derived
def _frame(description: HostDescription) -> NodeState:
    """Return a state with everything that the reports of one description have in common. Values
    that are derived from its devices are computed once for all of them.
    """
    return NodeState(
        node=Node(uuid="", host="", hypervisor_hostname=""),
        policy=description.policy,
        topology=description.topology,
        devices=PciDevices({device.address: device for device in description.devices}),
        resource_inventories=description.resource_inventories,
    )


def _total(usage: HostUsage) -> Usage:
    cells = usage.cells
    return Usage(
        vcpus=usage.vcpus,
        pcpus=usage.pcpus,
        memory_mb=usage.memory_mb,
        disk_mb=usage.disk_mb,
        numa=NumaUsage(
            pinned=usage.pinned,
            kept=usage.kept,
            vcpus={cell.id: cell.vcpus for cell in cells if cell.vcpus},
            memory_mb={cell.id: cell.memory_mb for cell in cells if cell.memory_mb},
            pages={(cell.id, size): n for cell in cells for size, n in cell.pages.items() if n},
        ),
        quantities={(each.suffix, each.resource_class): each.quantity for each in usage.quantities},
    )


def _users(usage: HostUsage) -> Iterable[DomainUsage]:
    """Return the domains that use the units of all owners."""
    devices, parents = Counter(usage.devices), Counter(usage.mdev_parents)
    resources = Counter(usage.resources)
    yield _user(OTHERS, devices, parents, resources)
    shared = [_several(each) for each in (devices, parents, resources)]
    if any(shared):
        yield _user(SHARED, *shared)


def _several(users: Mapping[str, int]) -> list[str]:
    return [unit for unit, number in users.items() if number > 1]


def _user(
    uuid: str, devices: Iterable[str], parents: Iterable[str], resources: Iterable[str]
) -> DomainUsage:
    occupancy = Occupancy(
        devices=frozenset(devices),
        mdev_parents=frozenset(parents),
        # Those of mediated devices, too: identifiers of all classes are different.
        namespaces=frozenset(resources),
    )
    return DomainUsage(
        domain_uuid=uuid, name="others", active=True, vcpus=0, memory_mb=0, occupancy=occupancy
    )


def _without(replica: NodeState, others: DomainUsage, info: InstanceInfo) -> DomainUsage:
    """Return the usage of all others without that of one owner."""
    domain, occupancy = info.domain_usage, others.occupancy
    own = domain.occupancy if domain is not None and domain.active else Occupancy()
    units = [unit for claim in info.claims for unit in claim.resources]
    used = frozenset[str]() if domain is None else used_by_domain(replica, domain)
    parents = {unit.parent_addr for unit in units if unit.parent_addr}
    devices = {device.address for claim in info.claims for device in claim.pci}
    return replace(
        others,
        occupancy=replace(
            occupancy,
            devices=occupancy.devices - own.devices - devices,
            mdev_parents=occupancy.mdev_parents - own.mdev_parents - parents,
            namespaces=occupancy.namespaces - used - {unit.identifier for unit in units},
        ),
    )


def _positive(usage: Usage) -> Usage:
    """Return a usage without negative quantities. There are some if the owner's message is newer
    than the report.
    """
    numa = usage.numa
    return Usage(
        vcpus=max(usage.vcpus, 0),
        pcpus=max(usage.pcpus, 0),
        memory_mb=max(usage.memory_mb, 0),
        disk_mb=max(usage.disk_mb, 0),
        numa=NumaUsage(
            pinned={cpu: n for cpu, n in numa.pinned.items() if n > 0},
            kept={cpu: n for cpu, n in numa.kept.items() if n > 0},
            vcpus={cell: n for cell, n in numa.vcpus.items() if n > 0},
            memory_mb={cell: n for cell, n in numa.memory_mb.items() if n > 0},
            pages={pool: n for pool, n in numa.pages.items() if n > 0},
        ),
        quantities={pool: n for pool, n in usage.quantities.items() if n > 0},
    )


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
