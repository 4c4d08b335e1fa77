"""rtagent and a daemon: claims, audits, services, and the removal of the node."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rtagent.virt.simulate import domain_xml, edit
from tests.functional.cli.shell import Run, run, serving
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon

SMALL = ["--vcpus", "2", "--memory", "1024", "--root-gb", "1"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("agent")
    config = {"DEFAULT": {"report_interval": 1, "service_down_time": 3600}}
    with Daemon(directory, rabbitmq_server.transport_url, config=config) as daemon:
        yield serving(daemon)


@pytest.fixture
def claim(rtagent: Run) -> Iterator[str]:
    """Return the uuid of a building claim, which is released at the end."""
    created = rtagent("claim", "create", "--instance", str(uuid4()), *SMALL, "-f", "json")
    assert created.code == 0, created.err
    yield created.json["uuid"]
    assert rtagent("claim", "release", created.json["uuid"]).code == 0


def test_the_doctor_finds_nothing_wrong(rtagent):
    found = {each["check"]: each for each in rtagent("doctor", "-f", "json").json}
    passed = ("configuration", "database", "clock", "libvirt", "message broker")
    assert {found[title]["result"] for title in passed} == {"pass"}, found
    assert found["lock"]["details"].startswith("process ")
    assert found["agent"]["result"] in ("pass", "warn")


def test_a_command_names_the_node_of_its_state_directory(agent, claim, tmp_path):
    """The host name of its configuration leads to an agent of another node."""
    (tmp_path / "compute_id").write_text(f"{uuid4()}\n")
    config = tmp_path / "rtagent.conf"
    config.write_text(
        agent.config_file.read_text()
        .replace(f"state_path = {agent.directory}", f"state_path = {tmp_path}")
        .replace("[libvirt]", f"[api]\naddress = {agent.address.path}\n[libvirt]")
    )
    refused = run("--config-file", str(config), "claim", "release", claim)
    assert refused.code == 5
    served = (agent.directory / "compute_id").read_text().strip()
    assert f"is not served here: this agent serves {served}" in refused.err
    assert agent.read("claims", claim)["claim"]["state"] == "building"


def test_the_commands_of_a_claims_life(rtagent):
    instance, operation = str(uuid4()), str(uuid4())
    request = ["--instance", instance, *SMALL, "--name", "vm", "--project", "p", "--tag", "own"]
    created = rtagent("claim", "create", *request, "--operation-id", operation, "-f", "json").json
    assert (created["uuid"], created["state"], created["memory_mb"]) == (
        operation,
        "building",
        1024,
    )
    assert (created["display_name"], created["project_id"], created["tag"]) == ("vm", "p", "own")
    repeated = rtagent("claim", "create", *request, "--operation-id", operation, "-f", "json")
    assert repeated.json == created

    assert rtagent("claim", "show", operation, "-f", "json").json == created
    renewed = rtagent("claim", "renew", operation, "-f", "json").json
    assert renewed["expires_at"] >= created["expires_at"]
    assert rtagent("claim", "activate", operation, "-f", "json").json["state"] == "active"
    released = rtagent("claim", "release", operation)
    assert (released.code, released.out) == (0, "")
    assert released.err == f"rtagent: claim {operation} is released\n"
    assert rtagent("claim", "release", operation).code == 0
    mistaken = rtagent("claim", "release", instance)
    assert (mistaken.code, f"no claim {instance} is known" in mistaken.err) == (5, True)

    assert rtagent("claim", "show", operation).code == 5
    history = rtagent("claim", "history", operation, "-f", "json").json
    events = [event for event in history if event["actor"] != "audit"]
    assert [e["action"] for e in events] == ["create", "renew", "activate", "release"]
    assert [e["before"] for e in events] == [None, "building", "building", "active"]
    assert all(e["actor"] and e["request_id"].startswith("req-") for e in events)
    actions = rtagent("claim", "history", operation, "-f", "json", "-c", "action").json
    assert actions == [{"action": event["action"]} for event in history]
    unknown = rtagent("claim", "history", instance)
    assert (unknown.code, f"no claim {instance} is known" in unknown.err) == (5, True)


def test_a_claim_is_created_from_a_file(rtagent, tmp_path):
    file = tmp_path / "request.json"
    instance = {"uuid": str(uuid4()), "flavor": {"vcpus": 1, "memory_mb": 64}}
    file.write_text(json.dumps({"instance": instance, "tag": "from a file"}))
    created = rtagent("claim", "create", "--request", str(file), "-f", "json").json
    assert (created["instance_uuid"], created["tag"]) == (instance["uuid"], "from a file")
    aborted = rtagent("claim", "abort", created["uuid"])
    assert (aborted.code, aborted.out) == (0, "")
    assert aborted.err == f"rtagent: claim {created['uuid']} is aborted\n"
    assert rtagent("claim", "list", "--instance", instance["uuid"]).err == "rtagent: no claims\n"


@pytest.mark.parametrize("verb", ["create", "test"])
def test_a_refusal_lists_all_reasons_smallest_shortfall_first(rtagent, verb):
    request = ["--instance", str(uuid4()), "--vcpus", "64", "--memory", str(2**30)]
    refused = rtagent("claim", verb, *request, "-f", "json")
    assert refused.code == 3
    reasons = [(r["resource"], r["requested"], r["available"], r["unit"]) for r in refused.json]
    assert reasons == [("VCPU", 64, 32, "vCPUs"), ("MEMORY_MB", 2**30, 65536, "MB")]
    assert refused.err.startswith("rtagent: refused: VCPU: 64 vCPUs requested")
    table = rtagent("claim", verb, *request)
    assert (table.code, table.out.index("VCPU") < table.out.index("MEMORY_MB")) == (3, True)
    assert rtagent("claim", "list").out == ""


@pytest.mark.parametrize("verb", ["create", "test"])
def test_a_claim_follows_its_allocation(rtagent, verb):
    node = rtagent("node", "show", "-f", "json").json["uuid"]
    request = ["--instance", str(uuid4()), *SMALL, "--allocation"]
    followed = rtagent("claim", verb, *request, f"rp={node},VCPU=2,MEMORY_MB=1024,DISK_GB=1")
    assert followed.code == 0
    assert f"{node}: DISK_GB=1, MEMORY_MB=1024, VCPU=2" in followed.out
    if verb == "create":
        uuid = rtagent("claim", "list", "-f", "value", "-c", "uuid").out.strip()
        assert rtagent("claim", "release", uuid).code == 0
    other = rtagent("claim", verb, *request, f"rp={node},VCPU=1,MEMORY_MB=1024,DISK_GB=1")
    assert (other.code, other.out) == (2, "")
    assert "VCPU of this node's providers: 1 allocated, 2 needed" in other.err
    assert rtagent("claim", "list").out == ""


def test_errors_of_the_agent_give_their_exit_codes(rtagent, claim):
    owner = rtagent("claim", "show", claim, "-f", "value", "-c", "instance_uuid").out.strip()
    conflict = rtagent("claim", "create", "--instance", owner, *SMALL)
    assert (conflict.code, claim in conflict.err) == (6, True)
    invalid = rtagent("claim", "create", "--instance", "x", "--vcpus", "1")
    assert (invalid.code, "--memory" in invalid.err, "--instance" in invalid.err) == (2, True, True)
    assert rtagent("claim", "activate", str(uuid4())).code == 5
    for outcome in (conflict, invalid):
        assert (outcome.out, outcome.err.count("\n")) == ("", 1)


def test_audit_run_shows_what_the_audit_found(rtagent, agent):
    orphan = str(uuid4())
    with edit(agent.host_file) as host:
        host.add_domain(domain_xml(orphan, vcpus=3, memory_mb=256))
    try:
        audit = rtagent("audit", "run", "-f", "json").json
        assert (audit["orphans"], audit["complete"]) == (1, True)
        assert audit["summary"].startswith("audit (request): ")
        (listed,) = rtagent("orphan", "list", "-f", "json").json
        assert (listed["domain_uuid"], listed["vcpus"]) == (orphan, 3)
        assert rtagent("node", "show", "-f", "json").json["orphans"] == 1
    finally:
        with edit(agent.host_file) as host:
            host.remove_domain(orphan)
        rtagent("audit", "run")
    assert rtagent("orphan", "list", "-f", "json").json == []


def test_a_service_is_disabled_with_a_reason_and_enabled(rtagent):
    disabled = rtagent("service", "disable", "--reason", "new disks")
    assert disabled == (0, "", "rtagent: agent1 is disabled: new disks\n")
    (service,) = rtagent("service", "list", "-f", "json").json
    assert (service["host"], service["state"]) == ("agent1", "up")
    assert (service["disabled"], service["disabled_reason"]) == (True, "new disks")
    assert rtagent("service", "enable") == (0, "", "rtagent: agent1 is enabled\n")
    (service,) = rtagent("service", "list", "-f", "json").json
    assert (service["disabled"], service["disabled_reason"]) == (False, None)


def test_offline_reads_show_the_same(rtagent, claim):
    for command in (["node", "show"], ["claim", "list", "--long"], ["claim", "show", claim]):
        online = rtagent(*command, "-f", "json").json
        assert rtagent("--offline", *command, "-f", "json").json == online


def test_the_environment_may_name_the_configuration(agent):
    program = Path(sys.executable).with_name("rtagent")
    done = subprocess.run(
        [program, "node", "list", "-f", "json"],
        env={**os.environ, "RTAGENT_CONFIG_FILE": str(agent.config_file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["hypervisor_hostname"] == "simulated-host"


def test_a_node_is_removed_once_it_has_no_claims_and_no_agent(tmp_path: Path, rabbitmq: RabbitMQ):
    config = {"DEFAULT": {"service_down_time": 2, "report_interval": 1, "host": "agent2"}}
    with Daemon(tmp_path, rabbitmq.transport_url, config=config) as daemon:

        def rtagent(*argv: str):
            return run("--config-file", str(daemon.config_file), *argv)

        serving(daemon)
        request = ["--instance", str(uuid4()), *SMALL, "-f", "value", "-c", "uuid"]
        claim = rtagent("claim", "create", *request).out.strip()
        refused = rtagent("node", "remove", "simulated-host")
        assert (refused.code, "1 live claims: release them" in refused.err) == (6, True)
        rtagent("claim", "release", claim)
        daemon.configure({"DEFAULT": {"service_down_time": 3600}})
        up = rtagent("node", "remove", "simulated-host")
        assert (up.code, "stop it" in up.err) == (6, True)
        assert daemon.terminate() == 0

        daemon.configure({"DEFAULT": {"service_down_time": 2}})
        unreachable = rtagent("--timeout", "1", "claim", "release", claim)
        assert (unreachable.code, "rtagent.agent2" in unreachable.err) == (4, True)
        assert rtagent("node", "remove", "other").code == 5
        remove = ("node", "remove", "simulated-host")
        while (tested := rtagent(*remove, "--dry-run")).code == 6:
            assert "stop it, and wait" in tested.err
            time.sleep(0.1)
        assert (tested.code, "would be removed" in tested.err) == (0, True)
        removed = rtagent(*remove)
        assert (removed.code, removed.out) == (0, ""), removed.err
        assert rtagent("node", "remove", "simulated-host").code == 5
        gone = rtagent("--offline", "node", "list")
        assert (gone.code, "has no node" in gone.err) == (1, True)
        history = rtagent("claim", "history", claim, "-f", "json").json
        assert [event["action"] for event in history] == ["create", "release"]

        daemon.start().wait_ready()
        assert rtagent("node", "list", "-f", "json").json[0]["claims"] == 0
        assert len(rtagent("--offline", "node", "list", "-f", "json").json) == 1


def test_a_missing_database_is_not_created(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    outcome = run("--config-file", str(file), "--offline", "node", "list")
    assert (outcome.code, outcome.out) == (4, "")
    assert "does not exist: rtagentd creates it at its first start" in outcome.err
    assert sorted(tmp_path.iterdir()) == [file]


def test_the_removal_of_a_node_with_a_database_of_its_own_names_its_host(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\nservice_down_time = 60\n")
    remove = ("--config-file", str(file), "node", "remove", "hv1")
    without_file = run(*remove)
    assert run("--config-file", str(file), "db", "sync").code == 0
    without_node = run(*remove)
    assert (without_file.code, without_node.code) == (4, 5)
    for refused in without_file, without_node:
        assert "run the command on its host" in refused.err
        assert "schedulers drop a host after 3600 s" in refused.err


def test_a_database_without_a_schema_names_the_remedy(tmp_path):
    (tmp_path / "rtagent.sqlite").touch()
    file = tmp_path / "rtagent.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    outcome = run("--config-file", str(file), "service", "list")
    assert (outcome.code, "rtagent db sync" in outcome.err) == (1, True)
