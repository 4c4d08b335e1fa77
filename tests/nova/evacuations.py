"""nova-compute ends at each write of its tracker to Nova's database, and starts again: evacuations.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nova import context

from tests.nova.agreement import assert_agreement
from tests.nova.crash_case import HERE, THERE, CrashCase, Server
from tests.nova.interruption import Killed
from tests.nova.pci_case import PINNED

EVACUATE: dict[str, Any] = {"evacuate": {}}


class EvacuationTest(CrashCase):
    """A pinned server with a device is evacuated from a host that is down, and the host returns."""

    RPC_TIMEOUT = 15

    def test_claim_at_the_destination(self) -> None:
        self._at_each_write(THERE, self._stranded, self._action(EVACUATE), self._has_arrived)

    def test_return_of_the_source(self) -> None:
        self._at_each_write(
            HERE, self._evacuated, lambda _: self._start_here(), lambda _: not self.is_down
        )

    def _stranded(self) -> Server:
        """Return a server whose host is down."""
        flavor = self._create_flavor(extra_spec=PINNED)
        server = self._wait_until(self._is_active, self._post(flavor))
        self.computes[HERE].stop()
        self._force_down(is_down=True)
        return server

    def _evacuated(self) -> Server:
        server = self._stranded()
        self._action(EVACUATE)(server)
        return self._wait_until(self._has_arrived, server)

    def _has_arrived(self, server: Server) -> bool:
        return self._is_migration(server, "done")

    def _check_and_delete(self, *servers: Server) -> None:
        self.computes[THERE].manager.update_available_resource(context.get_admin_context())
        assert_agreement(self, self.computes[THERE])
        if self.is_down:
            self._come_back()
        for server in servers:
            if self._show_server(server)["OS-EXT-SRV-ATTR:host"] == THERE:
                self.assertNotIn(server["id"], self.computes[HERE].driver.list_instance_uuids())
        super()._check_and_delete(*servers)

    def _restart(self, host: str, saved: Path) -> None:
        super()._restart(host, saved)
        if host == HERE:
            self._force_down(is_down=False)

    def _start_here(self) -> None:
        """Start the host. If that ends the service, the one before it takes its place here, and is
        started again.
        """
        before = self.computes[HERE], self.compute_rp_uuids[HERE], self.mock_conn.return_value
        try:
            self._come_back()
        except Killed:
            self.computes[HERE], self.compute_rp_uuids[HERE], self.mock_conn.return_value = before

    def _come_back(self) -> None:
        self.restart_compute_service(HERE)
        # Nova refuses it as long as the host has guests that were evacuated.
        self._force_down(is_down=False)

    def _force_down(self, *, is_down: bool) -> None:
        (service,) = self.api.get_services(host=HERE, binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": is_down})
        self.is_down = is_down
