"""A host goes to plain nova-compute and back, with pinned, PCI and moving servers.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`. Each change is a restart; nothing
else is done to the host.
"""

from __future__ import annotations

from typing import Any

import fixtures
from nova.compute import resource_tracker
from nova.tests.fixtures import libvirt as fakelibvirt

from rtagent.nova import hook
from rtagent.nova.node_tracker import NodeTracker
from tests.nova.agreement import assert_agreement, owners, rows
from tests.nova.pci_case import PINNED, PciCase

#: Nova's own class, which the hook has replaced.
(PLAIN,) = NodeTracker.__bases__
HOSTS = ("compute1", "compute2")


class ReturnTest(PciCase):
    """Hosts with four devices each."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(hook.install)
        self.flags(reserved_host_disk_mb=1500)
        # As in Nova's own tests: the fake libvirt has no disks.
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MockPatch(disks, return_value="{}"))

    def test_host_goes_to_plain_nova_and_back(self) -> None:
        self._start_move()
        self._change_to(PLAIN)
        self._check_rows("before it goes")
        self._confirm_resize(self.moved)
        third = self._build(HOSTS[0])
        self._change_to_ours()
        self._check_held({HOSTS[0]: [self.stays, third], HOSTS[1]: [self.moved]})
        self._delete_all()

    def test_server_on_what_another_one_had_before_is_adopted_at_once(self) -> None:
        self._start(HOSTS[0])
        before = self._build(HOSTS[0])
        self._change_to(PLAIN)
        self._delete_server(before)
        here = self._build(HOSTS[0])
        self._run_periodics()
        rows_of_plain = self._rows()
        self._change_to_ours()
        self.assertNotIn("recorded:", self.stdlog.logger.output)
        self.assertEqual({here["id"]}, owners(self.computes[HOSTS[0]]))
        self.assertEqual(rows_of_plain, self._rows())
        self._delete_all()

    def test_host_of_plain_nova_is_adopted_and_given_back(self) -> None:
        resource_tracker.ResourceTracker = PLAIN
        self._start_move()
        self._change_to_ours()
        self._check_rows("before it is adopted")
        self._check_held({HOSTS[0]: [self.stays, self.moved], HOSTS[1]: [self.moved]})
        self._revert_resize(self.moved)
        self._check_held({HOSTS[0]: [self.stays, self.moved], HOSTS[1]: []})
        before = self._rows()
        self._change_to(PLAIN)
        self.assertEqual(before, self._rows())
        self._delete_all()

    def _start_move(self) -> None:
        """Two hosts: one server stays; another one has been resized, and waits to be confirmed."""
        self._start(*HOSTS)
        self.stays, self.moved = (self._build(HOSTS[0]) for _ in range(2))
        self._resize_server(self.moved, self.flavors[1])
        self._run_periodics()
        self.before = self._rows()

    def _start(self, *hosts: str) -> None:
        for host in hosts:
            devices = fakelibvirt.HostPCIDevicesInfo(num_pci=4, numa_node=0)
            self.start_compute(hostname=host, pci_info=devices)
        self.idle = self._rows()
        self.flavors = [
            self._create_flavor(
                name=f"with-{memory}", extra_spec=PINNED, memory_mb=memory, swap=memory
            )
            for memory in (512, 1024)
        ]

    def _build(self, host: str) -> Any:
        return self._create_server(flavor_id=self.flavors[0], networks="none", host=host)

    def _change_to(self, tracker: Any) -> None:
        resource_tracker.ResourceTracker = tracker
        self._restart()

    def _change_to_ours(self) -> None:
        hook.install()
        self._restart()

    def _restart(self) -> None:
        for host in tuple(self.computes):
            self.restart_compute_service(host)

    def _check_rows(self, when: str) -> None:
        """Check that Nova's rows are as they were at the start."""
        self.assertEqual(self.before, self._rows(), when)

    def _check_held(self, servers: dict[str, list[Any]]) -> None:
        """Check which servers have claims on each host, and that the claims are as Nova's rows."""
        self._run_periodics()  # Nova counts the guests of a host at audits
        for host, here in servers.items():
            self.assertEqual({each["id"] for each in here}, owners(self.computes[host]))
            assert_agreement(self, self.computes[host])

    def _delete_all(self) -> None:
        for server in self.api.get_servers(detail=False):
            self._delete_server(server)
        self._run_periodics()  # between audits Nova loses parts of a GB
        self.assertEqual(self.idle, self._rows())

    def _rows(self) -> dict[str, Any]:
        """What Nova's rows say is used on each host."""
        return {host: rows(host) for host in self.computes}
