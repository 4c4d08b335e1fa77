"""All devices of a host, and what is remembered of them."""

from rtagent.model.pci_devices import PciDevices
from rtagent.model.remembered import remembered
from tests.pci_hosts import GPU_0, GPU_1, gpu, record

ONE, OTHER = record([gpu(GPU_0, 0)]), record([gpu(GPU_1, 1)])


def test_a_change_leaves_those_of_before_alone():
    before = PciDevices(ONE)
    after = before.changed((GPU_0,), tuple(OTHER.values()))
    assert (dict(before), dict(after)) == (ONE, OTHER)
    assert (GPU_0 in before, GPU_0 in after, len(after)) == (True, False, 1)


def test_they_are_as_good_as_any_others_that_say_the_same():
    assert PciDevices(ONE) == PciDevices(OTHER).changed((GPU_1,), tuple(ONE.values()))
    assert PciDevices(ONE) != PciDevices(OTHER)


def test_what_follows_is_worked_out_once_and_anew_after_a_change():
    asked = []

    @remembered
    def first(devices: PciDevices) -> str:
        asked.append(devices)
        return min(devices)

    before = PciDevices(ONE)
    assert (first(before), first(before), first(before.changed((), ()))) == (GPU_0,) * 3
    assert len(asked) == 1
    after = before.changed((GPU_0,), tuple(OTHER.values()))
    assert (first(after), len(asked)) == (GPU_1, 2)
