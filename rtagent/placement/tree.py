"""The tree of providers that Placement should have for this host. Pure.

Placement never grants more than the agent would: totals are rounded down, reserved quantities up.
What is used without a claim (by foreign domains, by drift) is reserved, and so are CPUs that a
claim keeps idle, because no allocation in Placement accounts for them. The root provider is the
host; its children are devices. Provider files may add to each of them.

What a domain without a claim has been allocated in Placement all the same is not reserved a second
time. Nothing is reserved that the allocations of the node's own claims need: a domain that started
later must not prevent that they are written.

The layout of a node's tree in Placement: where inventories and allocations are. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import os_resource_classes as orc
import os_traits

from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.consumers import Parts, consumers_of
from rtagent.model.mem_encryption import RESOURCE_CLASS
from rtagent.model.node_state import NodeState
from rtagent.model.owners import owner_usage
from rtagent.model.provider_names import provider_uuid
from rtagent.model.topology import Topology
from rtagent.model.units import MB_IN_GB
from rtagent.model.usage import Inventory, inventories, pcpus_used
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.placement_reporting import provider_of_resource
from rtagent.placement.consumers import ConsumerRecord
from rtagent.placement.devices import (
    device_providers,
    encryption_providers,
    resource_providers,
    root_resources,
)
from rtagent.placement.offers import extended
from rtagent.placement.provider import RATIO_DIGITS, Contents, InventoryRecord, Provider, Tree

#: Prefixes of the standard traits that only the agent of a hypervisor sets on a root provider. They
#: say what its guests can have and which CPU it has; nova-compute sets and withdraws them, too.
#: Other traits (``HW_NIC_*``, ``STORAGE_*``, ...) belong to operators and other services.
_OF_HYPERVISORS = ("COMPUTE_", "HW_ARCH_", "HW_CPU_")

#: What only the agent of a host sets on its root provider. An agent that replaces another publisher
#: on this host removes these where they are not true.
ROOT_EXCLUSIVE = Contents(
    classes=frozenset({orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB, orc.VGPU}),
    traits=frozenset(name for name in os_traits.get_traits() if name.startswith(_OF_HYPERVISORS)),
)


def build(
    state: NodeState,
    disabled: bool,
    hypervisor_up: bool,
    unclaimed: Mapping[str, Mapping[str, int]] = {},
) -> Tree | None:
    """Return the tree of a state; None before the first audit.

    :param disabled: an operator has disabled the service.
    :param unclaimed: what consumers without a claim here have been allocated of the root, by
        consumer and resource class.
    """
    if state.topology is None:
        return None
    root = Provider(
        uuid=state.node.uuid,
        name=state.node.hypervisor_hostname,
        inventories={**dict(_records(state, state.topology, unclaimed)), **root_resources(state)},
        traits=_traits(state, state.topology, disabled or not hypervisor_up),
        exclusive=ROOT_EXCLUSIVE,
    )
    children = (*device_providers(state), *resource_providers(state), *encryption_providers(state))
    policy = state.policy.placement
    providers = tuple(extended(each, state.node, policy) for each in (root, *children))
    return Tree(revision=state.revision, providers=providers)


def affects_tree(state: NodeState, changes: Sequence[Change]) -> bool:
    """Whether the changes that led to the state may have changed its tree.

    A claim affects the tree only in four cases: the owner's domain uses something other than what
    its claims hold; the claim concerns host CPUs that no allocation accounts for; it concerns
    devices, because related devices become unavailable or available again; or the host is so full
    that the claim's allocation limits what is reserved. An empty sequence means that the state was
    loaded from the store, which always affects the tree.
    """
    return not changes or any(
        change.topology is not None
        or change.policy is not None
        or change.drain is not None
        or change.undrained
        or change.concerns_devices
        or _writes_one_time_devices(state, change)
        or change.domain_usage_removals
        or any(owner in state.domain_usages for owner in change.owners)
        or any(_affects_reserved_cpus(state, claim, 1) for claim in change.puts)
        or any(_affects_reserved_cpus(state, claim, 0) for claim in change.ends)
        or ((change.puts or change.ends) and _is_full(state, change.ends))
        for change in changes
    )


def _beyond_claims(state: NodeState, topology: Topology, unclaimed: Parts) -> Counter[str]:
    """Return what is in use and no allocation accounts for, by resource class.

    Foreign domains use it, domains that drifted, and claims that keep CPUs idle.
    """
    reuse = state.policy.same_host_resize_reuse
    pcpus = _unclaimed_cpus(state, topology)
    total = Counter({orc.PCPU: len(pcpus)})
    for owner in state.domain_usages:
        claimed = owner_usage(state.claims_of(owner), reuse=reuse)
        beyond = state.usage_of(owner).minus(claimed)
        total.update({orc.VCPU: beyond.vcpus, orc.MEMORY_MB: beyond.memory_mb})
        used = Counter(
            {
                orc.VCPU: beyond.vcpus,
                orc.PCPU: len(pcpus & state.usage_of_domain(owner).numa.pinned.keys()),
                orc.MEMORY_MB: beyond.memory_mb,
            }
        )
        total.subtract(used & Counter(unclaimed.get(owner, {})))
    return total


def _unclaimed_cpus(state: NodeState, topology: Topology) -> frozenset[int]:
    """Return the dedicated CPUs that are unavailable and that no claim's allocation accounts for.

    A foreign domain is confined to them, or a claim keeps them idle.
    """
    used = state.usage.numa
    occupied = used.pinned.keys() | used.kept.keys()
    allocated = (_allocated_cpus(claim) for claim in state.claims.values())
    return state.policy.numa.dedicated(topology.cpus) & occupied.difference(*allocated)


def _is_full(state: NodeState, ended: Iterable[Claim] = ()) -> bool:
    """Whether what is reserved may be limited by the allocations of claims.

    :param ended: claims that have just ended.
    """
    if state.topology is None:
        return False
    host, usage = inventories(state.topology, state.policy), state.usage
    for claim in ended:
        usage = usage.plus(claim.usage)
    return any(
        # With a ratio, what is reserved and what is allocated are rounded up one by one.
        math.ceil((inventory.reserved + used / Fraction(inventory.ratio)) / unit)
        > inventory.total // unit - (inventory.ratio != 1)
        for inventory, used, unit in (
            (host.vcpus, usage.vcpus, 1),
            (host.pcpus, pcpus_used(usage, state.policy), 1),
            (host.memory_mb, usage.memory_mb, 1),
            (host.disk_mb, usage.disk_mb, MB_IN_GB),
        )
        if used
    )


def _writes_one_time_devices(state: NodeState, change: Change) -> bool:
    """Whether allocations were written, or have to be, on a host with devices for one use: they are
    reserved once their allocation is written.
    """
    return bool(change.written or change.unwritten) and any(
        each.tags.one_time_use for each in state.devices.values()
    )


def _affects_reserved_cpus(state: NodeState, claim: Claim, users: int) -> bool:
    """Whether the claim keeps CPUs idle, or has CPUs with more than so many users."""
    if claim.numa_topology is None:
        return False
    pinned = state.usage.numa.pinned
    shared = any(pinned.get(cpu, 0) > users for cpu in _allocated_cpus(claim))
    return bool(claim.numa_topology.kept) or shared


def _allocated_cpus(claim: Claim) -> frozenset[int]:
    """Return the host CPUs that the claim's allocation in Placement counts as PCPU."""
    assignment = claim.numa_topology
    return assignment.taken - assignment.kept if assignment else frozenset()


