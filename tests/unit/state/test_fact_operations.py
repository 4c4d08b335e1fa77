"""Facts that the program that embeds the tracker states."""

import pytest

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import (
    ClaimConflict,
    ClaimExpired,
    IllegalTransition,
    NodeDraining,
    UnitConflict,
)
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.draining import drain
from rtagent.lifecycle.moves import settle_move
from rtagent.lifecycle.stated_ends import give_back_devices, release_claims
from rtagent.model.claim import RESIZE
from rtagent.model.migration import MigrationFacts
from rtagent.testing.memory_store import MemoryStore
from tests.support.claims import stated
from tests.support.hosts import NODE, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1
from tests.support.trackers import claim, release, stored_state, tracker_on


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


def test_repeat_returns_the_claim_and_another_request_is_a_conflict():
    tracker, asked, same = tracker_on(MemoryStore()), stated(cpus=(2,)), call("adopt")
    made = tracker.change(adopt_claim, same, asked)
    assert tracker.change(adopt_claim, same, asked) == made
    other = call("adopt", operation_id=same.operation_id, digest="other")
    with pytest.raises(ClaimConflict, match="was used for another"):
        tracker.change(adopt_claim, other, asked)
    release(tracker, made.uuid)
    with pytest.raises(ClaimExpired):
        tracker.change(adopt_claim, same, asked)


def test_node_that_drains_adopts():
    tracker = tracker_on(MemoryStore())
    tracker.execute(drain, call("drain"), "maintenance", None)
    with pytest.raises(NodeDraining):
        claim(tracker)
    tracker.change(adopt_claim, call("adopt"), stated())
    assert len(tracker.snapshot().claims) == 1


def test_claims_are_released_and_devices_given_back(store):
    tracker, owner = tracker_on(store), uid()
    asked = stated(owner, cpus=(2,), devices=[GPU_0, GPU_1])
    main = tracker.change(adopt_claim, call("adopt"), asked)
    more = tracker.change(adopt_claim, call("adopt"), stated(owner, attached=True))

    tracker.execute(give_back_devices, call("give_back"), owner, [GPU_0], main.uuid)
    assert [each.address for each in stored_state(store).claims[main.uuid].pci] == [GPU_1]
    other = tracker.change(adopt_claim, call("adopt"), stated(devices=[GPU_0]))
    tracker.execute(release_claims, call("release"), owner, [more.uuid])
    assert {*stored_state(store).claims} == {main.uuid, other.uuid}
    same = call("release")
    tracker.execute(release_claims, same, owner, reason="deleted")
    tracker.execute(release_claims, same, owner, reason="deleted")
    assert [*stored_state(store).claims] == [other.uuid]
    with pytest.raises(ClaimExpired):
        tracker.change(adopt_claim, call("adopt", operation_id=main.uuid), asked)


def test_outcome_of_a_move_is_recorded(store):
    tracker, owner = tracker_on(store), uid()
    facts = MigrationFacts(
        uuid=uid(),
        migration_type=RESIZE,
        source_node=NODE.hypervisor_hostname,
        dest_node=NODE.hypervisor_hostname,
    )
    tracker.change(adopt_claim, call("adopt"), stated(owner))
    new = tracker.change(adopt_claim, call("adopt"), stated(owner, migration=facts))
    same = call("settle_move")
    for _ in range(2):
        tracker.execute(settle_move, same, owner, facts, "confirmed")
    found = stored_state(store)
    assert [*found.claims] == [new.uuid]
    assert found.migrations[facts.uuid].status == "confirmed"
    with pytest.raises(IllegalTransition):
        tracker.execute(settle_move, call("settle_move"), owner, facts, "reverted")
