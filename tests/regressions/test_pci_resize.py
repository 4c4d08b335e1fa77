"""LP1512880, LP1641750, LP1983753, LP1941005, LP1809095: a guest with devices is resized.

It was that a resize asked for the old flavor's devices; that a guest with one GPU of two could not
grow to two on its own host; that the devices of the source were free only at the next audit; and
that nobody knew which device took the place of which.
"""

from __future__ import annotations

from rtagent.model.instance import PciRequest
from rtagent.pci.fit import by_purpose
from rtagent.pci.request import device_requests, moved_requests
from rtagent.pci.states import AVAILABLE, Holdings
from tests.pci_hosts import (
    ALIASES,
    GPU_0,
    GPU_1,
    addresses,
    fitting,
    flavor,
    held,
    port,
    two_gpus_and_a_nic,
    vf,
)

HOST = two_gpus_and_a_nic()
SMALL, LARGE = flavor("gpu:1"), flavor("gpu:2")
PORT = port("port-1", vendor_id="8086", product_id="154c")


#: What the conductor made of the old flavor; a resize may bring it again, or another in its place.
OLD = PciRequest(count=1, alias_name="gpu", request_id="old")


def before():
    return fitting(HOST, device_requests(SMALL, (OLD, PORT), ALIASES, None)).fit().devices


def resized(to, devices):
    """On the same host: both claims stand until the resize is confirmed or reverted."""
    offered = {device.address: device.purpose for device in devices}
    requests = moved_requests(to, (OLD, PORT), ALIASES, None)
    return fitting(HOST, requests, held("me", *offered), offered=offered).fit()


def test_from_one_gpu_to_two_on_a_host_with_exactly_two():
    devices = before()
    assert [device.address for device in devices] == [GPU_0, vf(0)]
    grown = resized(LARGE, devices)
    assert addresses(grown) == [GPU_0, GPU_1, vf(0)]
    assert by_purpose(devices) == {"gpu": (GPU_0,), "port-1": (vf(0),)}
    assert by_purpose(grown.devices) == {"gpu": (GPU_0, GPU_1), "port-1": (vf(0),)}


def test_a_resize_that_leaves_the_devices_alone_keeps_them():
    devices = before()
    assert addresses(resized(SMALL, devices)) == [device.address for device in devices]


def test_the_new_flavors_devices_are_what_is_asked_for():
    assert addresses(resized(flavor(), before())) == [vf(0)]


def test_on_revert_and_on_confirm_exactly_the_other_claims_devices_are_free_at_once():
    devices = before()
    grown = resized(LARGE, devices).devices
    # reverted: the first claim is left
    left = Holdings(HOST, held("me", *(device.address for device in devices)))
    assert left.state(GPU_1).state == AVAILABLE
    # confirmed on another host: none is
    assert {each.address for each in Holdings(HOST, []).available()} == set(HOST)
    # confirmed here: the second claim is left, and nothing that the first shared with it is freed
    right = Holdings(HOST, held("me", *(device.address for device in grown)))
    assert right.held_by("me") == {GPU_0, GPU_1, vf(0)}


def test_nobody_else_is_offered_what_the_two_claims_share():
    held_by_two = held("me", GPU_0) + held("me", GPU_0, allocated=False)
    answer = fitting(HOST, device_requests(LARGE, (), ALIASES, None), held_by_two, "you").fit()
    assert [reason.available for reason in answer.reasons] == [1]
