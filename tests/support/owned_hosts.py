"""Hosts whose CPUs have every use and whose devices have every status, and the owners."""

from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource, ResourceInventory
from rtagent.model.claim import ACTIVE, BUILDING, Claim
from rtagent.model.device import AssignedDevice, PciDevice, PciDevices, Tags
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy
from rtagent.pci.mdev import mdev_uuid
from tests.support.claims import assigned, pinned_claim
from tests.support.hosts import NODE, host, uid, with_claims
from tests.support.numa_hosts import LARGE, cell, topology
from tests.support.pci_hosts import GPU_0, GPU_1, PF_1, gpu, nic, record, vf
from tests.unit.placement.values import domain

WEB, DB, FOREIGN_DOMAIN = uid(0xA), uid(0xB), uid(0xC)
REMOVED_GPU, GROUP_GPU, MDEV_GPU = "0000:89:00.0", "0000:09:00.0", "0000:0a:00.0"
FOREIGN_VF = vf(0, PF_1)
VGPU = tuple(f"{MDEV_GPU}/nvidia-11/{number}" for number in range(3))
ON_NET = Tags(physical_network="physnet1", trusted=True)
DEVICES: dict[str, PciDevice] = {
    **record(
        [
            gpu(GPU_0, 0, iommu_group=7),
            gpu(GROUP_GPU, 0, iommu_group=7),
            gpu(GPU_1, 1),
            gpu(MDEV_GPU),
        ]
    ),
    **record([*nic(vfs=2), *nic(PF_1, vfs=1)], ON_NET),
    REMOVED_GPU: PciDevice(device=gpu(REMOVED_GPU), present=False, quarantine="it was lent"),
}
DEVICES[GPU_1] = replace(DEVICES[GPU_1], quarantine="it overheats")
INVENTORIES = (
    ResourceInventory(provider=MDEV_GPU, resource_class="VGPU", identifiers=VGPU),
    ResourceInventory(
        provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns_0",)
    ),
)


def claim_with_devices(owner: str, name: str, state: str, *devices: AssignedDevice) -> Claim:
    """A claim that has these devices and no place in cells."""
    claim = pinned_claim(owner=owner, name=name, memory_mb=64)
    return replace(claim, numa_topology=None, state=state, pci=devices)


WEB_CLAIM = replace(
    claim_with_devices(
        WEB, "web-1", ACTIVE, assigned(DEVICES[GPU_0].device, "gpu-0", alias_name="gpu")
    ),
    resources=(
        AssignedResource(parent_addr=MDEV_GPU, resource_class="VGPU", identifier=VGPU[0]),
        AssignedResource(resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifier="ns_9"),
    ),
)
PORT = {"requester_id": "port-1", "source": "neutron_port"}
DB_CLAIM = claim_with_devices(
    DB, "db-1", BUILDING, assigned(DEVICES[vf(0)].device, "port-1", **PORT)
)


def devices_in_every_state() -> NodeState:
    """The devices and their owners.

    - WEB claims GPU_0, and FOREIGN_DOMAIN uses it, too. GROUP_GPU shares its IOMMU group.
    - GPU_1 is in quarantine. REMOVED_GPU is not on the host any more.
    - The first network card has a virtual function that DB claims for its build, and a free one.
      The virtual function of the second card is used by FOREIGN_DOMAIN.
    - MDEV_GPU has three virtual GPUs: WEB claims one, and FOREIGN_DOMAIN uses another.
    """
    foreign = replace(
        domain(1, 64, FOREIGN_DOMAIN),
        name="odd",
        occupancy=Occupancy(
            devices=frozenset({GPU_0, FOREIGN_VF}),
            mdevs=frozenset({mdev_uuid(NODE.uuid, VGPU[1])}),
            mdev_parents=frozenset({MDEV_GPU}),
        ),
    )
    blank = replace(host(), devices=PciDevices(DEVICES), resource_inventories=INVENTORIES)
    return with_claims(blank, (WEB_CLAIM, DB_CLAIM), (foreign,))


#: Two cells of four cores of two threads; CPU 15 is offline; 512 pages of 2 MiB on the first.
CELLS = topology(
    cell(0, huge={LARGE: 512}),
    replace(
        cell(1),
        cpus=frozenset(range(8, 15)),
        offline=frozenset({15}),
        siblings=(*cell(1).siblings[:3], frozenset({14})),
    ),
)
IDLE = uid(0xD)
CLAIMS = (
    pinned_claim(2, 3, owner=WEB, name="web-1"),
    pinned_claim(4, kept=(5,), owner=IDLE, memory_mb=512, pagesize=LARGE),
)
POLICY = NumaPolicy(
    cpu_shared_set=frozenset({0, 1}),
    cpu_dedicated_set=frozenset(range(2, 12)),
    reserved_huge_pages={0: {LARGE: 64}},
)


def pinned_host() -> NodeState:
    """CPUs 0-1 are shared, 2-3 are WEB's, 4 is IDLE's and 5 is left idle for it.

    9 is used by FOREIGN_DOMAIN, which also uses 0 and 3. 6-8, 10 and 11 are free, 12-14 the host's,
    15 is offline.
    """
    foreign = replace(
        domain(1, 64, FOREIGN_DOMAIN), name="odd", occupancy=Occupancy(pcpus=frozenset({0, 3, 9}))
    )
    return with_claims(host(CELLS, numa=POLICY), CLAIMS, (foreign,))
