"""The simulated hosts of the world, and how their agents are configured."""

import json
import os
from pathlib import Path

from rtagent.virt.simulate import Machine, simulate
from tests.servers.daemon import Config

#: Vendor and product of the devices of a simulated host.
GPU = {"vendor_id": "10de", "product_id": "13f1"}
VIRTUAL_FUNCTION = {"vendor_id": "8086", "product_id": "154c"}
MDEV_TYPE = "nvidia-222"
#: CPUs for guests with CPUs of their own, and for the others; the host has CPUs 0 to 15.
DEDICATED, SHARED = "2-15", "0-1"
#: With fewer CPUs this machine has none for guests with CPUs of their own.
FEW_CPUS = 4


def make_host(directory: Path, name: str) -> None:
    """Write the file of a host with two NUMA cells, pages of 2 MiB and devices."""
    directory.mkdir(parents=True, exist_ok=True)
    machine = Machine(
        sockets=2,
        cores=4,
        threads=2,
        memory_mb=16384,
        pages={2048: 1024},
        gpus=2,
        shared_gpus=1,
        nics=1,
        vfs=4,
        hostname=name,
    )
    simulate(directory / "host.xml", machine)


def agent_config(name: str) -> Config:
    """Return the options of an agent on such a host."""
    aliases = [
        {"name": "gpu", **GPU, "device_type": "type-PCI"},
        {"name": "vf", **VIRTUAL_FUNCTION, "device_type": "type-VF"},
    ]
    return {
        **_any_host(name),
        "compute": {"cpu_dedicated_set": DEDICATED, "cpu_shared_set": SHARED},
        "pci": {"device_spec": json.dumps([GPU, VIRTUAL_FUNCTION]), "alias": json.dumps(aliases)},
        "devices": {"enabled_mdev_types": MDEV_TYPE},
    }


def qemu_config(name: str) -> Config:
    """Return the options of an agent on this machine, whose devices stay its own."""
    cpus = os.cpu_count() or 1
    dedicated = {"cpu_dedicated_set": f"{cpus // 2}-{cpus - 1}"} if cpus >= FEW_CPUS else {}
    shared = {"cpu_shared_set": f"0-{cpus // 2 - 1}"} if dedicated else {}
    return {**_any_host(name), "compute": {**dedicated, **shared}}


def lab_config(name: str, patience: int) -> Config:
    """Return the options of an agent on a lab host. :param patience: see `World`."""
    config = {group: dict(options) for group, options in _any_host(name, patience).items()}
    # For some guests per caller. They use little of it, because their CPUs stand still.
    config["DEFAULT"] |= {
        "cpu_allocation_ratio": 8,
        "ram_allocation_ratio": 3,
        "disk_allocation_ratio": 8,
    }
    return config


def _any_host(name: str, patience: int = 1) -> Config:
    return {
        "DEFAULT": {
            "host": name,
            "cpu_allocation_ratio": 4,
            "ram_allocation_ratio": 1,
            "disk_allocation_ratio": 1,
            "reserved_host_memory_mb": 512,
            "update_resources_interval": 10 * patience,
            "report_interval": 2 * patience,
            "service_down_time": 20 * patience,
        },
        "placement": {
            "manage_allocations": "yes",
            "allocation_audit_interval": 3 * patience,
            "timeout": 5 * patience,
        },
        "claims": {"claim_expiry_time": 60 * patience},
    }
