"""Nova's database is away for nova-compute during builds, and several builds want one device.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

import time
from typing import Any

from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_messaging import MessagingTimeout

from tests.nova.agreement import assert_agreement, owners, rows
from tests.nova.crash_case import HERE, PATIENCE, CrashCase, Server, settle
from tests.nova.interruption import Interruption
from tests.nova.pci_case import PINNED

#: Transactions of the tracker at which it begins: of the first build and of the second one.
NUMBERS = (1, 2, 3, 5)
OUTAGE, STABLE = 1.0, 1.5  # seconds


class OutageTest(CrashCase):
    """The conductor does not answer a host for a time, while one build follows the other."""

    IN_PLACEMENT = False  # or else one of two builds at once may lose the race for a device there

    def test_builds(self) -> None:
        flavor = self._create_flavor(extra_spec=PINNED)
        for number in NUMBERS:
            self._check_outage(number, flavor)

    def _check_outage(self, number: int, flavor: str) -> None:
        with Interruption(HERE, number, MessagingTimeout) as outage:
            servers = [self._post(flavor) for _ in range(2)]
            self._wait(lambda: outage.happened or self._are_over(*servers))
            time.sleep(OUTAGE)
        self._settle_all(servers)
        self._run_periodics()
        self._assert_no_claim_is_left_over(servers)
        self._check_and_delete(*servers)

    def _settle_all(self, servers: list[Server]) -> None:
        """Wait until no server changes. One stays in BUILD if Nova could not write its failure."""
        before, deadline = None, time.monotonic() + PATIENCE
        while before != (now := [self._seen(each) for each in servers]):
            self.assertLess(time.monotonic(), deadline, f"servers still change: {before} {now}")
            before = now
            time.sleep(STABLE)
            settle()

    def _seen(self, server: Server) -> list[Any]:
        found = self._show_server(server)
        return [found[key] for key in ("status", "OS-EXT-STS:task_state", "OS-EXT-SRV-ATTR:host")]

    def _assert_no_claim_is_left_over(self, servers: list[Server]) -> None:
        here = {
            server["id"]
            for server in servers
            if self._show_server(server)["OS-EXT-SRV-ATTR:host"] == HERE
        }
        self.assertEqual(here, owners(self.computes[HERE]))


class LastDeviceTest(CrashCase):
    """Two builds race for the only device, past the scheduler."""

    IN_PLACEMENT = False

    def test_one_build_gets_it(self) -> None:
        flavor = self._create_flavor(extra_spec=PINNED)
        body = self._build_server(flavor_id=flavor, networks="none", az=f"nova:{HERE}")
        servers = [self.api.post_server({"server": body}) for _ in range(2)]
        self._wait(lambda: self._are_over(*servers))
        found = sorted(map(self._show_server, servers), key=lambda each: each["status"])

        self.assertEqual(["ACTIVE", "ERROR"], [each["status"] for each in found])
        self.assertIn("Insufficient compute resources: ", found[1]["fault"]["message"])
        self.assertEqual({found[0]["id"]}, owners(self.computes[HERE]))
        self.assertEqual([found[0]["id"]], list(rows(HERE)["devices"].values()))
        assert_agreement(self, self.computes[HERE])

    def _devices(self) -> Any:
        return fakelibvirt.HostPCIDevicesInfo(num_pci=1, numa_node=0)
