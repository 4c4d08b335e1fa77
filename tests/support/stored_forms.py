"""Rows of every table, written by whichever release runs this file: ``python - URL < FILE``.

It uses only what the release before this one has, too, and no other module of the tests.
"""

import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from rtagent import model
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.db.store import SqlStore
from rtagent.model.assignment import Assignment, CellAssignment, CpuTopology
from rtagent.model.change import Change, Event, Operation
from rtagent.model.claim import ACTIVE, BUILDING, INCOMING, RELEASED, RESIZE, Claim, Replacement
from rtagent.model.device import SRIOV_VF, AssignedDevice, Device, MdevType, PciDevice, Tags
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.event import DRIFT_FOUND, Notification
from rtagent.model.mem_encryption import AMD_SEV_ES, EncryptionCapacity, MemEncryption
from rtagent.model.migration import DEST, Migration
from rtagent.model.node import Node, NodeRecord, Writer
from rtagent.model.node_state import restore
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.request import Allocation, Limits, NumaLimits
from rtagent.model.server import Place, Server, ServerOperation
from rtagent.model.topology import Cell, Topology

#: The two releases have some values in different modules of `rtagent.model`.
_MODEL = {
    name: value
    for info in iter_modules(model.__path__)
    for name, value in vars(import_module(f"rtagent.model.{info.name}")).items()
}
AssignedQuantity = _MODEL["AssignedQuantity"]
AssignedResource = _MODEL["AssignedResource"]
Drain = _MODEL["Drain"]
DriftPayload = _MODEL["DriftPayload"]
Flavor = _MODEL["Flavor"]
Image = _MODEL["Image"]
InstanceFacts = _MODEL["InstanceFacts"]
ManageAllocations = _MODEL["ManageAllocations"]
PciRequest = _MODEL["PciRequest"]
PlacementPolicy = _MODEL["PlacementPolicy"]
PmemNamespace = _MODEL["PmemNamespace"]
RequestSpec = _MODEL["RequestSpec"]
ResourceInventory = _MODEL["ResourceInventory"]
Retention = _MODEL["Retention"]

NOW = datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)
ODD = "Žluťoučký 🐎 \u2028 'quoted\" \\ %s :x ; --"
ADDRESS, PARENT = "ffff:81:1f.7", "0000:81:00.0"


def uuid(number: int) -> str:
    return str(UUID(int=number))


