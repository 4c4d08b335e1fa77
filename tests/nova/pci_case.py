"""PciCase: the base of tests on hosts with PCI devices, on Nova's functional base."""

from __future__ import annotations

from nova.tests.functional.libvirt import test_pci_sriov_servers as base

#: Extra specs of a server with CPUs and a device of its own.
PINNED = {
    "hw:cpu_policy": "dedicated",
    "pci_passthrough:alias": f"{base.PCIServersTest.ALIAS_NAME}:1",
}


class PciCase(base._PCIServersTestBase):
    """:cvar IN_PLACEMENT: the devices are in Placement, too. :cvar DEDICATED: CPUs."""

    ADMIN_API = True
    DEDICATED = "0-7"
    IN_PLACEMENT = True
    microversion = "latest"
    PCI_DEVICE_SPEC = base.PCIServersTest.PCI_DEVICE_SPEC
    PCI_ALIAS = base.PCIServersTest.PCI_ALIAS

    def setUp(self) -> None:
        super().setUp()
        self.flags(report_in_placement=self.IN_PLACEMENT, group="pci")
        self.flags(pci_in_placement=self.IN_PLACEMENT, group="filter_scheduler")
        self.flags(cpu_dedicated_set=self.DEDICATED, group="compute")
