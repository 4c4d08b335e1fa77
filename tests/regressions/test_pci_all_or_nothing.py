"""LP1986838, LP1549984, LP1893221: a claim that did not get its devices.

A flavor asked for two aliases that only one device answered. Each was tested by itself and found to
fit, together they did not; the claim logged an error and went on, and the guest ran without any
device. A claim that failed for another reason kept the devices that it had taken. And the claim of
a live migration looked at no NUMA cell.
"""

from __future__ import annotations

from rtagent.pci.alias import parse_aliases
from rtagent.pci.request import device_requests, moved_requests
from tests.pci_hosts import (
    ALIASES,
    GPU_0,
    GPU_1,
    addresses,
    fitting,
    flavor,
    gpu,
    record,
    two_gpus_and_a_nic,
)

TWO_NAMES = parse_aliases(
    [
        '{"name": "video", "vendor_id": "10de", "product_id": "13f1"}',
        '{"name": "compute", "vendor_id": "10de", "product_id": "13f1"}',
    ]
)


def test_two_aliases_and_one_device():
    requests = device_requests(flavor("video:1,compute:1"), (), TWO_NAMES, None)
    for alone in requests:
        assert addresses(fitting(record([gpu()]), [alone]).fit()) == [GPU_0]
    refused = fitting(record([gpu()]), requests).fit()
    assert not hasattr(refused, "devices")
    assert [str(reason) for reason in refused.reasons] == [
        "PCI compute: 1 devices requested at cn1, 0 available"
    ]
    two = record([gpu(GPU_0), gpu(GPU_1)])
    assert addresses(fitting(two, requests).fit()) == [GPU_0, GPU_1]


def test_what_is_tested_takes_nothing():
    devices = two_gpus_and_a_nic()
    before = dict(devices)
    fit = fitting(devices, device_requests(flavor("gpu:2,vf:99"), (), ALIASES, None))
    assert hasattr(fit.fit(), "reasons")
    assert devices == before
    assert hasattr(
        fitting(devices, device_requests(flavor("gpu:2"), (), ALIASES, None)).fit(), "devices"
    )


def test_a_move_is_as_particular_about_cells_as_a_build():
    devices = two_gpus_and_a_nic()
    moved = moved_requests(flavor("gpu:1"), (), ALIASES, "required")
    built = device_requests(flavor("gpu:1"), (), ALIASES, "required")
    for requests in (moved, built):
        assert addresses(fitting(devices, requests).fit(frozenset({1}))) == [GPU_1]
        assert hasattr(fitting(devices, requests).fit(frozenset({5})), "reasons")
