"""Persistent memory: claims of it, a domain without a claim, a namespace that vanishes."""

import uuid

import pytest
from lxml import etree
from oslo_context.context import RequestContext

from rtagent.cmd.daemon import EX_CONFIG
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.servers.daemon import Daemon, wait_until
from tests.support.guests import enacting, granted, with_namespaces

CONTEXT = RequestContext(user_id="tester", overwrite=False)
CLASS = "CUSTOM_PMEM_NAMESPACE_4GB"
LIBVIRT = {"pmem_namespaces": "4GB:ns0|ns1"}


def machine(**namespaces: int) -> Machine:
    return Machine(sockets=2, cores=4, threads=1, namespaces=namespaces)


@pytest.fixture
def daemon(tmp_path, rabbitmq):
    simulate(tmp_path / "host.xml", machine(ns0=4096, ns1=4096))
    name = f"host-{uuid.uuid4()}"
    config = {"DEFAULT": {"host": name}, "libvirt": LIBVIRT}
    made = Daemon(tmp_path, rabbitmq.transport_url, config=config)
    yield made
    made.close()


def instance(labels: str = "4GB") -> dict:
    flavor = {"vcpus": 1, "memory_mb": 64, "root_gb": 0, "extra_specs": {"hw:pmem": labels}}
    return {"uuid": str(uuid.uuid4()), "flavor": flavor}


def plain(owner: str) -> str:
    return domain_xml(owner, vcpus=1, memory_mb=64)


def held(daemon) -> dict:
    return {r["identifier"]: r["owner_id"] for r in daemon.read("resources")["resources"]}


def test_namespaces_are_claimed_used_and_lost(daemon, agent):
    daemon.start().wait_ready()
    foreign = str(uuid.uuid4())
    with edit(daemon.host_file) as world:
        world.add_domain(apply(plain(foreign), with_namespaces(granted(1, 64), 4096)))
    wait_until(lambda: held(daemon) == {"ns0": foreign, "ns1": None})
    (orphan,) = daemon.read("orphans")["orphans"]
    assert (orphan["memory_mb"], orphan["occupancy"]["namespaces"]) == (64, ["ns0"])

    claim = agent.instance_claim(CONTEXT, instance())
    assert claim["resources"][0]["namespace"]["path"] == "/dev/dax1.0"
    (device,) = etree.fromstring(f"<guest>{claim['guest']}</guest>").findall("devices/memory")
    assert device.findtext("source/path") == "/dev/dax1.0"
    with pytest.raises(ComputeResourcesUnavailable, match=f"{CLASS}: 1 units requested .* 0 avail"):
        agent.instance_claim(CONTEXT, instance())

    mine = claim["owner_id"]
    with edit(daemon.host_file) as world:
        world.remove_domain(foreign)
        world.add_domain(enacting(plain(mine), claim))
    wait_until(lambda: agent.get_claim(CONTEXT, claim["uuid"])["claim"]["state"] == "active")
    wait_until(lambda: held(daemon) == {"ns0": None, "ns1": mine})
    assert daemon.read("drift")["drift"] == []

    daemon.terminate()
    domain = enacting(plain(mine), claim)
    simulate(daemon.host_file, machine(ns0=4096), [domain])
    daemon.start().wait_ready()  # what is held does not stop the start
    (absent,) = (d for d in daemon.read("drift")["drift"] if d["problem"] != "QuantityDiffers")
    assert (absent["resource"], absent["owner_id"]) == (f"{CLASS} ns1", mine)
    assert held(daemon) == {"ns0": None, "ns1": mine}
    other = agent.instance_claim(CONTEXT, instance())
    assert [each["identifier"] for each in other["resources"]] == ["ns0"]

    agent.release_claim(CONTEXT, claim["uuid"])
    daemon.terminate()
    daemon.start()
    assert daemon.wait() == EX_CONFIG
    assert "[libvirt] pmem_namespaces = ns1: this host does not have it" in daemon.last_lines()


def test_a_host_without_the_command_that_lists_namespaces_is_refused(daemon, tmp_path):
    daemon.configure({"libvirt": {**LIBVIRT, "connection_uri": "test:///default"}})
    daemon.start(PATH=str(tmp_path))
    assert daemon.wait() == EX_CONFIG
    wanted = "[libvirt] pmem_namespaces = 4GB:ns0|ns1: needs the command ndctl: install its package"
    assert wanted in daemon.last_lines()
