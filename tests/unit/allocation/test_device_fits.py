"""What an owner has on the host already, and may reuse."""

from rtagent.allocation.device_fits import reusable_by
from tests.support.device_states import audited, built, device_host, domain, seen
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1, vf


def test_owner_may_reuse_the_devices_that_its_domain_uses_without_a_claim():
    state = audited(device_host(), seen(device_host(), domain(uid(77), [GPU_0])))
    assert reusable_by(state, uid(77), ()).devices == {GPU_0: ""}
    assert reusable_by(state, uid(78), ()).devices == {}


def test_owner_may_reuse_the_devices_of_its_claims():
    state, claim = built(device_host(), "gpu:1,vf:1")
    assert reusable_by(state, claim.owner_id, [claim]).devices == {GPU_0: "gpu", vf(0): "vf"}
    assert reusable_by(state, claim.owner_id, ()).devices == {}


def test_devices_of_a_domain_that_its_claims_have_are_those_of_the_claims():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    assert reusable_by(state, claim.owner_id, ()).devices == {GPU_1: ""}
