"""CrashCase: the base of tests in which a compute service ends in the middle of a step."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import fixtures
from nova import utils
from nova.compute import resource_tracker
from nova.conf import CONF
from nova.tests.fixtures import libvirt as fakelibvirt

from rtagent.nova.node_settings import state_directory
from tests.nova.agreement import assert_agreement, owners, rows
from tests.nova.interruption import TRACKER, Interruption, Killed
from tests.nova.pci_case import PciCase

HERE, THERE = "compute1", "compute2"
PATIENCE = 180.0  # seconds
QUIET = 0.5  # seconds
DOWN_TIME = 3600  # seconds

#: What Nova's API returns of a server.
Server = Any


class CrashCase(PciCase):
    """Two hosts with three devices each.

    :cvar RPC_TIMEOUT: seconds.
    """

    CAST_AS_CALL = False
    RPC_TIMEOUT = 60

    def setUp(self) -> None:
        # Services of Nova's tests send no heartbeats. Nova reads this when its services are made.
        CONF.set_override("service_down_time", DOWN_TIME)
        self.addCleanup(CONF.clear_override, "service_down_time")
        super().setUp()
        # Seconds. A service that has ended does not answer.
        self.flags(rpc_response_timeout=self.RPC_TIMEOUT, long_rpc_timeout=self.RPC_TIMEOUT)
        for host in (HERE, THERE):
            self._start(host)
        self.stores = {
            host: state_directory(CONF) / f"{uuid}.sqlite"
            for host, uuid in self.compute_rp_uuids.items()
        }
        self.idle = {host: rows(host) for host in (HERE, THERE)}

    def _start(self, host: str) -> None:
        self.start_compute(hostname=host, pci_info=self._devices())

    def _devices(self) -> Any:
        return fakelibvirt.HostPCIDevicesInfo(num_pci=3, numa_node=0)

    def _at_each_write(
        self,
        host: str,
        prepare: Callable[[], Server],
        step: Callable[[Server], Server | None],
        is_complete: Callable[[Server], bool],
        writer: type[Any] = TRACKER,
    ) -> None:
        """Let a host end during a step: in the first transaction in which its tracker, or another
        writer, writes to Nova's database, then in the second one, and so on, until the step is
        complete. Each time it starts again, and claims and rows agree.
        """
        for number in itertools.count(1):
            if self._ends_at(number, host, prepare(), step, is_complete, writer):
                continue
            self.assertGreater(number, 1)
            return

    def _ends_at(
        self,
        number: int,
        host: str,
        server: Server,
        step: Callable[[Server], Server | None],
        is_complete: Callable[[Server], bool],
        writer: type[Any],
    ) -> bool:
        """Return whether the step has a transaction of that number."""
        saved = Path(self.useFixture(fixtures.TempDir()).path)
        crash = Interruption(host, number, Killed, lambda: self._save(host, saved), writer)
        with crash:
            changed = step(server) or server
            self._wait(lambda: crash.happened or is_complete(changed))
            settle()
        if crash.happened:
            self._restart(host, saved)
        self._check_and_delete(changed)
        return crash.happened

    def _check_and_delete(self, *servers: Server) -> None:
        self._run_periodics()
        for compute in self.computes.values():
            assert_agreement(self, compute)
        for server in itertools.filterfalse(self._is_gone, servers):
            self.api.delete_server(server["id"])
            self._wait_until(self._is_gone, server)
        self._run_periodics()
        self._delete_allocations()
        for host, compute in self.computes.items():
            self.assertEqual(set(), owners(compute))
            self.assertEqual(self.idle[host], rows(host))

    def _delete_allocations(self) -> None:
        """Delete what Nova leaves in Placement of a migration that has never ended."""
        for uuid in [each["uuid"] for each in self._get_all_providers()]:
            for consumer in self._get_allocations_by_provider_uuid(uuid):
                self._delete_server_allocations(consumer)

    def _save(self, host: str, directory: Path) -> None:
        save(self.stores[host], directory)

    def _restart(self, host: str, saved: Path) -> None:
        """Start a service with the claims that its predecessor had on disk when it ended."""
        put_back(self.computes[host], self.stores[host], saved)
        self.restart_compute_service(host)

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "the step has not ended")
            time.sleep(0.05)

    def _wait_until(self, condition: Callable[[Server], bool], server: Server) -> Server:
        self._wait(lambda: condition(server))
        return server

    def _post(self, flavor: str, **options: Any) -> Server:
        """Ask for a server at the first host."""
        body = self._build_server(flavor_id=flavor, **{"networks": "none", "host": HERE, **options})
        return self.api.post_server({"server": body})

    def _action(self, action: dict[str, Any]) -> Callable[[Server], None]:
        return lambda server: self.api.post_server_action(server["id"], action)

    def _is_active(self, server: Server) -> bool:
        return self._has_status(server, "ACTIVE")

    def _is_resized(self, server: Server) -> bool:
        return self._has_status(server, "VERIFY_RESIZE")

    def _has_status(self, server: Server, status: str) -> bool:
        found = self._show_server(server)
        return bool(found["status"] == status and found["OS-EXT-STS:task_state"] is None)

    def _is_migration(self, server: Server, status: str) -> bool:
        """Whether the newest migration of a server has a status."""
        found = [
            each for each in self.api.get_migrations() if each["instance_uuid"] == server["id"]
        ]
        newest = max(found, key=lambda each: each["id"], default=None)
        return newest is not None and bool(newest["status"] == status)

    def _are_over(self, *servers: Server) -> bool:
        """Whether no server is being built."""
        return "BUILD" not in [self._show_server(each)["status"] for each in servers]

    def _is_gone(self, server: Server) -> bool:
        return server["id"] not in [each["id"] for each in self.api.get_servers(detail=False)]


def save(store: Path, directory: Path) -> None:
    """Copy the claims of a host as they are on disk."""
    with (
        closing(sqlite3.connect(store)) as source,
        closing(sqlite3.connect(directory / store.name)) as target,
    ):
        source.backup(target)


def put_back(compute: Any, store: Path, saved: Path) -> None:
    """Let the next start of a service have the claims that were saved."""
    compute.manager.rt.nodes[compute.host].close()
    for file in store.parent.glob(f"{store.name}*"):
        file.unlink()
    shutil.copy(saved / store.name, store)


@utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
def _tracker_is_idle() -> None:
    """Return when no thread is in the tracker."""


def settle() -> None:
    """Wait for threads that have something left to do."""
    time.sleep(QUIET)
    _tracker_is_idle()