def _traits(state: NodeState, topology: Topology, disabled: bool) -> frozenset[str]:
    remote_managed = any(
        each.tags.remote_managed and each.present and each.listed for each in state.devices.values()
    )
    own = {
        os_traits.COMPUTE_NODE: True,
        os_traits.OWNER_NOVA: True,
        os_traits.COMPUTE_STATUS_DISABLED: disabled,
        os_traits.COMPUTE_REMOTE_MANAGED_PORTS: remote_managed,
        os_traits.COMPUTE_MEM_BACKING_FILE: bool(state.policy.numa.file_backed_memory_mb),
    }
    capable = topology.traits - state.policy.placement.withheld_traits
    return capable.union(name for name, true in own.items() if true)


def _records(
    state: NodeState, topology: Topology, unclaimed: Parts
) -> Iterator[tuple[str, InventoryRecord]]:
    host, beyond = inventories(topology, state.policy), _beyond_claims(state, topology, unclaimed)
    allocated = _allocated(state, unclaimed) if +beyond or _is_full(state) else Counter[str]()
    for resource, inventory, unit in (
        (orc.VCPU, host.vcpus, 1),
        (orc.PCPU, host.pcpus, 1),
        (orc.MEMORY_MB, host.memory_mb, 1),
        (orc.DISK_GB, host.disk_mb, MB_IN_GB),
    ):
        used = Fraction(max(0, beyond[resource])) / _divisor(resource, inventory)
        record = _record(inventory, used, allocated[resource], unit)
        shared = resource == orc.DISK_GB and state.policy.placement.disk_provider is not None
        if record.total and not shared:
            yield resource, record


