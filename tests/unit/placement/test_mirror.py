"""The rounds of the mirror, with a manual clock, its thread, and schedules."""

import math

import pytest
from msgspec.structs import replace
from oslo_context import context

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.change import Change
from rtagent.placement import tree as trees
from rtagent.placement.client import current_request_id, use_request_id
from rtagent.placement.mirror import request_id_of
from rtagent.placement.provider import Ownership
from rtagent.placement.schedule import FIRST_RETRY, GATHER, LAST_RETRY, AuditPlan, Schedule
from rtagent.testing.placement import MemoryPlacement
from tests.support.audited_nodes import RunningMirror
from tests.support.hosts import NOON, TOPOLOGY, ManualClock, uid
from tests.support.trackers import Reports
from tests.unit.placement.values import ROOT, claim, state


class Setup:
    """A mirror of `state`, which a test replaces."""

    def __init__(self, api=None, **options):
        self.state, self.reporter = state(), Reports()
        self.api, self.clock = api or MemoryPlacement(), ManualClock()
        self.mirror = RunningMirror(
            self.api,
            lambda: trees.build(self.state, disabled=False, hypervisor_up=True),
            Ownership(),
            self.clock,
            self.reporter,
            jitter=lambda: 1.0,
            **options,
        )

    def grow(self, memory_mb=1000):
        """Replace the state by one of a larger host, with the next revision."""
        larger = replace(TOPOLOGY, memory_mb=memory_mb)
        self.state = replace(self.state, revision=self.state.revision + 1, topology=larger)
        self.mirror.wake()

    def turn(self, after=GATHER):
        self.clock.advance(after)
        return self.mirror.turn()

    def requests(self):
        requests = list(self.api.requests)
        self.api.requests.clear()
        return requests


@pytest.fixture
def setup():
    setup = Setup()
    setup.mirror.wake()
    assert setup.turn()
    setup.requests()
    return setup


def test_nothing_is_sent_before_the_host_is_known(setup):
    setup.state = replace(setup.state, topology=None)
    setup.mirror.wake()
    assert setup.turn()
    assert setup.requests() == []


def test_only_changes_that_affect_the_tree_wake_the_mirror(setup):
    setup.mirror.listener(setup.state, [Change(cause="t", at=NOON, puts=(claim(1, 1, 1),))])
    assert setup.mirror.due_in == math.inf
    setup.mirror.listener(setup.state, [Change(cause="t", at=NOON, topology=TOPOLOGY)])
    assert setup.mirror.due_in == GATHER


def test_an_idle_mirror_sends_requests_only_at_its_refresh():
    setup = Setup(refresh=lambda: 300.0)
    setup.mirror.wake()
    setup.turn()
    setup.requests()
    assert not setup.turn(after=299)
    assert setup.turn(after=1)
    assert setup.requests() == ["tree"]
    assert setup.mirror.seconds_behind == 0


def test_a_refresh_that_does_not_begin_is_made_up_for():
    failures = []

    def prepare(reading):
        if failures:
            raise failures.pop()
        return False

    setup = Setup(refresh=lambda: 300.0, prepare=prepare)
    setup.mirror.wake()
    setup.turn()
    setup.api.overwrite(ROOT, inventories={})
    failures.append(PlacementUnavailable("down for maintenance"))
    setup.turn(after=300)
    setup.turn(after=1)
    assert setup.api.shown(ROOT)["inventories"]


def test_forget_makes_the_mirror_read_again(setup):
    setup.mirror.forget()
    setup.turn()
    assert setup.requests() == ["provider", "traits", "inventories"]


def test_an_outage_is_reported_and_retried_with_growing_pauses(setup):
    setup.api.failure = PlacementUnavailable("down for maintenance")
    setup.grow()
    setup.turn()
    assert setup.mirror.error is setup.api.failure
    assert setup.mirror.due_in == FIRST_RETRY
    assert setup.turn(after=FIRST_RETRY)
    assert setup.mirror.due_in == 2 * FIRST_RETRY
    assert setup.mirror.seconds_behind == GATHER + FIRST_RETRY
    assert setup.mirror.revision < setup.state.revision
    part, status, output = setup.reporter.healths[-1]
    assert (part, status) == ("placement", "warn")
    assert "2 s behind, claims are served: down for maintenance" in output


def test_a_permanent_error_is_reported_as_fail_and_retried(setup):
    setup.api.failures["put_inventories"] = PlacementError("not like this")
    setup.grow()
    setup.turn()
    assert setup.reporter.healths[-1][1] == "fail"
    del setup.api.failures["put_inventories"]
    setup.turn(after=FIRST_RETRY)
    assert setup.reporter.healths[-1][1] == "pass"


def test_a_new_problem_with_the_same_status_is_logged_once(setup):
    setup.api.failures["put_inventories"] = PlacementError("one", code="a")
    setup.grow()
    setup.turn()
    setup.turn(after=FIRST_RETRY)
    assert setup.reporter.logged == []  # it was reported as health
    setup.api.failures["put_inventories"] = PlacementError("two", code="b")
    setup.turn(after=2 * FIRST_RETRY)
    setup.turn(after=4 * FIRST_RETRY)
    assert [("two" in sentence) for _, sentence in setup.reporter.logged] == [True]


def test_unknown_traits_are_reported_as_warn_and_not_retried(setup):
    traits = frozenset({"HW_NOT_INVENTED"})
    setup.state = replace(setup.state, topology=replace(TOPOLOGY, traits=traits))
    setup.mirror.wake()
    setup.turn()
    assert setup.reporter.healths[-1][1] == "warn"
    assert "HW_NOT_INVENTED" in setup.reporter.healths[-1][2]
    assert (setup.mirror.error, setup.mirror.due_in) == (None, math.inf)


