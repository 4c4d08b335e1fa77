"""NUMA affinity of candidate devices."""

import pytest
from msgspec.structs import replace

from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    addresses,
    device_fit,
    gpu,
    nic,
    record,
    requests_for,
    used_by,
    vf,
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


def test_last_of_equal_devices_are_preferred_on_request():
    devices = record([gpu(f"0000:0{number}:00.0") for number in range(1, 6)])
    for order, expected in (
        ("first", ["0000:01:00.0", "0000:02:00.0"]),
        ("last", ["0000:04:00.0", "0000:05:00.0"]),
    ):
        assert addresses(device_fit(devices, requests_for("gpu:2"), order=order).fit()) == expected


def test_last_device_is_of_the_first_pool():
    """The pools keep their order, and virtual functions of several cards are one pool."""
    cards = [*nic("0000:20:00.0", 2, numa_node=0), *nic("0000:21:00.0", 2, numa_node=0)]
    functions = [replace(each, parent_ifname=None) for each in cards if each.parent_addr]
    far = [each for each in nic("0000:a0:00.0", 2, numa_node=1) if each.parent_addr]
    devices = record([*functions, *far])
    fit = device_fit(devices, requests_for("vf:3"), order="last").fit()
    assert addresses(fit) == [vf(1), vf(0, "0000:21:00.0"), vf(1, "0000:21:00.0")]


def test_devices_that_are_reused_come_before_the_last_ones():
    devices = record([gpu(GPU_0), gpu(GPU_1)])
    used = used_by("me", GPU_0)
    requests = requests_for("gpu:1")
    fit = device_fit(devices, requests, used, order="last", reusable={GPU_0: "gpu"}).fit()
    assert addresses(fit) == [GPU_0]
