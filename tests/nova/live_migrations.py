"""nova-compute ends at each write of its tracker to Nova's database, and starts again: live
migrations.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

import json
from typing import Any

from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base
from nova.virt.libvirt import driver
from oslo_utils import versionutils

from tests.nova.crash_case import HERE, THERE, CrashCase, Server

MIGRATE: dict[str, Any] = {"os-migrateLive": {"host": THERE, "block_migration": "auto"}}
ALIAS = "function"
FUNCTION = {
    "vendor_id": fakelibvirt.PCI_VEND_ID,
    "product_id": fakelibvirt.VF_PROD_ID,
    "live_migratable": "yes",
}


class LiveMigrationTest(base.LibvirtMigrationMixin, CrashCase):
    """A pinned server without devices is moved while it runs."""

    RPC_TIMEOUT = 15
    EXTRA_SPECS = {"hw:cpu_policy": "dedicated"}

    def test_claim_at_the_destination(self) -> None:
        self._at_each_write(THERE, self._build, self._action(MIGRATE), self._has_arrived)

    def test_end_at_the_source(self) -> None:
        self._at_each_write(HERE, self._build, self._action(MIGRATE), self._has_arrived)

    def _build(self) -> Server:
        flavor = self._create_flavor(extra_spec=self.EXTRA_SPECS)
        self.server = self._wait_until(self._is_active, self._post(flavor))
        self.src, self.dest = self.computes[HERE], self.computes[THERE]
        return self.server

    def _has_arrived(self, server: Server) -> bool:
        return self._is_migration(server, "completed") and self._is_active(server)


class LiveMigrationWithDeviceTest(LiveMigrationTest):
    """The same with a virtual function."""

    PCI_DEVICE_SPEC = [json.dumps(FUNCTION)]
    PCI_ALIAS = [
        json.dumps({"name": ALIAS, "device_type": fields.PciDeviceType.SRIOV_VF, **FUNCTION})
    ]
    EXTRA_SPECS = {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": f"{ALIAS}:1"}

    def _start(self, host: str) -> None:
        self.start_compute(
            hostname=host,
            pci_info=fakelibvirt.HostPCIDevicesInfo(num_pfs=1, num_vfs=2, numa_node=0),
            libvirt_version=_number(driver.MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION),
            qemu_version=_number(driver.MIN_VFIO_PCI_VARIANT_QEMU_VERSION),
        )


def _number(version: tuple[int, int, int]) -> int:
    return int(versionutils.convert_version_to_int(version))
