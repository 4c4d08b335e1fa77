"""One process, several hosts, one tracker of devices: what one host gave away was missing at the
other, where a device has the same address.

All that decides is an argument.
"""

from __future__ import annotations

from tests.pci_hosts import GPU_0, GPU_1, addresses, asked, fitting, held, two_gpus_and_a_nic


def test_hosts_whose_devices_have_the_same_addresses_know_nothing_of_each_other():
    one, other = two_gpus_and_a_nic(), two_gpus_and_a_nic()
    busy = fitting(one, asked("gpu:2"), held("a", GPU_0))
    idle = fitting(other, asked("gpu:2"))
    assert hasattr(busy.fit(), "reasons")
    assert addresses(idle.fit()) == [GPU_0, GPU_1]
    assert hasattr(busy.fit(), "reasons")