def _divisor(resource: str, inventory: Inventory) -> Fraction:
    """Return how much of what is in use one unit of the reserve stands for.

    Memory in use is reserved in full even if the ratio is above 1: it is not overcommitted. With a
    ratio below 1 more is reserved, because Placement multiplies what is not reserved by the ratio.
    """
    ratio = Fraction(inventory.ratio)
    return ratio if resource == orc.VCPU else min(ratio, Fraction(1))


def _allocated(state: NodeState, unclaimed: Parts) -> Counter[str]:
    """Return what consumers are, or are to be, allocated of the root, by resource class."""
    total = Counter[str]()
    for owner in state.owners:
        for consumer in consumers_of(state, owner).values():
            total.update(consumer.parts.get(state.node.uuid, {}))
    for uuid, quantities in unclaimed.items():
        if uuid not in state.owners:
            total.update(quantities)
    return total


def _record(
    inventory: Inventory, beyond_claims: Fraction, allocated: int, unit: int
) -> InventoryRecord:
    total = inventory.total // unit
    ratio = float(RATIO_DIGITS.create_decimal(inventory.ratio))
    needed = math.ceil(allocated / ratio)
    needed += needed * ratio < allocated  # Placement's product is rounded, too
    return InventoryRecord(
        total=total,
        reserved=min(
            # Placement answers 400 if it is above the total.
            max(0, total - needed),
            math.ceil((inventory.reserved + beyond_claims) / unit),
        ),
        max_unit=total,
        allocation_ratio=ratio,
    )


#: Quantities by resource class.
Quantities = Mapping[str, int]
#: The uuid of a provider, and a resource class.
Pool = tuple[str, str]


class ProviderLayout(Value, frozen=True, kw_only=True):
    """A provider as Placement has it.

    :ivar generation: at which the inventories were read.
    :ivar allocations: by consumer; {} unless they are needed for a reshape.
    :ivar absent: Placement has no such provider yet.
    """

    name: str
    generation: int
    inventories: Mapping[str, InventoryRecord] = {}
    allocations: Mapping[str, Quantities] = {}
    absent: bool = False


class Layout(Value, frozen=True, kw_only=True):
    """What Placement has of this node: providers and consumers by uuid.

    :ivar consumers: those whose allocations a reshape may change.
    """

    providers: Mapping[str, ProviderLayout] = {}
    consumers: Mapping[str, ConsumerRecord] = {}


