"""The methods of PCI devices, called as oslo.messaging calls them."""

import pytest

from rtagent.errors import ClaimNotFound, PciDeviceNotFound
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0
from tests.support.rpc import Agent, attach, build, operation


def test_device_calls_accept_only_attach_claims_of_the_instance(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    other = agent.invoke("instance_claim", **build())
    added = agent.invoke(
        "claim_pci_devices", **attach({"uuid": claim["owner_id"], "flavor": claim["flavor"]})
    )
    for wrong in (claim, {**added, "owner_id": other["owner_id"]}):
        arguments = {"instance_uuid": wrong["owner_id"], "claim_uuid": wrong["uuid"]}
        for name in ("allocate_pci_devices_for_instance", "unclaim_pci_devices"):
            with pytest.raises(ClaimNotFound):
                agent.invoke(name, **arguments, operation_id=uid())


def test_devices_are_claimed_allocated_and_freed(agent: Agent):
    instance = build()
    agent.invoke("instance_claim", **instance)
    claim = agent.invoke("claim_pci_devices", **attach(instance["instance"]))
    assert (claim["kind"], claim["state"], len(claim["pci"])) == ("attach", "building", 1)
    owner = {"instance_uuid": claim["owner_id"]}
    one = owner | {"claim_uuid": claim["uuid"]}
    active = agent.invoke("allocate_pci_devices_for_instance", **one, **operation())
    assert active["state"] == "active"
    agent.invoke("free_pci_device_claims_for_instance", **owner, **operation())
    assert claim["uuid"] in agent.tracker.snapshot().claims
    agent.invoke("free_pci_device_allocations_for_instance", **owner, **operation())
    assert claim["uuid"] not in agent.tracker.snapshot().claims


def test_a_device_is_quarantined_and_cleared(agent: Agent):
    arguments = {"address": GPU_0, "reason": "it is hot"}
    agent.invoke("quarantine_pci_device", **arguments, **operation())
    assert agent.tracker.snapshot().devices[GPU_0].quarantine == "it is hot"
    agent.invoke("clear_pci_device", address=GPU_0, **operation())
    assert agent.tracker.snapshot().devices[GPU_0].quarantine is None
    with pytest.raises(PciDeviceNotFound):
        agent.invoke("quarantine_pci_device", address="0000:ff:00.0", reason="x", **operation())
