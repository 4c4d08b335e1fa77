"""The methods of a scheduler: documents, errors, and reports that are set aside."""

import json
import logging

import jsonschema
import pytest

from rtagent.errors import InvalidRequest
from rtagent.model.host_report import HostDescription, HostReport, InstanceInfo
from rtagent.model.node import Node
from rtagent.rpc import schemas
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    SyncInstanceInfo,
    UpdateInstanceInfo,
    instances_text,
    report_document,
)
from tests.support import stored_values as stored
from tests.support.hosts import uid
from tests.support.scheduler_rpc import SchedulerRpc, spec

NODE = Node(uuid=uid(), host="cn1", hypervisor_hostname="cn1", host_ip="::1")
DESCRIPTION = HostDescription(topology=stored.TOPOLOGY, policy=stored.POLICY)
REPORT = HostReport(node=NODE, epoch=1, revision=7, digest="d" * 64, description=DESCRIPTION)
METHODS = SCHEDULER_API.methods
OF_INSTANCES = {"host": "cn1", "node_uuid": NODE.uuid, "epoch": 1, "revision": 1}
INFO = InstanceInfo(uuid=uid())


@pytest.fixture
def scheduler():
    return SchedulerRpc()


def documents():
    """Arguments for every method, by name. In this order each call succeeds."""
    aggregate = {"aggregate": "fast"}
    return {
        "select_destinations": {"request_spec": spec(), "instance_uuids": [uid()]},
        "explain": {"request_spec": spec()},
        "count_room": {"request_spec": spec(), "by": "host"},
        "advise": {"flavor": "small"},
        "forget_claim": {"operation_id": uid()},
        "drop_assumed_claim": {"operation_id": uid()},
        "get_service": {"host": "cn1"},
        "force_down_service": {"host": "cn1", "forced_down": True},
        "create_aggregate": {"uuid": uid(), "name": "fast", "metadata": {"ssd": "true"}},
        "get_aggregates": {},
        "set_aggregate": {**aggregate, "metadata": {"ssd": None, "disk": "nvme"}},
        "add_host_to_aggregate": {**aggregate, "host": "cn1"},
        "remove_host_from_aggregate": {**aggregate, "host": "cn1"},
        "delete_aggregate": aggregate,
        "update_aggregates": {},
        "update_host_state": {"report": report_document(REPORT)},
        "update_instance_info": {**OF_INSTANCES, "instances": instances_text([INFO])},
        "delete_instance_info": {**OF_INSTANCES, "instance_uuid": INFO.uuid},
        "sync_instance_info": {**OF_INSTANCES, "digest": "d", "instances": instances_text([INFO])},
        "ping": {},
    }


def test_replies_are_json_and_match_their_schemas(scheduler):
    calls = documents()
    assert set(calls) == set(METHODS)
    for name, arguments in calls.items():
        reply = scheduler.invoke(name, **arguments)
        assert json.loads(json.dumps(reply)) == reply
        jsonschema.validate(reply, schemas.reply(METHODS[name]))


def test_messages_of_agents_reach_the_view_as_values(scheduler):
    for name in METHODS:
        if METHODS[name].cast:
            scheduler.invoke(name, **documents()[name])
    text = instances_text([INFO])
    assert scheduler.hosts.taken == [
        (REPORT,),
        (UpdateInstanceInfo(**OF_INSTANCES, instances=text), (INFO,)),
        (DeleteInstanceInfo(**OF_INSTANCES, instance_uuid=INFO.uuid), None),
        (SyncInstanceInfo(**OF_INSTANCES, digest="d", instances=text), (INFO,)),
    ]


def test_a_claim_that_another_scheduler_may_have_assumed_is_forgotten_by_all(scheduler):
    known, unknown = uid(), uid()
    scheduler.selecting.known.add(known)
    for each in (known, unknown):
        scheduler.invoke("forget_claim", operation_id=each)
    assert scheduler.unknown_claims == [unknown]
    scheduler.invoke("drop_assumed_claim", operation_id=unknown)  # it is not passed on again
    assert scheduler.selecting.forgotten == [known, unknown, unknown]
    assert scheduler.unknown_claims == [unknown]


def test_malformed_report_is_set_aside_counted_and_logged_once(scheduler, caplog):
    document = report_document(REPORT)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(InvalidRequest):
                scheduler.invoke("update_host_state", report={**document, "epoch": "new"})
    assert scheduler.hosts.taken == []
    assert scheduler.hosts.aside == 2 * [("cn1", NODE.uuid, "state")]
    assert scheduler.sample("rpc_total", outcome="InvalidRequest") == 2
    lines = [each.getMessage() for each in caplog.records if "$.report.epoch" in each.getMessage()]
    assert len(lines) == 1


@pytest.mark.parametrize("text", ["", "not packed", "e30=", 7, None])
def test_malformed_instances_are_set_aside(scheduler, text):
    with pytest.raises(InvalidRequest) as refused:
        scheduler.invoke("update_instance_info", **OF_INSTANCES, instances=text)
    assert {each["path"] for each in refused.value.kwargs["errors"]} == {"$.instances"}
    assert scheduler.hosts.taken == []


def test_a_report_that_does_not_say_whose_it_is_sets_no_node_aside(scheduler):
    report = report_document(REPORT)
    for node in (None, [], {**report["node"], "uuid": "x"}, {**report["node"], "host": 7}):
        with pytest.raises(InvalidRequest):
            scheduler.invoke("update_host_state", report={**report, "node": node})
    assert scheduler.hosts.aside == []
