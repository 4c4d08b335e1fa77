"""NUMA affinity of candidate devices."""

import pytest
from msgspec.structs import replace

from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    addresses,
    device_fit,
    gpu,
    record,
    requests_for,
)

#: By cell: two cells share a socket, and the sockets of the last are unknown.
SOCKETS = {0: frozenset({0}), 1: frozenset({1}), 2: frozenset({1}), 3: frozenset()}


@pytest.mark.parametrize(
    ("policy", "node", "cells", "expected"),
    [
        ("required", 0, {0}, True),
        ("required", 1, {0, 1}, True),
        ("required", 1, {0}, False),
        ("required", None, {0}, False),
        ("legacy", 1, {0}, False),
        ("legacy", None, {0}, True),
        ("preferred", 1, {0}, True),
        ("preferred", None, {0}, True),
        ("socket", 1, {1}, True),
        ("socket", 1, {2}, True),
        ("socket", 1, {0}, False),
        ("socket", None, {0}, False),
        ("socket", 3, {3}, True),
        ("socket", 3, {0}, False),
    ],
)
def test_numa_policy_accepts_device(policy, node, cells, expected):
    requests = requests_for("gpu:1", policy)
    fit = device_fit(record([gpu(numa_node=node)]), requests, sockets=SOCKETS)
    assert hasattr(fit.fit(frozenset(cells)), "devices") is expected
    assert fit.possible(frozenset(cells)) is expected
    assert bool(fit.refusal(tuple(cells))) is not expected
    # Every policy accepts every device for a guest without a NUMA topology.
    assert hasattr(fit.fit(), "devices")
    assert fit.possible(frozenset())
    assert fit.refusal(()) == ()


def test_near_devices_are_preferred():
    devices = record([gpu("0000:01:00.0", 1), gpu("0000:02:00.0", None), gpu("0000:03:00.0", 0)])
    one = device_fit(devices, requests_for("gpu:1", "preferred")).fit(frozenset({0}))
    assert addresses(one) == ["0000:03:00.0"]
    two = device_fit(devices, requests_for("gpu:2", "preferred")).fit(frozenset({0}))
    assert addresses(two) == ["0000:02:00.0", "0000:03:00.0"]


def test_preferred_leaves_near_devices_to_required():
    preferring, requiring = (
        *requests_for("gpu:1", "preferred"),
        *requests_for("gpu:1", "required"),
    )
    requests = (preferring, replace(requiring, request_id="second"))
    devices = record([gpu(GPU_0, 0), gpu(GPU_1, 1)])
    assert addresses(device_fit(devices, requests).fit(frozenset({0}))) == [GPU_1, GPU_0]
