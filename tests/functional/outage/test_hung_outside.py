"""Calls that wait for external services hold few threads, so that other calls do not wait."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from rtagent.errors import HypervisorUnavailable, PlacementError, TooManyRequests
from rtagent.rpc.method import SLOW_CALLS
from tests.functional.outage.hung_outside import HungOutside
from tests.servers import Libvirtd, Placement, RabbitMQ
from tests.servers.daemon import wait_until

#: Seconds; longer than any call waits for an external service.
PATIENCE = 90.0


@pytest.fixture(scope="module")
def outside(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, libvirtd_server: Libvirtd
) -> Iterator[HungOutside]:
    for server in (rabbitmq_server, libvirtd_server):
        server.start()
    with Placement() as placement:
        directory = tmp_path_factory.mktemp("hung")
        made = HungOutside(directory, rabbitmq_server, libvirtd_server, placement)
        yield made
        made.close()


def test_many_audits_share_few(outside: HungOutside):
    calls = outside.start_calls("update_available_resource", 200)

    outside.call_everything(outside.claim())

    errors = [call.exception(PATIENCE) for call in calls]
    assert None in errors
    assert_kinds(errors, TooManyRequests)


def test_calls_are_served_while_many_wait_for_a_placement_that_hangs(outside: HungOutside):
    claim = outside.claim()
    with outside.frozen(outside.placement):
        calls = outside.start_calls("sync_placement", 64)
        wait_until(lambda: len(unfinished(calls)) <= SLOW_CALLS, PATIENCE)

        outside.claim()
        outside.call_everything(claim)
        # So none of the calls above was served after one of these.
        assert len(unfinished(calls)) == SLOW_CALLS
    assert_kinds([call.exception(PATIENCE) for call in calls], TooManyRequests, PlacementError)


def test_calls_are_served_while_everything_outside_hangs(outside: HungOutside):
    claims = [outside.claim() for _ in range(10)]
    with outside.frozen(outside.placement, outside.libvirtd), outside.mute_readers(16):
        audits = outside.start_calls("update_available_resource", 128)
        syncs = outside.start_calls("sync_placement", 64)
        wait_until(lambda: len(unfinished(audits)) <= SLOW_CALLS, PATIENCE)
        wait_until(lambda: len(unfinished(syncs)) <= SLOW_CALLS, PATIENCE)

        for claim in claims:
            outside.answer_claim()
            outside.call_everything(claim)
    assert_kinds([c.exception(PATIENCE) for c in audits], TooManyRequests, HypervisorUnavailable)
    assert_kinds([c.exception(PATIENCE) for c in syncs], TooManyRequests, PlacementError)
    wait_until(outside.ready, PATIENCE)


def unfinished(calls: list[Future[Any]]) -> list[Future[Any]]:
    return [call for call in calls if not call.done()]


def assert_kinds(errors: list[BaseException | None], *kinds: type[BaseException]) -> None:
    """Assert that each call succeeded, or failed with one of these errors."""
    assert [error for error in errors if not isinstance(error, (*kinds, type(None)))] == []
