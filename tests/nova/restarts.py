"""Restarts of nova-compute with rtagent's tracker: Nova's rows and the claims agree afterwards.

Tests for `tests.nova.runner`, on Nova's functional base: API, scheduler, conductor and Placement in
one process, and a fake libvirt.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import fixtures
from nova import exception, objects
from nova.conf import CONF
from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt

from rtagent.model.claim import PCPU
from rtagent.model.request import BuildRequest, Flavor, Instance
from rtagent.nova.node_settings import state_directory
from tests.nova.agreement import rows
from tests.nova.pci_case import PINNED, PciCase

HOST = "compute1"
ABSENT = "6c6dd5a4-8f8b-4c59-a3b6-7a7b1f1c9d11"


class RestartTest(PciCase):
    """One host with two devices, on which a pinned server with one of them runs."""

    def setUp(self) -> None:
        super().setUp()
        self.start_compute(pci_info=fakelibvirt.HostPCIDevicesInfo(num_pci=2, numa_node=0))
        self.flavor = self._create_flavor(extra_spec=PINNED)
        self.server = self._create_server(flavor_id=self.flavor, networks="none")

    def test_rows_of_a_claim_that_was_not_written_are_put_right(self) -> None:
        before = rows(HOST)
        (taken,) = (row for row in self._device_rows() if not row.is_available())
        # The process ends after the claim is durable, and before Nova's rows are.
        taken.status, taken.instance_uuid = fields.PciDeviceStatus.AVAILABLE, None
        taken.request_id = None
        taken.save()
        node = self._compute_node()
        node.vcpus_used, node.memory_mb_used = 0, 0
        node.save()
        self.assertNotEqual(before, rows(HOST))

        self.restart_compute_service(HOST)

        self.assertEqual(before, rows(HOST))
        self.assertEqual([self.server["id"]], self._owners())

    def test_claim_of_an_instance_that_nova_does_not_have_here_is_released(self) -> None:
        before = rows(HOST)
        flavor = Flavor(vcpus=2, memory_mb=512, extra_specs={"hw:cpu_policy": "dedicated"})
        self._node().build(BuildRequest(instance=Instance(uuid=ABSENT, flavor=flavor)))
        self.assertIn(ABSENT, self._owners())

        self.restart_compute_service(HOST)

        self.assertEqual([self.server["id"]], self._owners())
        self.assertEqual(before, rows(HOST))

    def test_host_whose_claims_are_lost_adopts_pins_and_devices(self) -> None:
        claims = self._held()
        self._lose_claims()

        self.restart_compute_service(HOST)

        self.assertEqual(claims, self._held())
        other = self._create_server(flavor_id=self.flavor, networks="none")
        held = [units for _, units in self._held()]
        self.assertEqual(4 + 2, len(set().union(*held)))  # of two servers: nothing is held twice
        self._delete_server(other)
        self._delete_server(self.server)
        self.assertEqual([], self._owners())

    def test_cpu_that_another_server_has_is_not_recorded_and_the_rest_is(self) -> None:
        """Whether the CPU is that of a vCPU or of an emulator."""
        other = self._create_server(flavor_id=self.flavor, networks="none")
        specs = {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}
        flavor = self._create_flavor(extra_spec=specs)
        isolated = self._create_server(flavor_id=flavor, networks="none")
        (first, last), (second, kept) = (self._cpus(each) for each in (self.server, other))
        pinned = self._cpus(isolated)
        self._pin(other, {0: first, 1: kept})
        instance = self._instance(isolated)
        instance.numa_topology.cells[0].cpuset_reserved = {last}
        instance.save()
        self._lose_claims()

        self.restart_compute_service(HOST)

        self.assertEqual(
            sorted(each["id"] for each in (self.server, other, isolated)), self._owners()
        )
        (claim,) = self._node().mains(other["id"])
        self.assertEqual({kept}, self._claimed(other))
        self.assertEqual(set(pinned), self._claimed(isolated))
        self.assertEqual(3 * claim.memory_mb, self._node().state.usage.memory_mb)
        self.assertIn(f"host CPU {first} is held by", self.stdlog.logger.output)

        self._run_periodics()
        (same,) = self._node().mains(other["id"])
        self.assertEqual(claim.uuid, same.uuid)

        self._delete_server(self.server)
        self._run_periodics()
        self.assertEqual({first, kept}, self._claimed(other))
        self.assertNotIn(second, self._claimed(other))
        self.assertEqual({last, *pinned}, self._claimed(isolated))

    def test_guest_comes_before_the_end_of_a_move(self) -> None:
        self.flags(allow_resize_to_same_host=True)
        # As in Nova's own tests: the fake libvirt has no disks.
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MockPatch(disks, return_value="{}"))
        specs = {"hw:cpu_policy": "dedicated"}
        small, large = (self._create_flavor(extra_spec=specs, memory_mb=mb) for mb in (512, 1024))
        moved = self._create_server(flavor_id=small, networks="none")
        before = self._cpus(moved)
        moved = self._resize_server(moved, large)
        guest = self._create_server(flavor_id=small, networks="none")
        self._pin(guest, dict(enumerate(before)))
        self._lose_claims()

        self.restart_compute_service(HOST)

        self.assertEqual(set(before), self._claimed(guest))
        self.assertEqual(set(self._cpus(moved)), self._claimed(moved))
        self.assertEqual(2, len(self._node().mains(moved["id"])))

    def test_nothing_is_given_out_before_an_audit_has_succeeded(self) -> None:
        claims = self._held()
        self._lose_claims()
        failing = "nova.compute.resource_tracker.ResourceTracker"
        failing += "._ensure_compute_id_for_instances"
        with fixtures.MockPatch(
            failing, side_effect=exception.InstanceNotFound(instance_id=ABSENT)
        ):
            self.restart_compute_service(HOST)
            self._create_server(flavor_id=self.flavor, networks="none", expected_state="ERROR")
            self.assertIn("until an audit of it has succeeded", self.stdlog.logger.output)
            asked = self._instance(self.server).pci_requests
            tracker = self.computes[HOST].manager.rt
            claim = partial(tracker.claim_pci_devices, self.ctxt, asked, None)
            self.assertRaises(exception.PciDeviceRequestFailed, claim)
        self.assertEqual([], self._held())

        self._run_periodics()
        self.assertEqual(claims, self._held())
        self._create_server(flavor_id=self.flavor, networks="none")

    def _lose_claims(self) -> None:
        """Remove the database of the claims."""
        self._node().close()
        for file in state_directory(CONF).glob("*"):
            Path(file).unlink()

    def _cpus(self, server: Any) -> list[int]:
        """The host CPUs of a server, by its own."""
        (cell,) = self._instance(server).numa_topology.cells
        return [cpu for _, cpu in sorted(cell.cpu_pinning.items())]

    def _pin(self, server: Any, pinning: dict[int, int]) -> None:
        """Store other host CPUs with a server."""
        instance = self._instance(server)
        (cell,) = instance.numa_topology.cells
        cell.cpu_pinning = pinning
        instance.save()

    def _instance(self, server: Any) -> Any:
        expected = ["numa_topology", "pci_requests"]
        return objects.Instance.get_by_uuid(self.ctxt, server["id"], expected)

    def _claimed(self, server: Any) -> set[int]:
        """The host CPUs of the claims of a server."""
        claims = self._node().mains(server["id"])
        return {int(name) for claim in claims for kind, name in claim.units if kind == PCPU}

    def _node(self) -> Any:
        return self.computes[HOST].manager.rt.nodes[HOST]

    def _owners(self) -> list[str]:
        return sorted(self._node().state.owners)

    def _held(self) -> list[tuple[str, frozenset[tuple[str, str]]]]:
        """The host CPUs and devices of each owner."""
        state = self._node().state
        return sorted(
            (owner, frozenset[tuple[str, str]]().union(*(c.units for c in state.claims_of(owner))))
            for owner in state.owners
        )

    def _compute_node(self) -> Any:
        return objects.ComputeNode.get_by_nodename(self.ctxt, HOST)

    def _device_rows(self) -> Any:
        return objects.PciDeviceList.get_by_compute_node(self.ctxt, self._compute_node().id)
