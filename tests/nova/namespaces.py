"""Servers with persistent memory: an audit records what a claim lacks.

A test for `tests.nova.runner`, as those of `tests.nova.restarts`.
"""

from __future__ import annotations

from nova.tests.functional.libvirt.test_vpmem import VPMEMTestBase

from rtagent.model.claim import RESOURCE
from rtagent.model.guest import AdoptRequest
from rtagent.model.request import Instance

HOST = "host1"


class NamespaceTest(VPMEMTestBase):
    """A host with persistent memory."""

    def test_namespace_that_a_claim_lacks_is_recorded(self) -> None:
        compute = self._start_compute_service(HOST)
        flavor = self._create_flavor(extra_spec={"hw:pmem": "SMALL"})
        server = self._create_server(flavor, HOST, expected_state="ACTIVE")
        node = compute.manager.rt.nodes[HOST]
        (claim,) = node.mains(server["id"])
        self.assertIn(RESOURCE, {kind for kind, _ in claim.units})
        # So that Nova gives it to no other server.
        assigned = compute.manager.rt.assigned_resources.values()
        (namespace,) = (each for kinds in assigned for kind in kinds.values() for each in kind)
        self.assertIn((RESOURCE, namespace.identifier), claim.units)
        node.release(server["id"])
        instance = Instance(uuid=server["id"], flavor=claim.flavor)
        node.adopt(AdoptRequest(instance=instance, numa_topology=claim.numa_topology))

        self._run_periodics()

        (recorded,) = node.mains(server["id"])
        self.assertEqual(claim.units, recorded.units)
