"""Guests for every combination of policies with their assignments, and a plain domain document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rtagent.errors import InvalidFlavor
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.assignment import Assignment
from rtagent.model.claim import BUILD, Replacement
from rtagent.model.device import AssignedDevice
from rtagent.model.flavor import Flavor
from rtagent.model.mem_encryption import MemEncryption
from rtagent.numa.fit import Fitted
from tests.support.hosts import NODE
from tests.support.numa_hosts import HUGE, LARGE, cell, fit_guest, flavor, host, required, topology

#: Two cells of eight cores of two threads each, of them two cores shared; pages of all sizes.
WHERE = host(
    topology(*(cell(n, cores=8, huge={LARGE: 1024, HUGE: 2}) for n in range(2))),
    dedicated="4-15,20-31",
    shared="0-3,16-19",
)


@dataclass
class Granted:
    """The fields of a claim that the guest XML is made from."""

    flavor: Flavor
    numa_topology: Assignment | None
    kind: str = BUILD
    node_uuid: str = NODE.uuid
    pci: tuple[AssignedDevice, ...] = ()
    pci_replaced: Mapping[str, Replacement] = field(default_factory=dict)
    resources: tuple[AssignedResource, ...] = ()
    mem_encryption: MemEncryption | None = None


def granted(vcpus: int = 4, memory_mb: int = 2048, where=WHERE, **specs: str) -> Granted:
    """Fit a flavor with these extra specs; return its claim."""
    answer = fit_guest(required(vcpus, memory_mb, **specs), where)
    assert isinstance(answer, Fitted), str(answer)
    return Granted(flavor(vcpus, memory_mb, **specs), answer.assignment)


_CHOICES = {
    "cpu_policy": (None, "dedicated", "mixed"),
    "cpu_thread_policy": (None, "isolate", "require"),
    "emulator_threads_policy": (None, "share", "isolate"),
    "cpu_realtime": (None, "yes"),
    "mem_page_size": (None, "small", "large", "2MB"),
    "numa_nodes": (None, "2"),
    "locked_memory": (None, "yes"),
}


def combinations() -> Iterator[dict[str, str]]:
    """Yield the extra specs of each combination that is valid."""
    for values in itertools.product(*_CHOICES.values()):
        specs = {name: value for name, value in zip(_CHOICES, values, strict=True) if value}
        if "cpu_realtime" in specs:
            specs["cpu_realtime_mask"] = "^0"
        elif specs.get("cpu_policy") == "mixed":
            specs["cpu_dedicated_mask"] = "^0-1"
        try:
            required(4, 2048, **specs)
        except InvalidFlavor:
            continue
        yield specs


def plain_domain(kind: str = "qemu", vcpus: int = 1, memory_mb: int = 2048) -> str:
    """Return a domain document as a caller makes it, without what a claim decides."""
    return f"""
    <domain type='{kind}'>
      <name>guest</name>
      <uuid>11111111-2222-3333-4444-555555555555</uuid>
      <metadata><of:note xmlns:of='http://example.org/of'>kept</of:note></metadata>
      <memory unit='MiB'>{memory_mb}</memory>
      <vcpu>{vcpus}</vcpu>
      <os><type arch='x86_64'>hvm</type><boot dev='hd'/></os>
      <features><acpi/></features>
      <on_poweroff>destroy</on_poweroff>
      <devices><memballoon model='none'/></devices>
    </domain>
    """
