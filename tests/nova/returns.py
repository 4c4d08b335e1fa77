"""A host goes to plain nova-compute and back, with pinned, PCI and moving servers.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`. Each change is a restart; nothing
else is done to the host.
"""

from __future__ import annotations

from typing import Any

import fixtures
from nova import objects
from nova.compute import resource_tracker
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_pci_sriov_servers as base

from rtagent.model.claim import PCI
from rtagent.nova import hook
from rtagent.nova.node_tracker import NodeTracker

#: Nova's own class, which the hook has replaced.
(PLAIN,) = NodeTracker.__bases__
HOSTS = ("compute1", "compute2")
PINNED = {
    "hw:cpu_policy": "dedicated",
    "pci_passthrough:alias": f"{base.PCIServersTest.ALIAS_NAME}:1",
}


class ReturnTest(base._PCIServersTestBase):
    """Two hosts. One server stays; another one has been resized, and waits to be confirmed."""

    ADMIN_API = True
    microversion = "latest"
    PCI_DEVICE_SPEC = base.PCIServersTest.PCI_DEVICE_SPEC
    PCI_ALIAS = base.PCIServersTest.PCI_ALIAS

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(hook.install)
        self.flags(report_in_placement=True, group="pci")
        self.flags(pci_in_placement=True, group="filter_scheduler")
        self.flags(cpu_dedicated_set="0-7", group="compute")
        # As in Nova's own tests: the fake libvirt has no disks.
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MockPatch(disks, return_value="{}"))

    def test_host_goes_to_plain_nova_and_back(self) -> None:
        self._start()
        self._change_to(PLAIN)
        self._check_rows("before it goes")
        self._confirm_resize(self.moved)
        third = self._build(HOSTS[0])
        self._change_to_ours()
        self._check_held({HOSTS[0]: [self.stays, third], HOSTS[1]: [self.moved]})
        self._delete_all()

    def test_host_of_plain_nova_is_adopted_and_given_back(self) -> None:
        resource_tracker.ResourceTracker = PLAIN
        self._start()
        self._change_to_ours()
        self._check_rows("before it is adopted")
        self._check_held({HOSTS[0]: [self.stays, self.moved], HOSTS[1]: [self.moved]})
        self._revert_resize(self.moved)
        self._check_held({HOSTS[0]: [self.stays, self.moved], HOSTS[1]: []})
        before = self._rows()
        self._change_to(PLAIN)
        self.assertEqual(before, self._rows())
        self._delete_all()

    def _start(self) -> None:
        for host in HOSTS:
            devices = fakelibvirt.HostPCIDevicesInfo(num_pci=4, numa_node=0)
            self.start_compute(hostname=host, pci_info=devices)
        self.flavors = [
            self._create_flavor(name=f"with-{memory}", extra_spec=PINNED, memory_mb=memory)
            for memory in (512, 1024)
        ]
        self.stays, self.moved = (self._build(HOSTS[0]) for _ in range(2))
        self._resize_server(self.moved, self.flavors[1])
        self._run_periodics()
        self.before = self._rows()

    def _build(self, host: str) -> Any:
        return self._create_server(flavor_id=self.flavors[0], networks="none", host=host)

    def _change_to(self, tracker: Any) -> None:
        resource_tracker.ResourceTracker = tracker
        self._restart()

    def _change_to_ours(self) -> None:
        hook.install()
        self._restart()

    def _restart(self) -> None:
        for host in HOSTS:
            self.restart_compute_service(host)

    def _check_rows(self, when: str) -> None:
        """Check that Nova's rows are as they were at the start."""
        self.assertEqual(self.before, self._rows(), when)

    def _check_held(self, servers: dict[str, list[Any]]) -> None:
        """Check which servers have claims on each host, and that the claims are as Nova's rows."""
        for host, here in servers.items():
            state = self.computes[host].manager.rt.nodes[host].state
            self.assertEqual({each["id"] for each in here}, set(state.owners))
            pinned, devices = self._rows()[host][-2:]
            self.assertEqual(pinned, set(state.usage.numa.pinned))
            owned = {address: owner for address, _, owner in devices if owner}
            claimed = {unit: owner for (kind, unit), owner in state.units.items() if kind == PCI}
            self.assertEqual(owned, claimed)

    def _delete_all(self) -> None:
        for server in self.api.get_servers(detail=False):
            self._delete_server(server)
        for row in self._rows().values():
            used, (pinned, devices) = row[:-2], row[-2:]
            self.assertEqual(([0, 512, 0], set()), (used, pinned))
            self.assertEqual({"available"}, {status for _, status, _ in devices})

    def _rows(self) -> dict[str, list[Any]]:
        """What Nova's rows say is used on each host."""
        return {host: self._row(host) for host in HOSTS}

    def _row(self, host: str) -> list[Any]:
        node = objects.ComputeNode.get_by_nodename(self.ctxt, host)
        cells = objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells
        rows = objects.PciDeviceList.get_by_compute_node(self.ctxt, node.id)
        devices = [(row.address, row.status, row.instance_uuid) for row in rows]
        pinned = set[int]().union(*(cell.pinned_cpus for cell in cells))
        return [node.vcpus_used, node.memory_mb_used, node.local_gb_used, pinned, devices]
