"""The rows of devices that a commit writes are those that the state after it would have written
anew."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.db.devices import net_devices
from rtagent.model.change import Change
from rtagent.model.host import HostState, restore
from rtagent.model.numa_usage import Occupancy
from rtagent.model.pci_devices import PciDevices
from tests.builders import NOON, host, uid
from tests.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, record, vf
from tests.unit.api import given as known
from tests.unit.placement.values import domain

DEVICES = record([gpu(GPU_0, 0, iommu_group=7), gpu(GPU_1, 1, iommu_group=7), *nic(vfs=3)])
HELD = [GPU_0, GPU_1, PF_0, vf(0), vf(1)]
#: One owner for each device, so that none has two.
CLAIMS = {
    address: replace(known.DB_CLAIM, uuid=uid(), owner_id=uid(number), pci=())
    for number, address in enumerate(HELD, 100)
}


def claims(addresses):
    for address in sorted(addresses):
        if address not in (vf(0), vf(1)) or PF_0 not in addresses:
            device = known.assigned(address, f"for {address}")
            yield replace(CLAIMS[address], pci=(device,))


@st.composite
def states(draw) -> HostState:
    """Any of the devices, held by any claims, and by a domain."""
    there = draw(st.sets(st.sampled_from(sorted(DEVICES)), min_size=1))
    kept_back = draw(st.sets(st.sampled_from(sorted(DEVICES)), max_size=1))
    devices = {
        address: replace(DEVICES[address], quarantine="odd" if address in kept_back else None)
        for address in there
    }
    used = draw(st.frozensets(st.sampled_from(sorted(DEVICES)), max_size=2))
    stranger = replace(domain(1, 64, uid(9)), occupancy=Occupancy(devices=used))
    held = claims(draw(st.sets(st.sampled_from(HELD))))
    return restore(replace(host(), devices=PciDevices(devices)), held, (stranger,), 1)


def change(before: HostState, after: HostState) -> Change:
    return Change(
        cause="test",
        at=NOON,
        puts=tuple(after.claims.values()),
        ends=tuple(each for uuid, each in before.claims.items() if uuid not in after.claims),
        devices=tuple(
            each for address, each in after.devices.items() if before.devices.get(address) != each
        ),
        device_removals=tuple(set(before.devices) - set(after.devices)),
        holdings=tuple(after.holdings.values()),
    )


def whole(state: HostState):
    """Every row, as if none were there."""
    nothing = replace(host(), devices=PciDevices())
    return {row.address: row for row in net_devices(nothing, state, [change(nothing, state)]).new}


@given(states(), states())
def test_what_is_written_leads_from_the_rows_of_before_to_those_of_after(before, after):
    rows = net_devices(before, after, [change(before, after)])

    written = {row.address: row for row in (*rows.new, *rows.changed)}
    left = {each: row for each, row in whole(before).items() if each not in rows.gone}
    assert left | written == whole(after)
    assert {row.address for row in rows.new}.isdisjoint(whole(before))
    assert all(whole(before)[row.address] != row for row in rows.changed)
