"""Calls over a message bus."""

import logging
import threading
import time
from collections.abc import Callable

import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.errors import (
    ClaimConflict,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    InvalidRequest,
    NodeNotFound,
    NodeNotReady,
    RtAgentError,
)
from rtagent.model.request import Flavor, Instance
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.errors import NotAuthorized
from rtagent.rpc.methods import METHODS
from rtagent.testing.failpoints import Failpoint, FailpointStore
from tests.functional.rpc.conftest import Station
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import NODE, uid
from tests.support.rpc import VERSION


def instance(vcpus: int = 1, memory_mb: int = 1024, **more: object) -> dict:
    return {"uuid": uid(), "flavor": {"vcpus": vcpus, "memory_mb": memory_mb}, **more}


def claim_uuids(station: Station) -> set[str]:
    return set(station.agent.tracker.snapshot().claims)


def test_the_client_reaches_the_methods(station: Station):
    api, ctx = station.client(), station.context
    claim = api.instance_claim(ctx, instance(), tag="t", limits={"vcpu": 8})
    assert api.renew_claim(ctx, claim["uuid"])["state"] == "building"
    assert api.activate_claim(ctx, claim["uuid"])["state"] == "active"
    read = api.get_claim(ctx, claim["uuid"])
    assert (read["claim"]["state"], read["stale"]) == ("active", False)
    assert api.get_claims_for_instance(ctx, claim["owner_id"])["claims"] == [read["claim"]]
    assert api.get_claims_for_host(ctx)["claims"] == [read["claim"]]
    assert api.get_node(ctx, node=NODE.hypervisor_hostname)["node"]["vcpus_used"] == 1
    assert api.test_claim(ctx, instance(vcpus=7))["granted"]
    assert not api.test_claim(ctx, instance(vcpus=8))["granted"]
    api.update_usage(ctx, {"uuid": claim["owner_id"], "vm_state": "active"})
    api.build_failed(ctx)
    assert api.get_node(ctx)["node"]["stats"]["failed_builds"] == 1
    api.build_succeeded(ctx)
    assert api.get_node(ctx)["node"]["stats"]["failed_builds"] == 0
    assert api.set_service(ctx, True, "new disks")["disabled_reason"] == "new disks"
    assert api.update_available_resource(ctx)["complete"]
    assert api.sync_placement(ctx)["revision"] == api.ping(ctx)["revision"]
    assert api.ping(ctx)["version"] == VERSION
    api.release_claim(ctx, claim["uuid"])
    other = api.instance_claim(ctx, instance())
    api.abort_instance_claim(ctx, other["uuid"])
    assert claim_uuids(station) == set()


def test_arguments_may_be_values_of_the_model(shared_station: Station):
    asked = Instance(uuid=uid(), flavor=Flavor(vcpus=1, memory_mb=512))
    api, context = shared_station.client(), shared_station.context
    claim = api.instance_claim(context, asked)
    assert claim["memory_mb"] == 512
    api.release_claim(context, claim["uuid"])


def test_errors_arrive_as_they_were_raised(station: Station):
    api, ctx = station.client(attempts=1), station.context
    taken, once = instance(), uid()
    claim = api.instance_claim(ctx, taken, operation_id=once)
    ended = api.instance_claim(ctx, instance())["uuid"]
    api.release_claim(ctx, ended)
    cases: list[tuple[type[RtAgentError], str, dict]] = [
        (InvalidRequest, "instance_claim", {"instance": {"uuid": "x", "flavor": {"vcpus": -1}}}),
        (ClaimNotFound, "get_claim", {"claim_uuid": uid()}),
        (ClaimNotFound, "activate_claim", {"claim_uuid": uid()}),
        (ClaimConflict, "instance_claim", {"instance": taken}),
        (ClaimConflict, "instance_claim", {"instance": instance(), "operation_id": once}),
        (NodeNotFound, "get_node", {"node": "elsewhere"}),
        (ComputeResourcesUnavailable, "instance_claim", {"instance": instance(vcpus=9)}),
    ]
    for expected, method, arguments in cases:
        with pytest.raises(expected) as remote:
            getattr(api, method)(ctx, **arguments)
        made = {"operation_id": uid()} if METHODS[method].takes_operation_id else {}
        with pytest.raises(expected) as local:
            station.agent.invoke(method, **{**made, **arguments})
        assert type(remote.value) is expected
        assert remote.value.message == local.value.message
        assert str(remote.value) == remote.value.message
        if "operation_id" not in local.value.kwargs:
            assert remote.value.kwargs == local.value.kwargs
    reader = RequestContext(user_id="mallory", roles=["reader"], overwrite=False)
    with pytest.raises(NotAuthorized, match="release_claim needs the role conductor") as refused:
        api.release_claim(reader, claim["uuid"])
    assert refused.value.kwargs["caller"] == "mallory"
    assert claim_uuids(station) == {claim["uuid"]}


def test_retriable_errors_are_retried(station: Station):
    agent = station.agent
    agent.tracker.creation.suspend(NodeNotReady("not yet"))
    with pytest.raises(NodeNotReady, match="not yet"):
        station.client(attempts=1).instance_claim(station.context, instance())
    threading.Timer(0.3, agent.tracker.creation.suspend, (None,)).start()
    claim = station.client(attempts=30).instance_claim(station.context, instance())
    assert claim_uuids(station) == {claim["uuid"]}


