"""LP1633120, LP2115905, LP2115729: devices that leave the specification while they are in use.

A typing error in the whitelist deleted the rows of devices that guests had: the guests could not be
rebooted, and after the error was mended the devices were given out a second time. A guest with such
a device could not be deleted. And of several devices that had left, every second was forgotten to
be removed, since the list changed while it was walked.
"""

from __future__ import annotations

from rtagent.pci.record import refresh
from rtagent.pci.states import ALLOCATED, Holdings
from tests.pci_hosts import GPU_0, GPU_1, SPECS, asked, fitting, gpu, held, looked, nic

THERE = [gpu(GPU_0), gpu(GPU_1), *nic(vfs=6)]


def test_a_typing_error_takes_nothing_from_those_who_have_it():
    known = looked({}, THERE)
    wrong = looked(known, THERE, specs=(), held=[GPU_0])
    state = Holdings(wrong, held("guest", GPU_0)).state(GPU_0)
    assert (state.state, state.owner_id) == (ALLOCATED, "guest")
    assert state.reason == "no device_spec offers it any more"

    mended = looked(wrong, THERE, held=[GPU_0])
    answer = fitting(mended, asked("gpu:2"), held("guest", GPU_0)).fit()
    assert [reason.available for reason in answer.reasons] == [1]


def test_what_has_left_is_released_like_any_other_and_goes_then():
    wrong = looked(looked({}, THERE), THERE, specs=(), held=[GPU_0])
    # Releasing asks nothing of the specification; nobody is given the device in between.
    assert hasattr(fitting(wrong, asked("gpu:1")).fit(), "reasons")
    assert looked(wrong, THERE, specs=()) == {}


def test_all_of_many_that_leave_at_once_are_gone():
    known = looked({}, THERE)
    assert len(refresh(known, [], SPECS, ()).removals) == len(THERE)
    assert looked(known, []) == {}
