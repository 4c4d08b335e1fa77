"""The device rows that a commit writes lead to the rows that its final state has."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.db.device_rows import net_devices
from rtagent.model.change import Change
from rtagent.model.device import PciDevices
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from tests.support import owned_hosts
from tests.support.hosts import NOON, host, uid, with_claims
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, record, vf
from tests.unit.placement.values import domain

DEVICES = record([gpu(GPU_0, 0, iommu_group=7), gpu(GPU_1, 1, iommu_group=7), *nic(vfs=3)])
CLAIMED = [GPU_0, GPU_1, PF_0, vf(0), vf(1)]
#: A claim of an owner of its own for each device.
CLAIMS = {
    address: replace(owned_hosts.DB_CLAIM, uuid=uid(), owner_id=uid(number), pci=())
    for number, address in enumerate(CLAIMED, 100)
}


def claims(addresses):
    for address in sorted(addresses):
        if address not in (vf(0), vf(1)) or PF_0 not in addresses:
            device = owned_hosts.assigned(address, f"for {address}")
            yield replace(CLAIMS[address], pci=(device,))


@st.composite
def states(draw) -> NodeState:
    """Some of the devices, used by some of the claims and by a domain; one may be quarantined."""
    recorded = draw(st.sets(st.sampled_from(sorted(DEVICES)), min_size=1))
    quarantined = draw(st.sets(st.sampled_from(sorted(DEVICES)), max_size=1))
    devices = {
        address: replace(DEVICES[address], quarantine="odd" if address in quarantined else None)
        for address in recorded
    }
    used = draw(st.frozensets(st.sampled_from(sorted(DEVICES)), max_size=2))
    foreign = replace(domain(1, 64, uid(9)), occupancy=Occupancy(devices=used))
    drawn = claims(draw(st.sets(st.sampled_from(CLAIMED))))
    return with_claims(replace(host(), devices=PciDevices(devices)), drawn, (foreign,))


def change(before: NodeState, after: NodeState) -> Change:
    return Change(
        cause="test",
        at=NOON,
        puts=tuple(after.claims.values()),
        ends=tuple(each for uuid, each in before.claims.items() if uuid not in after.claims),
        devices=tuple(
            each for address, each in after.devices.items() if before.devices.get(address) != each
        ),
        device_removals=tuple(set(before.devices) - set(after.devices)),
        domain_usages=tuple(after.domain_usages.values()),
    )


def all_rows(state: NodeState):
    """Return the rows of a state, as a commit to an empty database would write them."""
    empty = replace(host(), devices=PciDevices())
    return {row.address: row for row in net_devices(empty, state, [change(empty, state)]).new}


@given(states(), states())
def test_written_rows_lead_from_the_rows_before_to_the_rows_after(before, after):
    rows = net_devices(before, after, [change(before, after)])

    written = {row.address: row for row in (*rows.new, *rows.changed)}
    kept = {each: row for each, row in all_rows(before).items() if each not in rows.gone}
    assert kept | written == all_rows(after)
    assert {row.address for row in rows.new}.isdisjoint(all_rows(before))
    assert all(all_rows(before)[row.address] != row for row in rows.changed)
