"""Devices that are kept back."""

import pytest

from rtagent import claims
from rtagent.errors import PciDeviceNotFound
from rtagent.model.decision import Refused
from rtagent.pci.holds import holdings
from rtagent.pci.record import USED
from rtagent.quarantine import quarantine
from tests.builders import NOON, call, request
from tests.device_states import (
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
from tests.pci_hosts import GPU_0, GPU_1, gpu, record

ONE_GPU = {"pci_passthrough:alias": "gpu:1"}


def kept(state, address, reason):
    return state.fold(quarantine(state, address, reason, call(), NOON).change)


def gpus():
    """Both may be used once."""
    return device_host(
        record([gpu(GPU_0, 0), gpu(GPU_1, 1)], ONE_TIME[0].tags), pci=policy(ONE_TIME)
    )


def test_it_outlives_an_audit_that_began_before_it():
    base = device_host()
    moved = [gpu(GPU_0, 1), gpu(GPU_1, 1)]
    state = audited(base, seen(base, devices=moved), now=kept(base, GPU_0, "it is hot"))
    assert state.devices[GPU_0].quarantine == "it is hot"
    state = audited(state, seen(state, devices=moved))
    assert state.devices[GPU_0].device.numa_node == 1
    assert state.devices[GPU_0].quarantine == "it is hot"


def test_nobody_gets_it_until_it_is_cleared():
    state = kept(device_host(), GPU_0, "it is hot")
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_1]
    told = holdings(state).state(GPU_0)
    assert (told.state, told.reason) == ("unavailable", "it is hot")
    _, claim = built(kept(state, GPU_0, None), "gpu:1")
    assert addresses(claim) == [GPU_0]


def test_who_holds_it_keeps_it():
    state, claim = built(device_host(), "gpu:1")
    state = kept(state, GPU_0, "it is hot")
    assert holdings(state).state(GPU_0).owner_id == claim.owner_id
    state = released(state, claim)
    assert holdings(state).state(GPU_0).state == "unavailable"


def test_a_repeat_changes_nothing():
    state = kept(device_host(), GPU_0, "why")
    assert not quarantine(state, GPU_0, "why", call(), NOON).change.devices


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(PciDeviceNotFound, match=r"0000:99:00\.0"):
        quarantine(device_host(), "0000:99:00.0", "why", call(), NOON)


def test_a_device_for_one_use_is_kept_back_in_the_change_that_lets_go_of_it():
    state, claim = built(gpus(), "gpu:1")
    assert state.devices[GPU_0].quarantine is None
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine == USED
    state, other = built(state, "gpu:1")
    assert addresses(other) == [GPU_1]
    refused = claims.build(state, request(extra_specs=ONE_GPU), call(), NOON)
    assert isinstance(refused, Refused)
    _, again = built(kept(state, GPU_0, None), "gpu:1")
    assert addresses(again) == [GPU_0]


def test_so_is_one_that_was_added_to_a_guest():
    state, main = built(gpus())
    state, _ = attached(state, main, "gpu")
    assert released(state, main).devices[GPU_0].quarantine == USED


def test_so_is_one_that_a_domain_without_a_claim_has_used():
    state = gpus()
    state = audited(state, seen(state, domain("foreign", [GPU_0])))
    assert state.devices[GPU_0].quarantine is None
    state = audited(state, seen(state))
    assert state.devices[GPU_0].quarantine == USED


def test_so_is_one_whose_claim_expires():
    state, claim = built(gpus(), "gpu:1")
    state = audited(state, seen(state), lapsed={claim.uuid})
    assert not state.claims
    assert state.devices[GPU_0].quarantine == USED


def test_not_while_a_domain_still_uses_it():
    state, claim = built(gpus(), "gpu:1")
    state = running(state, claim)
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine is None
    assert holdings(state).state(GPU_0).owner_id == claim.owner_id
    state = audited(state, seen(state))
    assert {each.quarantine for each in state.devices.values()} == {USED}


def test_a_device_for_any_use_is_free_at_once():
    state, claim = built(device_host(), "gpu:1")
    assert released(state, claim).devices == device_host().devices
