"""The release of Nova that a run of these tests is about, and the names of its tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.servers.neutron import RELEASE

HERE = Path(__file__).parent
_FUNCTIONAL = "nova.tests.functional.libvirt"
#: Nova itself has a test of encrypted memory since 34.
_ENCRYPTED = {f"{_FUNCTIONAL}.test_amd_sev.TestSEV.test_sev_es_lost_after_restart": None}
_VIRTUAL_FUNCTION = f"{_FUNCTIONAL}.test_pci_sriov_servers.SRIOVServersTest.test_live_migrate_VF"
_THREADS = "tests.nova.served.ThreadsTest"
#: Tests of the lists, which are those of the newest release, that an older one does not have, each
#: with the one that takes its place there, or None.
DIFFERENCES: Mapping[str, Mapping[str, str | None]] = {
    "34": {},
    "33": _ENCRYPTED,
    "31": {
        **_ENCRYPTED,
        # Of servers with devices of both kinds.
        f"{_VIRTUAL_FUNCTION}_mixed_mode_success": f"{_VIRTUAL_FUNCTION}_success",
        # It has greenlets alone.
        f"{_THREADS}.test_operators_read_claims_cells_metrics_and_the_page": None,
        f"{_THREADS}.test_domains_are_compared_with_the_claims": None,
    },
}


def names_in(name: str) -> tuple[str, ...]:
    """Return the tests of a list, for the release of this run. :param name: of the list."""
    here = DIFFERENCES[RELEASE]
    tests = (HERE / f"{name}.txt").read_text().split()
    return tuple(filter(None, (here.get(test, test) for test in tests)))
