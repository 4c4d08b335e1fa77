"""How near a guest's devices must be to its cells."""

from __future__ import annotations

from rtagent.model.device import PCI_NUMA_POLICIES
from rtagent.numa.properties import Properties


def pci_numa_affinity_policy(properties: Properties) -> str | None:
    """``hw:pci_numa_affinity_policy``; None: nothing is said.

    :raises InvalidFlavor:
    """
    for side in filter(None, properties.pair("hw:pci_numa_affinity_policy")):
        side.one_of(PCI_NUMA_POLICIES)
    agreed = properties.one("hw:pci_numa_affinity_policy")
    return agreed.value if agreed else None
