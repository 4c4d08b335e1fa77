"""LP2098496, LP1892361: pools that did not say what there was.

The provider's uuid was a part of a pool's key; a device that was pooled before its provider was
known was pooled again after, and one device was promised twice. And when a device's kind changed
(its driver was given virtual functions, say), the database said so and the pools did not.
"""

from __future__ import annotations

from collections import Counter

from rtagent.model.device import SRIOV_PF, Tags
from rtagent.pci.pools import pools
from rtagent.pci.states import Holdings
from tests.pci_hosts import GPU_0, asked, changed, fitting, gpu, looked, record, two_gpus_and_a_nic


def test_each_available_device_is_in_exactly_one_pool():
    devices = two_gpus_and_a_nic(vfs=8)
    devices |= record([gpu("0000:09:00.0")], Tags(trusted=True, physical_network="net"))
    free = Holdings(devices, []).available()
    pooled = Counter(address for pool in pools(free) for address in pool.addresses)
    assert pooled == Counter(list(devices))
    assert sum(pool.count for pool in pools(free)) == len(devices)


def test_pools_follow_a_change_of_kind():
    known = looked({}, [gpu()])
    assert [pool.dev_type for pool in pools(Holdings(known, []).available())] == ["type-PCI"]

    after = looked(known, [changed(known[GPU_0], dev_type=SRIOV_PF)])
    assert [pool.dev_type for pool in pools(Holdings(after, []).available())] == ["type-PF"]
    assert hasattr(fitting(after, asked("gpu:1")).fit(), "reasons")
