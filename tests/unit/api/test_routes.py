"""The read API's documents, without a socket."""

import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from rtagent.api.routes import answer
from rtagent.api.sources import Sources
from rtagent.errors import NodeNotReady
from rtagent.model.health import Check, Status
from tests.unit.api.states import NODE, NOW, empty, populated, sources, uuid


def get(target: str, agent: Sources | None = None) -> tuple[HTTPStatus, dict[str, Any]]:
    reply = answer(agent or sources(), target)
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    "target",
    ["/nodes", f"/nodes/{NODE.uuid}", "/claims", "/orphans", "/drift", "/numa", "/health", "/ready",
     f"/numa/{NODE.uuid}",
     f"/claims/{uuid(1)}", "/claims/unknown", "/nodes/unknown", "/nowhere", "/claims?state=x"],
)  # fmt: skip
@pytest.mark.parametrize("stale", [True, False])
def test_every_document_carries_its_revision_and_whether_it_is_stale(target, stale):
    _, document = get(target, sources(stale=stale))
    assert (document["revision"], document["stale"]) == (populated().revision, stale)


def test_a_node_has_novas_fields_and_its_amounts_by_resource():
    status, document = get("/nodes")
    (node,) = document["nodes"]
    assert status == HTTPStatus.OK
    assert node["hypervisor_hostname"] == "kvm-7.example"
    # 1 reserved, 4 of the drifted domain (2 are claimed), 2 claimed, 3 of the orphan
    assert node["vcpus_used"] == 10
    assert node["inventories"]["VCPU"] == {
        "unit": "vCPUs",
        "total": 8,
        "reserved": 1,
        "allocation_ratio": 4.0,
        "claimable": 28,
        "used": 9,
        "free": 19,
    }
    assert node["inventories"]["MEMORY_MB"]["free"] == 16384 - 512 - 2 * 1024 - 2048
    assert (node["claims"], node["orphans"], node["drifts"], node["suspects"]) == (2, 1, 1, 0)


def test_a_node_that_has_never_been_observed_shows_no_amounts():
    _, document = get("/nodes", sources(msgspec.structs.replace(empty(), topology=None)))
    assert document["nodes"][0]["inventories"] == {}


@pytest.mark.parametrize("name", [NODE.uuid, NODE.hypervisor_hostname])
def test_a_node_is_found_by_uuid_or_name(name):
    status, document = get(f"/nodes/{name}")
    assert (status, document["node"]["uuid"]) == (HTTPStatus.OK, NODE.uuid)


def test_another_node_is_not_found():
    status, document = get("/nodes/kvm-8.example")
    assert (status, document["error"]) == (HTTPStatus.NOT_FOUND, "NodeNotFound")
    assert document["served"] == "kvm-7.example"


def test_claims_are_listed_oldest_first():
    _, document = get("/claims")
    assert [claim["uuid"] for claim in document["claims"]] == [uuid(1), uuid(2)]
    assert document["claims"][1]["expires_at"] == "2030-01-02T03:09:07Z"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=active", [1]),
        ("state=building", [2]),
        (f"instance={uuid(102)}", [2]),
        (f"instance={uuid(102)}&state=active", []),
        (f"instance={uuid(999)}", []),
    ],
)
def test_claims_are_filtered(query, expected):
    _, document = get(f"/claims?{query}")
    assert [claim["uuid"] for claim in document["claims"]] == [uuid(n) for n in expected]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/claims?state=released", "state"),
        ("/claims?instnce=1", "instnce"),
        ("/claims?state", "state"),
        ("/nodes?state=active", "state"),
    ],
)
def test_a_filter_that_would_be_ignored_is_an_error(target, path):
    status, document = get(target)
    assert (status, document["error"]) == (HTTPStatus.BAD_REQUEST, "InvalidRequest")
    assert [error["path"] for error in document["errors"]] == [path]


def test_a_claim_is_shown_whole():
    _, document = get(f"/claims/{uuid(1)}")
    claim = document["claim"]
    assert (claim["state"], claim["owner_id"], claim["disk_mb"]) == ("active", uuid(101), 10240)
    assert claim["instance"]["display_name"] == "vm-1"


def test_a_claim_that_never_was_is_not_found():
    status, document = get(f"/claims/{uuid(77)}")
    assert (status, document["error"]) == (HTTPStatus.NOT_FOUND, "ClaimNotFound")
    assert document["claim_uuid"] == uuid(77)


def test_orphans_and_drift():
    _, document = get("/orphans")
    assert [(o["name"], o["memory_mb"]) for o in document["orphans"]] == [("instance-900", 2048)]
    _, document = get("/drift")
    assert [(d["resource"], d["claimed"], d["observed"]) for d in document["drift"]] == [
        ("VCPU", 2, 4)
    ]


@pytest.mark.parametrize(
    ("statuses", "whole", "code"),
    [
        (["pass", "pass"], "pass", HTTPStatus.OK),
        (["pass", "warn"], "warn", HTTPStatus.OK),
        (["fail", "warn"], "fail", HTTPStatus.SERVICE_UNAVAILABLE),
        ([], "pass", HTTPStatus.OK),
    ],
)
def test_health_is_that_of_the_worst_part(statuses, whole, code):
    checks = tuple(
        Check(part=f"part-{n}", status=Status(s), time=NOW) for n, s in enumerate(statuses)
    )
    reply = answer(sources(checks=checks), "/health")
    document = json.loads(reply.body)
    assert (reply.status, document["status"]) == (code, whole)
    assert reply.media_type == "application/health+json"
    assert list(document["checks"]) == [check.part for check in checks]


def test_a_part_says_since_when_and_why():
    check = Check(part="hypervisor", status=Status.FAIL, time=NOW, output="no connection")
    _, document = get("/health", sources(checks=(check,)))
    assert document["checks"]["hypervisor"] == [
        {"status": "fail", "time": "2030-01-02T03:04:05Z", "output": "no connection"}
    ]


def test_ready_says_what_creating_calls_are_answered():
    assert get("/ready")[0] == HTTPStatus.OK
    status, document = get("/ready", sources(held_back=NodeNotReady()))
    assert (status, document["ready"]) == (HTTPStatus.SERVICE_UNAVAILABLE, False)
    assert (document["error"], document["retriable"]) == ("NodeNotReady", True)


def test_metrics_are_prometheus_text():
    reply = answer(sources(stale=True), "/metrics")
    lines = reply.body.decode().splitlines()
    assert 'rtagent_resource_used{resource="VCPU",unit="vCPUs"} 9.0' in lines
    assert 'rtagent_claims{state="building"} 1.0' in lines
    assert 'rtagent_health{part="store",status="pass"} 1.0' in lines
    assert 'rtagent_health{part="store",status="fail"} 0.0' in lines
    assert "rtagent_stale 1.0" in lines
    assert reply.media_type.startswith("text/plain")


@pytest.mark.parametrize(
    "target",
    ["/", "", "*", "/claims/a/b", "/claim", "http://x/claims/1/2", "/%zz", "/nodes/%2e%2e/"],
)
def test_what_is_nowhere_is_said_in_json(target):
    status, document = get(target)
    assert (status, document["retriable"]) == (HTTPStatus.NOT_FOUND, False)
    assert document["error"] in ("NotFound", "NodeNotFound")
