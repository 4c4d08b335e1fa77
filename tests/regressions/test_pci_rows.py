"""LP1899541: archiving deleted rows deleted devices.

A device's row had the uuid of the instance that it was given to, and went into the archive with it:
the host was short of a device that was there.

A device knows no owner. It is recorded for as long as it is seen and offered, and whoever had it
may be forgotten without it.
"""

from __future__ import annotations

from rtagent.model.device import Device, PciDevice
from rtagent.pci.states import AVAILABLE, Holdings
from tests.pci_hosts import GPU_0, gpu, held, looked


def test_a_device_knows_no_owner():
    fields = {*Device.__struct_fields__, *PciDevice.__struct_fields__}
    assert not {field for field in fields if "instance" in field or "owner" in field}


def test_when_its_owner_is_gone_the_device_is_there():
    known = looked({}, [gpu()], held=[GPU_0])
    assert Holdings(known, held("instance", GPU_0)).state(GPU_0).owner_id == "instance"
    after = looked(known, [gpu()])
    assert after == known
    assert Holdings(after, []).state(GPU_0).state == AVAILABLE
