"""Encrypted memory of servers: the claims have the contexts that Placement has allocated.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import fixtures
from nova.conf import CONF
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base, test_amd_sev, test_intel_tdx
from nova.virt.libvirt import driver
from oslo_utils import versionutils
from oslo_utils.fixture import uuidsentinel

from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, AMD_SEV_SNP, INTEL_TDX, RESOURCE_CLASS
from rtagent.nova.node_settings import state_directory
from rtagent.reconcile.drift import absent

HOST = "compute1"
_FEATURES = "_domain_capability_features"


class _Contexts(base.ServersTestBase):
    """A host with some models. :ivar images: the image that asks for each."""

    images: ClassVar[dict[str, str]]

    def test_claims_have_the_contexts_of_their_models_until_the_servers_are_deleted(self) -> None:
        """Also if they were lost, and are adopted."""
        servers = {model: self._build(model) for model in self.images}
        self._assert_have_contexts(servers)
        self._run_periodics()
        self._assert_have_contexts(servers)
        self._node().close()
        (state_directory(CONF) / f"{self.compute_rp_uuids[HOST]}.sqlite").unlink()
        self.restart_compute_service(HOST)
        self._assert_have_contexts(servers)
        for server in servers.values():
            self._delete_server(server)
        self.assertFalse(self._node().state.usage.quantities)

    def _build(self, model: str) -> Any:
        return self._create_server(image_uuid=self.images[model], networks="none")

    def _assert_have_contexts(self, servers: dict[str, Any]) -> None:
        """Assert that the claims have what Placement has allocated, and that it is there."""
        for model, server in servers.items():
            (claim,) = self._node().mains(server["id"])
            self.assertEqual(model, claim.mem_encryption.model)
            ((quantity, provider),) = [(each.quantity, each.provider) for each in claim.quantities]
            allocated = self._get_allocations_by_server_uuid(server["id"])[provider]["resources"]
            self.assertEqual({RESOURCE_CLASS: quantity}, allocated)
        self.assertEqual((), absent(self._node().state))

    def _node(self) -> Any:
        return self.computes[HOST].manager.rt.nodes[HOST]

    def _start(self, **versions: int) -> None:
        stateless = versionutils.convert_version_to_int(driver.MIN_LIBVIRT_STATELESS_FIRMWARE)
        self.start_compute(hostname=HOST, libvirt_version=stateless, **versions)


class ContextTest(_Contexts, test_amd_sev.TestSEV):
    """A host of AMD without SEV-SNP."""

    features, has_snp = "_domain_capability_features_with_SEV", False
    images = {AMD_SEV: uuidsentinel.sev_image_id, AMD_SEV_ES: uuidsentinel.sev_es_image_id}

    def setUp(self) -> None:
        super().setUp()
        self.libvirt.amd_sev.sev_snp = self.has_snp
        features = getattr(fakelibvirt.virConnect, self.features)
        self.useFixture(fixtures.MockPatchObject(fakelibvirt.virConnect, _FEATURES, features))
        self._start(qemu_version=self.qemu_version)


class SnpContextTest(ContextTest):
    """A host of AMD with SEV-SNP."""

    features = "_domain_capability_features_with_launch_security_SEV_SNP"
    has_snp = True
    images = {AMD_SEV: uuidsentinel.sev_image_id, AMD_SEV_SNP: uuidsentinel.sev_snp_image_id}


class TdxContextTest(_Contexts, test_intel_tdx.TestTDX):
    """A host of Intel."""

    images = {INTEL_TDX: uuidsentinel.intel_tdx_image_id}

    def setUp(self) -> None:
        super().setUp()
        self._start()
