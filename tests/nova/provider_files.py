"""Quantities of provider files: the claims have what Placement has allocated.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fixtures

from tests.nova.vgpus import HERE, THERE, VgpuCase

#: Of all hosts, and of one GPU of the first host.
_ROOT, _GPU = "$COMPUTE_NODE", f"{HERE}_pci_0000_81_01_0"
_FILE = f"""
meta:
  schema_version: '1.0'
providers:
  - identification: {{uuid: {_ROOT}}}
    inventories: {{additional: [{{CUSTOM_LLC: {{total: 22, reserved: 2}}}}]}}
  - identification: {{name: {_GPU}}}
    inventories: {{additional: [{{CUSTOM_LLC: {{total: 5}}}}, {{CUSTOM_ENCODER: {{total: 3}}}}]}}
"""


class QuantityTest(VgpuCase):
    """A host with two GPUs, one of which has more classes."""

    SPECS = {"resources:CUSTOM_LLC": "4"}

    def setUp(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        (directory / "provider.yaml").write_text(_FILE)
        self.flags(provider_config_location=str(directory), group="compute")
        super().setUp()

    def test_claim_has_what_placement_has_allocated_until_the_server_is_deleted(self) -> None:
        specs = {"resources:CUSTOM_ENCODER": "2", "resources:VGPU": "1", **self.SPECS}
        self.flavor = self._create_flavor(extra_spec=specs)
        server = self._build()
        self.assertEqual(self._allocated(server), self._quantities(server))
        self.assertIn((_GPU, "CUSTOM_ENCODER", 2), self._quantities(server))
        self.assertEqual(4 + 2, sum(self._node().state.usage.quantities.values()))
        self._run_periodics()
        self.assertEqual(self._allocated(server), self._quantities(server))
        # A claim that was lost is adopted with what the flavor asks for, at the first audit.
        self._lose_claims()
        numbers = {(name, number) for _, name, number in self._quantities(server)}
        self.assertEqual({("CUSTOM_LLC", 4), ("CUSTOM_ENCODER", 2)}, numbers)
        self._delete_server(server)
        self.assertFalse(self._node().state.usage.quantities)
        # The GPU does not have enough.
        self.flavor = self._create_flavor(extra_spec={"resources:CUSTOM_LLC": "20"})
        self.assertEqual({(HERE, "CUSTOM_LLC", 20)}, self._quantities(self._build()))

    def test_both_ends_of_a_migration_have_theirs(self) -> None:
        server = self._build()
        self.start_compute_with_vgpu(THERE)
        before = self._quantities(server)
        self._migrate_server(server)
        self.assertEqual(before, self._quantities(server))
        self.assertEqual({(THERE, "CUSTOM_LLC", 4)}, self._quantities(server, THERE))
        self._confirm_resize(server)
        self.assertEqual(set(), self._quantities(server))

    def _quantities(self, server: Any, host: str = HERE) -> set[tuple[str, str, int]]:
        """Provider, class and number of all claims of a server on a host."""
        return {
            (self._name(each.provider), each.resource_class, each.quantity)
            for claim in self._mains(server, host)
            for each in claim.quantities
        }

    def _allocated(self, server: Any) -> set[tuple[str, str, int]]:
        allocations = self._get_allocations_by_server_uuid(server["id"])
        return {
            (self._name(uuid), name, number)
            for uuid, each in allocations.items()
            for name, number in each["resources"].items()
            if name in ("CUSTOM_LLC", "CUSTOM_ENCODER")
        }

    def _name(self, uuid: str) -> str:
        return str(self._get_resource_provider_by_uuid(uuid)["name"])
