"""When the rounds of the mirror and the audits of allocations are due."""

import math
from math import inf

from rtagent.placement.schedule import FIRST_RETRY, GATHER, LAST_RETRY, AuditPlan, Schedule

NEVER = 0.0


def succeeded(now=0.0, refresh=NEVER):
    """A schedule after a first successful round."""
    return Schedule().start(now, refresh).succeed(now, 1)


def test_without_changes_no_round_is_due():
    assert succeeded().due(NEVER) == math.inf


def test_changes_are_gathered_from_the_first_wake_up():
    assert succeeded().wake(10).wake(10.2).due(NEVER) == 10 + GATHER


def test_a_change_during_a_round_is_left_to_the_next():
    schedule = succeeded().wake(10).start(11, NEVER).wake(12).wake(13).succeed(14, 1)
    assert schedule.behind_since == 12


def test_a_failed_round_keeps_the_time_of_the_oldest_change():
    schedule = succeeded().wake(10).start(11, NEVER).wake(12).fail(14, 1)
    assert schedule.behind_since == 10


def test_a_refresh_is_no_change():
    refreshing = succeeded(now=5, refresh=300).start(305, 300)
    assert refreshing.behind_since is None
    assert refreshing.succeed(306, 1).behind_since is None


def test_a_change_during_a_refresh_counts_from_its_own_time():
    refreshing = succeeded(now=5, refresh=300).start(305, 300).wake(306)
    assert refreshing.lacking_since == 306
    assert refreshing.succeed(307, 1).lacking_since == 306


def test_a_refresh_that_fails_counts_from_its_start():
    failed = succeeded(now=5, refresh=300).start(305, 300).wake(306).fail(307, 1)
    assert failed.behind_since == 305
    assert failed.start(308, 300).fail(309, 1).behind_since == 305


def test_a_requested_round_is_due_at_once():
    assert succeeded().fail(0, 1).request(0).due(NEVER) == -math.inf


def test_a_request_during_a_round_makes_the_next_one_due_at_once():
    during = Schedule().start(0, NEVER).request(1)
    assert during.succeed(2, 1).due(NEVER) == -math.inf


def test_pauses_after_failures_double_up_to_a_limit():
    schedule, pauses = succeeded().wake(0), []
    for _ in range(1100):
        schedule = schedule.start(0, NEVER).fail(0, 1)
        pauses.append(schedule.due(NEVER))
    assert pauses[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY


def test_jitter_shortens_a_pause_by_up_to_half():
    assert succeeded().wake(0).start(0, NEVER).fail(0, 0).due(NEVER) == FIRST_RETRY / 2


def test_a_wake_up_does_not_shorten_a_pause():
    schedule = succeeded().wake(0).start(0, NEVER).fail(0, 1)
    assert schedule.wake(0.1).due(NEVER) == FIRST_RETRY


def test_success_resets_the_pause():
    schedule = succeeded().wake(0).start(0, NEVER).fail(0, 1).start(1, NEVER).succeed(1, 1)
    assert schedule.wake(2).due(NEVER) == 2 + GATHER
    assert schedule.failures == 0


def test_the_first_round_reads_everything():
    assert Schedule().start(0, NEVER).reading


def test_a_refresh_is_due_after_its_interval_and_reads_everything():
    schedule = succeeded(now=5, refresh=300)
    assert schedule.due(300) == 305
    assert not schedule.wake(6).start(7, 300).reading
    assert schedule.start(305, 300).reading
    assert schedule.start(305, 300).succeed(306, 1).due(300) == 606


def test_jitter_shortens_the_time_until_a_refresh_by_up_to_half():
    schedule = Schedule().start(0, 300).succeed(5, 0)
    assert schedule.due(300) == 155
    assert not schedule.start(154, 300).reading
    assert schedule.start(155, 300).reading


def test_a_round_without_reading_does_not_change_the_time_of_the_refresh():
    schedule = Schedule().start(0, 300).succeed(5, 0)
    assert schedule.wake(6).start(7, 300).succeed(8, 1).due(300) == 155
    assert schedule.wake(6).start(7, 300).fail(8, 1).start(9, 300).succeed(9, 1).due(300) == 155


def test_after_forget_the_next_round_reads_everything():
    assert succeeded().forget(1).due(NEVER) == 1 + GATHER
    assert succeeded().forget(1).start(2, NEVER).reading


def test_forget_during_a_round_applies_to_the_next():
    assert succeeded().start(0, NEVER).forget(1).succeed(2, 1).start(3, NEVER).reading


def test_a_request_is_served_by_one_round():
    assert succeeded().request(0).start(0, NEVER).succeed(0, 1).due(NEVER) == math.inf


def test_a_failed_round_counts_as_a_refresh():
    repeated = succeeded(now=0, refresh=300).start(300, 300).fail(301, 1).start(302, 300)
    assert not repeated.reading
    assert repeated.succeed(303, 1).due(300) == 601


def test_the_first_audit_is_due_at_once():
    assert AuditPlan().due(3600) == AuditPlan().due(0) == -inf


def test_audits_are_regular():
    plan = AuditPlan().after(10, None, 3600, 1)
    assert plan.due(3600) == 3610
    assert plan.due(60) == 70
    assert plan.due(0) == inf


def test_jitter_shortens_the_time_until_an_audit_by_up_to_half():
    plan = AuditPlan().after(10, None, 3600, 0)
    assert plan.due(3600) == 10 + 1800
    assert plan.due(0) == inf
    assert plan.after(10 + 1800, None, 3600, 1).due(3600) == 10 + 1800 + 3600


def test_a_recheck_does_not_change_the_time_of_the_regular_audit():
    plan = AuditPlan().after(10, 310, 3600, 0)
    assert plan.after(310, None, 3600, 1).due(3600) == 10 + 1800


def test_what_is_new_is_looked_at_once_more():
    plan = AuditPlan().after(10, 310, 3600, 1)
    assert plan.due(3600) == plan.due(0) == 310
    rechecked = plan.after(310, 610, 3600, 1)
    assert rechecked.due(3600) == 3610
    assert rechecked.after(3610, 3910, 3600, 1).due(3600) == 3910


def test_without_an_interval_there_is_one_audit_and_one_recheck():
    plan = AuditPlan().after(10, 310, 0, 1)
    assert plan.due(0) == 310
    assert plan.after(310, 610, 0, 1).due(0) == inf


def test_a_change_of_the_policy_is_looked_at_soon():
    plan = AuditPlan().after(10, 310, 3600, 1)
    requested = plan.request(50).request(60)
    assert requested.due(3600) == 50
    assert requested.after(50, 350, 3600, 1) == plan
    assert plan.request(400).after(310, None, 3600, 1).due(3600) == 400
    assert plan.request(45).after(40, None, 3600, 1).due(3600) == 45
