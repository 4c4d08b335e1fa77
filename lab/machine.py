"""QEMU's arguments for a profile."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.profile import Profile

#: The bus of devices. Without it QEMU takes the first bus that it finds, maybe an expander's.
_ROOT_BUS = "bus=pcie.0"

#: PCI ids of QEMU's NVMe controller, which has the virtual functions, and of its teaching device.
NVME = {"vendor_id": "1b36", "product_id": "0010"}
EDU = {"vendor_id": "1234", "product_id": "11e8"}

#: Addresses of servers on a lab host.
BROKER, PLACEMENT, NEUTRON = "10.0.2.100:5672", "10.0.2.101:8778", "10.0.2.102:9696"
#: The port at which libvirt listens on a lab host.
LIBVIRT = 16509


def hardware(profile: Profile) -> list[str]:
    """Return the arguments that depend on the profile."""
    shape = f"sockets={profile.sockets},cores={profile.cores},threads={profile.threads}"
    return [
        # No HPET: it is slow to read.
        *("-machine", "q35,kernel-irqchip=off,hpet=off", "-accel", "tcg,thread=multi"),
        # A model with threads and few other features: the kernel saves and restores the state of
        # each feature, and all of that is emulated.
        *("-cpu", "Nehalem"),
        *("-m", str(profile.cells * profile.cell_memory_mb)),
        *("-smp", f"{profile.cpus},{shape}"),
        *_cells(profile),
        *("-device", "intel-iommu,intremap=off,caching-mode=on"),
        *_devices(profile),
    ]


def _cells(profile: Profile) -> Iterator[str]:
    for cell in range(profile.cells):
        cpus = profile.cell_cpus(cell)
        yield from ("-object", f"memory-backend-ram,id=m{cell},size={profile.cell_memory_mb}M")
        yield from ("-numa", f"node,nodeid={cell},memdev=m{cell},cpus={cpus[0]}-{cpus[-1]}")


def _devices(profile: Profile) -> Iterator[str]:
    if profile.virtual_functions:
        yield from _sriov(profile)
    if profile.grouped_devices:
        # The IOMMU cannot distinguish devices on a conventional bus: they share a group.
        yield from ("-device", f"pcie-pci-bridge,id=conventional,{_ROOT_BUS}")
        for slot in (1, 2):
            yield from ("-device", f"edu,bus=conventional,addr={slot}")


def _sriov(profile: Profile) -> Iterator[str]:
    """Yield an SR-IOV device behind an expander that has a NUMA node."""
    expander = f"pxb-pcie,id=pxb,bus_nr=128,{_ROOT_BUS}"
    # With a single cell the kernel would report no NUMA node for the device.
    yield from ("-device", f"{expander},numa_node={profile.cells - 1}")
    yield from ("-device", "pcie-root-port,id=pxb-port,bus=pxb,chassis=1")
    yield from ("-device", "nvme-subsys,id=subsystem")
    yield from ("-device", ",".join(f"{name}={value}" for name, value in sriov(profile).items()))


def sriov(profile: Profile) -> dict[str, str | int]:
    """Return the device with the virtual functions, as arguments of QEMU's ``device_add``."""
    return {
        "driver": "nvme",
        "id": "sriov",
        "serial": "sriov",
        "subsys": "subsystem",
        "bus": "pxb-port",
        "sriov_max_vfs": profile.virtual_functions,
        "sriov_vq_flexible": 8,
        "sriov_vi_flexible": 4,
        "max_ioqpairs": 26,
        "msix_qsize": 27,
    }


def peripherals(
    servers: Mapping[str, int], libvirt_port: int, disks: Sequence[Path] = ()
) -> list[str]:
    """Return the arguments that all hosts share: disks, network, and sockets for commands.

    Paths of sockets are relative to QEMU's directory.

    :param servers: the ports of servers on this machine's loopback interface, by address on a host.
    :param libvirt_port: the port of that interface that reaches the host's libvirt, if it listens.
    :param disks: raw images that the host only reads, ``/dev/vdb`` and following.
    """
    reached = ",".join(
        f"guestfwd=tcp:{address}-cmd:socat STDIO TCP:127.0.0.1:{port}"
        for address, port in servers.items()
    )
    libvirt = f"hostfwd=tcp:127.0.0.1:{libvirt_port}-:{LIBVIRT}"
    return [
        *("-nodefaults", "-no-user-config", "-display", "none"),
        # Data that the guest has flushed is in the file and survives the end of QEMU.
        *("-drive", "file=disk.qcow2,if=none,id=disk,cache=writeback"),
        *("-device", f"virtio-blk-pci,drive=disk,{_ROOT_BUS}"),
        *_read_only(disks),
        # A restricted network: the guest reaches only these servers.
        *("-netdev", f"user,id=net,restrict=on,ipv6=off,{reached},{libvirt}"),
        *("-device", f"virtio-net-pci,netdev=net,{_ROOT_BUS}"),
        *("-device", f"virtio-serial-pci,{_ROOT_BUS}"),
        *("-chardev", "socket,id=guest,path=guest.sock,server=on,wait=off"),
        *("-device", "virtserialport,chardev=guest,name=org.qemu.guest_agent.0"),
        *("-qmp", "unix:monitor.sock,server=on,wait=off"),
    ]


def _read_only(disks: Sequence[Path]) -> Iterator[str]:
    for number, file in enumerate(disks):
        name = f"read{number}"
        yield from ("-drive", f"file={file},if=none,id={name},format=raw,readonly=on")
        yield from ("-device", f"virtio-blk-pci,drive={name},{_ROOT_BUS}")


def kernel_line(profile: Profile, name: str) -> str:
    """Return the Linux kernel's command line."""
    pages = ",".join(f"{cell}:{profile.cell_pages}" for cell in range(profile.cells))
    return (
        f"root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off net.ifnames=0"
        f" systemd.hostname={name} systemd.show_status=error"
        # No watchdogs: a CPU that stands still for a while is not a fault on a busy machine.
        f" tsc=reliable nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
        f" intel_iommu=on default_hugepagesz=2M hugepages={pages}"
        # The emulated IOMMU does not remap interrupts; without this option vfio assigns no device.
        " vfio_iommu_type1.allow_unsafe_interrupts=1"
    )


def file_at_boot(path: str, contents: str) -> str:
    """Return the value of ``-smbios`` that makes systemd create a missing file.

    The agent's group can read the file.
    """
    escaped = contents.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n")
    line = f"f {path} 0640 root rtagent - {escaped}\n"
    encoded = base64.b64encode(line.encode()).decode()
    return f"type=11,value=io.systemd.credential.binary:tmpfiles.extra={encoded}"
