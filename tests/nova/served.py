"""What operators see of a nova-compute with rtagent's tracker: read API, page, drift and orphans.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`. libvirt has two sides here: Nova's
driver has a fake one, and rtagent one that reads a file (``test://``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures
from nova import context, objects
from nova.compute import task_states, vm_states
from nova.conf import CONF
from nova.tests.fixtures import libvirt as fakelibvirt

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.nova import hook
from rtagent.nova.node_settings import default_options, state_directory
from tests.nova.pci_case import PINNED, PciCase

HOST = "compute1"
FOREIGN = "6c6dd5a4-8f8b-4c59-a3b6-7a7b1f1c9d11"
_DOMAIN = """
<domain type="test"><name>{name}</name><uuid>{uuid}</uuid><memory unit="MiB">{memory}</memory>
<vcpu>{vcpus}</vcpu><os><type>hvm</type></os></domain>
"""
#: Seconds until what was changed is seen.
PATIENCE = 120.0


class ServedCase(PciCase):
    """One host, on which a server without pins and one with a device run."""

    DEDICATED = "2-7"

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(hook.install)
        hook.install(default_options())
        self.flags(cpu_shared_set="0-1", group="compute")
        self.file = Path(CONF.state_path, "host.xml")
        self._domains()
        self.flags(connection_uri=f"test://{self.file}", group="libvirt")
        self.start_compute(pci_info=fakelibvirt.HostPCIDevicesInfo(num_pci=2, numa_node=0))
        self.addCleanup(self._close)
        plain = self._create_flavor(name="plain", vcpu=1, memory_mb=512)
        pinned = self._create_flavor(name="pinned", extra_spec=PINNED)
        self.plain = self._create_server(flavor_id=plain, networks="none")["id"]
        self.pinned = self._create_server(flavor_id=pinned, networks="none")["id"]
        self.api = ReadClient(parse(str(state_directory(CONF) / "rtagent.sock")))

    def read_claims_cells_metrics_and_the_page(self) -> None:
        claims = {each["owner_id"]: each for each in self.api.get("claims")["claims"]}
        self.assertEqual({self.plain, self.pinned}, set(claims))
        (cell,) = claims[self.pinned]["numa_topology"]["cells"]
        cpus = set(cell["cpu_pinning"].values())
        node = self.computes[HOST].manager.rt.compute_nodes[HOST]
        cells = self.api.get("numa", HOST)["numa"]["cells"]
        shown = [cpu for each in cells for core in each["cores"] for cpu in core]
        self.assertEqual(cpus, {cpu["id"] for cpu in shown if cpu["owner_id"] == self.pinned})
        self.assertIn(str(min(cpus)), node.numa_topology)
        metrics = self.api.text("metrics")
        self.assertIn("rtagent_build_info{", metrics)
        self.assertIn('service="nova-compute"', metrics)
        self.assertIn("<html", self.api.text())
        history = self.api.get("claims", claims[self.pinned]["uuid"], "history")
        self.assertEqual("create", history["history"][-1]["action"])

    def _domains(self, *domains: tuple[str, int, int]) -> None:
        """Let the host have these domains: uuid, vCPUs, MiB."""
        documents = [
            _DOMAIN.format(name=f"domain-{n}", uuid=uuid, vcpus=vcpus, memory=memory)
            for n, (uuid, vcpus, memory) in enumerate(domains)
        ]
        written = self.file.with_suffix(".new")
        written.write_text(f"<node>{''.join(documents)}</node>")
        written.rename(self.file)

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, "what was waited for did not come to be")
            time.sleep(0.1)

    def _close(self) -> None:
        self.computes[HOST].manager.rt.remove_node(HOST)


class GreenletsTest(ServedCase):
    """Nova has replaced threads by greenlets: domains are not compared."""

    def test_operators_read_claims_cells_metrics_and_the_page(self) -> None:
        self.read_claims_cells_metrics_and_the_page()
        self._check_hypervisor_and_ratios()

    def _check_hypervisor_and_ratios(self) -> None:
        """Also if an operator has changed the ratios in Placement, and after a restart."""
        provider = self.compute_rp_uuids[HOST]
        url = f"/resource_providers/{provider}/inventories/VCPU"
        inventory = self.placement.get(url).body
        self.placement.put(url, {**inventory, "allocation_ratio": 16.0})
        tracker = self.computes[HOST].manager.rt
        tracker.reportclient.clear_provider_cache()
        tracker.update_available_resource(context.get_admin_context(), HOST)
        self._check_node()
        self._close()
        self.restart_compute_service(HOST)
        self._check_node()

    def _check_node(self) -> None:
        row = self.computes[HOST].manager.rt.compute_nodes[HOST]
        (node,) = self.api.get("nodes")["nodes"]
        shown = [node[name] for name in ("hypervisor_type", "hypervisor_version", "host_ip")]
        self.assertEqual([row.hypervisor_type, row.hypervisor_version, str(row.host_ip)], shown)
        self.assertEqual(16.0, float(node["cpu_allocation_ratio"]))


class ThreadsTest(ServedCase):
    """Nova has native threads."""

    compared = 0

    def test_operators_read_claims_that_are_compared_with_the_domains(self) -> None:
        self.read_claims_cells_metrics_and_the_page()
        self._run_periodics()  # Nova's tracker learns that the servers are built
        self._domains((FOREIGN, 1, 256))
        self._until(lambda: self._suspects() == {self.plain, self.pinned})

        self._domains((self.plain, 1, 512), (FOREIGN, 2, 256))

        self._until(lambda: self._suspects() == {self.pinned})
        self._until(lambda: self._listed("orphans", "domain_uuid") == [FOREIGN])
        self.assertEqual([], self._listed("drift", "owner_id"))
        self._domains((self.plain, 3, 512))
        self._until(lambda: [self.plain] == self._listed("drift", "owner_id"))
        self._until(lambda: self._listed("orphans", "domain_uuid") == [])
        self._stored().destroy()
        self._compare()
        self.assertEqual({self.pinned}, self._suspects(), "it is deleted")

    def test_missing_domain_makes_a_claim_suspect_only_while_its_server_is_idle_here(self) -> None:
        self._run_periodics()
        stored = self._stored()
        for facts in (
            {"task_state": task_states.DELETING},
            {"task_state": None, "vm_state": vm_states.BUILDING},
            {"vm_state": vm_states.ACTIVE, "host": "elsewhere"},
        ):
            stored.update(facts)
            stored.save()
            self._compare()
            self.assertEqual({self.pinned}, self._suspects(), facts)
        with fixtures.MockPatch("nova.objects.InstanceList.get_by_filters", side_effect=OSError):
            self._compare()
            self.assertIn("Nova's database", self.api.text("health"))
        stored.host = HOST
        stored.save()
        self._compare()
        self.assertEqual({self.plain, self.pinned}, self._suspects())

    def _stored(self) -> Any:
        return objects.Instance.get_by_uuid(context.get_admin_context(), self.plain)

    def _compare(self) -> None:
        """Let the claims be compared with a host that has no server's domain."""
        self.compared += 1
        self._domains((FOREIGN, self.compared, 256))
        self._until(lambda: [self.compared] == self._listed("orphans", "vcpus"))

    def _suspects(self) -> set[str]:
        claims = self.api.get("claims")["claims"]
        return {each["owner_id"] for each in claims if each["suspect"]}

    def _listed(self, name: str, key: str) -> list[Any]:
        return [each[key] for each in self.api.get(name)[name]]
