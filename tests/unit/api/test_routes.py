"""The documents of the read API, without a socket."""

import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import __version__
from rtagent.api.reply import document
from rtagent.api.routes import Sources, answer
from rtagent.errors import NodeNotReady
from rtagent.model.device import PciDevices, Tags
from rtagent.model.health import Check, Status
from tests.support.api_states import NODE, NOW, empty, moved, populated, sources, uuid
from tests.support.owned_hosts import devices_in_every_state
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record


def get(target: str, agent: Sources | None = None) -> tuple[HTTPStatus, dict[str, Any]]:
    reply = answer(agent or sources(), target)
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize("target", ["/claims", "/claims/unknown", "/nowhere", "/live"])
@pytest.mark.parametrize("stale", [True, False])
def test_every_document_has_revision_and_staleness(target, stale):
    _, document = get(target, sources(stale=stale))
    assert (document["revision"], document["stale"]) == (populated().revision, stale)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("/nodes/kvm-8.example", "NodeNotFound"),
        (f"/claims/{uuid(77)}", "ClaimNotFound"),
        ("/pci/0000:00:00.0", "PciDeviceNotFound"),
        ("/nodes/%2e%2e/", "NodeNotFound"),
        *((target, "NotFound") for target in ("//", "", "*", "/claims/a/b", "/claim", "/%zz")),
        ("http://x/claims/1/2", "NotFound"),
    ],
)
def test_what_is_not_there_is_a_json_error(target, error):
    status, document = get(target)
    assert (status, document["error"]) == (HTTPStatus.NOT_FOUND, error)
    assert document["retriable"] is False
    assert error != "ClaimNotFound" or document["claim_uuid"] == uuid(77)


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\x9b\u202e\x7f\x1b\u00fc\U0001f642")
def test_a_document_is_faithful_and_has_no_effect_on_a_terminal(text):
    body = document({"name": text, text: 1}).body
    assert json.loads(body) == {"name": text, text: 1}
    assert body.decode("ascii").removesuffix("\n").isprintable()


def test_a_node_has_novas_fields_and_inventories():
    status, document = get("/nodes")
    (node,) = document["nodes"]
    assert status == HTTPStatus.OK
    assert node["hypervisor_hostname"] == "kvm-7.example"
    # 1 reserved, 4 of the drifted domain (2 are claimed), 2 claimed, 3 of the orphan
    assert node["vcpus_used"] == 10
    vcpus = {"unit": "vCPUs", "total": 8, "reserved": 1, "allocation_ratio": 4.0}
    assert node["inventories"]["VCPU"] == {**vcpus, "claimable": 28, "used": 9, "free": 19}
    assert node["inventories"]["MEMORY_MB"]["free"] == 16384 - 512 - 2 * 1024 - 2048
    assert (node["claims"], node["orphans"], node["drifts"], node["suspects"]) == (2, 1, 1, 0)


def test_a_node_without_an_audit_has_no_inventories():
    _, document = get("/nodes", sources(msgspec.structs.replace(empty(), topology=None)))
    assert document["nodes"][0]["inventories"] == {}


@pytest.mark.parametrize("name", [NODE.uuid, NODE.hypervisor_hostname])
def test_a_node_is_found_by_uuid_or_name(name):
    status, document = get(f"/nodes/{name}")
    assert (status, document["node"]["uuid"]) == (HTTPStatus.OK, NODE.uuid)


def test_claims_are_listed_oldest_first_and_filtered():
    _, document = get("/claims")
    first, second = document["claims"]
    assert (first["uuid"], first["state"]) == (uuid(1), "active")
    assert (first["owner_id"], first["disk_mb"]) == (uuid(101), 10240)
    assert (second["uuid"], second["expires_at"]) == (uuid(2), "2030-01-02T03:09:07Z")
    assert get(f"/claims/{uuid(1)}")[1]["claim"] == first
    for query, found in (
        ("state=active", [first]),
        (f"instance={uuid(102)}", [second]),
        (f"instance={uuid(102)}&state=active", []),
    ):
        assert get(f"/claims?{query}")[1]["claims"] == found


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/claims?state=released", "state"),
        ("/claims?instnce=1", "instnce"),
        ("/claims?state", "state"),
        ("/claims?instance=web-1", "instance"),
        ("/migrations?status=nope", "status"),
        (f"/migrations?instance={uuid(1)}%0a", "instance"),
        ("/nodes?state=active", "state"),
        ("/claims?state=active&state=building", "state"),
    ],
)
def test_an_unknown_or_invalid_or_repeated_filter_is_an_error(target, path):
    status, document = get(target)
    assert (status, document["error"]) == (HTTPStatus.BAD_REQUEST, "InvalidRequest")
    assert [error["path"] for error in document["errors"]] == [path]


def test_migrations_are_listed_and_filtered():
    here = moved()
    _, document = get("/migrations", sources(here.state))
    first, second = document["migrations"]
    assert (first["status"], second["status"]) == ("confirmed", "preparing")
    assert (second["role"], second["dest_compute"]) == ("dest", here.state.node.host)
    for query, found in (
        ("status=confirmed", [first]),
        (f"instance={first['instance_uuid']}", [first]),
        ("status=error", []),
    ):
        assert get(f"/migrations?{query}", sources(here.state))[1]["migrations"] == found


