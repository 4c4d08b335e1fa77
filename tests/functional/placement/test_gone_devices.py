"""Devices that leave the configuration while a guest has them."""

from rtagent.claims import instance_claim
from rtagent.model.policy import ManageAllocations
from tests.functional.placement.published_host import SPECS, PublishedHost, policy, requested


def test_allocation_of_a_device_that_goes_with_its_claim_is_removed(server):
    host = PublishedHost(server, ManageAllocations.YES)
    for alias, spec in (("gpu", "gpus"), ("vf", "functions")):
        request = requested(devices={alias: 1})
        claim = host.tracker.create(instance_claim, host.next_call("instance_claim"), request)
        assert host.settle()
        host.policy = policy(set(SPECS) - {spec}, manage=ManageAllocations.YES)
        host.tracker.set_policy(host.policy)
        assert host.settle()
        host.release(claim)
        assert host.settle()
        host.check_allocations()
