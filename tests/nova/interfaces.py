"""Device specifications that name a network interface of the host.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

import json
from typing import Any

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt

from tests.nova.pci_case import PINNED, PciCase

PF_IDS, VF_IDS = (
    {"vendor_id": fakelibvirt.PCI_VEND_ID, "product_id": product}
    for product in (fakelibvirt.PF_PROD_ID, fakelibvirt.VF_PROD_ID)
)
#: The address of each interface of the host; all are those of physical functions.
INTERFACES = {"ens1": "0000:81:00.0"}


class InterfaceTest(PciCase):
    """One host with a network card, whose functions are named by its interface."""

    IN_PLACEMENT = False
    PCI_ALIAS = [
        json.dumps({"name": "pf", **PF_IDS, "device_type": "type-PF"}),
        json.dumps({"name": "vf", **VF_IDS, "device_type": "type-VF"}),
    ]

    def setUp(self) -> None:
        super().setUp()
        # What Nova reads in the host's /sys.
        function = "nova.pci.utils.get_function_by_ifname"
        self.useFixture(fixtures.MonkeyPatch(function, lambda name: (INTERFACES.get(name), True)))
        self.flags(device_spec=[json.dumps({"devname": "ens1"})], group="pci")
        self.start_compute(pci_info=fakelibvirt.HostPCIDevicesInfo(num_pfs=1, num_vfs=2))

    def test_servers_get_its_virtual_functions_or_the_physical_one(self) -> None:
        self.assertEqual("type-VF", self._given("vf"))
        self.assertEqual("type-PF", self._given("pf"))

    def _given(self, alias: str) -> Any:
        """Return the type of the device that a server of this alias gets. It is deleted."""
        specs = {**PINNED, "pci_passthrough:alias": f"{alias}:1"}
        flavor = self._create_flavor(extra_spec=specs)
        server = self._create_server(flavor_id=flavor, networks="none")
        (node,) = self.computes["compute1"].manager.rt.nodes.values()
        (claim,) = node.state.claims.values()
        self._delete_server(server)
        (device,) = claim.pci
        return device.dev_type