def test_orphans_and_drift_are_listed():
    _, document = get("/orphans")
    assert [(o["name"], o["memory_mb"]) for o in document["orphans"]] == [("instance-900", 2048)]
    _, document = get("/drift")
    (drift,) = document["drift"]
    assert (drift["resource"], drift["claimed"], drift["observed"]) == ("VCPU", 2, 4)


@pytest.mark.parametrize(
    ("statuses", "whole", "code"),
    [
        (["pass", "pass"], "pass", HTTPStatus.OK),
        (["pass", "warn"], "warn", HTTPStatus.OK),
        (["fail", "warn"], "fail", HTTPStatus.SERVICE_UNAVAILABLE),
        ([], "pass", HTTPStatus.OK),
    ],
)
def test_health_is_the_status_of_the_worst_part(statuses, whole, code):
    parts = enumerate(statuses)
    checks = tuple(Check(part=f"part-{n}", status=Status(s), time=NOW) for n, s in parts)
    reply = answer(sources(checks=checks), "/health")
    document = json.loads(reply.body)
    assert (reply.status, document["status"]) == (code, whole)
    assert reply.media_type == "application/health+json"
    assert list(document["checks"]) == [check.part for check in checks]


def test_a_part_has_status_time_and_output():
    check = Check(part="hypervisor", status=Status.FAIL, time=NOW, output="no connection")
    _, document = get("/health", sources(checks=(check,)))
    assert document["checks"]["hypervisor"] == [
        {"status": "fail", "time": "2030-01-02T03:04:05Z", "output": "no connection"}
    ]


def test_live_depends_on_the_threads_of_the_process_alone():
    failed = Check(part="store", status=Status.FAIL, time=NOW)
    agent = sources(checks=(failed,), creation_error=NodeNotReady(), stale=True)
    status, document = get("/live", agent)
    assert (status, document["live"], document["hung"]) == (HTTPStatus.OK, True, [])
    status, document = get("/live", replace(agent, hung=lambda: ("audit for 400 s",)))
    assert (status, document["live"]) == (HTTPStatus.SERVICE_UNAVAILABLE, False)
    assert document["hung"] == ["audit for 400 s"]


@pytest.mark.parametrize("target", ["/health", "/ready", "/live"])
def test_probes_do_not_show_the_version(target):
    assert __version__ not in answer(sources(), target).body.decode()


def test_ready_has_the_error_of_creating_calls():
    assert get("/ready")[0] == HTTPStatus.OK
    status, document = get("/ready", sources(creation_error=NodeNotReady()))
    assert (status, document["ready"]) == (HTTPStatus.SERVICE_UNAVAILABLE, False)
    assert (document["error"], document["retriable"]) == ("NodeNotReady", True)


def test_metrics_have_the_format_of_prometheus():
    reply = answer(sources(stale=True), "/metrics")
    lines = reply.body.decode().splitlines()
    assert 'rtagent_resource_used{resource="VCPU",unit="vCPUs"} 9.0' in lines
    assert 'rtagent_claims{state="building"} 1.0' in lines
    assert 'rtagent_health{part="store",status="pass"} 1.0' in lines
    assert 'rtagent_health{part="store",status="fail"} 0.0' in lines
    assert "rtagent_stale 1.0" in lines
    assert reply.media_type.startswith("text/plain")


def test_devices_are_counted_by_status_and_by_pool():
    lines = answer(sources(devices_in_every_state()), "/metrics").body.decode().splitlines()
    numbers = {
        "available": 1, "claimed": 1, "allocated": 3, "removed": 1, "unclaimable": 1,
        "unavailable": 3,
    }  # fmt: skip
    for status, number in numbers.items():
        assert f'rtagent_pci_devices{{status="{status}"}} {number}.0' in lines
    pools = [line for line in lines if line.startswith("rtagent_pci_pool_devices{")]
    ids = 'product_id="154c",status="available",vendor_id="8086"'
    line = f'rtagent_pci_pool_devices{{dev_type="type-VF",numa_node="0",{ids}}} 1.0'
    assert line in pools
    for status, number in numbers.items():
        counted = [line for line in pools if f'status="{status}"' in line]
        assert sum(float(line.rpartition(" ")[2]) for line in counted) == number
    assert get("/nodes", sources(devices_in_every_state()))[1]["nodes"][0]["pci_devices"] == numbers


def test_pools_with_the_same_labels_are_added_up():
    alone = record([gpu(GPU_0, None)]) | record([gpu(GPU_1, None)], Tags(trusted=True))
    state = msgspec.structs.replace(empty(), devices=PciDevices(alone))
    lines = answer(sources(state), "/metrics").body.decode().splitlines()
    (pool,) = (line for line in lines if line.startswith("rtagent_pci_pool_devices{"))
    assert ('numa_node=""' in pool, pool.split()[-1]) == (True, "2.0")
