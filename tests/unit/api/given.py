"""A host whose devices are in every state that they can be in."""

from msgspec.structs import replace

from rtagent.model.claim import ACTIVE, BUILDING, Claim
from rtagent.model.device import AssignedDevice, PciDevice, Tags
from rtagent.model.host import HostState, restore
from rtagent.model.numa_usage import Occupancy
from rtagent.model.pci_devices import PciDevices
from rtagent.model.specific import SpecificInventory, SpecificUnit
from rtagent.pci.mdev import mdev_uuid
from tests.builders import NODE, host, uid
from tests.pci_hosts import GPU_0, GPU_1, PF_1, gpu, nic, record, vf
from tests.unit.model.placed import pinned_claim
from tests.unit.placement.values import domain

WEB, DB, STRANGER = uid(0xA), uid(0xB), uid(0x9)
LOST, TWIN, MAKER = "0000:89:00.0", "0000:09:00.0", "0000:0a:00.0"
FOREIGN_VF = vf(0, PF_1)
VGPU = tuple(f"{MAKER}/nvidia-11/{number}" for number in range(3))
ON_NET = Tags(physical_network="physnet1", trusted=True)
DEVICES: dict[str, PciDevice] = {
    **record(
        [gpu(GPU_0, 0, iommu_group=7), gpu(TWIN, 0, iommu_group=7), gpu(GPU_1, 1), gpu(MAKER)]
    ),
    **record([*nic(vfs=2), *nic(PF_1, vfs=1)], ON_NET),
    LOST: PciDevice(device=gpu(LOST), present=False, quarantine="it was lent"),
}
DEVICES[GPU_1] = replace(DEVICES[GPU_1], quarantine="it overheats")
MADE = (
    SpecificInventory(provider=MAKER, resource_class="VGPU", identifiers=VGPU),
    SpecificInventory(
        provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifiers=("ns_0",)
    ),
)


def assigned(address: str, request_id: str, alias: str | None = None) -> AssignedDevice:
    device = DEVICES[address].device
    return AssignedDevice(
        address=address,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        dev_type=device.dev_type,
        request_id=request_id,
        alias_name=alias,
        requester_id=None if alias else request_id,
        source="flavor_alias" if alias else "neutron_port",
        numa_node=device.numa_node,
        parent_addr=device.parent_addr,
    )


def holding_claim(owner: str, name: str, state: str, *devices: AssignedDevice) -> Claim:
    claim = pinned_claim(owner=owner, name=name, memory_mb=64)
    return replace(claim, numa_topology=None, state=state, pci=devices)


WEB_CLAIM = replace(
    holding_claim(WEB, "web-1", ACTIVE, assigned(GPU_0, "gpu-0", "gpu")),
    resources=(
        SpecificUnit(provider=MAKER, resource_class="VGPU", identifier=VGPU[0]),
        SpecificUnit(provider="", resource_class="CUSTOM_PMEM_NAMESPACE_4GB", identifier="ns_9"),
    ),
)
DB_CLAIM = holding_claim(DB, "db-1", BUILDING, assigned(vf(0), "port-1"))


def given() -> HostState:
    """GPU_0 is WEB's, and STRANGER uses it, too; its TWIN shares its IOMMU group. GPU_1 is kept
    back. Of the first card one virtual function is DB's, which is being built, the other nobody's;
    that of the second is STRANGER's. MAKER makes virtual GPUs: one is WEB's, the next STRANGER's.
    LOST has gone."""
    stranger = replace(
        domain(1, 64, STRANGER),
        name="odd",
        occupancy=Occupancy(
            devices=frozenset({GPU_0, FOREIGN_VF}),
            mdevs=frozenset({mdev_uuid(NODE.uuid, VGPU[1])}),
            makers=frozenset({MAKER}),
        ),
    )
    blank = replace(host(), devices=PciDevices(DEVICES), specific=MADE)
    return restore(blank, (WEB_CLAIM, DB_CLAIM), (stranger,), 1)
