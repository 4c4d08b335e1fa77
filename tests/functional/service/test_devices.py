"""A host with two GPUs and a network card: guests, a domain without a claim, a device that is
unplugged, and power failures in between."""

import contextlib
import json
import uuid

import pytest
from oslo_context.context import RequestContext

from rtagent.errors import ComputeResourcesUnavailable, PciDevicesNotClaimed
from rtagent.rpc.client import AgentAPI
from rtagent.virt.simulate import Machine, SimulationError, domain_xml, edit, simulate
from tests.servers.daemon import Daemon, wait_until
from tests.support.claims import hostdev
from tests.support.guests import enacting
from tests.support.node_devices import pci_name
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, PF_0, PF_IDS, VF_IDS, vf

CONTEXT = RequestContext(user_id="tester", roles=["operator"])
ALIASES = [
    {"name": "gpu", **GPU_IDS, "device_type": "type-PCI"},
    {"name": "vf", **VF_IDS, "device_type": "type-VF"},
]
VF_REQUEST = [{"alias_name": "vf", "count": 1}]


@pytest.fixture
def daemon(tmp_path, rabbitmq):
    name = f"host-{uuid.uuid4()}"
    simulate(tmp_path / "host.xml", Machine(gpus=2, nics=1, vfs=2, hostname=name))
    made = Daemon(
        tmp_path,
        rabbitmq.transport_url,
        config={
            "DEFAULT": {"host": name},
            "pci": {
                "device_spec": json.dumps([GPU_IDS, PF_IDS, VF_IDS]),
                "alias": json.dumps(ALIASES),
            },
        },
    )
    yield made.start().wait_ready()
    made.close()


def instance(aliases: str = "") -> dict:
    specs = {"pci_passthrough:alias": aliases} if aliases else {}
    flavor = {"vcpus": 1, "memory_mb": 64, "root_gb": 0, "extra_specs": specs}
    return {"uuid": str(uuid.uuid4()), "flavor": flavor}


