"""Facts that the program that embeds the tracker states."""

import pytest

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import (
    NodeDraining,
    UnitConflict,
)
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.draining import drain
from rtagent.model.claim import RESIZE
from rtagent.model.migration import MigrationFacts
from rtagent.testing.memory_store import MemoryStore
from tests.support.claims import stated
from tests.support.hosts import call, uid
from tests.support.pci_hosts import GPU_0, GPU_1
from tests.support.trackers import claim, stored_state, tracker_on


@pytest.fixture
def store(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    return SqlStore(engine)


def test_adopted_claims_survive_a_restart(store):
    tracker, owner = tracker_on(store), uid()
    facts = MigrationFacts(uuid=uid(), migration_type=RESIZE)
    made = [
        tracker.change(adopt_claim, call("adopt"), stated(owner, cpus=(2, 3), devices=[GPU_0])),
        tracker.change(
            adopt_claim, call("adopt"), stated(owner, cpus=(2, 4), devices=[GPU_0], migration=facts)
        ),
        tracker.change(adopt_claim, call("adopt"), stated(devices=[GPU_1], attached=True)),
    ]

    found = stored_state(store)
    found.check()

    assert dict(found.claims) == {each.uuid: each for each in made}
    assert found.units == tracker.snapshot().units
    assert found.usage == tracker.snapshot().usage
    assert found.devices == tracker.snapshot().devices
    again = tracker_on(store)
    with pytest.raises(UnitConflict):
        again.change(adopt_claim, call("adopt"), stated(cpus=(4,)))


def test_node_that_drains_adopts():
    tracker = tracker_on(MemoryStore())
    tracker.execute(drain, call("drain"), "maintenance", None)
    with pytest.raises(NodeDraining):
        claim(tracker)
    tracker.change(adopt_claim, call("adopt"), stated())
    assert len(tracker.snapshot().claims) == 1
