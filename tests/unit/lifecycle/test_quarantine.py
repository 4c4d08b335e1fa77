"""Devices in quarantine: by the operator, and after their one use."""

import pytest

from rtagent.errors import PciDeviceNotFound
from rtagent.lifecycle.attach import quarantine
from rtagent.pci.allocations import device_allocations
from rtagent.pci.inventory import USED_ONCE
from tests.support.device_states import (
    ONE_TIME,
    addresses,
    audited,
    built,
    device_host,
    domain,
    policy,
    released,
    running,
    seen,
)
from tests.support.hosts import NOON, call
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record


def quarantined(state, address, reason):
    return state.fold(quarantine(state, call(), NOON, address, reason).change)


def one_time_gpus():
    """A host whose two GPUs may be used once."""
    gpus = record([gpu(GPU_0, 0), gpu(GPU_1, 1)], ONE_TIME[0].tags)
    return device_host(gpus, pci=policy(ONE_TIME))


def test_quarantined_device_is_unavailable_until_it_is_cleared():
    state = quarantined(device_host(), GPU_0, "faulty")
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_1]
    line = device_allocations(state).state(GPU_0)
    assert (line.state, line.reason) == ("unavailable", "faulty")
    _, claim = built(quarantined(state, GPU_0, None), "gpu:1")
    assert addresses(claim) == [GPU_0]


def test_claim_keeps_a_device_that_is_quarantined():
    state, claim = built(device_host(), "gpu:1")
    state = quarantined(state, GPU_0, "faulty")
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id
    state = released(state, claim)
    assert device_allocations(state).state(GPU_0).state == "unavailable"


def test_unknown_device_is_an_error_that_names_it():
    with pytest.raises(PciDeviceNotFound, match=r"0000:99:00\.0"):
        quarantine(device_host(), call(), NOON, "0000:99:00.0", "why")


def test_one_time_device_is_quarantined_in_the_change_that_frees_it():
    state, claim = built(one_time_gpus(), "gpu:1")
    assert state.devices[GPU_0].quarantine is None
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine == USED_ONCE
    assert addresses(built(state, "gpu:1")[1]) == [GPU_1]


def test_one_time_device_is_not_quarantined_while_a_domain_uses_it():
    state, claim = built(one_time_gpus(), "gpu:1")
    state = running(state, claim)
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine is None
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id
    state = audited(state, seen(state))
    assert {each.quarantine for each in state.devices.values()} == {USED_ONCE}
