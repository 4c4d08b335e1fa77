"""Values to store: claims, devices, domains, migrations, and changes of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from rtagent.model.assignment import (
    AssignedQuantity,
    AssignedResource,
    Assignment,
    CellAssignment,
    CpuTopology,
    PmemNamespace,
    ResourceInventory,
)
from rtagent.model.change import Change, Event, Operation
from rtagent.model.claim import ACTIVE, BUILDING, RELEASED, RESIZE, Claim, Replacement
from rtagent.model.device import SRIOV_VF, AssignedDevice, Device, MdevType, PciDevice, Tags
from rtagent.model.domain_usage import DomainUsage, HostResource, Occupancy
from rtagent.model.mem_encryption import AMD_SEV_ES, EncryptionCapacity, MemEncryption
from rtagent.model.migration import DEST, Migration
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.request import (
    Allocation,
    Flavor,
    Image,
    InstanceFacts,
    Limits,
    NumaLimits,
    PciRequest,
)
from rtagent.model.stored import Stored
from rtagent.model.topology import Cell, Topology
from rtagent.ports import Enroll

NOW = datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)
ODD = "Žluťoučký 🐎 \u2028 'quoted\" \\ %s :x ; --"

NODE = Node(
    uuid=str(UUID(int=1)), host="host-ž", hypervisor_hostname="hv1.example", host_ip="fe80::1"
)
WRITER = Writer(machine_id="m" * 32, boot_id=str(UUID(int=7)), state_path="/var/lib/rtagent/ž")
TOPOLOGY = Topology(
    cpus=frozenset({0, 1, 2, 7}),
    memory_mb=2**20,
    disk_mb=2**40,
    hypervisor_type="QEMU",
    hypervisor_version=9_000_000,
    cpu_info={"arch": "x86_64", "topology": {"cores": 2}, "features": ["vmx", "ž"]},
    supported_hv_specs=(("x86_64", "kvm", "hvm"), ("i686", "qemu", "hvm")),
    traits=frozenset({"COMPUTE_NODE", "HW_CPU_X86_AVX2"}),
    mem_encryption=(EncryptionCapacity(model=AMD_SEV_ES, cbitpos=51, contexts=1006),),
    cells=(
        Cell(
            id=0,
            cpus=frozenset({0, 1, 2}),
            memory_mb=2**19,
            offline=frozenset({3}),
            siblings=(frozenset({0, 2}), frozenset({1})),
            sockets=frozenset({0}),
            distances={0: 10, 4: 21},
            pages={4: 2**26, 2048: 2**17, 2**20: 2},
        ),
        Cell(id=4, cpus=frozenset({7}), memory_mb=2**19, sockets=frozenset({1})),
    ),
)
POLICY = Policy(
    reserved_memory_mb=512,
    cpu_allocation_ratio=Decimal("16.1"),
    ram_allocation_ratio=Decimal("1.5"),
    disk_allocation_ratio=Decimal("0.1"),
    numa=NumaPolicy(
        cpu_shared_set=frozenset({0}),
        cpu_dedicated_set=frozenset({1, 2, 7, 8}),
        reserved_huge_pages={0: {2048: 64}},
    ),
)

#: An unusual value in every field.
ASSIGNMENT = Assignment(
    cells=(
        CellAssignment(
            id=4,
            memory=2**21,
            cpuset=frozenset({0, 1}),
            shared_pcpus=frozenset({64, 65}),
            cpu_pinning={2: 1023, 3: 20},
            cpuset_reserved=frozenset({21}),
            cpuset_kept=frozenset({1022, 22}),
            pagesize=2**20,
            hugepages=True,
        ),
        CellAssignment(id=0, memory=1),
    ),
    shared_pcpus=frozenset({66}),
    emulator_pcpus=frozenset({21, 67}),
    realtime=frozenset({3}),
    realtime_priority=99,
    cpu_topology=CpuTopology(sockets=1, cores=2, threads=2),
    locked_memory=True,
)
OCCUPANCY = Occupancy(
    pcpus=frozenset({0, 500}),
    memory_mb={0: 2**40, 7: 1},
    pages={7: {2048: 3, 2**20: 2**33}},
    devices=frozenset({"0000:08:00.0"}),
    mdevs=frozenset({ODD}),
    namespaces=frozenset({ODD}),
    mem_encryption=AMD_SEV_ES,
    unknown=frozenset(HostResource),
)
#: An unusual value in every field.
DEVICE = PciDevice(
    device=Device(
        address="ffff:81:1f.7",
        vendor_id="8086",
        product_id="154c",
        dev_type=SRIOV_VF,
        parent_addr="0000:81:00.0",
        numa_node=4,
        iommu_group=2**31 - 1,
        capabilities={"network": ("rx", ODD)},
        net_name="enp129s0f0v0",
        parent_ifname="enp129s0f0",
        mac="52:54:00:00:00:01",
        card_serial_number=ODD,
        vdpa_dev="/dev/vhost-vdpa-0",
        mdev_types=(MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=3),),
    ),
    tags=Tags(physical_network=None, one_time_use=True, traits=frozenset({"CUSTOM_A"})),
    present=False,
    listed=False,
    quarantine=ODD,
)
INVENTORIES = (
    ResourceInventory(provider="0000:08:00.0", resource_class="VGPU", identifiers=("a/b/1", "c")),
    ResourceInventory(
        provider="",
        resource_class="CUSTOM_PMEM",
        identifiers=(ODD,),
        namespaces=(PmemNamespace(name=ODD, path=ODD, size_kb=2**40, align_kb=2048),),
    ),
)


def uuid(number: int) -> str:
    return str(UUID(int=number))


def take_over(records: Sequence[NodeRecord]) -> NodeRecord:
    """Enroll as the next writer, with one epoch more."""
    mine = [record for record in records if record.node.uuid == NODE.uuid]
    old = mine[0] if mine else NodeRecord(node=NODE, epoch=0, revision=0)
    return replace(old, node=NODE, epoch=old.epoch + 1, writer=WRITER, deleted_at=None)


def rule(node: Node, epoch: int, **other: Any) -> Enroll:
    """Return a rule that writes this record."""
    return lambda _: NodeRecord(node=node, epoch=epoch, revision=0, writer=WRITER, **other)


def state_of(stored: Stored) -> NodeState:
    """Restore the state, as an agent does at its start."""
    return restore(stored, POLICY)


def claim(number: int, **fields: Any) -> Claim:
    """A building claim without devices and pinned CPUs."""
    plain: dict[str, Any] = {
        "uuid": uuid(1000 + number),
        "host": NODE.host,
        "node": NODE.hypervisor_hostname,
        "node_uuid": NODE.uuid,
        "owner_id": uuid(2000 + number),
        "state": BUILDING,
        "vcpus": 2,
        "memory_mb": 1024,
        "disk_mb": 20 * 1024,
        "created_at": NOW,
        "updated_at": NOW,
        "expires_at": NOW + timedelta(seconds=300),
        "revision": 1,
        "instance": InstanceFacts(project_id="p1", vm_state="building", os_type="linux"),
        "flavor": Flavor(vcpus=2, memory_mb=1024, root_gb=20, name="m1.small"),
    }
    return Claim(**{**plain, **fields})


def pinned(number: int, *cpus: int, **fields: Any) -> Claim:
    """A claim with one vCPU pinned to each of these host CPUs."""
    cell = CellAssignment(id=0, memory=1024, cpu_pinning=dict(enumerate(cpus)))
    place: dict[str, Any] = {"vcpus": 0, "pcpus": len(cpus)}
    return claim(number, numa_topology=Assignment(cells=(cell,)), **{**place, **fields})


def odd_claim(number: int) -> Claim:
    """A claim with an unusual value in every field."""
    return claim(
        number,
        state=ACTIVE,
        vcpus=2**31 - 1,
        memory_mb=2**40,
        disk_mb=0,
        created_at=NOW + timedelta(microseconds=1),
        updated_at=datetime(2038, 1, 19, 3, 14, 8, 1, UTC),
        expires_at=None,
        instance=InstanceFacts(
            project_id=ODD,
            user_id="",
            display_name=ODD,
            vm_state="active",
            task_state=ODD,
            os_type=None,
            is_volume_backed=True,
        ),
        flavor=Flavor(
            vcpus=1,
            memory_mb=1,
            ephemeral_gb=3,
            swap=5,
            flavorid=ODD,
            name=ODD,
            extra_specs={"hw:cpu_policy": "shared", ODD: ODD, "": ""},
        ),
        image=Image(properties={"hw_ž": ODD}),
        limits=Limits(
            vcpu=0, memory_mb=3, disk_gb=4, numa_topology=NumaLimits(cpu_allocation_ratio=1.1)
        ),
        pci_requests=(
            PciRequest(
                count=2, alias_name=ODD, spec=({"vendor_id": "8086"},), numa_policy="socket"
            ),
        ),
        extra_resource={"VGPU": 2, "CUSTOM_PMEM": ("a", ODD)},
        suspect=ODD,
        pcpus=4,
        numa_topology=ASSIGNMENT,
        pci=(
            AssignedDevice(
                address="ffff:81:1f.7",
                vendor_id="8086",
                product_id="154c",
                dev_type=SRIOV_VF,
                request_id=ODD,
                alias_name=ODD,
                requester_id=ODD,
                source="neutron_port",
                numa_node=4,
                parent_addr="0000:81:00.0",
                managed=False,
                vdpa_dev="/dev/vhost-vdpa-0",
                provider=uuid(11),
            ),
        ),
        mem_encryption=MemEncryption(model=AMD_SEV_ES, cbitpos=51, reduced_phys_bits=1),
        pci_replaced={ODD: Replacement(before=(ODD,), after=("ffff:81:1f.7",))},
        resources=(
            AssignedResource(
                resource_class="VGPU",
                identifier="a/b/1",
                provider=uuid(10),
                parent_addr="0000:08:00.0",
            ),
            AssignedResource(
                resource_class="CUSTOM_PMEM",
                identifier=ODD,
                provider=uuid(13),
                namespace=PmemNamespace(name=ODD, path="/dev/dax0.0", size_kb=2048, align_kb=2048),
            ),
        ),
        quantities=(
            AssignedQuantity(
                provider=uuid(12), suffix=ODD, resource_class="CUSTOM_FOO", quantity=3
            ),
        ),
        allocations={uuid(12): Allocation(resources={"CUSTOM_FOO": 3}, generation=7)},
        provider_mapping={ODD: (uuid(11),)},
        tag=ODD,
        migration_uuid=uuid(9),
    )


def domain_usage(number: int, **fields: Any) -> DomainUsage:
    """The usage of a running domain."""
    plain: dict[str, Any] = {"name": ODD, "active": True, "vcpus": 1, "memory_mb": 2**33}
    return DomainUsage(domain_uuid=uuid(3000 + number), **{**plain, **fields})


def device(number: int, **fields: Any) -> PciDevice:
    """A plain device."""
    address = f"0000:{number:02x}:00.0"
    return PciDevice(device=Device(address=address, vendor_id="10de", product_id="13f1"), **fields)


def with_devices(number: int, *devices: PciDevice, **fields: Any) -> Claim:
    """A claim with these devices."""
    assigned = (
        AssignedDevice(
            address=each.address,
            vendor_id=each.device.vendor_id,
            product_id=each.device.product_id,
            dev_type=each.device.dev_type,
            request_id=f"request {number}",
        )
        for each in devices
    )
    return claim(number, pci=tuple(assigned), **fields)


def migration(number: int, **fields: Any) -> Migration:
    """The destination's record of a resize."""
    plain: dict[str, Any] = {
        "uuid": uuid(4000 + number),
        "node_uuid": NODE.uuid,
        "role": DEST,
        "instance_uuid": uuid(2000 + number),
        "migration_type": RESIZE,
        "status": "pre-migrating",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Migration(**{**plain, **fields})


def operation(name: str, **fields: Any) -> Operation:
    plain: dict[str, Any] = {"digest": "d" * 64, "method": "instance_claim"}
    return Operation(operation_id=name, **{**plain, **fields})


def ended(name: str) -> Operation:
    """The record of an id that was aborted before its call arrived."""
    return Operation(operation_id=name, digest="", method="abort", ended=True)


def devices(*puts: PciDevice, removals: Sequence[str] = ()) -> Change:
    """Add or change devices, and remove others."""
    return Change(cause="audit", at=NOW, devices=puts, device_removals=tuple(removals))


def created(*claims: Claim, at: datetime = NOW) -> Change:
    """Create claims, each with its own uuid as operation id."""
    return Change(
        cause="instance_claim",
        at=at,
        actor=ODD,
        request_id="req-1",
        puts=claims,
        events=tuple(Event(before=None, after=c, action="create") for c in claims),
        operations=tuple(operation(c.uuid, claim_uuid=c.uuid) for c in claims),
    )


def changed(before: Claim, **fields: Any) -> Change:
    """Change a claim."""
    after = replace(before, **fields)
    return Change(
        cause="activate_claim",
        at=NOW,
        puts=(after,),
        events=(Event(before=before, after=after, action="activate", reason=ODD),),
    )


def released(before: Claim, at: datetime = NOW) -> Change:
    """Release a claim."""
    after = replace(before, state=RELEASED, expires_at=None, updated_at=at)
    return Change(
        cause="release_claim",
        at=at,
        ends=(after,),
        events=(Event(before=before, after=after, action="release"),),
    )


def folded(state: NodeState, *changes: Change) -> NodeState:
    """Fold changes into a state, in memory only."""
    for change in changes:
        state = state.fold(change)
    return state
