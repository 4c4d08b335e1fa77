"""Devices in quarantine: by the operator, and after their one use."""

import pytest

from rtagent import claims
from rtagent.errors import PciDeviceNotFound
from rtagent.lifecycle.attach import quarantine
from rtagent.model.decision import Refused
from rtagent.pci.allocations import device_allocations
from rtagent.pci.inventory import USED_ONCE
from tests.support.device_states import (
    ONE_TIME,
    addresses,
    attached,
    audited,
    built,
    device_host,
    domain,
    policy,
    released,
    running,
    seen,
)
from tests.support.hosts import NOON, call, request
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record

ONE_GPU = {"pci_passthrough:alias": "gpu:1"}


def quarantined(state, address, reason):
    return state.fold(quarantine(state, call(), NOON, address, reason).change)


def one_time_gpus():
    """A host whose two GPUs may be used once."""
    return device_host(
        record([gpu(GPU_0, 0), gpu(GPU_1, 1)], ONE_TIME[0].tags), pci=policy(ONE_TIME)
    )


def test_quarantine_survives_an_audit_that_began_before_it():
    base = device_host()
    replugged = [gpu(GPU_0, 1), gpu(GPU_1, 1)]
    state = audited(base, seen(base, devices=replugged), now=quarantined(base, GPU_0, "faulty"))
    assert state.devices[GPU_0].quarantine == "faulty"
    state = audited(state, seen(state, devices=replugged))
    assert state.devices[GPU_0].device.numa_node == 1
    assert state.devices[GPU_0].quarantine == "faulty"


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


def test_repeated_quarantine_changes_nothing():
    state = quarantined(device_host(), GPU_0, "why")
    assert not quarantine(state, call(), NOON, GPU_0, "why").change.devices


def test_unknown_device_is_an_error_that_names_it():
    with pytest.raises(PciDeviceNotFound, match=r"0000:99:00\.0"):
        quarantine(device_host(), call(), NOON, "0000:99:00.0", "why")


def test_one_time_device_is_quarantined_in_the_change_that_frees_it():
    state, claim = built(one_time_gpus(), "gpu:1")
    assert state.devices[GPU_0].quarantine is None
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine == USED_ONCE
    state, other = built(state, "gpu:1")
    assert addresses(other) == [GPU_1]
    refused = claims.instance_claim(state, call(), NOON, request(extra_specs=ONE_GPU))
    assert isinstance(refused, Refused)
    _, again = built(quarantined(state, GPU_0, None), "gpu:1")
    assert addresses(again) == [GPU_0]


def test_attached_one_time_device_is_quarantined_when_freed():
    state, main = built(one_time_gpus())
    state, _ = attached(state, main, "gpu")
    assert released(state, main).devices[GPU_0].quarantine == USED_ONCE


def test_one_time_device_of_a_foreign_domain_is_quarantined_when_freed():
    state = one_time_gpus()
    state = audited(state, seen(state, domain("foreign", [GPU_0])))
    assert state.devices[GPU_0].quarantine is None
    state = audited(state, seen(state))
    assert state.devices[GPU_0].quarantine == USED_ONCE


def test_one_time_device_of_an_expired_claim_is_quarantined():
    state, claim = built(one_time_gpus(), "gpu:1")
    state = audited(state, seen(state), lapsed={claim.uuid})
    assert not state.claims
    assert state.devices[GPU_0].quarantine == USED_ONCE


def test_one_time_device_is_not_quarantined_while_a_domain_uses_it():
    state, claim = built(one_time_gpus(), "gpu:1")
    state = running(state, claim)
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine is None
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id
    state = audited(state, seen(state))
    assert {each.quarantine for each in state.devices.values()} == {USED_ONCE}


def test_ordinary_device_is_available_at_once():
    state, claim = built(device_host(), "gpu:1")
    assert released(state, claim).devices == device_host().devices
