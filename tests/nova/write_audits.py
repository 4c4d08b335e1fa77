"""Nova's audits after each of its writes of an instance or a migration, except writes of its
tracker: an audit gives no claim a CPU or a device, and releases only what has ended.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from xml.etree import ElementTree

import fixtures
from nova import context, exception, objects
from nova.db.main import api
from nova.tests.functional.api.client import OpenStackApiException
from nova.tests.functional.libvirt import base

from tests.nova.compute_host import pins_of_domain
from tests.nova.interruption import TRACKER, callers
from tests.nova.move_audits import AuditCase, Held
from tests.nova.pci_case import PINNED

#: Functions of Nova's that write instances and migrations.
WRITES = (
    *("instance_update", "instance_update_and_get_original", "instance_extra_update_by_uuid"),
    *("instance_destroy", "migration_create", "migration_update"),
)
Units = set[tuple[str, str]]
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
        self.ended: Held = []  # by the audits of the last block
        self.given: Units = set()
        self.unclaimed: Units = set()
        self.errors: list[Exception] = []

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

    def test_server_that_was_unshelved_after_a_failed_resize(self) -> None:
        server = self._build()
        (first,) = self._held()
        self._fail_at_the_source(server)
        self._shelve_server(server, expected_state="SHELVED_OFFLOADED")
        self._build()
        (second,) = self._held()
        self.assertEqual(_cpus(first[2]), _cpus(second[2]))
        self._unshelve_server(server)
        self.assertIsNone(self._stored(server).migration_context)
        before = self._held()
        self._run_periodics()
        self.assertEqual(before, self._held())

    def test_resize_that_fails_at_the_destination(self) -> None:
        server = self._build()
        self._fail_resize(server, "finish_migration")
        self._run_periodics()
        cpus = {("PCPU", str(cpu)) for cpu in self._stored(server).numa_topology.cpu_pinning}
        claims = [each for each in self._held() if each[1]]
        self.assertEqual([(2048, cpus)], [(each[1], _cpus(each[2])) for each in claims])

    def _stored(self, server: Any) -> Any:
        expected = ["numa_topology", "migration_context"]
        return objects.Instance.get_by_uuid(context.get_admin_context(), server["id"], expected)

    def _fail_resize(self, server: Any, step: str) -> None:
        """Let a method of the driver fail in a resize."""
        driver = f"nova.virt.libvirt.driver.LibvirtDriver.{step}"
        body = {"resize": {"flavorRef": self._flavor(4096, PINNED)}}
        with fixtures.MockPatch(driver, side_effect=exception.ResizeError(reason="test")):
            # Casts are calls in these tests, so the error reaches the API.
            self.assertRaises(
                OpenStackApiException, self.api.post_server_action, server["id"], body
            )
        self._wait_for_migration_status(server, ["error"])
        self._wait_for_state_change(server, "ERROR")

    def _fail_at_the_source(self, server: Any) -> None:
        """Let a resize fail before the domain has ended."""
        self._fail_resize(server, "migrate_disk_and_power_off")
        self.api.post_server_action(server["id"], {"os-resetState": {"state": "active"}})
        self._run_periodics()

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
    def _audits(self, given: Iterable[tuple[str, str]] = ()) -> Iterator[None]:
        """Audit all hosts after each write of the block. No audit gives a CPU or a device to a
        claim, or takes a running server's CPU from it.

        :param given: what audits give nevertheless.
        """
        self.audits, self.ended = 0, []
        with fixtures.Fixture() as patches:
            for name in WRITES:
                patch = fixtures.MonkeyPatch(f"nova.db.main.api.{name}", self._then_audit(name))
                patches.useFixture(patch)
            yield
        self.assertGreater(self.audits, 0)
        self.assertEqual([], self.errors)
        self.assertEqual((set(given), set()), (self.given, self.unclaimed))

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
            try:
                compute.manager.rt.update_available_resource(context.get_admin_context(), name)
            except Exception as error:
                self.errors.append(error)
            after = self._held_by(name)
            self.ended += [each for each in before if each not in after]
            self.given |= _units(after) - _units(before)
            self.unclaimed |= _in_use(compute) - _units(after)


class TwoHostsTest(base.LibvirtMigrationMixin, OneHostTest):
    """The same with a second host, to which the server moves."""

    HOSTS = (HERE, THERE)
    is_failing = False

    def setUp(self) -> None:
        super().setUp()
        # As without shared disks: then Nova's driver saves the server when it deletes them.
        flags = "nova.compute.manager.ComputeManager._live_migration_cleanup_flags"
        self.useFixture(fixtures.MockPatch(flags, return_value=(True, True)))

    def _migrate_stub(self, domain: Any, destination: str, params: Any, flags: int) -> None:
        if not self.is_failing:
            super()._migrate_stub(domain, destination, params, flags)
            return
        connection = self.src.driver._host.get_connection()
        connection.lookupByUUIDString(self.server["id"]).fail_job()
        self.migrate_stub_ran = True

    def test_confirmed_migration(self) -> None:
        server = self._build()
        with self._audits():
            self._migrate_server(server)
            self._confirm_resize(server)
        self.assertEqual([], self.ended)

    def test_reverted_migration(self) -> None:
        server = self._build()
        with self._audits():
            self._migrate_server(server)
            self._revert_resize(server)
        self.assertEqual([], self.ended)

    def test_migrations_after_a_failed_resize(self) -> None:
        """Nova's audit applies the context of the second one, because of the failed resize. It also
        counts what that had claimed, when another move begins.
        """
        self._build(THERE, DEDICATED)
        server = self._build()
        self._fail_at_the_source(server)
        claimed = self._stored(server).migration_context.new_numa_topology
        counted = {("PCPU", str(cpu)) for cpu in claimed.cpu_pinning}
        with self._audits(given=counted):
            for _ in range(2):
                self._migrate_server(server)
                self._confirm_resize(server)
        self.assertEqual(counted, _units(self.ended))

    def test_live_migrations(self) -> None:
        """One that succeeds, one that fails on the way, and one that fails before it begins."""
        self.server = self._build(specs=DEDICATED)
        (source,) = self._held()
        self._build(THERE, DEDICATED)
        self.src, self.dest = self.computes[HERE], self.computes[THERE]
        with self._audits():
            self._live_migrate(self.server, "completed")
        self.assertEqual([source], self.ended)

        self.src, self.dest = self.dest, self.src
        before = self._held()
        self.is_failing = True
        with self._audits():
            self._live_migrate(self.server, "failed")
        self.assertEqual(before, self._held())
        # Without a migration context, an audit adopts the memory alone, and only that has ended.
        self.assertEqual(set(), _units(self.ended))

        # Nova's driver has stored the CPUs of the destination when it undoes this.
        prepare = "nova.virt.libvirt.driver.LibvirtDriver.pre_live_migration"
        with fixtures.MockPatch(prepare, side_effect=exception.NovaException), self._audits():
            self._live_migrate(self.server, "error")
        self._run_periodics()
        self.assertEqual(before, self._held())

    def test_evacuation(self) -> None:
        server = self._build()
        self.computes.pop(HERE).stop()
        (service,) = self.api.get_services(host=HERE, binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": True})
        with self._audits():
            self._evacuate_server(server, expected_host=THERE, expected_state="ACTIVE")
        self.assertEqual([], self.ended)


def _units(held: Held) -> Units:
    return {unit for _, _, units in held for unit in units}


def _cpus(units: Iterable[tuple[str, str]]) -> Units:
    return {unit for unit in units if unit[0] == "PCPU"}


def _in_use(compute: Any) -> Units:
    """The CPUs of the running domains of a host."""
    documents = (guest.get_xml_desc() for guest in compute.driver._host.list_guests())
    return {
        ("PCPU", str(cpu))
        for document in documents
        for cpu in pins_of_domain(ElementTree.fromstring(document))
    }


def _power_off(driver: Any, _: Any, instance: Any, *arguments: Any, **named: Any) -> str:
    """Do what Nova's driver does for a guest without disks."""
    driver.power_off(instance)
    return "{}"
