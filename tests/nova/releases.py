"""The release of Nova that a run of these tests is about, and the names of its tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.servers.neutron import RELEASE

HERE = Path(__file__).parent
_LIBVIRT = "nova.tests.functional.libvirt"
_VIRTUAL_FUNCTION = f"{_LIBVIRT}.test_pci_sriov_servers.SRIOVServersTest.test_live_migrate_VF"
#: Nova has functional tests of encrypted memory, and with native threads, since 34.
_BEFORE_34: Mapping[str, str | None] = {
    f"{_LIBVIRT}.test_amd_sev.TestSEV.test_sev_es_lost_after_restart": None,
    **{
        f"tests.nova.encryption.{host}ContextTest"
        ".test_claims_have_the_contexts_of_their_models_until_the_servers_are_deleted": None
        for host in ("", "Snp", "Tdx")
    },
    **dict.fromkeys((HERE / "served.txt").read_text().split()),
}
#: Tests of the lists, which are those of the newest release, that an older one does not have, each
#: with the one that takes its place there, or None.
DIFFERENCES: Mapping[str, Mapping[str, str | None]] = {
    "34": {},
    "33": _BEFORE_34,
    "31": {
        **_BEFORE_34,
        # With devices of both kinds.
        f"{_VIRTUAL_FUNCTION}_mixed_mode_success": f"{_VIRTUAL_FUNCTION}_success",
    },
}


def names_in(name: str) -> tuple[str, ...]:
    """Return the tests of a list, for the release of this run. :param name: of the list."""
    here = DIFFERENCES[RELEASE]
    tests = (HERE / f"{name}.txt").read_text().split()
    return tuple(filter(None, (here.get(test, test) for test in tests)))
