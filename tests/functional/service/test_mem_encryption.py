"""Guests with encrypted memory on a host that supports AMD SEV."""

import uuid

import pytest
from msgspec.structs import replace
from oslo_context.context import RequestContext

from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.mem_encryption import AMD_SEV, MemEncryption
from rtagent.virt.libvirt.guest import apply
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.servers.daemon import Daemon, wait_until
from tests.support.guests import enacting, granted

CONTEXT = RequestContext(user_id="tester", overwrite=False)
CLASS = "MEM_ENCRYPTION_CONTEXT"


@pytest.fixture
def daemon(tmp_path, rabbitmq):
    machine = Machine(sockets=1, cores=4, threads=1, sev_guests=2)
    simulate(tmp_path / "host.xml", machine)
    config = {"DEFAULT": {"host": f"host-{uuid.uuid4()}"}}
    with Daemon(tmp_path, rabbitmq.transport_url, config=config) as made:
        yield made.wait_ready()


def instance(**specs: str) -> dict:
    flavor = {"vcpus": 1, "memory_mb": 64, "extra_specs": {"hw:mem_encryption": "1", **specs}}
    image = {"properties": {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}}
    return {"uuid": str(uuid.uuid4()), "flavor": flavor, "image": image}


def test_contexts_are_claimed_used_and_refused(daemon, agent):
    claim = agent.instance_claim(CONTEXT, instance())
    facts = {"model": "amd-sev", "cbitpos": 51, "reduced_phys_bits": 1}
    assert claim["mem_encryption"] == facts
    assert "<policy>0x0033</policy>" in claim["guest"] and "<locked/>" in claim["guest"]

    owner, foreign = claim["owner_id"], str(uuid.uuid4())
    other = replace(granted(1, 64), mem_encryption=MemEncryption(model=AMD_SEV))
    with edit(daemon.host_file) as world:
        world.add_domain(enacting(domain_xml(owner, vcpus=1, memory_mb=64), claim))
        world.add_domain(apply(domain_xml(foreign, vcpus=1, memory_mb=64), other))
    wait_until(lambda: len(daemon.read("orphans")["orphans"]) == 1)
    wait_until(lambda: agent.get_claim(CONTEXT, claim["uuid"])["claim"]["state"] == "active")
    assert daemon.read("drift")["drift"] == []

    with pytest.raises(ComputeResourcesUnavailable) as refused:
        agent.instance_claim(CONTEXT, instance())
    (reason,) = refused.value.kwargs["reasons"]
    assert (reason["resource"], reason["requested"], reason["available"]) == (CLASS, 1, 0)
    with pytest.raises(ComputeResourcesUnavailable, match="amd_sev_es, which this host does not"):
        agent.instance_claim(CONTEXT, instance(**{"hw:mem_encryption_model": "amd-sev-es"}))

    daemon.kill()
    daemon.start().wait_ready()
    assert agent.get_claim(CONTEXT, claim["uuid"])["claim"]["mem_encryption"] == facts
    with edit(daemon.host_file) as world:
        world.remove_domain(foreign)
    wait_until(lambda: not daemon.read("orphans")["orphans"])
    agent.instance_claim(CONTEXT, instance())
