"""When allocations are audited."""

from math import inf

from rtagent.placement.schedule import AuditPlan


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
