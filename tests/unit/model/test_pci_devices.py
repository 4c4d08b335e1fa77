"""The immutable mapping of recorded devices, and views derived from it."""

from rtagent.model.derived import derived
from rtagent.model.device import PciDevices
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record

ONE, OTHER = record([gpu(GPU_0, 0)]), record([gpu(GPU_1, 1)])


def test_changed_leaves_the_original_unchanged():
    before = PciDevices(ONE)
    after = before.changed((GPU_0,), tuple(OTHER.values()))
    assert (dict(before), dict(after)) == (ONE, OTHER)
    assert (GPU_0 in before, GPU_0 in after, len(after)) == (True, False, 1)


def test_derived_view_is_computed_once_and_again_after_a_change():
    computed = []

    @derived
    def first(devices: PciDevices) -> str:
        computed.append(devices)
        return min(devices)

    before = PciDevices(ONE)
    assert (first(before), first(before), first(before.changed((), ()))) == (GPU_0,) * 3
    assert len(computed) == 1
    after = before.changed((GPU_0,), tuple(OTHER.values()))
    assert (first(after), len(computed)) == (GPU_1, 2)
