"""nova-compute ends at each write of its tracker to Nova's database, and starts again: builds and
moves.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

from typing import Any

import fixtures

from tests.nova.crash_case import HERE, THERE, CrashCase, Server
from tests.nova.interruption import MANAGER
from tests.nova.pci_case import PINNED

CONFIRM: dict[str, Any] = {"confirmResize": None}
REVERT: dict[str, Any] = {"revertResize": None}
DRIVER = "nova.virt.libvirt.driver.LibvirtDriver"


class BuildTest(CrashCase):
    """A pinned server with a device comes to a host, and goes."""

    def test_build(self) -> None:
        flavor = self._create_flavor(extra_spec=PINNED)
        self._at_each_write(HERE, lambda: None, lambda _: self._post(flavor), self._is_active)

    def test_delete(self) -> None:
        def delete(server: Server) -> None:
            self.api.delete_server(server["id"])

        self._at_each_write(HERE, self._build, delete, self._is_gone)

    def test_unshelve(self) -> None:
        def prepare() -> Server:
            server = self._build()
            self._action({"shelve": {}})(server)
            return self._wait_until(self._is_offloaded, server)

        unshelve = {"unshelve": {"host": HERE}}
        self._at_each_write(HERE, prepare, self._action(unshelve), self._is_active)

    def _build(self) -> Server:
        flavor = self._create_flavor(extra_spec=PINNED)
        return self._wait_until(self._is_active, self._post(flavor))

    def _is_offloaded(self, server: Server) -> bool:
        return self._has_status(server, "SHELVED_OFFLOADED")


class MoveTest(CrashCase):
    """A pinned server with a device is moved to another host."""

    def setUp(self) -> None:
        super().setUp()
        # As in Nova's own tests of moves: the fake libvirt has no disks.
        self.useFixture(
            fixtures.MockPatch(f"{DRIVER}.migrate_disk_and_power_off", return_value="{}")
        )

    def test_claim_at_the_destination(self) -> None:
        self._at_each_write(THERE, self._build, self._move, self._is_resized)

    def test_confirm_at_the_source(self) -> None:
        self._at_each_write(HERE, self._moved, self._action(CONFIRM), self._is_active)

    def test_revert_at_the_destination(self) -> None:
        self._at_each_write(THERE, self._moved, self._action(REVERT), self._is_active)

    def test_revert_at_the_source(self) -> None:
        # The tracker writes nothing there: the manager itself does.
        self._at_each_write(HERE, self._moved, self._action(REVERT), self._is_active, MANAGER)

    def _build(self) -> Server:
        flavor = self._create_flavor(extra_spec=PINNED)
        return self._wait_until(self._is_active, self._post(flavor))

    def _moved(self) -> Server:
        server = self._build()
        self._move(server)
        return self._wait_until(self._is_resized, server)

    def _move(self, server: Server) -> None:
        self._action({"migrate": None})(server)


class ResizeOnOneHostTest(MoveTest):
    """The same on one host.

    The devices are not in Placement: after the end of a service, Nova claims them there for the
    instance and for the migration, and does not start.
    """

    IN_PLACEMENT = False

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=True)
        (service,) = self.api.get_services(host=THERE, binary="nova-compute")
        self.api.put_service(service["id"], {"status": "disabled"})

    def test_claim_at_the_destination(self) -> None:
        self._at_each_write(HERE, self._build, self._move, self._is_resized)

    def test_revert_at_the_destination(self) -> None:
        self._at_each_write(HERE, self._moved, self._action(REVERT), self._is_active)

    def _move(self, server: Server) -> None:
        flavor = self._create_flavor(vcpu=1, extra_spec=PINNED)
        self._action({"resize": {"flavorRef": flavor}})(server)
