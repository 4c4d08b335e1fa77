"""The record of devices, looked at again and again."""

import json

from msgspec.structs import replace

from rtagent.model.device import SRIOV_PF, STANDARD, Device
from rtagent.pci.record import USED, refresh, released
from rtagent.pci.spec import parse_specs
from tests.pci_hosts import (
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    SPECS,
    changed,
    gpu,
    looked,
    nic,
    two_gpus_and_a_nic,
    vf,
)

TWO = [gpu(GPU_0), gpu(GPU_1)]
ONCE = parse_specs([json.dumps({**GPU_IDS, "one_time_use": "yes"})])


def test_what_a_specification_matches_is_recorded():
    stranger = Device(address="0000:01:00.0", vendor_id="1234", product_id="1111")
    assert looked({}, [*TWO, stranger]).keys() == {GPU_0, GPU_1}


def test_nothing_changes_when_nothing_did():
    known = looked({}, TWO)
    again = refresh(known, TWO, SPECS, [GPU_0])
    assert (again.puts, again.removals, again.problems) == ((), (), ())


def test_devices_come_and_go():
    known = looked({}, TWO)
    change = refresh(known, [TWO[0], *nic(vfs=1)], SPECS, ())
    assert [each.address for each in change.puts] == [PF_0, vf(0)]
    assert change.removals == (GPU_1,)


def test_a_change_of_a_device_is_recorded():
    known = looked({}, [gpu()])
    after = looked(known, [changed(known[GPU_0], dev_type=SRIOV_PF)])
    assert after[GPU_0].device.dev_type == SRIOV_PF
    after = looked(after, [changed(known[GPU_0], dev_type=STANDARD)], held=[GPU_0])
    assert after[GPU_0].device.dev_type == STANDARD


def test_what_is_held_stays_when_it_leaves_the_host():
    known = looked({}, TWO)
    gone = looked(known, [], held=[GPU_0])
    assert gone.keys() == {GPU_0}
    assert not gone[GPU_0].present
    back = looked(gone, TWO, held=[GPU_0])
    assert back == known
    assert looked(gone, []) == {}


def test_what_is_held_stays_when_it_leaves_the_specification():
    known = looked({}, TWO)
    gone = looked(known, TWO, specs=(), held=[GPU_0])
    assert gone.keys() == {GPU_0}
    assert (gone[GPU_0].present, gone[GPU_0].listed) == (True, False)
    assert looked(gone, TWO, held=[GPU_0]) == known
    assert looked(gone, TWO, specs=()) == {}


def test_another_card_in_the_slot_is_not_what_is_held():
    other = replace(gpu(GPU_0), product_id="1eb8")
    specs = parse_specs(['{"vendor_id": "10de"}'])
    known = looked({}, TWO, specs)
    during = looked(known, [other, TWO[1]], specs, held=[GPU_0])
    assert during[GPU_0].device == TWO[0]
    assert not during[GPU_0].present
    assert looked(during, [other, TWO[1]], specs)[GPU_0].device == other


def test_what_somebody_has_and_nobody_offers_is_known():
    pf, *functions = nic(vfs=2)
    known = looked({}, [pf, *functions], specs=SPECS[2:], held=[pf.address])
    assert not known[PF_0].listed
    assert known[vf(0)].listed


def test_a_device_for_one_use_stays_back_until_it_is_cleared():
    known = looked({}, TWO, ONCE)
    (used,) = released(known, [GPU_0])
    assert used.quarantine == USED
    known[GPU_0] = used
    # neither a look, nor leaving the host or the specification and coming back, lets it go
    assert looked(known, TWO, ONCE)[GPU_0].quarantine == USED
    assert looked(known, [TWO[1]], ONCE)[GPU_0].quarantine == USED
    away = looked(looked(known, TWO, ()), [], ONCE)
    assert looked(away, TWO, ONCE)[GPU_0] == used
    known[GPU_0] = replace(used, quarantine=None)
    assert looked(known, TWO, ONCE)[GPU_0].quarantine is None


def test_an_ordinary_device_is_free_at_once():
    known = two_gpus_and_a_nic()
    assert released(known, [GPU_0, vf(0), "0000:ff:00.0"]) == ()


def test_what_a_specification_may_not_match_is_not_offered_and_told():
    once = parse_specs([json.dumps({"address": PF_0, "one_time_use": "yes"})])
    change = refresh({}, nic(vfs=1), once, ())
    assert [each.address for each in change.puts] == [PF_0]
    assert [problem.item for problem in change.problems] == [f"device {vf(0)}"]
    assert "one_time_use" in change.problems[0].message
