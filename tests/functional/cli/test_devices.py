"""rtagent and a daemon on a host with two GPUs and a network card: owners of devices, quarantine,
and the devices of a claim."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.functional.cli.shell import Run, serving
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, PF_0, PF_IDS, VF_IDS, vf
from tests.support.provider_files import CLASS, entry, write

ALIASES = [
    {"name": "gpu", **GPU_IDS, "device_type": "type-PCI"},
    {"name": "vf", **VF_IDS, "device_type": "type-VF"},
]
SPECS = [GPU_IDS, PF_IDS, {**VF_IDS, "physical_network": "physnet1"}]
UNKNOWN = "0000:00:00.0"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("devices")
    file = directory / "host.xml"
    simulate(file, Machine(gpus=2, nics=1, vfs=2))
    write(directory / "providers", "a.yaml", entry(None, {CLASS: {"total": 3}}))
    made = Daemon(
        directory,
        rabbitmq_server.transport_url,
        uri=host_uri(file),
        config={
            "pci": {"device_spec": json.dumps(SPECS), "alias": json.dumps(ALIASES)},
            "compute": {"provider_config_location": directory / "providers"},
        },
    )
    with made as daemon:
        yield serving(daemon)


def requesting(aliases: str) -> list[str]:
    flavor = ["--vcpus", "1", "--memory", "64", "--property", f"pci_passthrough:alias={aliases}"]
    return ["--instance", str(uuid4()), "--name", "vm", *flavor]


def by_address(rtagent: Run, column: str, *options: str) -> dict[str, str]:
    listed = rtagent(*options, "pci", "list", "-f", "json").json
    return {device["address"]: device[column] for device in listed}


def test_pci_list_shows_the_devices_of_the_host(rtagent, agent):
    addresses = [GPU_0, PF_0, vf(0), vf(1), GPU_1]
    assert by_address(rtagent, "status") == dict.fromkeys(addresses, "available")
    assert by_address(rtagent, "dev_type")[PF_0] == "type-PF"
    shown = rtagent("pci", "show", vf(1), "-f", "json").json
    assert (shown["parent_addr"], shown["tags"]) == (PF_0, {"physical_network": "physnet1"})
    ports = {each["address"]: each["root_port"] for each in agent.read("pci")["pci"]}
    behind = {GPU_0: "0000:00:01.0", GPU_1: "0000:80:01.0", vf(1): "0000:00:04.0"}
    assert ports.items() >= behind.items()


def test_a_claim_gets_the_devices_that_its_flavor_requests(rtagent):
    created = rtagent("claim", "create", *requesting("gpu:1,vf:1"), "-f", "json").json
    try:
        devices = {device["alias_name"]: device["address"] for device in created["pci"]}
        assert devices == {"gpu": GPU_0, "vf": vf(0)}
        table = rtagent("claim", "show", created["uuid"], "-c", "pci")
        assert f"{GPU_0} 10de:13f1 type-PCI, NUMA node 0, for gpu" in table.out

        assert by_address(rtagent, "status") == {
            GPU_0: "claimed",
            GPU_1: "available",
            PF_0: "unclaimable",
            vf(0): "claimed",
            vf(1): "available",
        }
        assert by_address(rtagent, "status", "--offline") == by_address(rtagent, "status")
        gpu = rtagent("pci", "show", GPU_0, "-f", "json").json
        assert (gpu["name"], gpu["claim_uuid"]) == ("vm", created["uuid"])
        assert f"virtual function {vf(0)} is held by" in by_address(rtagent, "reason")[PF_0]
        node = rtagent("node", "show", "-f", "json").json
        assert (node["pci_devices"]["claimed"], node["pci_devices"]["available"]) == (2, 2)
        assert sum(pool["count"] for pool in node["pci_device_pools"]) == 2
    finally:
        rtagent("claim", "release", created["uuid"])
    assert set(by_address(rtagent, "status").values()) == {"available"}


def test_a_claim_holds_an_quantity_of_what_a_provider_file_offers(agent, rtagent):
    flavor = ["--vcpus", "1", "--memory", "64", "--property", f"resources:{CLASS}=2"]
    created = rtagent("claim", "create", "--instance", str(uuid4()), *flavor, "-f", "json").json
    try:
        (quantity,) = created["quantities"]
        assert (quantity["resource_class"], quantity["quantity"]) == (CLASS, 2)
        agent.kill()
        serving(agent.start())
        shown = rtagent("claim", "show", created["uuid"], "-c", "quantities").out
        assert f"{CLASS}=2 of {quantity['provider']}" in shown
        refused = rtagent("claim", "test", "--instance", str(uuid4()), *flavor, "-f", "json")
        (reason,) = refused.json
        assert (reason["resource"], reason["requested"], reason["available"]) == (CLASS, 2, 1)
    finally:
        rtagent("claim", "release", created["uuid"])
    flavor[-1] = "resources:CUSTOM_OTHER=1"
    refused = rtagent("claim", "test", "--instance", str(uuid4()), *flavor, "-f", "json")
    assert [(each["resource"], each["code"]) for each in refused.json] == [
        ("CUSTOM_OTHER", "not_offered")
    ]


def test_single_devices_of_an_attach_claim_are_released(rtagent, agent, transport):
    created = rtagent("claim", "create", *requesting("gpu:1"), "-f", "json").json
    api = AgentAPI(transport, agent.host, timeout=10)
    try:
        instance = {"uuid": created["instance_uuid"], "flavor": {"vcpus": 1, "memory_mb": 64}}
        wanted = [{"count": 2, "alias_name": "vf"}]
        claim = api.claim_pci_devices(RequestContext(overwrite=False), instance, wanted)
        for address, rest in ((vf(1), {vf(0)}), (vf(0), set())):
            released = rtagent("claim", "release", claim["uuid"], "--device", address)
            expected = f"rtagent: claim {claim['uuid']} gave back {address}\n"
            assert released == (0, "", expected)
            statuses = by_address(rtagent, "status")
            assert {each for each in (vf(0), vf(1)) if statuses[each] == "claimed"} == rest
        wrong = rtagent("claim", "release", created["uuid"], "--device", GPU_0)
        assert (wrong.code, wrong.out) == (2, "")
        assert "a claim of kind build keeps its devices until it ends" in wrong.err
    finally:
        rtagent("claim", "release", created["uuid"])


@pytest.mark.parametrize("verb", [["show"], ["clear"], ["quarantine", "--reason", "odd"]])
def test_an_unknown_device_is_an_error(rtagent, verb):
    for offline in ([], ["--offline"]) if verb == ["show"] else ([],):
        outcome = rtagent(*offline, "pci", *verb, UNKNOWN)
        assert (outcome.code, outcome.out) == (5, "")
        assert outcome.err.startswith(f"rtagent: no PCI device {UNKNOWN} is known here")
