"""Tests of claims, and reads of the snapshot and of the read API's documents."""

from http import HTTPStatus

import pytest

from rtagent.api.reply import Reply
from rtagent.errors import AllocationMismatch, ClaimNotFound, InvalidRequest, StoreUnavailable
from rtagent.rpc.errors import DocumentTooLarge
from rtagent.rpc.read_endpoint import MAX_DOCUMENT
from tests.support.hosts import NODE, uid
from tests.support.rpc import Agent, attach, build, migration


def test_a_test_of_kind_attach_predicts_the_claim(agent: Agent):
    guest = build()
    asked = attach(guest["instance"])
    tested = {**asked, "kind": "attach"}
    del tested["operation_id"]
    with pytest.raises(ClaimNotFound):
        agent.invoke("test_claim", **tested)
    agent.invoke("instance_claim", **guest)
    had = {NODE.uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 1024}}}
    with pytest.raises(AllocationMismatch):
        agent.invoke("test_claim", **tested, allocations=had, provider_mapping={"gpu": [uid()]})
    before = agent.tracker.snapshot()
    verdict = agent.invoke("test_claim", **tested)
    assert agent.tracker.snapshot() is before
    claim = agent.invoke("claim_pci_devices", **asked)
    assert verdict["claim"]["kind"] == "attach"
    assert verdict["claim"]["pci"] == claim["pci"] != []
    many = {**tested, "pci_requests": [{"count": 4, "alias_name": "vf"}]}
    verdict = agent.invoke("test_claim", **many)
    assert [(each["requested"], each["available"]) for each in verdict["reasons"]] == [(4, 3)]


ONE_VF = [{"count": 1, "alias_name": "vf"}]
BIGGER = {"vcpus": 9, "memory_mb": 1024}


LIVE = {"kind": "live-migration", "flavor": BIGGER, "image": {}}
RESIZED = {"kind": "evacuation", "migration": migration("resize")}
LIMITED = {"kind": "attach", "pci_requests": ONE_VF, "limits": {}, "source": {}}


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"kind": "attach"}, ["pci_requests: is required for kind attach"]),
        ({"pci_requests": ONE_VF}, ["pci_requests: is not for kind build"]),
        ({"flavor": BIGGER}, ["flavor: is not for kind build"]),
        ({"kind": "resize"}, ["flavor: is required for kind resize"]),
        ({"kind": "evacuation", "flavor": BIGGER}, ["flavor: is not for kind evacuation"]),
        (LIVE, [f"{name}: is not for kind live-migration" for name in ("flavor", "image")]),
        (RESIZED, ["migration.migration_type: must be evacuation"]),
        (LIMITED, [f"{name}: is not for kind attach" for name in ("limits", "source")]),
    ],
)
def test_a_test_takes_the_arguments_of_its_kind(agent: Agent, asked, wrong):
    with pytest.raises(InvalidRequest) as refused:
        agent.invoke("test_claim", instance=build()["instance"], **asked)
    errors = refused.value.kwargs["errors"]
    assert [f"{each['path']}: {each['message']}" for each in errors] == [f"$.{w}" for w in wrong]


@pytest.mark.parametrize(
    ("kind", "more"),
    [("resize", {"flavor": BIGGER}), ("live-migration", {}), ("evacuation", {"image": {}})],
)
def test_a_test_of_a_move_needs_no_migration(agent: Agent, kind, more):
    verdict = agent.invoke("test_claim", instance=build()["instance"], kind=kind, **more)
    assert verdict["granted"] == (kind != "resize")


def test_reads_have_revision_and_staleness(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    revision = agent.tracker.snapshot().revision
    reads = {
        "get_claim": {"claim_uuid": claim["uuid"]},
        "get_claims_for_instance": {"instance_uuid": claim["owner_id"]},
        "get_claims_for_host": {},
        "get_node": {},
    }
    fresh = {name: agent.invoke(name, **given) for name, given in reads.items()}
    agent.store.fail(StoreUnavailable, times=None)
    with pytest.raises(StoreUnavailable):
        agent.invoke("instance_claim", **build())
    for name, given in reads.items():
        assert (fresh[name]["revision"], fresh[name]["stale"]) == (revision, False)
        assert agent.invoke(name, **given) == {**fresh[name], "stale": True}
    assert fresh["get_claim"]["claim"] == claim
    assert fresh["get_claims_for_host"]["claims"] == [claim]
    assert fresh["get_node"]["node"]["vcpus_used"] == 1


def test_claims_are_read_oldest_first(agent: Agent):
    made = []
    for _ in range(3):
        agent.clock.advance(1)
        made.append(agent.invoke("instance_claim", **build())["uuid"])
    read = agent.invoke("get_claims_for_host")["claims"]
    assert [claim["uuid"] for claim in read] == made
    assert agent.invoke("get_claims_for_instance", instance_uuid=uid())["claims"] == []


def test_an_error_of_the_read_api_is_a_document():
    agent = Agent()
    agent.document = Reply(status=HTTPStatus.NOT_FOUND, body=b'{"error": "ClaimNotFound"}')
    reply = agent.invoke("get_document", path="/claims/x")
    assert reply == {"status": 404, "body": '{"error": "ClaimNotFound"}'}


def test_document_over_the_limit_is_refused_with_sizes_and_remedy():
    agent = Agent()
    agent.document = Reply(body=b"x" * MAX_DOCUMENT)
    assert len(agent.invoke("get_document", path="/claims")["body"]) == MAX_DOCUMENT
    agent.document = Reply(body=b"x" * (MAX_DOCUMENT + 1))
    with pytest.raises(DocumentTooLarge, match="use a filter") as refused:
        agent.invoke("get_document", path="/claims")
    assert refused.value.kwargs["size"] == MAX_DOCUMENT + 1
