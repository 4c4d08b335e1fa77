"""What the documents of Nova's flavors and images require of CPUs.

Tests for `tests.nova.runner`, which need no service.
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping

from nova import objects
from nova.context import get_admin_context
from nova.tests.unit.fake_instance import fake_instance_obj
from nova.virt import hardware

from rtagent.lifecycle.placed_guests import requirements_of
from rtagent.nova import guests
from rtagent.pci.requests import device_requests

#: What Nova does without a policy.
PREFER = "prefer"
THREADS = "HW_CPU_HYPERTHREADING"


class GuestTest(unittest.TestCase):
    """A guest of four vCPUs: what its document requires is what Nova's own rules require."""

    def test_dedicated_cpus_of_numbered_groups(self) -> None:
        for amounts in (
            {"resources:PCPU": "4"},
            {"resources1:PCPU": "4"},
            {"resources:PCPU": "2", "resources1:PCPU": "2"},
            {"resources1:VCPU": "4"},
        ):
            self._check(amounts)

    def test_threads_that_a_trait_asks_for(self) -> None:
        pinned = {"hw:cpu_policy": "dedicated"}
        for group, value in (("", "required"), ("", "forbidden"), ("1", "required")):
            self._check({**pinned, f"trait{group}:{THREADS}": value})
        self._check(pinned, {f"trait:{THREADS}": "required"})

    def test_a_resize_leaves_the_policy_of_a_port_as_it_was(self) -> None:
        for policy in (None, "required"):
            port = objects.InstancePCIRequest(
                count=1, spec=[{"physical_network": "net"}], numa_policy=policy
            )
            port.alias_name, port.request_id = None, "port"
            documents = guests.device_requests(objects.InstancePCIRequests(requests=[port]), {})
            (asked,) = device_requests(None, documents.requests, {}, "socket")
            self.assertEqual(policy or "legacy", asked.numa_policy)

    def _check(self, specs: Mapping[str, str], properties: Mapping[str, str] | None = None) -> None:
        flavor = objects.Flavor(
            id=1,
            flavorid="1",
            name="four",
            vcpus=4,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=dict(specs),
        )
        image = objects.ImageMeta.from_dict({"properties": dict(properties or {})})
        topology = hardware.numa_get_constraints(flavor, image)
        cells = topology.cells if topology else ()
        document = guests.instance(
            fake_instance_obj(get_admin_context()),
            flavor,
            image,
            has_cells=True,
            is_volume_backed=False,
        )
        required = requirements_of(document.flavor, document.image)
        expected = sum(len(cell.pcpuset) for cell in cells)
        policies = {cell.cpu_thread_policy or PREFER for cell in cells}
        found = (required.pcpus, {required.cpu_thread_policy for _ in required.cells})
        self.assertEqual((expected, policies), found, (specs, properties))
