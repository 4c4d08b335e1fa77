"""Claims record the providers that the node has after an adoption."""

from msgspec.structs import replace

from rtagent.lifecycle.recorded_providers import claims_with_new_providers
from rtagent.model.claim import DAMAGED
from rtagent.model.device import MdevType
from rtagent.placement.adoption import Adoption
from tests.support.device_states import VGPU_TYPE, built, device_host, policy
from tests.support.hosts import NODE, NOON, uid
from tests.support.pci_hosts import GPU_0, GPU_1, SPECS, gpu, record

MDEV = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=4)
ADOPTED = Adoption(node=NODE.uuid, children={"pci_0000_08_00_0": uid(60), "0000:88:00.0": uid(61)})


def claimed():
    """Return a host with a claim of a virtual GPU, and one of a whole GPU."""
    devices = record([gpu(GPU_0, 0, mdev_types=(MDEV,)), gpu(GPU_1, 1)])
    pci = policy(SPECS, mdev_types=(VGPU_TYPE,), report_in_placement=True)
    state, one = built(device_host(devices, pci=pci), extra_specs={"resources:VGPU": "1"})
    state, two = built(state, "gpu:1")
    return state, one, two


def test_claims_name_the_adopted_providers():
    state, one, two = claimed()
    new = claims_with_new_providers(state, ADOPTED.applied_to(state.policy), NOON)
    assert {claim.uuid for claim in new} == {one.uuid, two.uuid}
    after = {claim.uuid: claim for claim in new}
    assert [unit.provider for unit in after[one.uuid].resources] == [uid(60)]
    assert [device.provider for device in after[two.uuid].pci] == [uid(61)]
    assert {claim.revision for claim in new} == {state.revision + 1}


def test_claims_that_name_them_already_do_not_change():
    state, *_ = claimed()
    assert claims_with_new_providers(state, state.policy, NOON) == ()


def test_a_quarantined_claim_does_not_change():
    state, one, two = claimed()
    damaged = replace(one, suspect=f"{DAMAGED}a field")
    state = replace(state, claims=state.claims.set(one.uuid, damaged))
    new = claims_with_new_providers(state, ADOPTED.applied_to(state.policy), NOON)
    assert [claim.uuid for claim in new] == [two.uuid]
