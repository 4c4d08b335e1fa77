"""When the rounds of the mirror and the audits of allocations are due."""

from rtagent.placement.schedule import FIRST_RETRY, GATHER, LAST_RETRY, AuditPlan, Schedule

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
