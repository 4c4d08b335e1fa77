"""When a scheduler asks, is ready, and reports hosts that are down."""

import pytest
from msgspec.structs import replace

from rtagent.conf.settings import SettingsHolder
from rtagent.db.host_records import HostRecord
from rtagent.errors import StoreUnavailable
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report import instances_of
from rtagent.scheduler.tracked_host import INSTANCES, STATE, Wanted
from rtagent.service.host_view import PART, REMOVED_INTERVAL, SETTLE, HostTurns, RecordedHosts
from tests.support.host_states import node_named
from tests.support.hosts import ManualClock, request, uid
from tests.support.reporting_agents import ReportingAgent
from tests.support.trackers import Reports
from tests.unit.service.conftest import make_settings

ALL_AGENTS = Wanted(host=None, description=True, instances=True)
JITTER, GRACE, DOWN = 5.0, 30.0, 60


class World:
    def __init__(self, tmp_path):
        self.clock, self.reports, self.asked = ManualClock(), Reports(), []
        self.readies, self.serving = 0, False
        self.settings = SettingsHolder(make_settings(tmp_path, service_down_time=DOWN))
        self.manager = HostManager(self.clock, NullReporter(), self.asked.append)
        self.view = HostTurns(
            self.manager, self.settings, lambda: self.serving, self._ready, self.clock, self.reports
        )

    def _ready(self):
        self.readies += 1

    def report(self, *names):
        for name in names:
            self.manager.update_host_state(ReportingAgent(name).host_report())


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_agents_are_asked_once_and_not_before_answers_can_arrive(world):
    world.view.turn()
    assert world.asked == []
    world.serving = True
    world.view.turn()
    world.view.turn()
    assert world.asked == [ALL_AGENTS]


def test_ready_once_when_all_who_were_heard_of_have_reported(world):
    world.serving = True
    world.view.turn()
    world.report("cn1", "cn2")
    world.clock.advance(JITTER + SETTLE / 2)
    world.view.turn()
    assert world.readies == 0
    error = world.view.not_ready
    assert error is not None and error.retriable and "2" in error.message
    world.clock.advance(SETTLE)
    world.view.turn()
    world.view.turn()
    assert (world.readies, world.view.not_ready) == (1, None)


def test_ready_after_the_grace_although_no_message_arrives(world):
    world.clock.advance(GRACE - 1)
    world.view.turn()
    assert world.readies == 0
    world.clock.advance(1)
    world.view.turn()
    assert (world.readies, world.view.not_ready) == (1, None)
    assert ("info", "start_grace is over: 0") in world.reports.logged


def test_silent_hosts_are_down_and_named(world):
    world.report(*[f"cn{number}" for number in range(7)])
    world.view.turn()
    assert world.reports.parts[PART] == ("pass", "")
    world.clock.advance(DOWN)
    world.report()
    world.view.turn()
    status = world.reports.parts[PART]
    assert status == ("warn", "7 of 7 hosts are down: cn0, cn1, cn2, cn3, cn4 and 2 more")
    assert world.view.number_down() == 7
    default = replace(world.settings.current.default, service_down_time=DOWN + 1)
    world.settings.current = replace(world.settings.current, default=default)
    world.view.turn()
    assert world.reports.parts[PART] == ("pass", "")


def test_hosts_whose_messages_are_set_aside_are_named_with_the_reason(world):
    world.report("cn1", "cn2")
    world.manager.set_aside("cn2", node_named("cn2").uuid, STATE, "has 9 cells")
    world.manager.set_aside("cn3", node_named("cn3").uuid, INSTANCES, "has 9 instances")
    world.view.turn()
    sentence = "messages of 2 hosts are set aside: cn2 (has 9 cells), cn3 (has 9 instances)"
    assert world.reports.parts[PART] == ("warn", sentence)
    world.clock.advance(DOWN)
    world.view.turn()
    assert world.reports.parts[PART] == ("warn", f"2 of 2 hosts are down: cn1, cn2; {sentence}")


class Records:
    """Records of these agents. :ivar reads: how often they were read."""

    def __init__(self, *agents: ReportingAgent) -> None:
        self.agents, self.reads = list(agents), 0
        self.failure: StoreUnavailable | None = None

    def nodes(self):
        if self.failure is not None:
            raise self.failure
        return frozenset(agent.uuid for agent in self.agents)

    def read(self, now):
        self.reads += 1
        for agent in self.agents:
            infos = tuple(instances_of(agent.state).values())
            agent.restart()
            report = agent.host_report()
            yield HostRecord(node_uuid=agent.uuid, report=report, instances=infos, age=3)
        yield HostRecord(node_uuid=uid(7), why_not="it is new")


def test_view_is_filled_once_and_removed_nodes_leave_it():
    agents = [ReportingAgent("cn1"), ReportingAgent("cn2")]
    agents[0].claim(request(1, 64, owner=uid(1)))
    clock, records = ManualClock(100), Records(*agents)
    manager = HostManager(clock, NullReporter(), lambda _: None)
    recorded = RecordedHosts(records, manager, clock, NullReporter())
    assert recorded.turn().at_most == REMOVED_INTERVAL
    found = {each.host: each for each in manager.get_all_host_states()}
    assert set(found) == {"cn1", "cn2"} and found["cn1"].seen == 97
    assert found["cn1"].instances_here == {uid(1)}
    manager.begin(settle=50)
    assert manager.complete
    del records.agents[0]
    recorded.turn()
    assert [each.host for each in manager.get_all_host_states()] == ["cn2"]
    assert records.reads == 1


def test_database_that_is_away_is_tried_again():
    clock, records = ManualClock(100), Records(ReportingAgent())
    manager = HostManager(clock, NullReporter(), lambda _: None)
    recorded = RecordedHosts(records, manager, clock, NullReporter())
    records.failure = StoreUnavailable("it is away")
    assert recorded.turn().at_most < REMOVED_INTERVAL
    assert manager.get_all_host_states() == ()
    records.failure = None
    recorded.turn()
    assert len(manager.get_all_host_states()) == 1
    records.failure = StoreUnavailable("it is away again")
    recorded.turn()
    assert len(manager.get_all_host_states()) == 1