NODE = Node(uuid=uuid(1), host="host-ž", hypervisor_hostname="hv1.example", host_ip="fe80::1")
WRITER = Writer(machine_id="m" * 32, boot_id=uuid(7), state_path="/var/lib/rtagent/ž")
RECORD = NodeRecord(node=NODE, epoch=1, revision=0, writer=WRITER)
POLICY = Policy(
    numa=NumaPolicy(cpu_dedicated_set=frozenset({0})),
    placement=PlacementPolicy(manage_allocations=ManageAllocations.YES),
)
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
DEVICE = PciDevice(
    device=Device(
        address=ADDRESS,
        vendor_id="8086",
        product_id="154c",
        dev_type=SRIOV_VF,
        parent_addr=PARENT,
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
NAMESPACE = PmemNamespace(name=ODD, path="/dev/dax0.0", size_kb=2**40, align_kb=2048)
INVENTORIES = (
    ResourceInventory(provider=PARENT, resource_class="VGPU", identifiers=("a/b/1", "c")),
    ResourceInventory(
        provider="", resource_class="CUSTOM_PMEM", identifiers=(ODD,), namespaces=(NAMESPACE,)
    ),
)
OCCUPANCY = Occupancy(
    pcpus=frozenset({0, 500}),
    memory_mb={0: 2**40, 7: 1},
    pages={7: {2048: 3, 2**20: 2**33}},
    devices=frozenset({"0000:08:00.0"}),
    mdevs=frozenset({ODD}),
    namespaces=frozenset({ODD}),
    mem_encryption=AMD_SEV_ES,
)


def domain_usage(number: int, **fields: Any) -> DomainUsage:
    """The usage of a running domain."""
    plain: dict[str, Any] = {"name": ODD, "active": True, "vcpus": 1, "memory_mb": 2**33}
    return DomainUsage(domain_uuid=uuid(3000 + number), **{**plain, **fields})


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


def created(*claims: Claim, at: datetime = NOW, **more: Any) -> Change:
    """Create claims, each with its own uuid as operation id. :param more: other fields."""
    return Change(
        cause="instance_claim",
        at=at,
        actor=ODD,
        request_id="req-1",
        puts=claims,
        events=tuple(Event(before=None, after=each, action="create") for each in claims),
        operations=tuple(operation(each.uuid, claim_uuid=each.uuid) for each in claims),
        **more,
    )


def released(before: Claim, at: datetime = NOW, **event: Any) -> Change:
    """Release a claim. :param event: other fields of the event."""
    after = replace(before, state=RELEASED, expires_at=None, updated_at=at)
    return Change(
        cause="release_claim",
        at=at,
        ends=(after,),
        events=(Event(before=before, after=after, action="release", **event),),
    )


#: A claim with a value in every field.
FULL = claim(
    1,
    state=ACTIVE,
    vcpus=2**31 - 1,
    pcpus=2,
    memory_mb=2**40,
    disk_mb=0,
    created_at=NOW + timedelta(microseconds=1),
    updated_at=datetime(2038, 1, 19, 3, 14, 8, 1, UTC),
    expires_at=None,
    suspect=ODD,
    migration_uuid=uuid(9),
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
        PciRequest(count=2, alias_name=ODD, spec=({"vendor_id": "8086"},), numa_policy="socket"),
    ),
    extra_resource={"VGPU": 2, "CUSTOM_PMEM": ("a", ODD)},
    numa_topology=Assignment(
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
    ),
    pci=(
        AssignedDevice(
            address=ADDRESS,
            vendor_id="8086",
            product_id="154c",
            dev_type=SRIOV_VF,
            request_id=ODD,
            alias_name=ODD,
            requester_id=ODD,
            source="neutron_port",
            numa_node=4,
            parent_addr=PARENT,
            managed=False,
            vdpa_dev="/dev/vhost-vdpa-0",
            provider=uuid(11),
        ),
    ),
    pci_replaced={ODD: Replacement(before=(ODD,), after=(ADDRESS,))},
    mem_encryption=MemEncryption(model=AMD_SEV_ES, cbitpos=51, reduced_phys_bits=1),
    resources=(
        AssignedResource(
            resource_class="VGPU", identifier="a/b/1", provider=uuid(10), parent_addr=PARENT
        ),
        AssignedResource(
            resource_class="CUSTOM_PMEM", identifier=ODD, provider=uuid(13), namespace=NAMESPACE
        ),
    ),
    quantities=(
        AssignedQuantity(provider=uuid(12), suffix=ODD, resource_class="CUSTOM_FOO", quantity=3),
    ),
    allocations={uuid(12): Allocation(resources={"CUSTOM_FOO": 3}, generation=7)},
    provider_mapping={ODD: (uuid(11),)},
    tag=ODD,
)
ARRIVING = claim(2, state=INCOMING, kind=RESIZE, migration_uuid=uuid(4002))
ENDED = claim(3)
MOVE = migration(
    2,
    claim_uuid=ARRIVING.uuid,
    source_compute=ODD,
    source_node=ODD,
    dest_compute=NODE.host,
    dest_node=NODE.hypervisor_hostname,
    dest_host=NODE.host_ip,
    old_flavor=FULL.flavor,
    new_flavor=ENDED.flavor,
)
OPERATION = ServerOperation(
    uuid=uuid(6001),
    server_uuid=uuid(5001),
    kind="build",
    step="select",
    progress={"host": ODD},
    error={"error": "NoValidHost", "message": ODD},
    created_at=NOW,
    updated_at=NOW,
    owner=uuid(6002),
)
OF_SERVER = RequestSpec(flavor=FULL.flavor, project_id=ODD)
BUILT = Server(
    uuid=uuid(5001),
    name=ODD,
    spec=OF_SERVER,
    vm_state="building",
    place=Place(host=ODD, node_uuid=NODE.uuid, claim={"uuid": FULL.uuid, "pci": [ADDRESS]}),
    document="<domain/>",
    operation_uuid=OPERATION.uuid,
    created_at=NOW,
    updated_at=NOW,
)


FOUND = Change(
    cause="audit",
    at=NOW,
    topology=TOPOLOGY,
    policy=POLICY,
    devices=(DEVICE,),
    resource_inventories=INVENTORIES,
    domain_usages=(domain_usage(1, occupancy=OCCUPANCY),),
    disk_available_least=3,
    failed_builds=2,
    drain=Drain(since=NOW, reason=ODD, deadline=NOW, actor=ODD),
    notifications=(
        Notification(
            type=DRIFT_FOUND,
            payload=DriftPayload(
                owner_id=uuid(2001),
                claim_uuid=uuid(1001),
                problem=ODD,
                resource="VCPU",
                unit="",
                claimed=1,
                observed=2**33,
            ),
        ),
    ),
)
CREATED = created(FULL, ARRIVING, ENDED, migrations=(MOVE,), unwritten=(FULL.owner_id,))


def write(url: str) -> None:
    """Create the schema in an empty database, and write rows."""
    engine = open_engine(url, 30)
    migrate.sync(engine)
    store = SqlStore(engine)
    state = restore(store.enroll(NODE.uuid, NODE.hypervisor_hostname, lambda _: RECORD), POLICY)
    for change in (FOUND, CREATED, released(ENDED, reason=ODD)):
        after = state.fold(change)
        store.commit(state, after, [change])
        state = after
    store.purge(NODE.uuid, 0, Retention().after(0, state.revision, {}))
    assert SqlServerStore(engine).begin(OPERATION, BUILT, None) == "begun"
    engine.dispose()


if __name__ == "__main__":
    write(sys.argv[1])
