"""Nova's audits in the middle of a move: each claim stays what it is.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import fixtures
from nova import context, objects
from nova.compute import manager
from nova.tests.fixtures import libvirt as fakelibvirt

from tests.nova.pci_case import PINNED, PciCase

#: How often a test looks whether a server is in a state. Nova's tests look ten times.
LOOKS = 240
#: A claim's uuid, memory in MB, and units.
Held = list[tuple[str, int, frozenset[tuple[str, str]]]]


class AuditCase(PciCase):
    """Hosts with two devices each."""

    def _start(self, host: str) -> None:
        devices = fakelibvirt.HostPCIDevicesInfo(num_pci=2, numa_node=0)
        self.start_compute(hostname=host, pci_info=devices)

    def _create_small(self) -> Any:
        flavor = self._create_flavor(memory_mb=2048, extra_spec=PINNED)
        return self._create_server(flavor_id=flavor, networks="none")

    def _wait_for_server_parameter(
        self, server: Any, expected: Any, max_retries: int = LOOKS, **named: Any
    ) -> Any:
        """Wait longer than Nova's tests, because of the audits."""
        most = max(max_retries, LOOKS)
        return super()._wait_for_server_parameter(server, expected, most, **named)

    def _wait_for_migration_status(self, server: Any, expected: Any) -> None:
        wait = partial(super()._wait_for_migration_status, server, expected)
        self._wait_for_assert(wait, max_retries=LOOKS // 10)

    def _held(self) -> Held:
        """The claims of all hosts, the smallest first."""
        found = (claim for name in self.computes for claim in self._held_by(name))
        return sorted(found, key=lambda each: each[1])

    def _held_by(self, host: str) -> Held:
        claims = self.computes[host].manager.rt.nodes[host].state.claims.values()
        return [(claim.uuid, claim.memory_mb, claim.units) for claim in claims]


class ArrivalTest(AuditCase):
    """Nova reads first the instances of a host, and then the migrations."""

    def test_claim_of_a_server_that_arrives_between_both_stays(self) -> None:
        self._start("compute1")
        self._create_small()
        before = self._held()
        earlier = objects.InstanceList(objects=[])
        listed = "nova.objects.InstanceList.get_by_host_and_node"
        with fixtures.MockPatch(listed, return_value=earlier):
            self._run_periodics()
        self.assertEqual(1, len(before))
        self.assertEqual(before, self._held())


class ResizeAgainTest(AuditCase):
    """A server is resized to another host, and there again before an audit."""

    IN_PLACEMENT = False

    def test_claim_with_which_a_server_arrived_stays_until_its_next_resize_ends(self) -> None:
        self._start("compute1")
        server = self._create_small()
        self._start("compute2")
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MockPatch(disks, return_value="{}"))  # no disks
        server = self._resize_server(server, self._flavor(4096))
        self._confirm_resize(server)
        (arrived,) = self._held_by("compute2")
        (service,) = self.api.get_services(host="compute1", binary="nova-compute")
        self.api.put_service(service["id"], {"status": "disabled"})
        self.flags(allow_resize_to_same_host=True)
        server = self._resize_server(server, self._flavor(1024))
        held = self._held_by("compute2")
        self.assertIn(arrived, held)
        self.assertEqual(2, len(held))
        self._revert_resize(server)
        self.assertEqual([arrived], self._held_by("compute2"))

    def _flavor(self, memory_mb: int) -> Any:
        return self._create_flavor(memory_mb=memory_mb, extra_spec=PINNED)


class EvacuationAuditTest(AuditCase):
    """A pinned server with a device is evacuated. When it runs, Nova first ends its task, and then
    notes that it is on its new host, which is audited in between.
    """

    # Later ones stop the server at the destination.
    microversion = "2.94"

    def test_the_claim_of_a_server_that_runs_already_stays(self) -> None:
        for host in ("compute1", "compute2"):
            self._start(host)
        flavor = self._create_flavor(memory_mb=2048, extra_spec=PINNED)
        server = self._create_server(flavor_id=flavor, networks="none", host="compute1")
        self.computes["compute1"].stop()
        (service,) = self.api.get_services(host="compute1", binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": True})

        there = self.computes["compute2"].manager
        states: list[Held] = []
        finish = type(there.rt).finish_evacuation

        def audited(*arguments: Any) -> Any:
            states.append(self._held())
            there.update_available_resource(context.get_admin_context())
            states.append(self._held())
            return finish(*arguments)

        self.useFixture(fixtures.MockPatchObject(type(there.rt), "finish_evacuation", audited))
        self._evacuate_server(server, expected_host="compute2", expected_state="ACTIVE")
        before, after = states
        self.assertEqual(2, len(before))
        self.assertEqual(before, after)


class MoveAuditTest(AuditCase):
    """A pinned server with a device is resized. All hosts are audited when its domain has ended at
    the source, again before it is made at the destination, and in a revert before it is back.
    """

    # With devices in Placement, Nova's own audit fails in a revert on one host (ReshapeFailed).
    IN_PLACEMENT = False

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        self.claims: list[tuple[Held, Held]] = []
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MockPatch(disks, side_effect=self._audit))
        self._audit_before("finish_resize")
        self._audit_before("finish_revert_resize")

    def _audit_before(self, name: str) -> None:
        method = getattr(manager.ComputeManager, name)

        def audited(*arguments: Any, **named: Any) -> Any:
            self._audit()
            return method(*arguments, **named)

        self.useFixture(
            fixtures.MonkeyPatch(f"nova.compute.manager.ComputeManager.{name}", audited)
        )

    def test_both_claims_of_a_resize_on_one_host_stay(self) -> None:
        self._start("compute1")
        server = self._resize()
        self.assertEqual(2, len(self._held()))
        self._confirm_resize(server)
        ((_, memory_mb, _),) = self._held()
        self.assertEqual(4096, memory_mb)

    def test_a_server_that_is_deleted_after_a_resize_on_one_host_leaves_no_claim(self) -> None:
        self._start("compute1")
        server = self._resize()
        self._confirm_resize(server)
        self._delete_server(server)
        self.assertEqual([], self._held())

    def test_the_claim_of_a_server_that_arrives_stays(self) -> None:
        self._start("compute1")
        server = self._create_small()
        self._start("compute2")
        self.flags(allow_resize_to_same_host=False)
        self._resize(server)
        self.assertEqual([2048, 4096], [memory_mb for _, memory_mb, _ in self._held()])

    def test_the_claim_that_a_server_comes_back_to_on_one_host_stays(self) -> None:
        self._start("compute1")
        self._check_revert(self._resize())

    def test_the_claim_that_a_server_comes_back_to_stays(self) -> None:
        self._start("compute1")
        server = self._create_small()
        self._start("compute2")
        self.flags(allow_resize_to_same_host=False)
        self._check_revert(self._resize(server))

    def _check_revert(self, server: Any) -> None:
        source, _ = self._held()
        self._revert_resize(server)
        self.assertEqual(([source], [source]), self.claims[-1])
        self._run_periodics()
        self.assertEqual([source], self._held())

    def _resize(self, server: Any = None) -> Any:
        server = server or self._create_small()
        large = self._create_flavor(memory_mb=4096, extra_spec=PINNED)
        moved = self._resize_server(server, large)
        self.assertEqual(2, len(self.claims))
        for before, after in self.claims:
            self.assertEqual(2, len(before))
            self.assertEqual(before, after)
        return moved

    def _audit(self, *arguments: Any, **named: Any) -> str:
        before = self._held()
        self._run_periodics()
        self.claims.append((before, self._held()))
        return "{}"  # Nova's description of no disks
