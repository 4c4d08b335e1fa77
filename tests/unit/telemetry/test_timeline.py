"""The timeline of the last hour."""

from datetime import timedelta
from typing import Any

from rtagent.audit import AuditSummary
from rtagent.model.change import Change, Event
from rtagent.model.health import Status
from rtagent.model.migration import Migration
from rtagent.model.observation import Problem
from rtagent.model.timeline import TimelineEntry
from rtagent.telemetry.telemetry import Telemetry
from rtagent.telemetry.timeline import COUNTS, EVENTS, SPAN, Timeline
from tests.support.api_states import claimed, empty, uuid
from tests.support.hosts import NOON, ManualClock

SECOND = timedelta(seconds=1)


def audit(cause: str = "periodic", **fields: Any) -> AuditSummary:
    names = ("applied", "skipped", "claims", "orphans", "drifts", "absent", "suspects")
    counts = dict.fromkeys(names, 0)
    return AuditSummary(**{"cause": cause, "complete": True, "seconds": 0.5, **counts, **fields})


def reason(code: str = "insufficient", resource: str = "VCPU") -> dict[str, str]:
    return {"code": code, "resource": resource, "message": f"{resource}: too few"}


def move(status: str = "confirmed", number: int = 1) -> Change:
    here = {"node_uuid": "n", "role": "source", "source_compute": "h1", "dest_compute": "h2"}
    guest = {"instance_uuid": f"i{number}", "migration_type": "resize", "status": status}
    record = Migration(uuid=f"m{number}", **here, **guest, created_at=NOON, updated_at=NOON)
    return Change(cause="test", at=NOON, migrations=(record,))


def entries(timeline: Timeline, kind: str) -> list[TimelineEntry]:
    return [each for each in timeline.view().entries if each.kind == kind]


def test_an_audit_shows_its_cause_its_time_and_whether_it_was_good():
    timeline = Timeline(ManualClock())
    timeline.audited(audit())
    timeline.audited(audit("event", problems=(Problem(item="domain x", message="hangs"),)))
    bad, good = entries(timeline, "audit")
    assert (good.subject, good.status, good.until) == ("periodic", Status.PASS, NOON)
    assert good.at == NOON - SECOND / 2
    assert (bad.subject, bad.status) == ("event", Status.WARN)
    assert "domain x: hangs" in bad.summary


def test_refusals_are_counted_by_minute_and_reason():
    clock = ManualClock()
    timeline = Timeline(clock)
    for _ in range(3):
        timeline.refused([reason(), reason("exceeds_host", "MEMORY_MB")])
    clock.advance(60)
    timeline.refused([reason()])
    newest, *others = [(each.subject, each.number) for each in entries(timeline, "refusal")]
    assert newest == ("insufficient VCPU", 1)
    assert sorted(others) == [("exceeds_host MEMORY_MB", 3), ("insufficient VCPU", 3)]


def test_an_outage_lasts_until_the_part_is_well_again():
    clock = ManualClock()
    telemetry = Telemetry(clock)
    telemetry.health("store", "fail", "no route")
    [lasting] = entries(telemetry.timeline, "outage")
    assert (lasting.subject, lasting.status, lasting.summary) == ("store", Status.FAIL, "no route")
    assert lasting.until is None
    clock.advance(7)
    telemetry.health("store", "fail", "still")
    telemetry.health("store", "pass")
    [ended] = entries(telemetry.timeline, "outage")
    assert (ended.at, ended.until) == (NOON, NOON + 7 * SECOND)


def test_moves_and_steps_of_claims_come_from_published_changes():
    timeline = Timeline(ManualClock())
    timeline.changed([move(), move("error", 2)])
    confirmed, failed = sorted(entries(timeline, "move"), key=lambda each: each.subject)
    assert confirmed.summary == "resize of i1 from h1 to h2: confirmed"
    assert (failed.status, failed.instance_uuid) == (Status.FAIL, "i2")
    claims = claimed(claimed(empty(), 1), 2).claims
    made = (claims[uuid(number)] for number in (1, 2))
    created = tuple(Event(before=None, after=claim, action="create") for claim in made)
    timeline.changed([Change(cause="test", at=NOON, events=created)] * 2)
    [step] = entries(timeline, "claim")
    assert (step.subject, step.number) == ("create", 4)
    assert step.summary == f"create of vm-2 ({uuid(102)})"


def test_the_timeline_reaches_back_for_an_hour():
    clock = ManualClock()
    timeline = Timeline(clock)
    timeline.audited(audit("old"))
    timeline.refused([reason()])
    timeline.health("store", Status.FAIL, "away")
    clock.advance(SPAN.total_seconds() + 1)
    timeline.audited(audit("new"))
    shown = timeline.view()
    subjects = [(each.kind, each.subject) for each in shown.entries]
    assert subjects == [("audit", "new"), ("outage", "store")]
    assert shown.since == shown.now - SPAN


def test_the_timeline_is_bounded_and_says_from_when_it_is_complete():
    clock = ManualClock()
    timeline = Timeline(clock)
    assert timeline.view().since == NOON
    for number in range(EVENTS + 5):
        clock.advance(0.001)
        timeline.changed([move(number=number)])
        timeline.audited(audit(str(number)))
    assert len(entries(timeline, "audit")) == EVENTS
    assert timeline.view().since > NOON
    for number in range(COUNTS + 50):
        timeline.refused([reason(resource=f"CUSTOM_{number}")])
    assert len(entries(timeline, "refusal")) == COUNTS


def test_text_of_any_length_takes_bounded_memory():
    timeline = Timeline(ManualClock())
    timeline.refused([{"code": "insufficient", "resource": "x" * 100_000, "message": "y" * 10**5}])
    [entry] = entries(timeline, "refusal")
    assert len(entry.subject) + len(entry.summary) < 3000
