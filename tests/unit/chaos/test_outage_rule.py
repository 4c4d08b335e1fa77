"""The checker: a host that loses power ends its domains, and no claim."""

import pytest

from tests.chaos.checker.judge import judge
from tests.chaos.checker.rules.domains import DELAY
from tests.chaos.history import Entry
from tests.chaos.nemesis.fault import POWERLESS
from tests.unit.chaos.chaos_histories import ACTIVE, HOST, good, run_of

OFF, ON, OTHER = 100.0, 160.0, "host-2"
#: When a caller started the domain: before, during, and after the outage.
BEFORE, DURING, JUST_AFTER, AFTER = 90.0, 130.0, ON + DELAY - 1, ON + DELAY + 1


def outage(host: str = HOST, end: float = ON) -> list[Entry]:
    """Return the begin and the end of an outage. The begin is recorded a second later."""
    details = {"lenient": POWERLESS, "since": OFF}
    fault = {"type": "fault", "name": "power-loss", "target": host, "details": details}
    return [{**fault, "t": OFF + 1, "state": "begin"}, {**fault, "t": end, "state": "end"}]


def domain(t: float, action: str = "run") -> Entry:
    its = "c-1" if action == "run" else ""
    return {"t": t, "type": "domain", "action": action, "host": HOST, "uuid": "o-1", "claim": its}


def violations(*entries: Entry, runs: bool, quiet: float = 200.0) -> list[str]:
    """Return what the checker says of a domain that runs in a quiet period, or does not."""
    seen = [{"uuid": "o-1", "active": True, "vcpus": 2, "memory_mb": 512}]
    observed: Entry = {"type": "observed", "what": "domains", "host": HOST}
    story = [
        *sorted(entries, key=lambda each: each["t"]),
        {"t": quiet, "type": "quiet"},
        {**observed, "t": quiet + 1, "document": seen if runs else []},
    ]
    return [each.message for each in judge(run_of(story)) if "domain" in each.promise]


@pytest.mark.parametrize("started", [BEFORE, DURING, JUST_AFTER])
def test_a_domain_may_be_ended_with_its_host(started: float):
    assert violations(domain(started), *outage(), runs=False) == []


@pytest.mark.parametrize("started", [DURING, JUST_AFTER, AFTER])
def test_a_domain_that_was_started_after_the_outage_may_run(started: float):
    assert violations(domain(started), *outage(), runs=True) == []


def test_a_domain_does_not_come_back_by_itself():
    message = f"{HOST}: domain o-1 of claim c-1 was ended with its host, and runs"
    assert violations(domain(BEFORE), *outage(), runs=True) == [message]
    assert violations(domain(BEFORE), *outage(), domain(AFTER), runs=True) == []


def test_a_domain_that_was_started_after_an_outage_must_run():
    message = f"{HOST}: domain o-1 of claim c-1 was started, and does not run"
    assert violations(domain(AFTER), *outage(), runs=False) == [message]


def test_an_outage_ends_no_domain_of_another_host():
    assert violations(domain(BEFORE), *outage(OTHER), runs=False) != []
    assert violations(domain(BEFORE), *outage(OTHER), runs=True) == []


def test_a_later_outage_is_no_excuse_for_an_earlier_quiet_period():
    assert violations(domain(BEFORE), *outage(end=300.0), runs=False, quiet=95.0) != []


def test_a_domain_that_was_removed_before_the_outage_does_not_run():
    removed = domain(BEFORE + 1, "remove")
    assert violations(domain(BEFORE), removed, *outage(), runs=False) == []
    assert violations(domain(BEFORE), removed, *outage(), runs=True) != []


def test_claims_survive_an_outage():
    story = good()
    for entry in outage():
        story.add("fault", **{key: entry[key] for key in ("name", "state", "target", "details")})
    story.list_claims([])
    assert any(f"claim {ACTIVE} was granted, and is missing" in str(v) for v in story.violations())
