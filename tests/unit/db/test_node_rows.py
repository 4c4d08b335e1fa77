"""Rows of nodes."""

import json
from typing import Any

from sqlalchemy import Engine, select

from rtagent.db.node_rows import NodeMetrics
from rtagent.db.schema import compute_nodes
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.domain_usage import Occupancy
from rtagent.model.metric import Metric, documents
from rtagent.model.policy import Policy
from rtagent.state.compute_node import numa_topology, pci_device_pools
from tests.support.stored_values import (
    NODE,
    NOW,
    POLICY,
    TOPOLOGY,
    claim,
    created,
    device,
    devices,
    domain_usage,
    pinned,
    released,
    with_devices,
)
from tests.support.stores import Database, assert_stored, commit, enrolled

GPU, OTHER = device(8), device(9)


def pools_shown(engine: Engine) -> str:
    with engine.begin() as connection:
        return str(connection.scalar(select(compute_nodes.c.pci_device_pools)))


def test_host_facts_stay_when_claims_change(database: Database):
    store = database.store()
    state = commit(
        store,
        enrolled(store),
        Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY, failed_builds=1),
    )
    after = commit(store, state, created(claim(1)))
    stored = store.load(NODE.uuid)
    assert_stored(stored, after)
    assert stored.ratios.cpu == POLICY.cpu_allocation_ratio


def test_numa_topology_column_shows_the_usage_of_cells(engine: Engine):
    def shown() -> Any:
        with engine.connect() as connection:
            document = connection.scalar(select(compute_nodes.c.numa_topology))
        return document and json.loads(document)

    store = SqlStore(engine)
    host = Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY)
    one, seen = pinned(1, 0, 2), domain_usage(1, occupancy=Occupancy(pcpus=frozenset({7})))
    state = enrolled(store)
    assert shown() is None
    for change in (
        host,
        created(one),
        Change(cause="audit", at=NOW, domain_usages=(seen,)),
        released(one),
        Change(cause="reload", at=NOW, policy=Policy()),
    ):
        state = commit(store, state, change)
        assert shown() == numa_topology(state)
    assert [cell["pinned_cpus"] for cell in shown()["cells"]] == [[], [7]]


def test_pools_column_counts_the_available_devices(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), devices(GPU, OTHER), created(with_devices(1, GPU)))
    (pool,) = pci_device_pools(state)
    assert pool["count"] == 1
    assert '"count":1' in pools_shown(engine)


def test_metrics_column_is_written_by_the_present_writer_only(engine: Engine):
    def shown() -> Any:
        with engine.connect() as connection:
            document = connection.scalar(select(compute_nodes.c.metrics))
        return document and json.loads(document)

    store, measured = SqlStore(engine), NodeMetrics(engine)
    metric = Metric(name="cpu.percent", value=0.5, timestamp=NOW, source="s")
    state = enrolled(store)
    measured.write(NODE.uuid, state.epoch, (metric,))
    assert shown() == documents((metric,))
    # A commit keeps them, and they change neither the revision nor what is read.
    host = Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY)
    state = commit(store, state, host)
    assert shown() == documents((metric,))
    measured.write(NODE.uuid, state.epoch, (metric, metric))
    assert_stored(store.load(NODE.uuid), state)
    measured.write(NODE.uuid, state.epoch - 1, ())
    assert len(shown()) == 2
