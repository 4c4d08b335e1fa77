"""The methods of PCI devices, called as oslo.messaging calls them."""

import pytest

from rtagent.errors import ClaimNotFound, PciDeviceNotFound, PciDevicesNotClaimed
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0
from tests.support.rpc import Agent, attach, build, operation

ALLOCATE = "allocate_pci_devices_for_instance"
FREE = "free_pci_device_allocations_for_instance"


def test_devices_are_claimed_allocated_and_freed(agent: Agent):
    instance = build()
    agent.invoke("instance_claim", **instance)
    claim = agent.invoke("claim_pci_devices", **attach(instance["instance"]))
    assert (claim["kind"], claim["state"], len(claim["pci"])) == ("attach", "building", 1)
    owner = {"instance_uuid": claim["owner_id"]}
    one = owner | {"claim_uuid": claim["uuid"]}
    assert agent.invoke(ALLOCATE, **one, **operation())["state"] == "active"
    agent.invoke("free_pci_device_claims_for_instance", **owner, **operation())
    assert claim["uuid"] in agent.tracker.snapshot().claims
    agent.invoke(FREE, **owner, **operation())
    assert claim["uuid"] not in agent.tracker.snapshot().claims


def test_a_device_is_quarantined_and_cleared(agent: Agent):
    arguments = {"address": GPU_0, "reason": "it is hot"}
    agent.invoke("quarantine_pci_device", **arguments, **operation())
    assert agent.tracker.snapshot().devices[GPU_0].quarantine == "it is hot"
    agent.invoke("clear_pci_device", address=GPU_0, **operation())
    assert agent.tracker.snapshot().devices[GPU_0].quarantine is None
    with pytest.raises(PciDeviceNotFound, match=r"0000:ff:00\.0"):
        agent.invoke("quarantine_pci_device", address="0000:ff:00.0", reason="x", **operation())


def test_one_device_of_an_attach_claim_is_freed(agent: Agent):
    instance = build()
    agent.invoke("instance_claim", **instance)
    wanted = attach(instance["instance"])
    wanted["pci_requests"].append({"count": 1, "alias_name": "gpu"})
    claim = agent.invoke("claim_pci_devices", **wanted)
    held = [device["address"] for device in claim["pci"]]
    one = {"instance_uuid": claim["owner_id"], "claim_uuid": claim["uuid"]}
    freed = one | {"devices": held[:1]} | operation()
    for _ in range(2):  # a repeat has no further effect
        agent.invoke("unclaim_pci_devices", **freed)
        now = agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]
        assert [device["address"] for device in now["pci"]] == held[1:]
        assert held[0] not in now["guest"] and now["state"] == "building"
    agent.invoke(ALLOCATE, **one, **operation())
    with pytest.raises(PciDevicesNotClaimed, match=f"^{held[0]}: "):
        agent.invoke(FREE, **one, devices=held, **operation())
    agent.invoke(FREE, instance_uuid=claim["owner_id"], devices=held[1:], **operation())
    assert claim["uuid"] not in agent.tracker.snapshot().claims


@pytest.mark.parametrize("method", [ALLOCATE, "unclaim_pci_devices", FREE])
def test_device_calls_accept_only_attach_claims_of_the_instance(agent: Agent, method: str):
    instance = build()
    build_claim = agent.invoke("instance_claim", **instance)
    added = agent.invoke("claim_pci_devices", **attach(instance["instance"]))
    for owner, claim in ((build_claim["owner_id"], build_claim), (uid(), added)):
        with pytest.raises(ClaimNotFound):
            agent.invoke(method, instance_uuid=owner, claim_uuid=claim["uuid"], **operation())
