"""The record of devices after listings of the host."""

import json

from msgspec.structs import replace

from rtagent.model.device import PciDevices
from rtagent.pci.specs import USED_ONCE, parse_specs, quarantine_used, refresh
from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    gpu,
    nic,
    record,
    refreshed,
    two_gpus_and_a_nic,
    vf,
)

TWO = [gpu(GPU_0), gpu(GPU_1)]
ONE_TIME_USE = parse_specs([json.dumps({**GPU_IDS, "one_time_use": "yes"})])


def test_device_in_use_stays_recorded_when_it_leaves_the_host():
    known = refreshed({}, TWO)
    absent = refreshed(known, [], used=[GPU_0])
    assert absent.keys() == {GPU_0}
    assert not absent[GPU_0].present
    assert refreshed(absent, TWO, used=[GPU_0]) == known
    assert refreshed(absent, []) == {}


def test_other_card_in_the_slot_does_not_replace_the_device_in_use():
    other = replace(gpu(GPU_0), product_id="1eb8")
    specs = parse_specs(['{"vendor_id": "10de"}'])
    known = refreshed({}, TWO, specs)
    during = refreshed(known, [other, TWO[1]], specs, used=[GPU_0])
    assert during[GPU_0].device == TWO[0]
    assert not during[GPU_0].present
    assert refreshed(during, [other, TWO[1]], specs)[GPU_0].device == other


def test_one_time_use_device_is_quarantined_until_it_is_cleared():
    known = refreshed({}, TWO, ONE_TIME_USE)
    (used,) = quarantine_used(known, [GPU_0])
    assert used.quarantine == USED_ONCE
    known[GPU_0] = used
    # A refresh does not end the quarantine, nor does leaving the host or the specification.
    assert refreshed(known, TWO, ONE_TIME_USE)[GPU_0].quarantine == USED_ONCE
    assert refreshed(known, [TWO[1]], ONE_TIME_USE)[GPU_0].quarantine == USED_ONCE
    absent = refreshed(refreshed(known, TWO, ()), [], ONE_TIME_USE)
    assert refreshed(absent, TWO, ONE_TIME_USE)[GPU_0] == used
    known[GPU_0] = replace(used, quarantine=None)
    assert refreshed(known, TWO, ONE_TIME_USE)[GPU_0].quarantine is None


def test_released_devices_without_one_time_use_are_not_quarantined():
    assert quarantine_used(two_gpus_and_a_nic(), [GPU_0, vf(0), "0000:ff:00.0"]) == ()


def test_device_whose_tags_are_not_allowed_is_not_recorded():
    one_time_use = parse_specs([json.dumps({"address": PF_0, "one_time_use": "yes"})])
    change = refresh({}, nic(vfs=1), one_time_use, ())
    assert [each.address for each in change.puts] == [PF_0]


def test_a_change_leaves_the_original_unchanged():
    one, other = record([gpu(GPU_0)]), record([gpu(GPU_1)])
    before = PciDevices(one)
    after = before.changed((GPU_0,), tuple(other.values()))
    assert (dict(before), dict(after)) == (one, other)
    assert (GPU_0 in before, GPU_0 in after, len(after)) == (True, False, 1)
