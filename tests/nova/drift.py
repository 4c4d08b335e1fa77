"""Whether claims are what Nova's driver writes into domains, however both came into being.

Tests for `tests.nova.runner`, as those of `tests.nova.restarts`.
"""

from __future__ import annotations

from typing import Any

import fixtures
from immutables import Map
from msgspec.structs import replace
from nova.compute import resource_tracker
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base

from rtagent.model.domain_usage import DomainUsage
from rtagent.model.observation import Domain
from rtagent.nova import hook
from rtagent.nova.node_tracker import NodeTracker
from rtagent.reconcile.drift import drifts, orphans
from rtagent.virt.libvirt.document import HostFacts
from rtagent.virt.libvirt.domain import parse_domain

HERE, THERE = "compute1", "compute2"
_DEDICATED = {"hw:cpu_policy": "dedicated"}
_ISOLATED = "mixed, large pages, emulator isolated"
#: vCPUs and extra specs of each kind of server.
KINDS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (2, {}),
    "two cells": (2, {"hw:numa_nodes": "2"}),
    _ISOLATED: (
        2,
        {
            **{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
            **{"hw:mem_page_size": "2048", "hw:emulator_threads_policy": "isolate"},
        },
    ),
    "emulator shared": (1, {**_DEDICATED, "hw:emulator_threads_policy": "share"}),
    "realtime": (2, {**_DEDICATED, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}),
}
MEMORY_MB, LARGE_MB = 512, 1024
#: 4 KiB and 2 MiB pages of each cell of 8 GiB.
PAGES = fakelibvirt.create_mempages([(4, 1 << 20), (2048, 2048)])


