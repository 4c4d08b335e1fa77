"""Devices for tests: a host with two GPUs and a network card with virtual functions, and more."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.device import SRIOV_PF, SRIOV_VF, Device, MdevType, PciDevice, PciDevices, Tags
from rtagent.model.request import Flavor, PciRequest
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.device_users import DeviceAllocation
from rtagent.pci.fit import DeviceFit
from rtagent.pci.pools import DevicePool
from rtagent.pci.requests import DeviceRequest, device_requests
from rtagent.pci.specs import parse_aliases, parse_specs, refresh

GPU_IDS = {"vendor_id": "10de", "product_id": "13f1"}
#: A physical function of a network card, and its virtual functions.
PF_IDS = {"vendor_id": "8086", "product_id": "1583"}
VF_IDS = {"vendor_id": "8086", "product_id": "154c"}

GPU_0, GPU_1 = "0000:08:00.0", "0000:88:00.0"
PF_0, PF_1 = "0000:20:00.0", "0000:a0:00.0"

#: Aliases of the devices above, by the names that the flavors of tests use.
ALIASES = parse_aliases(
    [
        json.dumps({"name": "gpu", **GPU_IDS, "device_type": "type-PCI"}),
        json.dumps({"name": "vf", **VF_IDS, "device_type": "type-VF"}),
        json.dumps({"name": "pf", **PF_IDS, "device_type": "type-PF"}),
    ]
)
SPECS = parse_specs([json.dumps(ids) for ids in (GPU_IDS, PF_IDS, VF_IDS)])


def gpu(
    address: str = GPU_0, numa_node: int | None = 0, *, vgpus: int | None = None, **other: object
) -> Device:
    """Return a GPU. :param vgpus: how many virtual GPUs it can create."""
    if vgpus is not None:
        type_ = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=vgpus)
        other = {"mdev_types": (type_,), **other}
    return Device(address=address, numa_node=numa_node, **GPU_IDS, **other)


def nic(pf: str = PF_0, vfs: int = 4, numa_node: int | None = 0) -> Iterator[Device]:
    """Yield a network card's physical function and its virtual functions."""
    yield Device(
        address=pf, dev_type=SRIOV_PF, numa_node=numa_node, net_name=f"p{pf[5:7]}", **PF_IDS
    )
    for number in range(vfs):
        yield Device(
            address=vf(number, pf),
            dev_type=SRIOV_VF,
            parent_addr=pf,
            net_name=f"p{pf[5:7]}v{number}",
            parent_ifname=f"p{pf[5:7]}",
            numa_node=numa_node,
            **VF_IDS,
        )


def vf(number: int, pf: str = PF_0) -> str:
    """Return the address of a virtual function."""
    return f"{pf[:8]}{2 + number // 8:02x}.{number % 8}"


def record(devices: Iterable[Device], tags: Tags | None = None) -> dict[str, PciDevice]:
    """Return the record of these devices, as if a specification matched them all."""
    return {each.address: PciDevice(device=each, tags=tags or Tags()) for each in devices}


def two_gpus_and_a_nic(vfs: int = 4) -> dict[str, PciDevice]:
    return record([gpu(GPU_0, 0), gpu(GPU_1, 1), *nic(vfs=vfs)])


def used_by(owner: str, *addresses: str, allocated: bool = True) -> list[DeviceAllocation]:
    """Return the owner's allocations of these devices."""
    return [
        DeviceAllocation(address=each, owner_id=owner, allocated=allocated) for each in addresses
    ]


def flavor(aliases: str = "", **extra_specs: str) -> Flavor:
    specs = {"pci_passthrough:alias": aliases} if aliases else {}
    return Flavor(vcpus=1, memory_mb=64, extra_specs={**specs, **extra_specs})


def requests_for(aliases: str, policy: str | None = None) -> tuple[DeviceRequest, ...]:
    """Return the requests of a flavor with these aliases."""
    return device_requests(flavor(aliases), (), ALIASES, policy)


def port(request_id: str = "port", count: int = 1, policy: str | None = None, **spec: str | None):
    return PciRequest(
        count=count,
        request_id=request_id,
        spec=(spec,),
        numa_policy=policy,
        source="neutron_port",
        requester_id=request_id,
    )


def device_fit(
    devices: Mapping[str, PciDevice],
    requests: Sequence[DeviceRequest],
    allocations: Iterable[DeviceAllocation] = (),
    owner: str = "me",
    **other: object,
) -> DeviceFit:
    return DeviceFit(
        requests, DeviceAllocations(PciDevices(devices), allocations), owner, where="cn1", **other
    )


def pools_of(
    devices: Mapping[str, PciDevice], allocations: Iterable[DeviceAllocation] = ()
) -> tuple[DevicePool, ...]:
    """Return the pools of the available devices."""
    return DeviceAllocations(PciDevices(devices), allocations).pools()


def addresses(result) -> list[str]:
    """Return the devices of a fit; a refusal fails the test with its reasons."""
    assert hasattr(result, "devices"), str(result)
    return [device.address for device in result.devices]


def refreshed(known, seen, specs=SPECS, used=()) -> dict[str, PciDevice]:
    """Return the record after a listing of the host's devices."""
    change = refresh(known, seen, specs, used)
    after = {address: each for address, each in known.items() if address not in change.removals}
    return {**after, **{each.address: each for each in change.puts}}


def changed(recorded: PciDevice, **device: object) -> Device:
    return replace(recorded.device, **device)
