"""A clock that is set by days neither purges fresh records nor keeps old ones for ever.

An agent was restarted two days ahead, and purged the operations of the minute before: a repeated
call was refused with `ClaimConflict`, and the ids of aborted claims were granted again.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.claims import abort_instance_claim, instance_claim, release_claim
from rtagent.conf.settings import SettingsHolder
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.embedded import EmbeddedNode
from rtagent.errors import ClaimExpired
from rtagent.model.policy import Policy
from rtagent.service.context import NodeContext
from rtagent.service.housekeeping import Housekeeping
from rtagent.testing.hypervisor import FakeHypervisor
from tests.support.agents import LARGE, Agent, facts
from tests.support.hosts import NODE, NOON, ManualClock, call, request
from tests.support.trackers import Reports, become_writer
from tests.unit.service.conftest import make_settings

DAYS = timedelta(days=2)


@pytest.fixture
def engine(database_url: str) -> Engine:
    engine = open_engine(database_url, 30)
    metadata.create_all(engine)
    return engine


class Process:
    """One process of the agent, whose clock shows another time of day than it should."""

    def __init__(self, engine: Engine, directory: Path, wrong: timedelta = timedelta(0)) -> None:
        self.store = SqlStore(engine)
        self.clock = ManualClock(start=NOON + wrong)
        stored = become_writer(self.store)
        node = EmbeddedNode(stored, Policy(), FakeHypervisor(), self.store, self.clock)
        self.tracker = node.tracker
        assert node.auditor.run("start").good
        context = NodeContext(
            settings=SettingsHolder(make_settings(directory)),
            clock=self.clock,
            reporter=Reports(),
            bus=self.tracker.bus,
        )
        self._housekeeping = Housekeeping(context, self.store, self.tracker)
        self.work(0)

    def work(self, hours: int) -> None:
        """Run for some hours, with a turn of the housekeeping in each."""
        self._housekeeping.turn()
        for _ in range(hours):
            self.clock.advance(3600)
            self._housekeeping.turn()


@pytest.mark.parametrize("step", [DAYS, -DAYS])
def test_repeats_are_recognised_after_a_restart_with_another_time(engine, tmp_path, step):
    before = Process(engine, tmp_path)
    create, asked = call("instance_claim"), request()
    claim = before.tracker.create(instance_claim, create, asked)
    aborted = call("instance_claim")
    before.tracker.execute(abort_instance_claim, call("abort_instance_claim"), aborted.operation_id)
    before.work(1)

    after = Process(engine, tmp_path, step)
    after.work(22)

    assert after.tracker.create(instance_claim, create, asked).uuid == claim.uuid
    with pytest.raises(ClaimExpired):
        after.tracker.create(instance_claim, aborted, request())


def test_records_are_purged_when_the_agents_have_run_for_the_retention(engine, tmp_path):
    first = Process(engine, tmp_path)
    asked = call("instance_claim")
    first.tracker.execute(
        release_claim,
        call("release_claim"),
        first.tracker.create(instance_claim, asked, request()).uuid,
    )
    first.work(12)
    first.clock.start += DAYS  # under the running agent
    first.work(3)

    second = Process(engine, tmp_path, -DAYS)
    second.work(9)
    assert second.store.operation(NODE.uuid, asked.operation_id) is not None
    second.work(1)
    assert second.store.operation(NODE.uuid, asked.operation_id) is None


def test_claims_of_an_owner_stay_in_their_order_when_the_clock_is_set_back():
    """A restart found the claim that a resize had made older than the one before it."""
    agent = Agent()
    agent.run()
    agent.clock.start -= DAYS
    resize = facts(source_compute=agent.node.host)
    resized = agent.claim_move(resize, LARGE)
    agent.move("start_move_out", resize)
    agent.move("finish_move", resize)
    agent.start()

    away = facts("migration")
    agent.move("start_move_out", away)

    assert agent.state.claims[resized.uuid].state == "outgoing"
    assert agent.state.migrations[away.uuid].claim_uuid == resized.uuid
