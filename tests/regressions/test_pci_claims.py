"""LP1986838, LP1892361, LP2098496: a claim that differed from what had been tested.

A flavor requested two aliases that match one device: the claim logged an error, and the guest ran
without any device. A device that had become another type of device stayed in its old pool; a
device in two pools was promised twice.

Here a claim has everything that it requests, or it is refused and has nothing. Pools count exactly
the devices that can be claimed.
"""

from msgspec.structs import replace

from rtagent import claims
from rtagent.model.decision import Refused
from rtagent.model.device import SRIOV_PF
from rtagent.pci.specs import parse_aliases
from rtagent.state.compute_node import pci_device_pools
from tests.support.device_states import audited, built, device_host, policy, released, seen
from tests.support.hosts import NOON, call, request
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, nic, record

TWO_NAMES = parse_aliases(
    [
        '{"name": "video", "vendor_id": "10de", "product_id": "13f1"}',
        '{"name": "compute", "vendor_id": "10de", "product_id": "13f1"}',
    ]
)


def refused(state, aliases):
    asked = request(extra_specs={"pci_passthrough:alias": aliases})
    answer = claims.instance_claim(state, call(), NOON, asked)
    assert isinstance(answer, Refused)
    return answer.reasons


def test_two_aliases_for_one_device_are_refused():
    one = device_host(record([gpu()]), pci=replace(policy(), aliases=TWO_NAMES))
    (reason,) = refused(one, "video:1,compute:1")
    assert (reason.resource, reason.available) == ("PCI compute", 0)
    two = device_host(record([gpu(GPU_0), gpu(GPU_1)]), pci=replace(policy(), aliases=TWO_NAMES))
    _, claim = built(two, "video:1,compute:1")
    assert {device.alias_name: device.address for device in claim.pci} == {
        "video": GPU_0,
        "compute": GPU_1,
    }


def test_pools_count_exactly_the_devices_that_can_be_claimed():
    state = device_host(record([gpu(GPU_0), gpu(GPU_1), *nic(vfs=6)]))
    for alias, product in (("vf", "154c"), ("gpu", "13f1")):
        for left in reversed(range(counted(state, product))):
            state, _ = built(state, f"{alias}:1")
            assert counted(state, product) == left
        assert refused(state, f"{alias}:1")


def test_device_that_changes_its_type_changes_its_pool():
    state = device_host(record([gpu(GPU_0)]))
    changed = replace(gpu(GPU_0), dev_type=SRIOV_PF)
    state = audited(state, seen(state, devices=[changed]))
    (pool,) = pci_device_pools(state)
    assert pool["tags"]["dev_type"] == SRIOV_PF
    assert refused(state, "gpu:1")


def test_released_devices_are_in_their_pool_at_once():
    state, claim = built(device_host(), "gpu:2")
    assert counted(state, "13f1") == 0
    assert counted(released(state, claim), "13f1") == 2


def counted(state, product):
    return sum(p["count"] for p in pci_device_pools(state) if p["product_id"] == product)
