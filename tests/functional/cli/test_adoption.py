"""rtagent orphan adopt, on a host that runs many guests without a claim."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rtagent.virt.simulate import Machine, edit, host_uri, simulate
from tests.functional.cli.shell import Run, serving
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon
from tests.support.claims import domain_document, hostdev, metadata, pinned_parts
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS

#: 256 CPUs: of each core the threads N and N + 128; cores 0 to 63 are on cell 0.
MACHINE = Machine(
    sockets=2, cores=64, threads=2, memory_mb=524288, pages={2048: 8192}, gpus=2, hostname="full"
)
CONFIG: dict[str, dict[str, Any]] = {
    "compute": {"cpu_dedicated_set": "8-63,72-127", "cpu_shared_set": "0-7,64-71,128-255"},
    "pci": {"device_spec": json.dumps([GPU_IDS]), "alias": json.dumps({"name": "gpu", **GPU_IDS})},
}
PINNED, GUESTS = 56, 80
LAST = str(UUID(int=1000 + GUESTS - 1))
SHUT_OFF, SHARING, UNMANAGED = (str(UUID(int=9000 + number)) for number in range(3))
_OFF = "<test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>5</test:runstate>"


def guests() -> Iterator[str]:
    """Documents of the guests that can be adopted: pinned ones with pages, ones with a GPU, and
    ones that share CPUs, with and without Nova's metadata."""
    of_alias = metadata(extra_specs={"pci_passthrough:alias": "gpu:1"}, volume=True, swap_mb=0)
    for number in range(GUESTS):
        uuid = str(UUID(int=1000 + number))
        if number < PINNED:
            first = 8 + 2 * number + 8 * (number // 28)
            cell, cpus = number // 28, [first + 1, first]
            yield domain_document(uuid, 2, 1024, pinned_parts(cell, cpus, 1024, 2048))
        elif number < PINNED + 2:
            gpu = hostdev((GPU_0, GPU_1)[number - PINNED])
            yield domain_document(uuid, 2, 1024, of_alias, devices=gpu)
        elif number % 2:
            own = metadata(f"web-{number}", volume=True, swap_mb=0)
            yield domain_document(uuid, 2, 1024, own)
        else:
            yield domain_document(uuid, 1, 512)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("adoption")
    file = directory / "host.xml"
    simulate(file, MACHINE)
    with edit(file) as world:
        for document in guests():
            world.add_domain(document)
        world.add_domain(domain_document(SHUT_OFF, 1, 512, _OFF))
        world.add_domain(domain_document(SHARING, 1, 512, pinned_parts(0, [8], 512)))
        world.add_domain(domain_document(UNMANAGED, 1, 512, "<vcpu cpuset='6-9'>1</vcpu>"))
    config = CONFIG
    with Daemon(
        directory, rabbitmq_server.transport_url, uri=host_uri(file), config=config
    ) as daemon:
        yield serving(daemon)


def used(agent: Daemon) -> dict[str, Any]:
    """What the node and its cells count as used."""
    (node,) = agent.read("nodes")["nodes"]
    fields = ("vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb")
    return {name: node[name] for name in fields}


def results(outcome: Any) -> dict[str, str]:
    return {each["domain_uuid"]: each["result"] for each in outcome.json}


def test_running_guests_become_claims_and_the_usage_stays(rtagent: Run, agent: Daemon) -> None:
    before = used(agent)
    assert len(agent.read("orphans")["orphans"]) == GUESTS + 3

    planned = rtagent("orphan", "adopt", "--all", "--dry-run", "-f", "json")
    assert planned.code == 6
    assert list(results(planned).values()).count("would be adopted") == GUESTS + 1
    assert rtagent("claim", "list", "-f", "json").json == []

    done = rtagent("orphan", "adopt", "--all", "-f", "json")
    assert done.code == 6, done.err
    found = {each["domain_uuid"]: each for each in done.json}
    assert list(results(done).values()).count("adopted") == GUESTS
    assert SHUT_OFF not in found
    assert "PCPU 8 has two owners" in found[SHARING]["notes"][0]
    assert "cpu_dedicated_set" in found[UNMANAGED]["notes"][0]

    pinned = found[str(UUID(int=1000))]
    assert (pinned["host_cpus"], pinned["pages"]) == (["0:9 1:8"], ["512 of 2048 KiB at cell 0"])
    assert found[str(UUID(int=1000 + PINNED))]["devices"] == [GPU_0]
    named = found[str(UUID(int=1000 + PINNED + 3))]
    assert (named["flavor"], named["project_id"]) == ("m1.web", "p-1")

    assert used(agent) == before
    assert rtagent("audit", "run").code == 0
    assert rtagent("drift", "list", "-f", "json").json == []
    assert len(rtagent("claim", "list", "-f", "json").json) == GUESTS
    assert used(agent) == before

    again = rtagent("orphan", "adopt", "--all", "-f", "json")
    assert results(again) == {SHARING: "not adopted", UNMANAGED: "not adopted"}
    mine = rtagent("orphan", "adopt", str(UUID(int=1000)), "-f", "json")
    assert (mine.code, results(mine)) == (0, {str(UUID(int=1000)): "claimed"})
    assert mine.json[0]["claim_uuid"] == pinned["claim_uuid"]
    history = rtagent("claim", "history", pinned["claim_uuid"], "-f", "json").json
    assert [event["action"] for event in history] == ["adopt"]

    agent.kill()
    serving(agent.start())
    assert len(rtagent("claim", "list", "-f", "json").json) == GUESTS
    assert used(agent) == before


def test_the_claim_of_a_running_guest_is_released_by_force_only(rtagent: Run) -> None:
    (claim,) = rtagent("claim", "list", "--instance", LAST, "-f", "json").json
    uuid = claim["uuid"]
    for method in ("release", "abort"):
        for options in ((), ("--dry-run",)):
            refused = rtagent("claim", method, uuid, *options)
            assert refused.code == 6
            assert "runs here: stop it, or release the claim with --force" in refused.err
        bare = rtagent("claim", method, uuid, "--force")
        assert (bare.code, f"claim {method}: --force: needs a --reason" in bare.err) == (2, True)
    forced = ("--force", "--reason", "it is moved\x1b by hand")
    tested = rtagent("claim", "release", uuid, *forced, "--dry-run")
    assert (tested.code, f"claim {uuid} of instance" in tested.err) == (0, True)
    assert "would be released: 2 vCPUs, 0 CPUs, 1024 MB" in tested.err
    assert rtagent("claim", "show", uuid).code == 0

    assert rtagent("claim", "release", uuid, *forced).code == 0
    history = rtagent("claim", "history", uuid, "-f", "json").json
    assert {each["action"]: each["reason"] for each in history}["release"] == forced[-1]
    assert rtagent("claim", "release", uuid, "--dry-run").code == 5
    again = rtagent("orphan", "adopt", LAST, "-f", "json")
    assert results(again) == {LAST: "adopted"}


def test_a_guest_that_is_shut_off_is_adopted_on_request(rtagent: Run, agent: Daemon) -> None:
    before = used(agent)
    tested = rtagent("orphan", "adopt", SHUT_OFF, "--shut-off", "--dry-run", "-f", "json")
    assert (tested.code, results(tested)) == (0, {SHUT_OFF: "would be adopted"})
    done = rtagent("orphan", "adopt", "--all", "--shut-off", "-f", "json")
    assert results(done).pop(SHUT_OFF) == "adopted"
    (claim,) = rtagent("claim", "list", "--instance", SHUT_OFF, "-f", "json").json
    assert claim["state"] == "active"
    after = used(agent)
    assert after["memory_mb_used"] == before["memory_mb_used"] + 512
    assert after["vcpus_used"] == before["vcpus_used"] + 1
    assert rtagent("audit", "run").code == 0
    assert rtagent("drift", "list", "-f", "json").json == []
    again = rtagent("orphan", "adopt", "--all", "--shut-off", "-f", "json")
    assert set(results(again).values()) == {"not adopted"}
    named = rtagent("orphan", "adopt", SHUT_OFF, "--shut-off", "-f", "json")
    assert (named.code, results(named)) == (0, {SHUT_OFF: "claimed"})
    assert used(agent) == after
    assert rtagent("claim", "release", claim["uuid"]).code == 0
    assert rtagent("audit", "run").code == 0
    assert used(agent) == before


def test_flavors_of_a_file_are_claimed(rtagent: Run, tmp_path: Path) -> None:
    file = tmp_path / "flavors.yaml"
    file.write_text(f"{SHUT_OFF}: {{vcpus: 1, memory_mb: 512, root_gb: 7}}\n")
    refused = rtagent("orphan", "adopt", SHUT_OFF, "--flavor-from", str(file), "-f", "json")
    assert refused.code == 6
    assert refused.json[0]["notes"] == [
        "it is shut off and uses nothing: start it first, or adopt it with --shut-off"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a list", "Expected `object`"),
        (f"{SHUT_OFF}: {{vcpus: 0, memory_mb: 1}}", ">= 1"),
        ("{", "flow node"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_of_flavors_is_named(rtagent, tmp_path, text, sentence):
    file = tmp_path / "flavors.yaml"
    if text is not None:
        file.write_text(text)
    outcome = rtagent("orphan", "adopt", "--all", "--flavor-from", str(file))
    assert outcome.code == 2
    assert sentence in outcome.err and str(file) in outcome.err
    assert outcome.err.count("\n") == 1


def test_domains_are_named_once_and_by_uuid(rtagent):
    for arguments in ((), ("--all", SHUT_OFF), ("not-a-uuid",)):
        outcome = rtagent("orphan", "adopt", *arguments)
        assert outcome.code == 2
        assert "orphan adopt" in outcome.err