class WantedLayout(Value, frozen=True, kw_only=True):
    """What this node should have.

    :ivar classes: the resource classes of devices. Inventories of other classes stay.
    :ivar claimed: the units of each consumer's claims, by pool. :ivar observed: the units that the
        domains of consumers without a claim use.
    """

    tree: Tree
    classes: frozenset[str]
    claimed: Mapping[str, Mapping[Pool, int]] = {}
    observed: Mapping[str, Mapping[Pool, int]] = {}

    @property
    def root(self) -> str:
        return self.tree.providers[0].uuid

    @property
    def inventories(self) -> Mapping[Pool, InventoryRecord]:
        """The records of devices of all providers."""
        return {
            (provider.uuid, name): record
            for provider in self.tree.providers
            for name, record in provider.inventories.items()
            if name in self.classes
        }

    def units_of(self, consumer: str, resource_class: str) -> Mapping[str, int]:
        """Return how many units of a class a consumer has on each provider."""
        pools = self.claimed.get(consumer) or self.observed.get(consumer, {})
        return {uuid: number for (uuid, name), number in pools.items() if name == resource_class}


def old_pools(now: Layout, wanted: WantedLayout) -> Iterator[Pool]:
    """Yield the pools whose class this node should have on other providers only."""
    inventories = wanted.inventories
    for uuid, provider in sorted(now.providers.items()):
        for name in sorted(provider.inventories):
            if (uuid, name) not in inventories and any(name == each for _, each in inventories):
                yield uuid, name


def new_pools(now: Layout, wanted: WantedLayout) -> Iterator[Pool]:
    """Yield the pools of devices that Placement does not have yet."""
    for uuid, name in sorted(wanted.inventories):
        found = now.providers.get(uuid)
        if uuid != wanted.root and (found is None or name not in found.inventories):
            yield uuid, name


def consumers_with(wanted: WantedLayout, pool: Pool) -> Iterator[str]:
    """Yield the consumers whose claims have units of a pool."""
    return (consumer for consumer, pools in sorted(wanted.claimed.items()) if pools.get(pool))


def wanted_layout(state: NodeState, tree: Tree) -> WantedLayout:
    """Return the tree of a state, and who has which of its devices."""
    classes = frozenset(_classes(state))
    pools = [(p.uuid, name) for p in tree.providers[1:] for name in p.inventories.keys() & classes]
    claimed: dict[str, dict[Pool, int]] = {}
    for owner in state.owners:
        for consumer in consumers_of(state, owner).values():
            for uuid, name in pools:
                if quantity := consumer.parts.get(uuid, {}).get(name, 0):
                    claimed.setdefault(consumer.uuid, {})[uuid, name] = quantity
    return WantedLayout(tree=tree, classes=classes, claimed=claimed, observed=_observed(state))


def _classes(state: NodeState) -> Iterator[str]:
    """Yield the resource classes of the devices and the encryption contexts that are published."""
    yield RESOURCE_CLASS
    yield from (each.resource_class for each in state.resource_inventories if each.provider)
    if state.policy.pci.report_in_placement:
        yield from (each.resource_class for each in state.devices.values())


def _observed(state: NodeState) -> Mapping[str, Mapping[Pool, int]]:
    """Return the mediated devices and the contexts of domains without a claim, by domain."""
    users = resource_users(state)
    found: dict[str, dict[Pool, int]] = {}
    for each in state.resource_inventories:
        pool = provider_of_resource(state, each.provider), each.resource_class
        for name in each.identifiers:
            user = users.get(name)
            if user is not None and user not in state.owners:
                of_user = found.setdefault(user, {})
                of_user[pool] = of_user.get(pool, 0) + 1
    for uuid in state.domain_usages:
        if uuid not in state.owners:
            for (suffix, name), number in state.usage_of_domain(uuid).quantities.items():
                provider = provider_uuid(state.node, state.policy.placement, suffix)
                found.setdefault(uuid, {})[provider, name] = number
    return found
