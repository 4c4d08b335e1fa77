"""Restarts of nova-compute with rtagent's tracker: Nova's rows and the claims agree afterwards.

Tests for `tests.nova.runner`, on Nova's functional base: API, scheduler, conductor and Placement in
one process, and a fake libvirt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nova import objects
from nova.conf import CONF
from nova.objects import fields
from nova.tests.fixtures import libvirt as fakelibvirt

from rtagent.model.flavor import Flavor
from rtagent.model.instance import Instance
from rtagent.model.request import BuildRequest
from rtagent.nova.store_file import state_directory
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
        instance = Instance(uuid=ABSENT, flavor=flavor)
        self._node().build(BuildRequest(instance=instance))
        self.assertIn(ABSENT, self._owners())

        self.restart_compute_service(HOST)

        self.assertEqual([self.server["id"]], self._owners())
        self.assertEqual(before, rows(HOST))

    def test_host_whose_claims_are_lost_adopts_pins_and_devices(self) -> None:
        claims = self._held()
        self._node().close()
        for file in state_directory(CONF).glob("*"):
            Path(file).unlink()

        self.restart_compute_service(HOST)

        self.assertEqual(claims, self._held())
        other = self._create_server(flavor_id=self.flavor, networks="none")
        held = [units for _, units in self._held()]
        self.assertEqual(4 + 2, len(set().union(*held)))  # of two servers: nothing is held twice
        self._delete_server(other)
        self._delete_server(self.server)
        self.assertEqual([], self._owners())

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
