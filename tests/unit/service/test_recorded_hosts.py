"""The hosts of a shared database in a scheduler's view."""

from __future__ import annotations

from rtagent.db.host_records import HostRecord
from rtagent.errors import StoreUnavailable
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report import instances_of
from rtagent.service.host_view import REMOVED_INTERVAL, RecordedHosts
from tests.support.hosts import ManualClock, request, uid
from tests.support.reporting_agents import ReportingAgent


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
            yield HostRecord(
                node_uuid=agent.uuid, report=agent.host_report(), instances=infos, age=3
            )
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
