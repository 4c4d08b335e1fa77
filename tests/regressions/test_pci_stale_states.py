"""LP1969496, LP1567549, LP1565785: a crash left states that nobody corrected.

A host failed between two writes: the physical function was marked available, its virtual functions
unavailable, for ever. The scheduler sent guests; each claim failed on an empty pool. And a physical
function stayed unavailable after its last virtual one had been freed.

There is no state to be left behind: all of it follows from who holds what.
"""

from __future__ import annotations

from rtagent.model.device import PciDevice
from rtagent.pci.pools import pools
from rtagent.pci.states import AVAILABLE, Holdings
from tests.pci_hosts import PF_0, addresses, asked, fitting, held, nic, record, vf

HOST = record(nic(vfs=2))


def test_a_device_has_no_state_that_could_be_written():
    assert set(PciDevice.__struct_fields__) == {
        "device",
        "tags",
        "present",
        "listed",
        "quarantine",
    }


def test_whatever_was_before_a_crash_what_is_pooled_can_be_claimed():
    for holds in ([], held("a", vf(0)), held("a", PF_0), held("a", vf(0), vf(1))):
        free = Holdings(HOST, holds).available()
        for pool in pools(free):
            alias = {"1583": "pf", "154c": "vf"}[pool.product_id]
            answer = fitting(HOST, asked(f"{alias}:{pool.count}"), holds).fit()
            assert addresses(answer) == list(pool.addresses)


def test_the_physical_function_is_back_with_its_last_virtual_one_and_not_before():
    for holds, free in ((held("a", vf(0), vf(1)), False), (held("a", vf(1)), False), ([], True)):
        assert (Holdings(HOST, holds).state(PF_0).state == AVAILABLE) is free
