"""Rows of foreign domains."""

import pytest
from sqlalchemy import text

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.domain_usage import EVERY_KIND
from tests.support.stored_values import NODE, NOW, OCCUPANCY, domain_usage
from tests.support.stores import Database, assert_loads, commit, enrolled


def test_domain_usages_are_inserted_updated_and_deleted(database: Database):
    store = database.store()
    state = commit(
        store,
        enrolled(store),
        Change(cause="audit", at=NOW, domain_usages=(domain_usage(1), domain_usage(2))),
    )
    state = commit(
        store,
        state,
        Change(
            cause="audit",
            at=NOW,
            domain_usages=(
                domain_usage(1, vcpus=9, name="n", occupancy=OCCUPANCY),
                domain_usage(3),
            ),
            domain_usage_removals=(domain_usage(2).domain_uuid,),
        ),
    )
    assert_loads(store, state)
    assert len(state.domain_usages) == 2


def test_domain_usage_added_and_removed_in_one_commit_leaves_no_row(database: Database):
    store = database.store()
    came = Change(cause="audit", at=NOW, domain_usages=(domain_usage(1),))
    went = Change(cause="audit", at=NOW, domain_usage_removals=(domain_usage(1).domain_uuid,))
    state = commit(store, enrolled(store), came, went)
    assert_loads(store, state)
    state = commit(store, state, came)
    state = commit(store, state, went, came)
    assert_loads(store, state)
    assert len(state.domain_usages) == 1


@pytest.mark.parametrize(("occupancy", "pcpus"), [("?", set()), ('{"pcpus": [5]}', {5})])
def test_what_a_damaged_row_does_not_say_is_unknown(tmp_path, occupancy, pcpus):
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    migrate.sync(engine)
    store = SqlStore(engine)
    came = Change(cause="audit", at=NOW, domain_usages=(domain_usage(1, occupancy=OCCUPANCY),))
    commit(store, enrolled(store), came)
    with engine.begin() as connection:
        connection.execute(text("UPDATE foreign_domains SET occupancy = :o"), {"o": occupancy})
    (usage,) = store.load(NODE.uuid).domain_usages
    assert (usage.occupancy.pcpus, usage.occupancy.unknown) == (pcpus, EVERY_KIND)
