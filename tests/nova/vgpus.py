"""Virtual GPUs of servers: the claims have those that the domains have.

Tests for `tests.nova.runner`, on Nova's functional base, see `tests.nova.restarts`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures
from nova.conf import CONF
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_vgpu as base
from nova.virt.libvirt import config

from rtagent.nova.node_settings import state_directory
from rtagent.pci.assigned_resources import claimed_mdevs
from tests.nova.crash_case import put_back, save
from tests.nova.interruption import Interruption, Killed

HERE, THERE = "host1", "host2"
#: As many as one GPU of a host has at first.
ALL = 16
_XML = "nova.virt.libvirt.driver.LibvirtDriver._get_guest_xml"

#: What Nova's API returns of a server.
Server = Any


class VgpuCase(base.VGPUTestBase):
    """A host with two GPUs. :cvar SPECS: of servers with one virtual GPU."""

    # Later ones stop an evacuated server.
    microversion = "2.94"
    SPECS = {"resources:VGPU": "1"}

    def setUp(self) -> None:
        super().setUp()
        self.flags(enabled_mdev_types=fakelibvirt.NVIDIA_11_VGPU_TYPE, group="devices")
        self.flags(allow_resize_to_same_host=True)
        self.flavor = self._create_flavor(extra_spec=self.SPECS)
        self.start_compute_with_vgpu(HERE)

    def _build(self, **options: Any) -> Server:
        return self._create_server(flavor_id=self.flavor, networks="none", **options)

    def _claims(self, server: Server, host: str = HERE) -> list[set[str]]:
        """The uuids of the virtual GPUs of each claim of a server on a host."""
        return [set(claimed_mdevs(claim)) for claim in self._mains(server, host)]

    def _mains(self, server: Server, host: str = HERE) -> Any:
        return self._node(host).mains(server["id"])

    def _domain(self, server: Server, host: str = HERE) -> set[str]:
        """The uuids of the virtual GPUs of a server's domain."""
        guests = self.computes[host].driver._host.list_guests(only_running=False)
        return {
            device.uuid
            for guest in guests
            if guest.uuid == server["id"]
            for device in guest.get_config().devices
            if isinstance(device, config.LibvirtConfigGuestHostdevMDEV)
        }

    def _assert_claimed(self, server: Server, host: str = HERE, number: int = 1) -> None:
        """Assert that a server has one claim, with the virtual GPUs of its domain."""
        self.assertEqual(number, len(self._domain(server, host)))
        self.assertEqual([self._domain(server, host)], self._claims(server, host))

    def _node(self, host: str = HERE) -> Any:
        return self.computes[host].manager.rt.nodes[host]

    def _store(self) -> Path:
        return state_directory(CONF) / f"{self.compute_rp_uuids[HERE]}.sqlite"

    def _lose_claims(self) -> None:
        """Start the service again without the database of the claims."""
        self._node().close()
        self._store().unlink()
        self.restart_compute_service(HERE)

    def _hard_reboot(self, server: Server) -> None:
        self.api.post_server_action(server["id"], {"reboot": {"type": "HARD"}})
        self._wait_for_state_change(server, "ACTIVE")

    def _in_front_of_the_domain(self, step: Callable[[], None]) -> Any:
        """Return a fixture: the step is done once, before a domain is made of what was chosen."""
        make, steps = base.libvirt_driver.LibvirtDriver._get_guest_xml, [step]

        def made(driver: Any, *arguments: Any, **named: Any) -> str:
            if steps:
                steps.pop()()
            return str(make(driver, *arguments, **named))

        return fixtures.MonkeyPatch(_XML, made)


class VgpuTest(VgpuCase):
    """Servers that stay on their host."""

    def test_claim_has_what_the_domain_has_until_the_server_is_deleted(self) -> None:
        """Also if it was lost, and is adopted."""
        server = self._build()
        self._assert_claimed(server)
        (claim,) = self._mains(server)
        (unit,) = claim.resources
        name = f"{HERE}_pci_{unit.parent_addr.replace(':', '_').replace('.', '_')}"
        provider = self._get_provider_uuid_by_name(name)
        self.assertEqual(("VGPU", provider), (unit.resource_class, unit.provider))
        self._run_periodics()
        (same,) = self._mains(server)
        self.assertEqual((claim.uuid, claim.resources), (same.uuid, same.resources))
        found = self._node().state.resource_inventories
        (inventory,) = (each for each in found if each.provider == unit.parent_addr)
        published = self._get_provider_inventory(provider)["VGPU"]["total"]
        self.assertEqual(published, len(inventory.identifiers))
        before = self._claims(server)
        self._lose_claims()
        self.assertEqual(before, self._claims(server))
        self._assert_claimed(server)
        self._delete_server(server)
        self.assertEqual([], self._claims(server))

    def test_server_keeps_what_it_has_when_it_is_rebooted_and_rebuilt(self) -> None:
        flavor = self._create_flavor(extra_spec={"resources:VGPU": str(ALL)})
        server = self._create_server(flavor_id=flavor, networks="none")
        before = self._domain(server)
        self._hard_reboot(server)
        self.assertEqual([before], self._claims(server))
        self._rebuild_server(server, "155d900f-4e14-4e4c-a73d-069cbf4541e6")
        self._assert_claimed(server, number=ALL)
        self.assertEqual(before, self._domain(server))

    def test_shelved_server_has_none(self) -> None:
        server = self._build()
        self._shelve_server(server, expected_state="SHELVED_OFFLOADED")
        self.assertEqual([], self._claims(server))
        self._unshelve_server(server)
        self._assert_claimed(server)

    def test_both_ends_of_a_resize_have_theirs(self) -> None:
        server = self._build()
        before = self._domain(server)
        larger = self._create_flavor(memory_mb=4096, extra_spec=self.SPECS)
        self._resize_server(server, larger)
        after = self._domain(server)
        self.assertEqual([before, after], self._claims(server))
        self.assertTrue(before.isdisjoint(after))
        self._run_periodics()
        self.assertEqual([before, after], self._claims(server))
        self.assertTrue(self._domain(self._build()).isdisjoint(before | after))
        self._revert_resize(server)
        self.assertEqual([before], self._claims(server))
        self._assert_claimed(server)

    def test_servers_that_are_built_at_the_same_time_have_different_ones(self) -> None:
        for server in (self._build(), self._build()):
            self._delete_server(server)  # now two exist, and nobody has them
        built: list[Server] = []
        with self._in_front_of_the_domain(lambda: built.append(self._build())):
            built.append(self._build())
        for server in built:
            self._assert_claimed(server)
        self.assertEqual(2, len(self._domain(built[0]) | self._domain(built[1])))


