"""The history of claims."""

from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine, update

from rtagent.db.history import ClaimEvent, ClaimFacts
from rtagent.db.schema import claim_events
from rtagent.db.store import SqlStore
from rtagent.model.claim import ACTIVE
from tests.support.stored_values import NODE, NOW, ODD, changed, claim, created, uuid
from tests.support.stores import Database, commit, enrolled


def test_history_is_complete_and_ordered(database: Database):
    store = database.store()
    one = claim(1, pcpus=3)
    state = commit(store, enrolled(store), created(one))
    commit(store, state, changed(one, state=ACTIVE, suspect="why"))
    was = ClaimFacts(
        state="building", suspect=None, vcpus=2, pcpus=3, memory_mb=1024, disk_mb=20480
    )
    common: dict[str, Any] = {"claim_uuid": one.uuid, "node_uuid": NODE.uuid, "at": NOW}
    assert store.history(NODE.uuid, one.uuid) == (
        ClaimEvent(
            **common,
            action="create",
            actor=ODD,
            request_id="req-1",
            before=None,
            after=was,
            reason="",
        ),
        ClaimEvent(
            **common,
            action="activate",
            actor="",
            request_id="",
            before=was,
            after=replace(was, state="active", suspect="why"),
            reason=ODD,
        ),
    )
    assert store.history(NODE.uuid, uuid(5)) == ()


def test_damaged_event_is_listed_with_what_can_be_read(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(claim(1), claim(2)))
    with engine.begin() as connection:
        damaged = claim_events.c.claim_uuid == claim(1).uuid
        connection.execute(update(claim_events).where(damaged).values(after="{"))
    first, second = store.history(NODE.uuid)
    assert (first.claim_uuid, first.action) == (claim(1).uuid, "create")
    assert "the record of this event is damaged: after" in first.reason
    assert (second.reason, second.after.vcpus) == ("", 2)
