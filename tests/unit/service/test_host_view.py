"""When a scheduler asks, is ready, and reports hosts that are down."""

import pytest
from msgspec.structs import replace

from rtagent.conf.settings import SettingsHolder
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.report import description_of, digest_of, instances_digest, report_of
from rtagent.scheduler.tracked_host import INSTANCES, STATE, Wanted
from rtagent.service.host_view import PART, SETTLE, HostView
from tests.support.host_states import node_named
from tests.support.hosts import ManualClock, host
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
        self.view = HostView(
            self.manager,
            self.settings,
            lambda: self.serving,
            self._ready,
            self.clock,
            self.reports,
        )

    def _ready(self):
        self.readies += 1

    def report(self, *names):
        for name in names:
            state = replace(host(), node=node_named(name), epoch=1, revision=1)
            description = description_of(state)
            report = report_of(state, digest_of(description), instances_digest=instances_digest(()))
            self.manager.update_host_state(replace(report, description=description))


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
    names = [f"cn{number}" for number in range(7)]
    world.report(*names)
    world.view.turn()
    assert world.reports.parts[PART] == ("pass", "")
    world.clock.advance(DOWN)
    world.report()
    world.view.turn()
    assert world.reports.parts[PART] == (
        "warn",
        "7 of 7 hosts are down: cn0, cn1, cn2, cn3, cn4 and 2 more",
    )
    assert world.view.number_down() == 7
    world.settings.current = replace(
        world.settings.current,
        default=replace(world.settings.current.default, service_down_time=DOWN + 1),
    )
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