class DriftTest(base.LibvirtMigrationMixin, base.ServersTestBase):
    """Two hosts with two cells of seven CPUs each."""

    ADMIN_API = True
    # Later ones stop an evacuated server.
    microversion = "2.94"

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(hook.install)
        self.flags(cpu_shared_set="0-2,7-9", cpu_dedicated_set="3-6,10-13", group="compute")
        self.flags(shelved_offload_time=0)
        disks = "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off"
        self.useFixture(fixtures.MonkeyPatch(disks, _power_off))
        # The fake domain would forget its guest cells and pages.
        domain = "nova.tests.fixtures.libvirt.Domain"
        for name, method in (("_parse_definition", _parse), ("XMLDesc", _document)):
            self.useFixture(fixtures.MonkeyPatch(f"{domain}.{name}", method))
        for host in (HERE, THERE):
            info = fakelibvirt.HostInfo(cpu_nodes=2, cpu_cores=7, mempages=[PAGES, PAGES])
            self.start_compute(hostname=host, host_info=info)

    def test_adoptions(self) -> None:
        (resource_tracker.ResourceTracker,) = NodeTracker.__bases__
        self._restart()
        servers = self._build()
        hook.install()
        self._restart()
        self._check(servers)

    def test_live_migrations(self) -> None:
        # As without shared disks: then Nova's driver removes the domain, which libvirt has ended.
        flags = "nova.compute.manager.ComputeManager._live_migration_cleanup_flags"
        self.useFixture(fixtures.MockPatch(flags, return_value=(True, True)))
        servers = self._build("plain", _ISOLATED, "emulator shared")
        self.src, self.dest = self.computes[HERE], self.computes[THERE]
        for self.server in servers:
            self._live_migrate(self.server, "completed")
        self._run_periodics()  # Nova claims nothing for servers without cells
        self._check(servers)

    def test_cold_migrations(self) -> None:
        servers = self._build()
        for server in servers:
            self._migrate_server(server)
        self._check(servers)
        for server in servers:
            self._confirm_resize(server)
        self._check(servers)

    def test_resizes(self) -> None:
        servers = self._build()
        for server, kind in zip(servers, KINDS.values(), strict=True):
            self._resize_server(server, self._flavor(LARGE_MB, *kind))
        self._check(servers)
        for server in servers:
            self._revert_resize(server)
        self._check(servers)

    def test_evacuations(self) -> None:
        servers = self._build()
        self.computes.pop(HERE).stop()
        (service,) = self.api.get_services(host=HERE, binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": True})
        for server in servers:
            self._evacuate_server(server, expected_host=THERE, expected_state="ACTIVE")
        self._check(servers)

    def test_unshelved_servers(self) -> None:
        servers = self._build()
        for server in servers:
            self._shelve_server(server, expected_state="SHELVED_OFFLOADED")
            self._unshelve_server(server)
        self._check(servers)

    def test_shared_cpu_that_became_a_dedicated_one_is_drift_until_a_hard_reboot(self) -> None:
        servers = self._build("plain", "emulator shared")
        self._check(servers)
        self.flags(cpu_shared_set="0-1,7-9", cpu_dedicated_set="2-6,10-13", group="compute")
        self._restart()
        lines = {line for host in self.computes for line in self._differences(host)}
        self.assertEqual({("host CPU 2", 0, 1)}, {line[1:] for line in lines})
        for server in servers:
            self._reboot_server(server, hard=True)
        self._check(servers)

    def _build(self, *kinds: str) -> list[Any]:
        """Build a server of each of these kinds, or of all, on the first host."""
        flavors = [self._flavor(MEMORY_MB, *KINDS[kind]) for kind in kinds or KINDS]
        return [
            self._create_server(flavor_id=flavor, networks="none", host=HERE) for flavor in flavors
        ]

    def _flavor(self, memory_mb: int, vcpus: int, specs: dict[str, str]) -> Any:
        return self._create_flavor(
            memory_mb=memory_mb, vcpu=vcpus, disk=1, ephemeral=0, extra_spec=specs
        )

    def _restart(self) -> None:
        for host in (HERE, THERE):
            self.restart_compute_service(host)

    def _check(self, servers: list[Any]) -> None:
        """Each server has a domain, and each domain is what a claim says; also after audits."""
        there = sorted(each["id"] for each in servers)
        self._wait_for_assert(lambda: self.assertEqual(there, self._running()))
        for _ in range(2):
            self.assertEqual([], [one for host in self.computes for one in self._differences(host)])
            self._run_periodics()

    def _running(self) -> list[str]:
        """The owners of all domains. Nova ends those at the source of a move last."""
        return sorted(owner for host in self.computes for owner in self._domains(host))

    def _differences(self, host: str) -> list[Any]:
        """The drift and the orphans of a host."""
        state = self.computes[host].manager.rt.nodes[host].state
        compared = replace(state, domain_usages=Map(self._domains(host)))
        lines = [(o.owner_id, o.resource, o.claimed, o.observed) for o in drifts(compared)]
        return [*lines, *orphans(compared)]

    def _domains(self, host: str) -> dict[str, DomainUsage]:
        """The running domains, as rtagent reads their documents."""
        compute = self.computes[host]
        topology = compute.manager.rt.nodes[host].state.topology
        facts = HostFacts(online=topology.cpus, cells=topology.cells)
        guests = compute.driver._host.list_guests()
        return {each.uuid: usage_of(each, facts) for each in guests}


def usage_of(guest: Any, host: HostFacts) -> DomainUsage:
    """Return what a domain uses. :param guest: the driver's."""
    facts = parse_domain(guest.get_xml_desc())
    domain = Domain(
        uuid=guest.uuid,
        name=guest.name,
        active=True,
        vcpus=facts.vcpus,
        memory_mb=facts.memory_mb,
        occupancy=facts.confinement.occupancy(host),
    )
    usage = domain.domain_usage()
    assert usage is not None and not usage.occupancy.unknown, facts.problems
    return usage


_parsed = fakelibvirt.Domain._parse_definition


def _parse(self: Any, document: str) -> Any:
    self.document = document
    return _parsed(self, document)


def _document(self: Any, flags: int) -> Any:
    return self.document


def _power_off(driver: Any, _: Any, instance: Any, *arguments: Any, **named: Any) -> str:
    """Do what Nova's driver does for a guest without disks."""
    driver.power_off(instance)
    return "{}"