class RecordingIds(MemoryPlacement):
    """Records the request id of each request."""

    def __init__(self):
        super().__init__()
        self.ids = []

    def before(self, name, uuid=None):
        self.ids.append(context.get_current().global_id)
        super().before(name, uuid)

    def taken(self):
        ids, self.ids = self.ids, []
        return ids


def test_a_failed_round_leaves_its_request_id_to_the_next_one():
    setup = Setup(RecordingIds())
    setup.api.failure = PlacementUnavailable("down")
    change = Change(cause="x", at=NOON, topology=TOPOLOGY, request_id="req-a")
    setup.mirror.listener(setup.state, [change])
    setup.turn()
    setup.api.failure = None
    setup.turn(after=FIRST_RETRY)
    assert set(setup.api.taken()) == {"req-a"}
    setup.grow()
    setup.turn()
    assert "req-a" not in setup.api.taken()


def test_a_requested_round_has_the_request_id_of_the_requester():
    setup = Setup(RecordingIds())
    setup.mirror.start()
    try:
        context.RequestContext(global_request_id=f"req-{uid(7)}")
        setup.mirror.sync_now(timeout=60)
        setup.api.taken()
        setup.mirror.sync_now(timeout=60, anew=True)
        assert set(setup.api.taken()) == {f"req-{uid(7)}"}
    finally:
        assert setup.mirror.stop(timeout=60)


@pytest.mark.parametrize("unsendable", ["", "ü", "a\r\nX-Auth-Token: b"])
def test_without_a_sendable_id_a_new_one_is_used(unsendable):
    ids = set()
    for _ in range(2):
        use_request_id(unsendable)
        ids.add(current_request_id())
    assert len(ids) == 2 and all(each.startswith("req-") for each in ids)


def test_the_most_recent_call_is_the_cause():
    calls = (("a", "x"), ("b", "x"), ("", "x"), ("no matter", "ping"))
    changes = [Change(cause=cause, at=NOON, request_id=id_) for id_, cause in calls]
    assert request_id_of(changes, lambda each: each.cause != "ping") == "b"
    assert request_id_of(changes[2:3], lambda each: True) == ""


# -- with its thread ------------------------------------------------------------------------------


@pytest.fixture
def running():
    setup = Setup()
    setup.mirror.start()
    setup.mirror.sync_now(timeout=60)
    setup.requests()
    yield setup
    assert setup.mirror.stop(timeout=60)


def test_sync_now_reads_only_if_asked_to(running):
    running.mirror.sync_now(timeout=60)
    assert running.requests() == []
    running.mirror.sync_now(timeout=60, anew=True)
    assert running.requests()


def test_sync_now_raises_the_problem(running):
    running.api.failure = PlacementUnavailable("down")
    running.grow()
    with pytest.raises(PlacementUnavailable, match="down"):
        running.mirror.sync_now(timeout=60)
    with pytest.raises(PlacementUnavailable, match="down"):
        running.mirror.sync_now(timeout=60)  # without a pause after the failure


def test_sync_now_raises_after_its_timeout():
    with pytest.raises(PlacementUnavailable, match=r"0\.01 s"):
        Setup().mirror.sync_now(timeout=0.01)  # no thread runs its rounds


def test_a_defect_is_logged_and_the_mirror_continues(running):
    running.state = None
    with pytest.raises(PlacementError, match="AttributeError"):
        running.mirror.sync_now(timeout=60)
    running.state = state(revision=5)
    running.mirror.sync_now(timeout=60)
    assert "AttributeError" in running.reporter.logged[-1][1]
    assert running.mirror.revision == 5


# -- when rounds and audits are due ---------------------------------------------------------------

NEVER = 0.0


def succeeded(now=0.0, refresh=NEVER):
    """A schedule after a first successful round."""
    return Schedule().start(now, refresh).succeed(now, 1)


def test_a_change_during_a_refresh_counts_from_its_own_time():
    refreshing = succeeded(now=5, refresh=300).start(305, 300).wake(306)
    assert refreshing.lacking_since == 306
    assert refreshing.succeed(307, 1).lacking_since == 306


def test_pauses_after_failures_double_up_to_a_limit():
    schedule, pauses = succeeded().wake(0), []
    for _ in range(1100):
        schedule = schedule.start(0, NEVER).fail(0, 1)
        pauses.append(schedule.due(NEVER))
    assert pauses[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY


def test_a_refresh_is_due_after_its_interval_and_reads_everything():
    schedule = succeeded(now=5, refresh=300)
    assert schedule.due(300) == 305
    assert not schedule.wake(6).start(7, 300).reading
    assert schedule.start(305, 300).reading
    assert schedule.start(305, 300).succeed(306, 1).due(300) == 606


def test_after_forget_the_next_round_reads_everything():
    assert succeeded().forget(1).due(NEVER) == 1 + GATHER
    assert succeeded().forget(1).start(2, NEVER).reading


def test_what_is_new_is_looked_at_once_more():
    plan = AuditPlan().after(10, 310, 3600, 1)
    assert plan.due(3600) == plan.due(0) == 310
    rechecked = plan.after(310, 610, 3600, 1)
    assert rechecked.due(3600) == 3610
    assert rechecked.after(3610, 3910, 3600, 1).due(3600) == 3910


def test_a_change_of_the_policy_is_looked_at_soon():
    plan = AuditPlan().after(10, 310, 3600, 1)
    requested = plan.request(50).request(60)
    assert requested.due(3600) == 50
    assert requested.after(50, 350, 3600, 1) == plan
    assert plan.request(400).after(310, None, 3600, 1).due(3600) == 400
    assert plan.request(45).after(40, None, 3600, 1).due(3600) == 45
