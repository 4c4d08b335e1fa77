"""Nova's audits after each of its writes of an instance or a migration: nothing is given, and only
what has ended is released.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fixtures
from nova import context
from nova.db.main import api
from nova.tests.functional.libvirt import base

from tests.nova.agreement import owners
from tests.nova.interruption import TRACKER, callers
from tests.nova.move_audits import AuditCase, Held
from tests.nova.pci_case import PINNED

#: Functions of Nova's that write what its audits read.
WRITES = (
    "instance_update",
    "instance_update_and_get_original",
    "instance_extra_update_by_uuid",
    "instance_destroy",
    "migration_create",
    "migration_update",
)
HERE, THERE = "compute1", "compute2"
DEDICATED = {"hw:cpu_policy": "dedicated"}


class OneHostTest(AuditCase):
    """A pinned server with a device on the only host."""

    HOSTS: ClassVar[tuple[str, ...]] = (HERE,)
    # With devices in Placement, Nova's own audit fails in a revert on one host (ReshapeFailed).
    IN_PLACEMENT = False
    # Later ones stop an evacuated server.
    microversion = "2.94"

    def setUp(self) -> None:
        super().setUp()
        self.flags(allow_resize_to_same_host=len(self.HOSTS) == 1)
        self.flags(shelved_offload_time=0)
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MonkeyPatch(disks, _power_off))
        for host in self.HOSTS:
            self._start(host)
        self.audits = 0
        self.ended: Held = []
        self.given: set[tuple[str, str]] = set()
        self.strangers: set[str] = set()

    def test_build(self) -> None:
        with self._audits():
            self._build()
        self.assertEqual([], self.ended)

    def test_deletion(self) -> None:
        server = self._build()
        (claim,) = self._held()
        with self._audits():
            self._delete_server(server)
        self._check_ended(claim)

    def test_rebuild(self) -> None:
        server = self._build()
        with self._audits():
            self._rebuild_server(server, "155d900f-4e14-4e4c-a73d-069cbf4541e6")
        self.assertEqual([], self.ended)

    def test_shelving(self) -> None:
        server = self._build()
        (claim,) = self._held()
        with self._audits():
            self._shelve_server(server, expected_state="SHELVED_OFFLOADED")
            self._unshelve_server(server)
        self._check_ended(claim)

    def test_confirmed_resize(self) -> None:
        server = self._build()
        with self._audits():
            self._confirm_resize(self._resize_server(server, self._flavor(4096, PINNED)))
        self.assertEqual([], self.ended)

    def test_reverted_resize(self) -> None:
        server = self._build()
        with self._audits():
            self._revert_resize(self._resize_server(server, self._flavor(4096, PINNED)))
        self.assertEqual([], self.ended)

    def _check_ended(self, claim: tuple[str, int, frozenset[tuple[str, str]]]) -> None:
        """Nothing but this claim has ended. Its device is held until Nova frees it afterwards."""
        main, *attached = self.ended
        self.assertEqual(claim, main)
        device = {each for each in claim[2] if each[0] == "PCI"}
        self.assertEqual([(0, device)] * len(attached), [each[1:] for each in attached])

    def _build(self, host: str = HERE, specs: dict[str, str] = PINNED) -> Any:
        flavor = self._flavor(2048, specs)
        return self._create_server(flavor_id=flavor, networks="none", host=host)

    def _flavor(self, memory_mb: int, specs: dict[str, str]) -> Any:
        return self._create_flavor(memory_mb=memory_mb, extra_spec=specs)

    @contextmanager
    def _audits(self) -> Iterator[None]:
        """Audit all hosts after each write of the block. No audit gives a CPU or a device to a
        claim, or leaves a running server without one.
        """
        with fixtures.Fixture() as patches:
            for name in WRITES:
                patch = fixtures.MonkeyPatch(f"nova.db.main.api.{name}", self._then_audit(name))
                patches.useFixture(patch)
            yield
        self.assertGreater(self.audits, 0)
        self.assertEqual((set(), set()), (self.given, self.strangers))

    def _then_audit(self, name: str) -> Callable[..., Any]:
        write = getattr(api, name)

        def written(*arguments: Any, **named: Any) -> Any:
            done = write(*arguments, **named)
            # A tracker that writes has the lock of all audits.
            if not any(isinstance(each, TRACKER) for each in callers()):
                self._audit()
            return done

        return written

    def _audit(self) -> None:
        """Note what changes: an assertion in Nova's thread would be an error of the operation."""
        self.audits += 1
        for name, compute in self.computes.items():
            before = self._held_by(name)
            compute.manager.update_available_resource(context.get_admin_context())
            after = self._held_by(name)
            self.ended += [each for each in before if each not in after]
            self.given |= _units(after) - _units(before)
            running = {guest.uuid for guest in compute.driver._host.list_guests()}
            self.strangers |= running - owners(compute)


class TwoHostsTest(base.LibvirtMigrationMixin, OneHostTest):
    """The same with a second host, to which the server moves."""

    HOSTS = (HERE, THERE)
    is_failing = False

    def setUp(self) -> None:
        super().setUp()
        # As with disks of each host: Nova's driver saves the server when it deletes them.
        flags = "nova.compute.manager.ComputeManager._live_migration_cleanup_flags"
        self.useFixture(fixtures.MockPatch(flags, return_value=(True, True)))

    def _migrate_stub(self, domain: Any, destination: str, params: Any, flags: int) -> None:
        if not self.is_failing:
            super()._migrate_stub(domain, destination, params, flags)
            return
        connection = self.src.driver._host.get_connection()
        connection.lookupByUUIDString(self.server["id"]).fail_job()
        self.migrate_stub_ran = True

    def test_live_migration(self) -> None:
        self.server = self._build(specs=DEDICATED)
        (source,) = self._held()
        self._build(THERE, DEDICATED)
        self.src, self.dest = self.computes[HERE], self.computes[THERE]
        with self._audits():
            self._live_migrate(self.server, "completed")
        self.assertEqual([source], self.ended)

    def test_live_migration_that_fails(self) -> None:
        self.is_failing = True
        self.server = self._build(specs=DEDICATED)
        self._build(THERE, DEDICATED)
        before = self._held()
        self.src, self.dest = self.computes[HERE], self.computes[THERE]
        with self._audits():
            self._live_migrate(self.server, "failed")
        self.assertEqual(before, self._held())
        # Without a migration context, Nova counts the memory alone.
        self.assertEqual(set(), _units(self.ended))

    def test_evacuation(self) -> None:
        server = self._build()
        self.computes.pop(HERE).stop()
        (service,) = self.api.get_services(host=HERE, binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": True})
        with self._audits():
            self._evacuate_server(server, expected_host=THERE, expected_state="ACTIVE")
        self.assertEqual([], self.ended)


def _units(held: Held) -> set[tuple[str, str]]:
    return {unit for _, _, units in held for unit in units}


def _power_off(driver: Any, _: Any, instance: Any, *arguments: Any, **named: Any) -> str:
    """Do what Nova's driver does for a guest without disks."""
    driver.power_off(instance)
    return "{}"
