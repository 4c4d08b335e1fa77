"""What the virt driver reports of its host, as rtagent's topology and devices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova import objects
from nova.pci import utils as pci_utils

from rtagent.model.assignment import PmemNamespace
from rtagent.model.device import Device, DeviceSpec
from rtagent.model.guest import DomainDocument, GuestLayout
from rtagent.model.mem_encryption import MODELS, EncryptionCapacity, provider_suffix
from rtagent.model.metric import CpuUse
from rtagent.model.observation import Observation
from rtagent.model.topology import Cell, Topology
from rtagent.model.units import MB_IN_GB
from rtagent.ports import HostIdentity

_KIB = 1024


def host_cells(resources: Mapping[str, Any]) -> list[Any]:
    """Return the NUMACells of the driver's report; none if it has no cells."""
    numa = resources.get("numa_topology")
    return list(objects.NUMATopology.obj_from_db_obj(numa).cells) if numa else []


def topology(resources: Mapping[str, Any], contexts: Mapping[str, int] = {}) -> Topology:
    """Return the host.

    :param resources: of the driver's ``get_available_resource``; numbers of any type.
    :param contexts: the numbers of contexts for encrypted memory, by the suffix of their provider.
    """
    cells = tuple(map(_cell, host_cells(resources)))
    in_cells = frozenset[int]().union(*(cell.cpus for cell in cells))
    return Topology(
        cpus=in_cells or frozenset(range(int(resources["vcpus"]))),
        memory_mb=int(resources["memory_mb"]),
        disk_mb=int(resources["local_gb"]) * MB_IN_GB,
        hypervisor_type=str(resources.get("hypervisor_type") or ""),
        hypervisor_version=int(resources.get("hypervisor_version") or 0),
        cells=cells,
        mem_encryption=tuple(
            EncryptionCapacity(model=model, contexts=number)
            for model in MODELS
            if (number := contexts.get(provider_suffix(model)))
        ),
    )


def contexts(driver: Any) -> Mapping[str, int]:
    """Return the contexts for encrypted memory, as the driver publishes them to Placement: none if
    it is not libvirt's.
    """
    read = getattr(driver, "_get_memory_encryption_inventories", dict)
    return {suffix: inventory["total"] for suffix, inventory in read().items()}


def interfaces(specs: Iterable[DeviceSpec]) -> Mapping[str, str]:
    """Return the interfaces of this host that the specifications name, by the device's address.

    The driver does not report them: Nova, too, looks for each name when it needs a device's.
    """
    names = dict.fromkeys(spec.devname for spec in specs if spec.devname)
    addresses = {name: pci_utils.get_function_by_ifname(name)[0] for name in reversed(names)}
    return {address: name for name, address in addresses.items() if address}


def devices(
    resources: Mapping[str, Any], named: Mapping[str, str] = {}
) -> tuple[Device, ...] | None:
    """Return the host's PCI devices; None: the driver does not list them.

    :param named: see `interfaces`.
    """
    text = resources.get("pci_passthrough_devices")
    return None if text is None else tuple(_device(row, named) for row in json.loads(text))


def namespaces(resources: Iterable[Any]) -> tuple[PmemNamespace, ...]:
    """Return the persistent memory among the Resource objects of the driver's provider tree."""
    listed = (
        PmemNamespace(
            name=each.identifier,
            path=each.metadata.devpath,
            size_kb=each.metadata.size // _KIB,
            align_kb=each.metadata.align // _KIB,
        )
        for each in resources
        if isinstance(each.metadata, objects.LibvirtVPMEMDevice)
    )
    return tuple(sorted(listed, key=lambda namespace: namespace.name))


def _cell(nova: Any) -> Cell:
    cpus = frozenset(nova.cpuset | nova.pcpuset)
    cores = [frozenset(each) & cpus for each in nova.siblings]
    alone = cpus.difference(*cores)
    cores += [frozenset({cpu}) for cpu in alone]
    return Cell(
        id=nova.id,
        cpus=cpus,
        memory_mb=nova.memory,
        siblings=tuple(sorted(filter(None, cores), key=min)),
        sockets=frozenset() if nova.socket is None else frozenset({nova.socket}),
        pages={page.size_kb: page.total for page in nova.mempages},
    )


def _device(row: Mapping[str, Any], named: Mapping[str, str]) -> Device:
    capabilities = row.get("capabilities") or {}
    return Device(
        address=row["address"].lower(),
        vendor_id=row["vendor_id"],
        product_id=row["product_id"],
        dev_type=row["dev_type"],
        parent_addr=row.get("parent_addr"),
        numa_node=row.get("numa_node"),
        capabilities={"network": tuple(capabilities.get("network", ()))},
        net_name=named.get(row["address"].lower()),
        parent_ifname=named.get(row.get("parent_addr") or "", row.get("parent_ifname")),
        mac=row.get("mac_address"),
        card_serial_number=capabilities.get("vpd", {}).get("card_serial_number"),
    )


class DriverHost:
    """Asks nothing by itself: nova-compute asks its driver.

    :param read: returns what the driver has reported last.
    """

    def __init__(self, hostname: str, read: Callable[[], Observation]) -> None:
        self._hostname, self._read = hostname, read

    def identity(self) -> HostIdentity:
        return HostIdentity(hostname=self._hostname, host_uuid="")

    def observe(self) -> Observation:
        return self._read()

    def document(self, uuid: str) -> DomainDocument | None:
        return None

    def cpu_use(self) -> CpuUse:
        return CpuUse()

    def guest(self, uuid: str) -> GuestLayout | None:
        return None

    def start(self, on_event: Callable[[str], None]) -> None:
        """Do nothing: nova-compute starts the audits."""

    def stop(self) -> None:
        """Do nothing."""