def fail_power(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start().wait_ready()


def run(daemon: Daemon, owner: str, *claims: dict) -> None:
    """Start the owner's domain with the guest XML of its claims."""
    domain = enacting(domain_xml(owner, vcpus=1, memory_mb=64), *claims)
    with edit(daemon.host_file) as world:
        with contextlib.suppress(SimulationError):  # it does not run yet
            world.remove_domain(owner)
        world.add_domain(domain)


def devices(claim: dict) -> list[str]:
    return [device["address"] for device in claim["pci"]]


def status(daemon: Daemon, *addresses: str) -> list[str | None]:
    shown = {each["address"]: each["status"] for each in daemon.read("pci")["pci"]}
    return [shown.get(address) for address in addresses]


def live(agent: AgentAPI, claim: dict) -> dict:
    return agent.get_claim(CONTEXT, claim["uuid"])["claim"]


def test_the_document_of_a_device_has_its_root_port(daemon):
    ports = {each["address"]: each["root_port"] for each in daemon.read("pci")["pci"]}
    assert (ports[GPU_0], ports[GPU_1]) == ("0000:00:01.0", "0000:80:01.0")
    assert {ports[each] for each in (PF_0, vf(0), vf(1))} == {"0000:00:04.0"}
    fail_power(daemon)
    assert daemon.read("pci", GPU_0)["pci"]["root_port"] == ports[GPU_0]


def test_guests_get_devices_and_release_them(daemon, agent):
    first = agent.instance_claim(CONTEXT, instance("gpu:1"))
    second = agent.instance_claim(CONTEXT, instance("gpu:1"))
    assert devices(first) + devices(second) == [GPU_0, GPU_1]
    with pytest.raises(ComputeResourcesUnavailable, match="PCI gpu: 1 devices requested"):
        agent.instance_claim(CONTEXT, instance("gpu:1"))

    run(daemon, first["owner_id"], first)
    wait_until(lambda: live(agent, first)["state"] == "active")
    added = agent.claim_pci_devices(CONTEXT, instance_of(first), VF_REQUEST)
    assert devices(added) == [vf(0)]
    assert status(daemon, GPU_0, GPU_1, vf(0), PF_0) == [
        "allocated",
        "claimed",
        "claimed",
        "unclaimable",
    ]
    fail_power(daemon)

    agent.allocate_pci_devices_for_instance(CONTEXT, first["owner_id"], added["uuid"])
    run(daemon, first["owner_id"], first, added)
    agent.update_available_resource(CONTEXT)
    assert daemon.read("drift")["drift"] == []
    assert status(daemon, vf(0), PF_0) == ["allocated", "unavailable"]

    run(daemon, first["owner_id"], first)
    agent.free_pci_device_allocations_for_instance(CONTEXT, first["owner_id"])
    agent.update_available_resource(CONTEXT)
    assert status(daemon, vf(0), PF_0) == ["available", "available"]

    two = agent.claim_pci_devices(CONTEXT, instance_of(first), [{**VF_REQUEST[0], "count": 2}])
    named = {"devices": [vf(0)]}
    agent.unclaim_pci_devices(CONTEXT, first["owner_id"], two["uuid"], **named)
    fail_power(daemon)
    assert devices(live(agent, two)) == [vf(1)]
    assert status(daemon, vf(0), vf(1)) == ["available", "claimed"]
    with pytest.raises(PciDevicesNotClaimed, match=vf(0)):
        agent.free_pci_device_claims_for_instance(CONTEXT, first["owner_id"], **named)
    agent.unclaim_pci_devices(CONTEXT, first["owner_id"], two["uuid"], devices=[vf(1)])
    assert status(daemon, vf(1), PF_0) == ["available", "available"]

    agent.release_claim(CONTEXT, second["uuid"])
    assert devices(agent.instance_claim(CONTEXT, instance("gpu:1"))) == [GPU_1]
    assert daemon.read("drift")["drift"] == []


def test_orphan_keeps_its_device_and_an_unplugged_device_stays_claimed(daemon, agent):
    orphan = str(uuid.uuid4())
    run(daemon, orphan, {"guest": f"<devices>{hostdev(GPU_0)}</devices>"})
    wait_until(lambda: [o["domain_uuid"] for o in daemon.read("orphans")["orphans"]] == [orphan])
    held = agent.instance_claim(CONTEXT, instance("gpu:1"))
    assert devices(held) == [GPU_1]
    fail_power(daemon)
    with pytest.raises(ComputeResourcesUnavailable):
        agent.instance_claim(CONTEXT, instance("gpu:1"))

    with edit(daemon.host_file) as world:
        world.remove_device(pci_name(GPU_1))
    wait_until(lambda: daemon.read("drift")["drift"])
    fail_power(daemon)
    assert devices(live(agent, held)) == [GPU_1]
    (drift,) = daemon.read("drift")["drift"]
    assert (drift["resource"], drift["problem"]) == (
        f"PCI device {GPU_1}",
        "AssignedResourceNotFound",
    )
    assert GPU_1 in json.dumps(daemon.read("health"))
    assert status(daemon, GPU_0, GPU_1) == ["allocated", "claimed"]

    agent.release_claim(CONTEXT, held["uuid"])
    with edit(daemon.host_file) as world:
        world.remove_domain(orphan)
    wait_until(lambda: status(daemon, GPU_0, GPU_1) == ["available", None])
    assert devices(agent.instance_claim(CONTEXT, instance("gpu:1"))) == [GPU_0]


def instance_of(claim: dict) -> dict:
    return {"uuid": claim["owner_id"], "flavor": claim["flavor"]}


def test_an_interpreter_with_other_hashes_finds_what_another_one_wrote_and_ends(daemon, agent):
    """Forked daemons have the same hashes, and no interpreter of their own that ends."""
    claim = agent.instance_claim(CONTEXT, instance("gpu:1,vf:2"))
    agent.activate_claim(CONTEXT, claim_uuid=claim["uuid"])
    run(daemon, claim["owner_id"], claim)
    for seed in ("1", "2"):
        before = live(agent, claim)
        assert daemon.terminate() == 0
        daemon.start(PYTHONHASHSEED=seed).wait_ready()
        assert live(agent, claim) == before
        assert daemon.count_logged("damaged") == 0
    assert daemon.terminate() == 0
