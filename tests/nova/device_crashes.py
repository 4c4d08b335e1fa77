"""nova-compute ends at each write of its tracker to Nova's database, and starts again: devices that
are attached and detached.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import test_pci_sriov_servers as base

from tests.nova.crash_case import HERE, CrashCase, Server

#: The devices need not be near the guest.
ELSEWHERE = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "preferred"}


class AttachTest(CrashCase):
    """A server gets the virtual function of a port, and gives it back."""

    IN_PLACEMENT = False
    RPC_TIMEOUT = 15
    PCI_DEVICE_SPEC = base.SRIOVAttachDetachTest.PCI_DEVICE_SPEC
    PCI_ALIAS: list[str] = []

    def setUp(self) -> None:
        super().setUp()
        neutron = self.neutron
        neutron._networks[neutron.network_2["id"]] = neutron.network_2
        neutron._subnets[neutron.subnet_2["id"]] = neutron.subnet_2
        self.port = neutron.sriov_port["id"]
        neutron._ports[self.port] = copy.deepcopy(neutron.sriov_port)

    def test_attach(self) -> None:
        self._at_each_write(HERE, self._build, self._attach, self._is_attached)

    def test_detach(self) -> None:
        def detach(server: Server) -> None:
            self.api.detach_interface(server["id"], self.port)

        self._at_each_write(HERE, self._attached, detach, lambda each: not self._is_attached(each))

    def _devices(self) -> Any:
        return fakelibvirt.HostPCIDevicesInfo(num_pfs=1, num_vfs=2)

    def _build(self) -> Server:
        flavor = self._create_flavor(extra_spec=ELSEWHERE)
        return self._wait_until(self._is_active, self._post(flavor))

    def _attached(self) -> Server:
        server = self._build()
        self._attach(server)
        return self._wait_until(self._is_attached, server)

    def _attach(self, server: Server) -> None:
        port = {"interfaceAttachment": {"port_id": self.port}}
        # A service that has ended does not answer.
        with contextlib.suppress(client.OpenStackApiException):
            self.api.attach_interface(server["id"], port)

    def _is_attached(self, server: Server) -> bool:
        return self.port in [each["port_id"] for each in self.api.get_port_interfaces(server["id"])]
