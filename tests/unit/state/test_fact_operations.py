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
        tracker.facts.adopt_claim(stated(owner, cpus=(2, 3), devices=[GPU_0]), call("adopt")),
        tracker.facts.adopt_claim(
            stated(owner, cpus=(2, 4), devices=[GPU_0], migration=facts), call("adopt")
        ),
        tracker.facts.adopt_claim(stated(devices=[GPU_1], attached=True), call("adopt")),
    ]

    found = stored_state(store)
    found.check()

    assert dict(found.claims) == {each.uuid: each for each in made}
    assert found.units == tracker.snapshot().units
    assert found.usage == tracker.snapshot().usage
    assert found.devices == tracker.snapshot().devices
    again = tracker_on(store)
    with pytest.raises(UnitConflict):
        again.facts.adopt_claim(stated(cpus=(4,)), call("adopt"))


def test_repeat_returns_the_claim_and_another_request_is_a_conflict():
    tracker, asked, same = tracker_on(MemoryStore()), stated(cpus=(2,)), call("adopt")
    made = tracker.facts.adopt_claim(asked, same)
    assert tracker.facts.adopt_claim(asked, same) == made
    other = call("adopt", operation_id=same.operation_id, digest="other")
    with pytest.raises(ClaimConflict, match="was used for another"):
        tracker.facts.adopt_claim(asked, other)
    release(tracker, made.uuid)
    with pytest.raises(ClaimExpired):
        tracker.facts.adopt_claim(asked, same)


def test_node_that_drains_adopts():
    tracker = tracker_on(MemoryStore())
    tracker.drains.begin("maintenance", None, call("drain"))
    with pytest.raises(NodeDraining):
        claim(tracker)
    tracker.facts.adopt_claim(stated(), call("adopt"))
    assert len(tracker.snapshot().claims) == 1


def test_claims_are_released_and_devices_given_back(store):
    tracker, owner = tracker_on(store), uid()
    asked = stated(owner, cpus=(2,), devices=[GPU_0, GPU_1])
    main = tracker.facts.adopt_claim(asked, call("adopt"))
    more = tracker.facts.adopt_claim(stated(owner, attached=True), call("adopt"))

    tracker.facts.give_back_devices(owner, [GPU_0], call("give_back"), main.uuid)
    assert [each.address for each in stored_state(store).claims[main.uuid].pci] == [GPU_1]
    other = tracker.facts.adopt_claim(stated(devices=[GPU_0]), call("adopt"))
    tracker.facts.release_claims(owner, call("release"), [more.uuid])
    assert {*stored_state(store).claims} == {main.uuid, other.uuid}
    same = call("release")
    tracker.facts.release_claims(owner, same, reason="deleted")
    tracker.facts.release_claims(owner, same, reason="deleted")
    assert [*stored_state(store).claims] == [other.uuid]
    with pytest.raises(ClaimExpired):
        tracker.facts.adopt_claim(asked, call("adopt", operation_id=main.uuid))


def test_outcome_of_a_move_is_recorded(store):
    tracker, owner = tracker_on(store), uid()
    facts = MigrationFacts(
        uuid=uid(),
        migration_type=RESIZE,
        source_node=NODE.hypervisor_hostname,
        dest_node=NODE.hypervisor_hostname,
    )
    tracker.facts.adopt_claim(stated(owner), call("adopt"))
    new = tracker.facts.adopt_claim(stated(owner, migration=facts), call("adopt"))
    same = call("settle_move")
    for _ in range(2):
        tracker.facts.settle_move(owner, facts, "confirmed", same)
    found = stored_state(store)
    assert [*found.claims] == [new.uuid]
    assert found.migrations[facts.uuid].status == "confirmed"
    with pytest.raises(IllegalTransition):
        tracker.facts.settle_move(owner, facts, "reverted", call("settle_move"))
