"""Nodes with guests in a database."""

from __future__ import annotations

from sqlalchemy import Engine

from rtagent.db.store import SqlStore
from rtagent.model.node import NodeRecord, Writer
from rtagent.model.node_state import HOST, restore
from rtagent.reconcile.steps import Step
from rtagent.tracker import ResourceTracker
from tests.support.host_states import fleet_node, node_named
from tests.support.hosts import PINNED, ManualClock, request
from tests.support.trackers import claim


def started(engine: Engine, name: str = "cn1", number: int = 4) -> ResourceTracker:
    """Return the tracker of a node with guests, with its policy and its devices in the database."""
    store, wanted, node = SqlStore(engine), fleet_node(), node_named(name)

    def enroll(_: object) -> NodeRecord:
        writer = Writer(machine_id=name, boot_id="b", state_path="/s")
        return NodeRecord(node=node, epoch=1, revision=0, writer=writer)

    state = restore(store.enroll(node.uuid, node.hypervisor_hostname, enroll), wanted.policy)
    tracker = ResourceTracker(store, ManualClock(), state)
    with tracker.observing() as base:
        tracker.apply(
            [
                Step(key=HOST, topology=wanted.topology),
                *(Step(key=f"device:{a}", device=d) for a, d in wanted.devices.items()),
            ],
            base,
        )
    for index in range(number):
        specs = PINNED if index % 2 else {"hw:mem_page_size": "2MB"}
        claim(tracker, request(2, 64, 1, extra_specs=specs, instance={"vm_state": "active"}))
    return tracker
