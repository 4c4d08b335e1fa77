"""rtagent-scheduler with Placement: an agent publishes its host, a selection is allocated there."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtagent.errors import PlacementUnavailable
from rtagent.placement.candidates import AT_ONCE
from rtagent.rpc.client import SchedulerAPI
from rtagent.scheduler.errors import NoValidHost
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.scheduler_rpc import SchedulerBus, spec


def test_selection_is_allocated_and_an_outage_is_an_error_of_the_call(
    tmp_path, rabbitmq, placement
):
    url = rabbitmq.transport_url
    # Longer than any wait of this test.
    patience = {"report_jitter": 0.1, "request_timeout": 600.0}
    config = {"placement": {**placement.login, "timeout": 300}, "scheduler": patience}
    with (
        Daemon(tmp_path / "a", url, config={**config, "DEFAULT": {"host": "cn1"}}) as agent,
        SchedulerServer(tmp_path / "s", url, config=config) as scheduler,
    ):
        agent.wait_ready()
        scheduler.wait_ready()
        bus, instance = SchedulerBus(url), uid()
        wait_until(lambda: candidates(bus))

        reply = bus.call("select_destinations", spec(), [instance], alternates=True)
        selected = reply["selections"][0]["selected"]
        assert selected["host"] == "cn1"
        allocated = placement.allocations(instance)[selected["provider_uuid"]]
        assert allocated == {"VCPU": 1, "MEMORY_MB": 512}
        with pytest.raises(NoValidHost):
            huge = spec(flavor={"vcpus": 10_000, "memory_mb": 1})
            bus.call("select_destinations", huge, [uid()])

        placement.stop()
        with pytest.raises(PlacementUnavailable):
            SchedulerAPI(bus.transport, attempts=1).select_destinations(
                bus.context, spec(), [uid()]
            )
        placement.start()
        check_that_calls_share_queries_and_a_stop_finishes_them(scheduler, placement, bus)
        bus.close()


def check_that_calls_share_queries_and_a_stop_finishes_them(scheduler, placement, bus):
    placement.freeze()
    before, instance = queries(placement), uid()
    with ThreadPoolExecutor(AT_ONCE + 3) as threads:
        select = SchedulerAPI(bus.transport, timeout=60, attempts=1).select_destinations
        sizes = (*range(1, AT_ONCE), *(AT_ONCE for _ in range(3)))
        calls = [threads.submit(select, bus.context, spec(), [instance])]
        # Without claims: this Placement cannot write for several at the same time.
        for memory_mb in sizes:
            sized = spec(flavor={"vcpus": 1, "memory_mb": memory_mb})
            calls.append(threads.submit(select, bus.context, sized, [uid()], claim=False))
        wait_until(lambda: scheduler.metrics()["rtagent_scheduler_queries_waiting"] >= 2)
        scheduler.signal(signal.SIGTERM)
        scheduler.wait_notified("STOPPING=1")
        placement.thaw()
        for call in calls:
            assert call.result()["selections"][0]["selected"]["host"] == "cn1"
    assert scheduler.wait() == 0
    assert queries(placement) - before < len(calls)
    assert placement.allocations(instance)


def queries(placement):
    """How many queries for candidates Placement has answered."""
    paths = [request.path for request in placement.requests()]
    return sum(path.startswith("/allocation_candidates") for path in paths)


def candidates(bus):
    """Whether Placement has the host already."""
    explained = bus.call("explain", spec())
    return any(each["rank"] for each in explained["hosts"])
