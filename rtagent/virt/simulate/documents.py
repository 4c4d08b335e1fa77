"""Build the documents of a simulated host from its hardware: the host file, with the node devices
(GPUs, network cards with virtual functions, NVMe), and the capabilities. Pure.

Each NUMA cell has half of a PCI domain: buses 0000:00 to 7f and 0000:80 to ff for the first two,
which is common on two-socket hosts. Devices are spread over the cells in turn. Each is behind a
root port of its own on the first bus of its cell's half.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from lxml import etree
from msgspec.structs import replace

from rtagent.model.address import Address, make_address
from rtagent.model.base import Value
from rtagent.model.units import BYTES_IN_MIB, KIB_IN_MIB
from rtagent.virt.libvirt.document import E
from rtagent.virt.libvirt.hostfile import (
    FEATURES_INSTRUCTION,
    HOST_INSTRUCTION,
    NAMESPACES_INSTRUCTION,
)
from rtagent.virt.simulate.machine import SMALLEST_PAGE, HardwareThread, Machine

_NEAR, _FAR = "10", "21"  # distances that firmware commonly reports

#: Sizes (KiB) of the larger pages that the CPU supports, including sizes of which no page is
#: reserved.
_LARGE_PAGES = (2048, 1048576)

#: Bytes at which the devices of persistent memory are aligned.
_DAX_ALIGN = 2 * BYTES_IN_MIB

#: (vendor, product) of real devices: a Quadro M4000 and its sound device, a Tesla T4, an XL710 and
#: its virtual functions, an NVMe controller and a root port of QEMU's.
GPU, GPU_SOUND = ("10de", "13f1"), ("10de", "0fbb")
SHARED_GPU = ("10de", "1eb8")
NIC, NIC_VF = ("8086", "1583"), ("8086", "154c")
NVME, ROOT_PORT = ("1b36", "0010"), ("1b36", "000c")

#: First bus of each type within its cell's half; the functions of a network card use two buses.
_GPU_BUS, _NIC_BUS, _SHARED_GPU_BUS, _NVME_BUS = 0x08, 0x20, 0x48, 0x60
_CLASSES = {GPU: "0x030000", GPU_SOUND: "0x040300", NIC: "0x020000", NIC_VF: "0x020000"}
_CLASSES |= {SHARED_GPU: "0x030200", NVME: "0x010802", ROOT_PORT: "0x060400"}
#: The type of the mediated devices of a shared GPU, its name, and how many a GPU can have.
MDEV_TYPE, _MDEV_NAME, _MDEVS = "nvidia-222", "GRID T4-1B", 4
#: Offset of the first virtual function from the physical function, in functions.
_FIRST_VF = 0x10
COMPUTER = "computer"


def host_document(machine: Machine) -> etree._Element:
    """Build the file that libvirt's test driver reads: hardware and devices, without domains."""
    cells = machine.numa_cells
    sockets = max(1, machine.sockets // cells)
    return E.node(
        E.cpu(
            E.mhz("2600"),
            E.model("x86_64"),
            E.active(str(machine.sockets * machine.cores * machine.threads)),
            E.nodes(str(cells)),
            E.sockets(str(sockets)),
            E.cores(str(machine.sockets * machine.cores // (cells * sockets))),
            E.threads(str(machine.threads)),
        ),
        E.memory(str(machine.memory_mb * KIB_IN_MIB)),
        *device_documents(machine),
    )


def capabilities_document(machine: Machine) -> etree._ElementTree:
    """Build the document that libvirt would report for real hardware. The host name is in a
    processing instruction, since libvirt's schema has no element for it."""
    root = E.capabilities(
        E.host(_cpu(machine), E.topology(E.cells(*_cells(machine), num=str(machine.numa_cells)))),
        E.guest(
            E.os_type("hvm"),
            E.arch(
                E.wordsize("64"),
                E.emulator("/usr/bin/test-hv"),
                E.domain(type="test"),
                name="x86_64",
            ),
        ),
    )
    root.addprevious(etree.ProcessingInstruction(HOST_INSTRUCTION, f'name="{machine.hostname}"'))
    if machine.namespaces:
        listed = json.dumps(list(_namespaces(machine)))
        root.addprevious(etree.ProcessingInstruction(NAMESPACES_INSTRUCTION, listed))
    if encryption := list(_encryption(machine)):
        features = etree.tostring(E.features(*encryption), encoding="unicode")
        root.addprevious(etree.ProcessingInstruction(FEATURES_INSTRUCTION, features))
    return root.getroottree()


def _encryption(machine: Machine) -> Iterator[etree._Element]:
    """Yield the parts of domain capabilities that describe AMD SEV and Intel TDX."""
    snp = machine.sev_snp_guests
    if machine.sev_guests or machine.sev_es_guests or snp:
        yield E.sev(
            E.cbitpos("51"),
            E.reducedPhysBits("1"),
            E.maxGuests(str(machine.sev_guests)),
            E.maxESGuests(str(snp or machine.sev_es_guests)),
            supported="yes",
        )
    if snp:
        types = E.enum(E.value("sev"), E.value("sev-snp"), name="sectype")
        yield E.launchSecurity(types, supported="yes")
    if machine.tdx_guests:
        yield E.tdx(supported="yes", keys=str(machine.tdx_guests))


def _namespaces(machine: Machine) -> Iterator[Mapping[str, Any]]:
    """Yield the namespaces as ``ndctl list -X`` shows them."""
    for number, (name, size_mb) in enumerate(machine.namespaces.items()):
        size = size_mb * BYTES_IN_MIB
        device = {"chardev": f"dax{number}.0", "size": size}
        region = {"id": number, "size": size, "align": _DAX_ALIGN, "devices": [device]}
        mode = {"dev": f"namespace{number}.0", "mode": "devdax", "size": size}
        yield {**mode, "daxregion": region, "name": name}


def _cpu(machine: Machine) -> etree._Element:
    return E.cpu(
        E.arch("x86_64"),
        E.model("Cascadelake-Server-noTSX"),
        E.vendor("Intel"),
        E.topology(
            sockets=str(machine.sockets),
            dies="1",
            cores=str(machine.cores),
            threads=str(machine.threads),
        ),
        *(E.pages(unit="KiB", size=str(size)) for size in _pools(machine)),
    )


def _cells(machine: Machine) -> Iterable[etree._Element]:
    pools = _pools(machine)
    cells = range(machine.numa_cells)
    for cell in cells:
        cpus = [cpu for cpu in machine.cpus if cpu.cell == cell]
        yield E.cell(
            E.memory(str(machine.cell_kib), unit="KiB"),
            *(E.pages(str(n), unit="KiB", size=str(size)) for size, n in pools.items()),
            E.distances(*(E.sibling(id=str(i), value=_NEAR if i == cell else _FAR) for i in cells)),
            E.cpus(*map(_thread, cpus), num=str(len(cpus))),
            id=str(cell),
        )


def _pools(machine: Machine) -> dict[int, int]:
    """Return the number of pages of each cell by size (KiB), smallest size first."""
    rest = (machine.cell_kib - machine.paged_kib) // SMALLEST_PAGE
    larger = {**dict.fromkeys(_LARGE_PAGES, 0), **machine.pages}
    return {SMALLEST_PAGE: rest, **dict(sorted(larger.items()))}


def _thread(cpu: HardwareThread) -> etree._Element:
    return E.cpu(
        id=str(cpu.id),
        socket_id=str(cpu.socket),
        die_id="0",
        core_id=str(cpu.core),
        siblings=",".join(map(str, cpu.siblings)),
    )


# -- node devices ----------------------------------------------------------------------------------


class PciFunction(Value, frozen=True, kw_only=True):
    """One function of a device.

    :ivar group: the IOMMU group. :ivar peers: its functions.
    :ivar pf: physical function of a virtual function, else None.
    :ivar vfs: virtual functions of a physical function.
    """

    address: Address
    make: tuple[str, str]
    cell: int
    group: int = 0
    peers: tuple[Address, ...] = ()
    pf: Address | None = None
    vfs: tuple[Address, ...] = ()
    max_vfs: int = 0

    @property
    def name(self) -> str:
        """libvirt's name of the device."""
        return _name(self.address)

    @property
    def port(self) -> Address:
        """The root port: of bus n, it is function n of the first bus of the cell's half."""
        first = self.pf or self.address
        bus = int(first.bus, 16)
        return make_address(int(first.domain, 16), bus & 0x80, (bus & 0x7F) >> 3, bus & 7)


def device_documents(machine: Machine) -> Iterator[etree._Element]:
    """Yield the documents; nothing for a machine without devices."""
    functions = list(_functions(machine))
    if functions:
        yield _computer(machine)
    for port, cell in {each.port: each.cell for each in functions}.items():
        yield _port(port, cell)
    for function in functions:
        yield _pci(function)
        if function.make == NIC:
            yield _net(function)


def _functions(machine: Machine) -> Iterator[PciFunction]:
    for number, group in enumerate(_iommu_groups(machine)):
        peers = tuple(function.address for function in group)
        yield from (replace(function, group=number, peers=peers) for function in group)


def _iommu_groups(machine: Machine) -> Iterator[list[PciFunction]]:
    """Yield the functions of each IOMMU group."""
    for cell, bus in _places(machine, machine.gpus, _GPU_BUS):
        yield [
            PciFunction(address=_address(cell, bus, offset), make=make, cell=cell)
            for offset, make in enumerate((GPU, GPU_SOUND))
        ]
    for cell, bus in _places(machine, machine.shared_gpus, _SHARED_GPU_BUS):
        yield [PciFunction(address=_address(cell, bus), make=SHARED_GPU, cell=cell)]
    for cell, bus in _places(machine, machine.nics, _NIC_BUS, buses=2):
        pf, most = _address(cell, bus), max(machine.vfs, 1)
        vfs = tuple(_address(cell, bus, _FIRST_VF + number) for number in range(machine.vfs))
        yield [PciFunction(address=pf, make=NIC, cell=cell, vfs=vfs, max_vfs=most)]
        yield from ([PciFunction(address=vf, make=NIC_VF, cell=cell, pf=pf)] for vf in vfs)
    for cell, bus in _places(machine, machine.nvmes, _NVME_BUS):
        yield [PciFunction(address=_address(cell, bus), make=NVME, cell=cell)]


def _places(machine: Machine, number: int, first: int, buses: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the cell and the first bus of each of so many devices.

    :param first: the bus of the first device of a cell. :param buses: that each device uses.
    """
    for device in range(number):
        slot, cell = divmod(device, machine.numa_cells)
        yield cell, first + buses * slot


def _address(cell: int, bus: int, offset: int = 0) -> Address:
    """Return an address. :param offset: in functions; may carry over into the next bus."""
    domain, half = divmod(cell, 2)
    bus, devfn = divmod(((half * 0x80 + bus) << 8) + offset, 0x100)
    return make_address(domain, bus, devfn >> 3, devfn & 7)


def _computer(machine: Machine) -> etree._Element:
    hardware = E.hardware(E.uuid(str(uuid5(NAMESPACE_DNS, machine.hostname))))
    return E.device(E.name(COMPUTER), E.capability(hardware, E.firmware(), type="system"))


def _port(address: Address, cell: int) -> etree._Element:
    capability = _capability(address, ROOT_PORT)
    capability.append(E.capability(type="pci-bridge"))
    capability.append(E.numa(node=str(cell)))
    return E.device(E.name(_name(address)), E.parent(COMPUTER), capability)


def _pci(function: PciFunction) -> etree._Element:
    capability = _capability(function.address, function.make)
    if function.pf is not None:
        capability.append(E.capability(_element(function.pf), type="phys_function"))
    if function.max_vfs:
        vfs = map(_element, function.vfs)
        most = str(function.max_vfs)
        capability.append(E.capability(*vfs, type="virt_functions", maxCount=most))
    if function.make == SHARED_GPU:
        capability.append(_mdev_types())
    capability.append(E.iommuGroup(*map(_element, function.peers), number=str(function.group)))
    capability.append(E.numa(node=str(function.cell)))
    parent = E.parent(_name(function.port))
    return E.device(E.name(function.name), parent, capability)


def _capability(address: Address, make: tuple[str, str]) -> etree._Element:
    vendor, product = make
    numbers = zip(("domain", "bus", "slot", "function"), address, strict=True)
    return E.capability(
        E("class", _CLASSES[make]),
        *(E(name, str(int(digits, 16))) for name, digits in numbers),
        E.product(id=f"0x{product}"),
        E.vendor(id=f"0x{vendor}"),
        type="pci",
    )


def _mdev_types() -> etree._Element:
    type_ = E.type(
        E.name(_MDEV_NAME), E.deviceAPI("vfio-pci"), E.availableInstances(str(_MDEVS)), id=MDEV_TYPE
    )
    return E.capability(type_, type="mdev_types")


def _net(function: PciFunction) -> etree._Element:
    domain, bus, slot, last = (int(digits, 16) for digits in function.address)
    interface = f"enp{bus}s{slot}" if not domain else f"enP{domain}p{bus}s{slot}"
    mac = f"52:54:{domain:02x}:{bus:02x}:{slot:02x}:{last:02x}"
    return E.device(
        E.name(f"net_{interface}_{mac.replace(':', '_')}"),
        E.parent(function.name),
        E.capability(
            E.interface(interface),
            E.address(mac),
            E.link(speed="40000", state="up"),
            E.feature(name="rx"),
            E.feature(name="tx"),
            type="net",
        ),
    )


def _name(address: Address) -> str:
    return "pci_" + "_".join(address)


def _element(address: Address) -> etree._Element:
    names = ("domain", "bus", "slot", "function")
    return E.address(**{name: f"0x{digits}" for name, digits in zip(names, address, strict=True)})
