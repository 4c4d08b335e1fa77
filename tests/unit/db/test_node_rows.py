"""Columns of nodes and devices that are written for people to read."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, select

from rtagent.db.device_rows import net_devices
from rtagent.db.keyed_table import TableRows
from rtagent.db.node_rows import NodeMetrics
from rtagent.db.schema import compute_nodes, pci_devices
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE
from rtagent.model.domain_usage import Occupancy
from rtagent.model.metric import Metric, documents
from tests.support import stored_values as stored
from tests.support.stores import assert_stored, commit, enrolled

#: Two devices of one IOMMU group.
GPU, OTHER = (
    replace(each, device=replace(each.device, iommu_group=7))
    for each in (stored.device(8), stored.device(9))
)
FREE = ("available", None, None)


def shown(engine: Engine) -> list[tuple[Any, ...]]:
    """Return status, owner and request of each device, by address."""
    columns = (pci_devices.c[name] for name in ("status", "instance_uuid", "request_id"))
    with engine.connect() as connection:
        rows = connection.execute(select(*columns).order_by(pci_devices.c.address))
        return [tuple(row) for row in rows]


def document(engine: Engine, column: str) -> Any:
    """Return a document of the node's row."""
    with engine.connect() as connection:
        text = connection.scalar(select(compute_nodes.c[column]))
    return text and json.loads(text)


def test_row_of_a_device_has_novas_fields(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), stored.devices(GPU))
    with engine.connect() as connection:
        row = connection.execute(select(pci_devices)).one()
    assert (row.dev_id, row.label) == ("pci_0000_08_00_0", "label_10de_13f1")
    assert (row.vendor_id, row.product_id, row.dev_type) == ("10de", "13f1", "type-PCI")


def test_rows_of_devices_show_the_owner_and_the_effect_on_the_iommu_group(engine: Engine):
    store = SqlStore(engine)
    claim = stored.with_devices(1, GPU)
    state = commit(store, enrolled(store), stored.devices(GPU, OTHER), stored.created(claim))
    mine = (claim.owner_id, "request 1")
    assert shown(engine) == [("claimed", *mine), ("unclaimable", None, None)]
    state = commit(store, state, stored.changed(claim, state=ACTIVE, expires_at=None))
    assert shown(engine)[0] == ("allocated", *mine)
    state = commit(store, state, stored.released(state.claims[claim.uuid]))
    assert shown(engine) == [FREE, FREE]
    audited = stored.devices(GPU, OTHER)
    assert net_devices(state, state.fold(audited), [audited]) == TableRows(), "none has changed"


@pytest.mark.parametrize("ended", [False, True])
def test_device_of_a_foreign_domain_is_allocated_to_the_domain(engine: Engine, ended: bool):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), stored.devices(GPU))
    domain = stored.domain_usage(1, occupancy=Occupancy(devices=frozenset({GPU.address})))
    state = commit(store, state, Change(cause="audit", at=stored.NOW, domain_usages=(domain,)))
    assert shown(engine) == [("allocated", domain.domain_uuid, None)]
    assert document(engine, "pci_device_pools") == []
    if ended:
        change = Change(cause="audit", at=stored.NOW, domain_usage_removals=(domain.domain_uuid,))
    else:
        without = replace(domain, occupancy=Occupancy())
        change = Change(cause="audit", at=stored.NOW, domain_usages=(without,))
    commit(store, state, change)
    assert shown(engine) == [FREE]
    (pool,) = document(engine, "pci_device_pools")
    assert pool["count"] == 1


def test_metrics_column_is_written_by_the_present_writer_only(engine: Engine):
    store, measured = SqlStore(engine), NodeMetrics(engine)
    metric = Metric(name="cpu.percent", value=0.5, timestamp=stored.NOW, source="s")
    state = enrolled(store)
    measured.write(stored.NODE.uuid, state.epoch, (metric,))
    assert document(engine, "metrics") == documents((metric,))
    # A commit keeps them, and they change neither the revision nor what is read.
    host = Change(cause="audit", at=stored.NOW, topology=stored.TOPOLOGY, policy=stored.POLICY)
    state = commit(store, state, host)
    assert document(engine, "metrics") == documents((metric,))
    measured.write(stored.NODE.uuid, state.epoch, (metric, metric))
    assert_stored(store.load(stored.NODE.uuid), state)
    measured.write(stored.NODE.uuid, state.epoch - 1, ())
    assert len(document(engine, "metrics")) == 2
