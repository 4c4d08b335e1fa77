"""Random nodes with claims, orphans and moves, and requests to them.

Their cells and devices are those of the property tests of the fits.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import RtAgentError
from rtagent.lifecycle import attach
from rtagent.lifecycle.moves import move_claim, start_move_out
from rtagent.model.assignment import ResourceInventory
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, BUILDING, Claim
from rtagent.model.decision import Decision, Granted
from rtagent.model.device import SRIOV_PF, SRIOV_VF, DeviceCriteria, MdevType, PciDevice, PciDevices
from rtagent.model.domain_usage import DomainUsage, HostResource, Occupancy
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES
from rtagent.model.migration import MigrationFacts, MoveRequest
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Alias, PciPolicy, PlacementPolicy, Policy
from rtagent.model.request import Allocation, BuildRequest, Image, Limits, NumaLimits, PciRequest
from rtagent.numa.host_cells import HostCells
from rtagent.pci.mdev import mdev_inventories, mdev_uuid
from tests.support.device_states import SEV, SEV_ES, VGPU_TYPE, attaching
from tests.support.hosts import NODE, NOON, call, request, uid
from tests.support.pci_hosts import gpu, record
from tests.support.provider_files import additional

FOO, CUSTOM_MDEV = "CUSTOM_FOO", "CUSTOM_MDEV"
ALIASES = {
    name: Alias(name=name, numa_policy="legacy", alternatives=(criteria,))
    for name, criteria in (
        ("any", DeviceCriteria(vendor_id="8086")),
        ("one", DeviceCriteria(vendor_id="8086", product_id="0001")),
        ("pf", DeviceCriteria(vendor_id="8086", dev_type=SRIOV_PF)),
        ("vf", DeviceCriteria(vendor_id="8086", dev_type=SRIOV_VF)),
        ("gpu", DeviceCriteria(vendor_id="10de")),
    )
}
MDEV_TYPES = (
    replace(VGPU_TYPE, addresses=frozenset({"0000:0a:00.0", "0000:0b:00.0"})),
    replace(
        VGPU_TYPE,
        type="nvidia-12",
        addresses=frozenset({"0000:0c:00.0"}),
        resource_class=CUSTOM_MDEV,
    ),
)
GPUS = tuple(
    gpu(
        address,
        cell,
        iommu_group=group,
        mdev_types=(MdevType(id=type_, device_api="vfio-pci", available_instances=number),),
    )
    for address, cell, group, type_, number in (
        ("0000:0a:00.0", 0, 1, "nvidia-11", 2),
        ("0000:0b:00.0", 1, None, "nvidia-11", 3),
        ("0000:0c:00.0", 1, 2, "nvidia-12", 1),
    )
)
PMEM = ResourceInventory(
    provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns0", "ns1", "ns2")
)
ADDITIONAL = (
    additional(FOO, 5, reserved=1, max_unit=4),
    additional(FOO, 6, suffix="net", max_unit=4, step_size=2, allocation_ratio=Decimal("1.5")),
)
RATIOS = ("1", "1", "0.75", "2", "16")
#: Instances that may be on the host, by number, and one that never is.
OWNERS = range(1, 5)
NEW_OWNER = 20
#: Requests are made until one fits, so many times at most: most random requests do not fit.
TRIES = 6

_T = TypeVar("_T")


def one_in(rng: random.Random, number: int) -> bool:
    return rng.randrange(number) == 0


def some(rng: random.Random, values: Sequence[_T], most: int) -> list[_T]:
    """Return up to that many of the values."""
    return rng.sample(values, min(rng.randint(0, most), len(values)))


def empty_node(rng: random.Random, there: HostCells, devices: Mapping[str, PciDevice]) -> NodeState:
    """Return a node without claims.

    :param there: a host of the test of the NUMA fit. :param devices: of that of the device fit.
    """
    gpus = record(rng.choice([(), GPUS, GPUS]))
    mdevs = mdev_inventories(MDEV_TYPES, [each.device for each in gpus.values()], {})
    return NodeState(
        node=NODE,
        policy=_policy(rng, there),
        epoch=rng.randint(1, 3),
        topology=replace(
            there.topology, disk_mb=64 * 1024, mem_encryption=rng.choice([(), (SEV, SEV_ES)])
        ),
        devices=PciDevices({**devices, **gpus}),
        resource_inventories=(*mdevs, *rng.choice([(), (PMEM,)])),
    )


def _policy(rng: random.Random, there: HostCells) -> Policy:
    """Return what an operator may have configured. Most hosts have CPUs for shared vCPUs."""
    others = there.topology.cpus - there.policy.dedicated(there.topology.cpus)
    numa = rng.choice(
        [
            there.policy,
            replace(there.policy, cpu_dedicated_set=None, cpu_shared_set=None),
            *[replace(there.policy, cpu_shared_set=others or None)] * 2,
        ]
    )
    return Policy(
        reserved_cpus=rng.choice([0, 0, 1]),
        reserved_memory_mb=rng.choice([0, 512]),
        reserved_disk_mb=rng.choice([0, 1024]),
        cpu_allocation_ratio=Decimal(rng.choice(RATIOS)),
        ram_allocation_ratio=Decimal(rng.choice(RATIOS)),
        disk_allocation_ratio=Decimal(rng.choice(RATIOS)),
        same_host_resize_reuse=rng.choice([False, True]),
        judge_amounts=not one_in(rng, 5),
        share_devices=rng.choice([False, True]),
        max_sev_guests=rng.choice([None, 1]),
        numa=numa,
        pci=PciPolicy(
            aliases=ALIASES,
            mdev_types=MDEV_TYPES,
            report_in_placement=rng.choice([False, True]),
            order=rng.choice(["first", "last"]),
        ),
        placement=PlacementPolicy(
            disk_provider=uid(99) if one_in(rng, 5) else None,
            additional=rng.choice([(), ADDITIONAL]),
        ),
    )


FLAVOR_PARTS = (
    {},
    {},
    {"hw:numa_nodes": "1"},
    {"hw:numa_nodes": "2"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
    {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
    {"hw:mem_page_size": "large"},
    {"hw:mem_page_size": "small", "hw:cpu_policy": "dedicated"},
)
DEVICE_PARTS = (
    *[{}] * 4,
    *({"pci_passthrough:alias": alias} for alias in ("any:1", "one:2", "vf:1", "pf:1", "gpu:1")),
    {"pci_passthrough:alias": "vf:1,any:1", "hw:pci_numa_affinity_policy": "preferred"},
    {"pci_passthrough:alias": "gpu:1", "resources:VGPU": "1"},
)
RESOURCE_PARTS = (
    *[{}] * 4,
    {"resources:VGPU": "1"},
    {"resources:VGPU": "2"},
    {f"resources:{CUSTOM_MDEV}": "1"},
    {f"resources:{FOO}": "2"},
    {f"resources:{FOO}": "3", "hw:pmem": "4GB"},
    {"hw:pmem": "4GB,4GB"},
)
LIMITS = (
    *[Limits()] * 3,
    Limits(vcpu=6, memory_mb=3000, disk_gb=20),
    Limits(numa_topology=NumaLimits(cpu_allocation_ratio=2.0, ram_allocation_ratio=1.5)),
)


def random_build(rng: random.Random, owner: int) -> BuildRequest:
    """Return a request of one instance."""
    chosen = (rng.choice(each) for each in (FLAVOR_PARTS, DEVICE_PARTS, RESOURCE_PARTS))
    specs = {key: value for part in chosen for key, value in part.items()}
    instance: dict[str, object] = {}
    if one_in(rng, 8):
        specs |= {
            "hw:mem_encryption": "true",
            "hw:mem_encryption_model": rng.choice([AMD_SEV, AMD_SEV_ES]),
        }
        instance["image"] = Image(properties={"hw_firmware_type": "uefi"})
    if one_in(rng, 6):
        port = PciRequest(count=1, request_id="port", alias_name="any", source="neutron_port")
        instance["pci_requests"] = (port,)
    return request(
        rng.choice([1, 1, 2, 2, 4]),
        rng.choice([64, 64, 256, 1024]),
        rng.choice([0, 1, 10]),
        owner=uid(owner),
        limits=rng.choice(LIMITS),
        extra_resource=rng.choice([*[{}] * 8, {"VCPU": 1}, {PMEM.resource_class: ("ns1",)}]),
        instance=instance,
        extra_specs=specs,
    )


def random_move(rng: random.Random, owner: int) -> MoveRequest:
    """Return a request of an instance that is on the host, or comes to it."""
    build = random_build(rng, owner)
    kind = rng.choice(["resize", "resize", "migration", "live-migration", "evacuation"])
    return MoveRequest(build=build, migration=kind, old_flavor=build.instance.flavor)


def random_domain(rng: random.Random, state: NodeState, owner: int) -> DomainUsage:
    """Return the usage of an orphan, or of a guest that differs from its claims."""
    assert state.topology is not None
    cpus, cells = sorted(state.topology.cpus), [cell.id for cell in state.topology.cells]
    claimed = [each.address for claim in state.claims.values() for each in claim.pci]
    addresses = [*sorted(state.devices), "0000:ff:00.0", *sorted(claimed) * 3]
    mediated = [each for each in state.resource_inventories if each.provider]
    names = [(each.provider, name) for each in mediated for name in each.identifiers]
    mdevs = some(rng, names, 2)
    bound = rng.choice([False, True])
    occupancy = Occupancy(
        pcpus=frozenset(some(rng, cpus, 2)),
        memory_mb={cell: 128 for cell in cells[:1] if bound},
        pages={cell: {2048: 2} for cell in cells[1:2] if bound},
        devices=frozenset(some(rng, addresses, 2)),
        mdevs=frozenset(mdev_uuid(state.node.uuid, name) for _, name in mdevs),
        mdev_parents=frozenset(parent for parent, _ in mdevs),
        namespaces=frozenset(some(rng, PMEM.identifiers, 1)),
        mem_encryption=AMD_SEV if one_in(rng, 4) else None,
        unknown=frozenset(some(rng, sorted(HostResource), 1) if one_in(rng, 8) else ()),
    )
    return DomainUsage(
        domain_uuid=uid(owner),
        name="vm",
        active=not one_in(rng, 3),
        vcpus=rng.randint(0, 3),
        memory_mb=rng.choice([0, 300, 2000]),
        occupancy=occupancy,
    )


def random_node(
    rng: random.Random, there: HostCells, devices: Mapping[str, PciDevice], most: int = 9
) -> NodeState:
    """Return a node on which some things have happened.

    :param there: and `devices`: as for `empty_node`.
    """
    state = empty_node(rng, there, devices)
    steps = [*[_claim_or_move] * 4, _domain_appears, _activate, _attach_or_leave]
    for number in range(rng.randint(0, most)):
        state = rng.choice(steps)(rng, state, rng.choice(OWNERS), uid(1000 + number))
    return _changed_host(rng, state) if one_in(rng, 3) else state


def _claim_or_move(rng: random.Random, state: NodeState, owner: int, operation: str) -> NodeState:
    """A build, or another claim for an instance that is here: mostly one that fits."""
    if state.claims_of(uid(owner)):
        state = _activate(rng, state, owner, operation)
    before = state
    for _ in range(TRIES):
        if state.claims_of(uid(owner)):
            state = _tried(state, move_claim, random_move(rng, owner), operation)
        else:
            state = _tried(state, claims.instance_claim, random_build(rng, owner), operation)
        if state is not before:
            break
    return state


def _domain_appears(rng: random.Random, state: NodeState, owner: int, operation: str) -> NodeState:
    usage = random_domain(rng, state, owner)
    return state.fold(Change(cause="audit", at=NOON, domain_usages=(usage,)))


def _activate(rng: random.Random, state: NodeState, owner: int, operation: str) -> NodeState:
    for claim in state.claims_of(uid(owner)):
        if claim.state == BUILDING:
            state = _tried(state, claims.activate_claim, claim.uuid, operation)
    return state


def _attach_or_leave(rng: random.Random, state: NodeState, owner: int, operation: str) -> NodeState:
    """A device is attached to a guest, or the guest leaves."""
    mains = [each for each in state.claims_of(uid(owner)) if each.state == ACTIVE]
    if not mains:
        return state
    if rng.choice([False, True]):
        return _tried(state, attach.claim_pci_devices, attaching(mains[0], "any"), operation)
    facts = MigrationFacts(uuid=operation, migration_type="migration")
    try:
        return state.fold(start_move_out(state, call(), NOON, uid(owner), facts).change)
    except RtAgentError:
        return state


def _tried(
    state: NodeState, rule: Callable[..., Decision], asked: Any, operation: str
) -> NodeState:
    """The state after a rule, or the same state if the rule refuses."""
    try:
        decision = rule(state, call(operation_id=operation), NOON, asked)
    except RtAgentError:
        return state
    return state.fold(decision.change) if isinstance(decision, Granted) else state


#: What may become of a device that has claims.
_FATES: tuple[dict[str, object] | None, ...] = (
    None,
    {"present": False},
    {"listed": False},
    {"quarantine": "it failed"},
)


def _changed_host(rng: random.Random, state: NodeState) -> NodeState:
    """Return a host whose devices and resources are not all as when they were claimed."""
    devices = dict(state.devices)
    for address in some(rng, sorted(devices), 3):
        fate = rng.choice(_FATES)
        if fate is None:
            del devices[address]
        else:
            devices[address] = replace(devices[address], **fate)
    types = rng.choice([MDEV_TYPES, MDEV_TYPES[:1]])
    return replace(
        state,
        devices=PciDevices(devices),
        resource_inventories=tuple(
            each for each in state.resource_inventories if not one_in(rng, 3)
        ),
        policy=replace(state.policy, pci=replace(state.policy.pci, mdev_types=types)),
        disk_available_least=rng.choice([None, -5, 40]),
    )


def allocations_of(claim: Claim) -> dict[str, Allocation]:
    """What a claim has, as Placement would have it."""
    found: dict[str, dict[str, int]] = {}

    def add(provider: str | None, name: str, number: int) -> None:
        if provider is not None and number:
            of_provider = found.setdefault(provider, {})
            of_provider[name] = of_provider.get(name, 0) + number

    for name, number in (
        ("VCPU", claim.vcpus),
        ("PCPU", claim.pcpus),
        ("MEMORY_MB", claim.memory_mb),
        ("DISK_GB", -(-claim.disk_mb // 1024)),
    ):
        add(NODE.uuid, name, number)
    for device in claim.pci:
        name = f"CUSTOM_PCI_{device.vendor_id}_{device.product_id}".upper()
        add(device.provider, name, 1)
    for unit in claim.resources:
        add(unit.provider, unit.resource_class, 1)
    for each in claim.quantities:
        add(each.provider, each.resource_class, each.quantity)
    return {uuid: Allocation(resources=numbers) for uuid, numbers in found.items()}


def with_allocations(
    rng: random.Random, build: BuildRequest, granted: Claim | None
) -> BuildRequest:
    """Return the request, maybe with allocations that it follows, mostly those that suit.

    :param granted: a claim of the same request without allocations, or None.
    """
    if granted is None or one_in(rng, 3):
        return build
    found = allocations_of(granted)
    if one_in(rng, 3):
        uuid = rng.choice([*sorted(found), uid(98)])
        had = found[uuid].resources if uuid in found else {}
        name = rng.choice(["VCPU", "DISK_GB", FOO, "VGPU", CUSTOM_MDEV])
        found[uuid] = Allocation(resources={**had, name: had.get(name, 0) + 1})
    return replace(build, allocations=found)
