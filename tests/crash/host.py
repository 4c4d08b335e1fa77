"""Hosts of agents without a message bus."""

import json

from rtagent.model.base import Value
from rtagent.model.device import Device
from rtagent.model.node import Node
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.topology import Topology
from rtagent.pci.specs import parse_specs
from tests.support.hosts import PINNING, TOPOLOGY
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, GPU_IDS, SPECS, gpu, nic


class Site(Value, frozen=True, kw_only=True):
    """Hardware and configuration of a host."""

    node: Node
    topology: Topology
    policy: Policy = Policy()
    devices: tuple[Device, ...] = ()


def _node(host: str, number: int) -> Node:
    uuid = f"00000000-0000-4000-8000-{number:012x}"
    return Node(uuid=uuid, host=host, hypervisor_hostname=f"{host}.example", host_ip="::1")


PLAIN = Site(
    node=_node("h", 0xC0DE),
    topology=Topology(cpus=frozenset(range(64)), memory_mb=65536, disk_mb=1024 * 1024),
)


def moving(number: int) -> Site:
    """Make one of several equal hosts with dedicated CPUs and two GPUs."""
    return Site(
        node=_node(f"h{number}", number),
        topology=TOPOLOGY,
        policy=Policy(numa=PINNING, pci=PciPolicy(specs=SPECS, aliases=ALIASES)),
        devices=(gpu(GPU_0, 1), gpu(GPU_1, 1)),
    )


_ONCE = parse_specs([json.dumps({**GPU_IDS, "one_time_use": True})])
#: A host with dedicated CPUs, two GPUs for one-time use, and a network card.
ONE_TIME = Site(
    node=_node("h", 0xDE71),
    topology=TOPOLOGY,
    policy=Policy(numa=PINNING, pci=PciPolicy(specs=(*_ONCE, *SPECS[1:]), aliases=ALIASES)),
    devices=(gpu(GPU_0), gpu(GPU_1), *nic(vfs=3)),
)
