"""Rows of PCI devices."""

from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, select, update

from rtagent.db.device_rows import net_devices
from rtagent.db.keyed_table import TableRows
from rtagent.db.schema import compute_nodes, pci_devices
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected
from rtagent.model.assignment import AssignedResource
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE
from rtagent.model.domain_usage import Occupancy
from tests.support.stored_values import (
    DEVICE,
    NODE,
    NOW,
    changed,
    created,
    device,
    devices,
    domain_usage,
    folded,
    released,
    with_devices,
)
from tests.support.stores import Database, assert_loads, commit, enrolled, without_claims

GPU, OTHER = device(8), device(9)
#: Two devices of one IOMMU group.
TWINS = tuple(replace(each, device=replace(each.device, iommu_group=7)) for each in (GPU, OTHER))


def shown(engine: Engine) -> dict[str, tuple[Any, ...]]:
    """Return status, owner and request, by address."""
    names = ("address", "status", "instance_uuid", "request_id")
    with engine.begin() as connection:
        rows = connection.execute(select(*(pci_devices.c[name] for name in names)))
        return {address: tuple(rest) for address, *rest in rows}


def pools_shown(engine: Engine) -> str:
    with engine.begin() as connection:
        return str(connection.scalar(select(compute_nodes.c.pci_device_pools)))


def test_devices_are_inserted_updated_and_deleted(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), devices(device(1), device(2), DEVICE))
    assert_loads(store, state)
    state = commit(store, state, devices(device(1, present=False), device(3)))
    state = commit(store, state, devices(removals=[DEVICE.address]))
    assert_loads(store, state)
    assert sorted(state.devices) == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]


def test_device_removed_and_added_in_one_commit_is_updated(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), devices(device(1)))
    gone, back = devices(removals=[device(1).address]), devices(device(1, quarantine="why"))
    assert_loads(store, commit(store, state, gone, back))


def test_store_refuses_two_owners_of_one_device(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), devices(device(1)), created(with_devices(1, device(1))))
    with pytest.raises(ChangeRejected):
        commit(store, without_claims(state), created(with_devices(2, device(1))))
    assert_loads(store, state)


def test_row_has_novas_fields(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), devices(GPU))
    with engine.begin() as connection:
        row = connection.execute(select(pci_devices)).one()
    assert (row.node_uuid, row.address, row.dev_id) == (
        NODE.uuid,
        GPU.address,
        "pci_0000_08_00_0",
    )
    assert (row.vendor_id, row.product_id, row.dev_type) == ("10de", "13f1", "type-PCI")
    assert (row.label, row.numa_node, row.parent_addr) == ("label_10de_13f1", None, None)
    assert (row.status, row.instance_uuid, row.request_id) == ("available", None, None)


def test_rows_show_the_owner_and_the_effect_on_the_iommu_group(engine: Engine):
    store = SqlStore(engine)
    claim = with_devices(1, TWINS[0])
    state = commit(store, enrolled(store), devices(*TWINS), created(claim))
    mine = (claim.owner_id, "request 1")
    assert shown(engine) == {
        GPU.address: ("claimed", *mine),
        OTHER.address: ("unclaimable", None, None),
    }
    state = commit(store, state, changed(claim, state=ACTIVE, expires_at=None))
    assert shown(engine) == {
        GPU.address: ("allocated", *mine),
        OTHER.address: ("unavailable", None, None),
    }
    state = commit(store, state, released(state.claims[claim.uuid]))
    assert {status for status, *_ in shown(engine).values()} == {"available"}
    assert_loads(store, state)
    audited = devices(*TWINS)
    assert net_devices(state, folded(state, audited), [audited]) == TableRows()


def test_device_of_a_foreign_domain_is_allocated_to_the_domain(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), devices(GPU))
    domain = domain_usage(1, occupancy=Occupancy(devices=frozenset({GPU.address})))
    state = commit(store, state, Change(cause="audit", at=NOW, domain_usages=(domain,)))
    assert shown(engine) == {GPU.address: ("allocated", domain.domain_uuid, None)}
    commit(store, state, Change(cause="audit", at=NOW, domain_usage_removals=(domain.domain_uuid,)))
    assert shown(engine) == {GPU.address: ("available", None, None)}


def test_device_is_available_after_a_foreign_domain_releases_it(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), devices(GPU))
    domain = domain_usage(1, occupancy=Occupancy(devices=frozenset({GPU.address})))
    for its in (domain, replace(domain, occupancy=Occupancy())):
        state = commit(store, state, Change(cause="audit", at=NOW, domain_usages=(its,)))
    assert shown(engine) == {GPU.address: ("available", None, None)}
    assert '"count":1' in pools_shown(engine)


def test_parent_of_an_assigned_resource_is_claimed(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), devices(GPU))
    part = AssignedResource(parent_addr=GPU.address, resource_class="VGPU", identifier="a part")
    claim = replace(with_devices(1), resources=(part,))
    state = commit(store, state, created(claim))
    assert shown(engine) == {GPU.address: ("claimed", claim.owner_id, None)}
    assert pools_shown(engine) == "[]"
    commit(store, state, released(state.claims[claim.uuid]))
    assert shown(engine) == {GPU.address: ("available", None, None)}


def test_unreadable_device_is_quarantined(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), devices(GPU, OTHER))
    with engine.begin() as connection:
        its = update(pci_devices).where(pci_devices.c.address == GPU.address)
        connection.execute(its.values(extra_info="{"))
    state = enrolled(store)
    assert any(f"pci_devices {GPU.address}: damaged (extra_info" in each for each in state.damage)
    assert "its record is damaged: extra_info" in (state.devices[GPU.address].quarantine or "")
    assert state.devices[OTHER.address] == OTHER
    state = commit(store, state, devices(GPU))
    assert_loads(store, state)