class VgpuRestartTest(VgpuCase):
    """The service starts again."""

    def test_what_another_domain_has_too_is_recorded_once(self) -> None:
        first, second = self._build(), self._build()
        (twice,), (other,) = self._domain(first), self._domain(second)
        connection = self.computes[HERE].driver._host.get_connection()
        domain = connection.lookupByUUIDString(second["id"])
        for device in domain._def["devices"]["hostdevs"]:
            device["address_uuid"] = twice
        self.assertEqual({twice}, self._domain(second))
        self._run_periodics()
        self.assertEqual([[{twice}], [{other}]], [self._claims(first), self._claims(second)])
        log = self.stdlog.logger.output
        self.assertIn(f"Mediated devices of instance {second['id']} are not recorded", log)

    def test_server_whose_domain_is_lost_has_what_its_claim_has(self) -> None:
        other, server = self._build(), self._build()
        self._delete_server(other)  # what it had is free, and exists
        before = self._domain(server)
        connection = self.computes[HERE].driver._host.get_connection()
        domain = connection.lookupByUUIDString(server["id"])
        domain.destroy()
        domain.undefine()
        self.restart_compute_service(HERE)
        self._hard_reboot(server)
        self.assertEqual(before, self._domain(server))
        self._assert_claimed(server)

    def test_claim_of_a_build_that_ended_before_the_domain_keeps_what_was_chosen(self) -> None:
        saved = Path(self.useFixture(fixtures.TempDir()).path)
        crash = Interruption(HERE, 0, Killed)

        def end() -> None:
            save(self._store(), saved)
            crash.happened = True
            raise Killed

        self.flags(rpc_response_timeout=10)
        body = self._build_server(flavor_id=self.flavor, networks="none")
        with crash, self._in_front_of_the_domain(end):
            server = self.api.post_server({"server": body})
            self._wait_for_assert(lambda: self.assertTrue(crash.happened))
        put_back(self.computes[HERE], self._store(), saved)
        self.restart_compute_service(HERE)
        ((chosen,),) = self._claims(server)
        other = self._build()
        self.assertNotIn(chosen, self._domain(other))
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual([], self._claims(server))
        self._assert_claimed(other)


class VgpuMoveTest(VgpuCase):
    """Servers that move."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self._build()
        self.start_compute_with_vgpu(THERE)

    def test_evacuated_server_has_one_at_its_new_host(self) -> None:
        self.computes[HERE].stop()
        self._force_down(HERE)
        self.api.post_server_action(self.server["id"], {"evacuate": {"host": THERE}})
        self._wait_for_server_parameter(
            self.server, {"OS-EXT-SRV-ATTR:host": THERE, "status": "ACTIVE"}
        )
        self._assert_claimed(self.server, THERE)

    def test_migrated_server_holds_one_at_each_host_until_it_is_confirmed(self) -> None:
        before = self._domain(self.server)
        self._migrate_server(self.server)
        self._assert_claimed(self.server, THERE)
        self.assertEqual([before], self._claims(self.server))
        self._confirm_resize(self.server)
        self._run_periodics()
        self._assert_claimed(self.server, THERE)
        self.assertEqual([], self._claims(self.server))

    def _force_down(self, host: str) -> None:
        (service,) = self.api.get_services(host=host, binary="nova-compute")
        self.api.put_service_force_down(service["id"], True)


class LiveMigrationCase(base.VGPULiveMigrationTests):
    """A server whose claims are compared with what Nova's drivers regard as assigned."""

    def _assert_moved(self) -> None:
        for host, number in (("src", 0), ("dest", 1)):
            claims = self.computes[host].manager.rt.nodes[host].mains(self.server["id"])
            claimed = [uuid for claim in claims for uuid in claimed_mdevs(claim)]
            self.assertEqual(number, len(claimed))
            assigned = self.computes[host].driver._get_all_assigned_mediated_devices()
            self.assertEqual(set(claimed), set(assigned))


class VgpuLiveMigrationTest(LiveMigrationCase):
    """A server without NUMA cells, for which Nova makes no claim before it has arrived."""

    def test_live_migrate_server(self) -> None:
        super().test_live_migrate_server()
        self._run_periodics()
        self._assert_moved()


class NumaLiveMigrationTest(LiveMigrationCase):
    """A server with a NUMA cell, for which Nova makes a claim first."""

    def test_live_migrate_server(self) -> None:
        specs = {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_11": "required", "hw:numa_nodes": "1"}
        self.flavor = self._create_flavor(extra_spec=specs)
        super().test_live_migrate_server()
        self._wait_for_assert(self._assert_moved)