def test_a_call_whose_reply_is_lost_is_repeated(rabbitmq: RabbitMQ, station_on):
    stuck, admission = threading.Event(), threading.Event()

    def block() -> None:
        stuck.set()
        admission.wait(120)

    # The first commit is that of the first audit, the second that of the claim.
    station = station_on(
        rabbitmq.transport_url,
        wrap=lambda store: FailpointStore(store, Failpoint("commit.before", 2, block)),
    )
    station.start()

    def open_when_repeated() -> None:
        stuck.wait(120)
        while len(station.agent.in_flight) < 2:
            time.sleep(0.01)
        admission.set()

    threading.Thread(target=open_when_repeated, daemon=True).start()
    claim = station.client(timeout=1.5, attempts=30).instance_claim(station.context, instance())
    assert claim_uuids(station) == {claim["uuid"]}
    assert station.agent.store.calls["commit"] == 2


def test_the_error_of_an_unanswered_call_has_its_operation_id(rabbitmq: RabbitMQ, station_on):
    admission = threading.Event()
    station = station_on(
        rabbitmq.transport_url,
        wrap=lambda store: FailpointStore(
            store, Failpoint("commit.before", 2, lambda: admission.wait(120))
        ),
    )
    station.start()
    with pytest.raises(oslo_messaging.MessagingTimeout) as lost:
        station.client(timeout=5, attempts=1).instance_claim(station.context, instance())
    (note,) = lost.value.__notes__
    admission.set()
    station.client().abort_instance_claim(station.context, note.removeprefix("operation id "))
    assert claim_uuids(station) == set()


def test_an_unexpected_error_reaches_the_caller_and_the_log(
    station: Station, caplog: pytest.LogCaptureFixture
):
    def fail(step: str) -> None:
        raise ZeroDivisionError(f"at {step}")

    station.agent.hypervisor.between = fail
    with pytest.raises(ZeroDivisionError):
        station.client().update_available_resource(station.context)
    assert any(r.exc_info and r.exc_info[0] is ZeroDivisionError for r in caplog.records)
    assert station.client().ping(station.context)["version"] == VERSION
    assert station.agent.sample("rpc_total", outcome="ZeroDivisionError") == 1


def test_expected_errors_leave_no_traceback(
    shared_station: Station, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    with pytest.raises(ClaimNotFound):
        shared_station.client().get_claim(shared_station.context, uid())
    assert not any(record.exc_info for record in caplog.records)


def test_a_client_sends_nothing_above_its_version_cap(shared_station: Station):
    transport = shared_station.transport()
    transport.conf.set_override("rtagent", "1.8", group="upgrade_levels")
    api = type(shared_station.client())(transport, shared_station.host)
    with pytest.raises(oslo_messaging.RPCVersionCapError):
        api.ping(shared_station.context)


def test_a_client_sends_the_node_that_it_means(station: Station):
    right, wrong = station.client(node_uuid=NODE.uuid), station.client(node_uuid=uid())
    claim = right.instance_claim(station.context, instance())
    with pytest.raises(NodeNotFound, match=f"is not served here: this agent serves {NODE.uuid}"):
        wrong.release_claim(station.context, claim["uuid"])
    assert claim_uuids(station) == {claim["uuid"]}
    assert wrong.ping(station.context, node_uuid=NODE.uuid)["node_uuid"] == NODE.uuid


def test_only_methods_of_the_table_can_be_called(shared_station: Station):
    for name in ("_served", "__init__", "nonsense", "_tracker"):
        with pytest.raises((oslo_messaging.RemoteError, oslo_messaging.NoSuchMethod)):
            shared_station.raw_call(name, {})


def test_a_stop_finishes_the_calls_in_flight(
    rabbitmq: RabbitMQ, station_on, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    stuck, admission = threading.Event(), threading.Event()

    def block() -> None:
        stuck.set()
        admission.wait(120)

    station = station_on(
        rabbitmq.transport_url,
        wrap=lambda store: FailpointStore(store, Failpoint("commit.before", 2, block)),
    )
    station.start()
    answers: list[dict] = []
    caller = threading.Thread(
        target=lambda: answers.append(station.client().instance_claim(station.context, instance()))
    )
    caller.start()
    assert stuck.wait(120)
    waits = "waiting for instance_claim (req-"

    def admit_when_logged() -> None:
        wait_until(lambda: any(waits in record.getMessage() for record in list(caplog.records)))
        admission.set()

    threading.Thread(target=admit_when_logged, daemon=True).start()
    assert station.server.stop(100)
    caller.join(120)
    assert {claim["uuid"] for claim in answers} == claim_uuids(station) != set()
    logged = [r.message for r in caplog.records if "stops" in r.message]
    assert any(waits in sentence for sentence in logged)


def test_a_caller_with_a_monitor_waits_for_a_slow_call(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    slow = Failpoint("commit.before", 2, lambda: time.sleep(15))
    station = station_on(
        rabbitmq.transport_url, wrap=lambda store: FailpointStore(store, slow)
    ).start()
    client = oslo_messaging.get_rpc_client(
        station.transport(),
        oslo_messaging.Target(topic="rtagent", server=station.host, version="1.0"),
        serializer=ContextSerializer(),
        timeout=120,
        call_monitor_timeout=10,
    )
    once = uid()
    claim = client.call(station.context, "instance_claim", operation_id=once, instance=instance())
    assert claim["uuid"] == once
