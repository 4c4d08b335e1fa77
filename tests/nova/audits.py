"""Audits of nova-compute with rtagent's tracker, and claims meanwhile.

Tests for `tests.nova.runner`.
"""

from __future__ import annotations

import threading
from typing import Any

from nova import context
from nova.tests.functional import integrated_helpers

from rtagent.nova.node_tracker import PlacementReports
from tests.nova.agreement import owners

#: Seconds that an audit waits at most.
PATIENCE = 120.0


class WaitingDriver:
    """A driver that waits when it is asked for Placement's view of the host.

    :ivar asked: set while it waits. :ivar go_on: ends its waiting.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def update_provider_tree(self, *arguments: Any, **options: Any) -> None:
        self.asked.set()
        self.go_on.wait(PATIENCE)
        self._driver.update_provider_tree(*arguments, **options)


class CountingClient:
    """A report client that counts how often the allocations of a guest are read.

    :ivar count: so far.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_allocations_for_provider_tree(self, *arguments: Any) -> Any:
        found = self._client.get_allocations_for_provider_tree(*arguments)
        self.count += len(found)
        return found


class AuditTest(integrated_helpers.ProviderUsageBaseTestCase):
    """One host."""

    compute_driver = "fake.SmallFakeDriver"

    def test_server_is_built_while_an_audit_is_at_work_with_placement(self) -> None:
        compute = self._start_compute("compute1")
        tracker = compute.manager.rt
        driver = tracker.driver = WaitingDriver(compute.driver)
        self.addCleanup(driver.go_on.set)
        audit = threading.Thread(
            target=tracker.update_available_resource, args=(context.get_admin_context(), "compute1")
        )
        audit.start()
        self.assertTrue(driver.asked.wait(PATIENCE))

        built = self._create_server(networks="none")["id"]

        self.assertTrue(audit.is_alive())
        driver.go_on.set()
        audit.join()
        self.assertEqual({built}, owners(compute))
        (provider,) = self._get_all_providers()
        self.assertEqual(1, self._get_provider_usages(provider["uuid"])["VCPU"])

    def test_allocations_of_guests_are_read_at_the_start_only(self) -> None:
        compute = self._start_compute("compute1")
        built = self._create_server(networks="none")["id"]
        tracker = compute.manager.rt
        client = CountingClient(tracker.reportclient)
        tracker.reportclient = PlacementReports(client)

        tracker.update_available_resource(context.get_admin_context(), "compute1")

        self.assertEqual(0, client.count)
        self.assertEqual({built}, owners(compute))
        tracker.update_available_resource(context.get_admin_context(), "compute1", startup=True)
        self.assertEqual(1, client.count)
