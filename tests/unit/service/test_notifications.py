"""Notifications are published in order, each at least once, and the outbox is bounded."""

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from rtagent.db.engine import open_engine
from rtagent.db.event_rows import KEPT, STEP, SqlEventLog
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.errors import CommitUnknown, StoreUnavailable
from rtagent.model.change import ANNOUNCEMENT
from rtagent.model.event import (
    AUDIT_END,
    CLAIM_REFUSE,
    SERVICE_UPDATE,
    AuditPayload,
    RefusalPayload,
    ServicePayload,
)
from rtagent.ports import Service
from rtagent.rpc.casts import CastFailed
from rtagent.service.context import NodeContext
from rtagent.service.events import (
    MAX_TEXT,
    REASONS,
    Announcer,
    EventTurns,
    of_audit,
    of_refusal,
    of_service,
)
from rtagent.service.notifications import ROWS, Notifications
from rtagent.state.announcements import WAITING
from rtagent.testing.failpoints import FailingStore
from rtagent.tracker import ResourceTracker
from tests.support.agents import Agent
from tests.support.event_consumer import ANNOUNCED
from tests.support.hosts import NODE, ManualClock, call
from tests.support.trackers import Reports, claim, release, tracker_on

FEW = 40


class Broker:
    """A sender that accepts so many events. :ivar got: their numbers."""

    def __init__(self) -> None:
        self.accepted, self.got, self.capacity = 0, list[int](), 1 << 30

    def send(self, events: Sequence[tuple[int, bytes]]) -> None:
        for number, document in events:
            if not self.capacity:
                raise CastFailed("down")
            assert msgspec.json.decode(document)["sequence"] == number
            self.capacity -= 1
            self.got.append(number)
            self.accepted = number


class Site:
    """A node on SQLite whose events are published, and that can be started again."""

    def __init__(self, url: str, kept: int = KEPT) -> None:
        self.engine = open_engine(url, 5.0)
        metadata.create_all(self.engine)
        self.log, self.kept = SqlEventLog(self.engine), kept
        self.broker, self.clock = Broker(), ManualClock()
        self.start()

    def start(self, *, on: bool = True) -> None:
        """Start a process, as after a kill."""
        self.reporter = Reports()
        self.store = FailingStore(SqlStore(self.engine, events_kept=self.kept))
        self.tracker: ResourceTracker = tracker_on(self.store, self.clock, reporter=self.reporter)
        bus, self.woken = self.tracker.bus, []
        context = NodeContext(settings=None, clock=self.clock, reporter=self.reporter, bus=bus)
        self.broker.accepted = 0
        sender = self.broker if on else None

        def wake() -> None:
            self.woken.append("notifications")

        self.notifications = Notifications(context, self.log, self.tracker, sender, self.kept, wake)
        self.events = EventTurns(
            context,
            self.log,
            self.tracker,
            self.kept,
            lambda: self.notifications.congested,
            lambda: self.woken.append("events"),
        )

    def change(self, times: int) -> None:
        """Make two events each."""
        for _ in range(times):
            release(self.tracker, claim(self.tracker).uuid)

    def sql(self, statement: str, *parameters: object) -> None:
        """Change the database behind the agent's back."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement, parameters)

    def publish(self, turns: int = 50) -> None:
        for _ in range(turns):
            self.notifications.turn()

    @property
    def last(self) -> int:
        return self.tracker.snapshot().event_sequence


@pytest.fixture
def new_site(tmp_path):
    """Makes a node of which nothing was published yet."""
    made = []

    def make(kept: int = KEPT) -> Site:
        made.append(Site(f"sqlite:///{tmp_path}/db.sqlite", kept))
        return made[-1]

    yield make
    for site in made:
        site.engine.dispose()


@pytest.fixture
def site(new_site):
    site = new_site()
    site.notifications.turn()
    return site


def test_an_outage_delays_events_and_loses_none(site):
    first = site.last
    site.broker.capacity = 5
    site.change(FEW)
    site.publish()
    assert (len(site.broker.got), site.reporter.parts["notifications"][0]) == (5, "warn")
    assert site.notifications.unpublished == 2 * FEW - 5
    site.start()  # the position is durable
    site.broker.capacity = 1 << 30
    site.publish()
    assert site.broker.got == list(range(first + 1, site.last + 1))
    assert site.reporter.parts["notifications"][0] == "pass"
    assert site.notifications.unpublished == 0


def test_what_was_published_before_a_kill_is_published_again(site):
    first = site.last
    site.change(2)
    site.broker.send([(n, b'{"sequence":%d}' % n) for n in range(first + 1, site.last + 1)])
    site.start()  # the broker has them, and no position was written
    site.publish()
    assert site.broker.got == [*range(first + 1, site.last + 1)] * 2


def test_oldest_events_are_dropped_and_counted(new_site):
    site = new_site(kept=60)
    site.notifications.turn()
    first = site.last
    site.broker.capacity = 0
    site.change((60 + STEP) // 2 + 2)  # more events than are kept
    rows = site.log.read(NODE.uuid, 0, 10_000)
    assert 60 <= sum(len(row.documents) for row in rows) <= 60 + STEP
    assert site.notifications.congested
    site.broker.capacity = 1 << 30
    site.publish()
    dropped = rows[0].first - first - 1
    assert dropped > 0
    assert site.reporter.counts["events_dropped", "unpublished"] == dropped
    assert any(f"{dropped} events were dropped" in line for _, line in site.reporter.logged)
    assert site.broker.got == list(range(rows[0].first, site.last + 1))


def test_publishing_begins_when_it_is_switched_on(site):
    site.change(1)
    site.start(on=False)
    site.publish(1)
    site.change(1)
    assert site.notifications.unpublished == 0
    site.start()
    first = site.last
    site.change(1)
    site.publish()
    assert site.broker.got == [first + 1, first + 2]


def test_events_of_a_process_that_never_published_are_published_by_the_next_one(new_site):
    site = new_site()
    first = site.last
    site.change(2)
    site.start()  # killed before the first turn
    site.publish()
    assert site.broker.got == list(range(first + 1, site.last + 1))


def test_announced_events_are_recorded_soon_and_bounded(site):
    before = site.tracker.snapshot()
    for _ in range(WAITING + 3):
        site.tracker.announcements.add(ANNOUNCED)
    assert site.reporter.counts["events_dropped", "announced"] == 3
    site.events.turn()
    assert site.woken == ["events", "notifications"]
    assert site.last - before.event_sequence == 64
    site.events.turn()  # not again within a second
    assert site.last - before.event_sequence == 64
    for _ in range(3):
        site.clock.advance(2)
        site.events.turn()
    assert site.last - before.event_sequence == WAITING
    assert site.tracker.snapshot().revision == before.revision


def test_announced_events_give_way_to_those_of_changes(new_site):
    site = new_site(kept=60)
    site.notifications.turn()
    site.broker.capacity = 0
    site.change(STEP)
    last = site.last
    site.tracker.announcements.add(ANNOUNCED)
    site.events.turn()
    assert site.last == last
    assert site.reporter.counts["events_dropped", "announced"] == 1


def test_announced_events_wait_for_the_store(site):
    site.tracker.announcements.add(ANNOUNCED)
    site.sql("ALTER TABLE event_outbox RENAME TO away")
    with pytest.raises(StoreUnavailable):
        site.tracker.announcements.write(10, site.log)
    site.sql("ALTER TABLE away RENAME TO event_outbox")
    assert site.tracker.recover()
    assert site.tracker.announcements.write(10, site.log) == 1


@pytest.mark.parametrize("done", [True, False])
def test_announced_events_are_recorded_once_although_a_commit_was_unknown(site, done):
    first = site.last
    site.store.fail(partial(CommitUnknown, "the connection was lost"), after=done)
    site.tracker.announcements.add(ANNOUNCED)
    site.events.turn()
    site.clock.advance(2)
    site.events.turn()  # it is still unknown
    assert site.tracker.recover()
    site.tracker.announcements.add(ANNOUNCED)
    for _ in range(3):
        site.clock.advance(2)
        site.change(1)
        site.events.turn()
    assert site.tracker.announcements.waiting == 0
    site.publish()
    rows = site.log.read(NODE.uuid, first, 100)
    documents = [msgspec.json.decode(each) for row in rows for each in row.documents]
    assert sum(each["cause"] == ANNOUNCEMENT for each in documents) == 2
    assert [each["sequence"] for each in documents] == list(range(first + 1, site.last + 1))


def test_text_without_an_encoding_does_not_make_a_commit_fail(site):
    payload = replace(ANNOUNCED.payload, summary="a\ud800\u202e\x00<b>")
    site.tracker.announcements.add(replace(ANNOUNCED, payload=payload))
    assert site.tracker.announcements.write(10, site.log) == 1
    (row,) = site.log.read(NODE.uuid, site.last - 1, 1)
    assert msgspec.json.decode(row.documents[0])["payload"]["summary"] == "a?\u202e\x00<b>"
    site.change(1)


def test_damaged_rows_are_gaps_that_are_counted_once(site):
    site.change(2)
    site.sql("UPDATE event_outbox SET document = '[]' WHERE sequence = ?", site.last - 2)
    site.publish()
    assert site.broker.got == [site.last - 3, site.last - 1, site.last]

    site.change(ROWS)
    site.sql("UPDATE event_outbox SET document = '[]'")
    damaged = site.notifications.unpublished
    site.publish()
    assert damaged == 2 * ROWS
    assert site.reporter.counts["events_dropped", "unpublished"] == 1 + damaged
    assert site.notifications.unpublished == 0
    site.change(1)
    site.publish()
    assert site.broker.got[3:] == [site.last - 1, site.last]


@pytest.mark.parametrize("number", ["sequence + 1000000", "'x' || sequence"])
def test_damaged_numbers_do_not_disturb_readers(site, number):
    site.events.tail.page(None, None, 10)
    site.change(3)
    site.publish()
    site.events.turn()
    last = site.last
    site.sql(f"UPDATE event_outbox SET sequence = {number} WHERE sequence = ?", last)
    site.change(1)
    for _ in range(5):
        site.clock.advance(2)
        site.publish(2)
        site.events.turn()
    assert site.broker.got[-2:] == [last + 1, last + 2]
    assert site.reporter.counts["events_dropped", "unpublished"] == 0
    assert site.events.tail.last == last + 2
    page = site.events.tail.page(None, 100, 100)
    numbers = [msgspec.json.decode(each)["sequence"] for each in page.documents]
    assert numbers == sorted(set(numbers)) and numbers[-1] == last + 2
    site.start()
    site.change(1)
    site.publish()
    assert site.broker.got[-1] == site.last


def test_a_restored_history_is_published_wholly_although_it_is_longer_by_now(site):
    """The database goes back by four events, and gets six new ones before the next turn."""
    site.events.tail.page(None, None, 10)
    site.change(4)
    site.publish()
    site.events.turn()
    kept = site.last - 4
    site.sql("DELETE FROM event_outbox WHERE sequence > ?", kept)
    site.sql("UPDATE event_positions SET sequence = ?", kept)
    site.sql("ALTER TABLE event_outbox RENAME TO away")
    with pytest.raises(StoreUnavailable):
        site.change(1)
    site.sql("ALTER TABLE away RENAME TO event_outbox")
    assert site.tracker.recover()
    assert site.last == kept
    site.change(3)
    site.broker.got.clear()
    site.publish()
    new = list(range(kept + 1, kept + 7))
    assert site.broker.got == new
    site.events.turn()
    page = site.events.tail.page(None, 6, 10)
    documents = [msgspec.json.decode(each) for each in page.documents]
    assert [each["sequence"] for each in documents] == new
    assert {each["epoch"] for each in documents} == {site.tracker.snapshot().epoch}


# -- events without a change: their payloads, and the bounds of what outsiders put into them ------


def test_an_audit_has_its_numbers_and_its_sentence():
    summary = Agent().audit("request")
    event = of_audit(summary)
    assert event.type == AUDIT_END and isinstance(event.payload, AuditPayload)
    assert (event.payload.audit_cause, event.payload.complete) == ("request", True)
    assert event.payload.summary == str(summary)


def test_a_refusal_has_a_bounded_number_of_reasons():
    reasons = [{"code": "insufficient", "message": str(number)} for number in range(REASONS + 5)]
    event = of_refusal(call(), reasons)
    assert event.type == CLAIM_REFUSE and isinstance(event.payload, RefusalPayload)
    assert event.payload.reasons == reasons[:REASONS]


def test_the_reason_of_a_disabled_service_is_printable_and_bounded():
    hostile = "\x1b[31m" + "x" * 100_000
    service = Service(host="h", binary="rtagent", disabled=True, disabled_reason=hostile)
    event = of_service(service)
    assert event.type == SERVICE_UPDATE and isinstance(event.payload, ServicePayload)
    reason = event.payload.disabled_reason
    assert event.payload.disabled and reason is not None and reason.isprintable()
    assert len(reason) < MAX_TEXT + 100


def test_a_periodic_audit_is_announced_only_if_it_says_something_new():
    agent, announced = Agent(), []
    Announcer(agent.tracker.bus, announced.append)
    for cause in ("start", "periodic", "periodic", "request", "periodic"):
        agent.audit(cause)
    assert [event.payload.audit_cause for event in announced] == ["start", "request"]

    agent.run()
    for _ in range(3):
        agent.audit("periodic")
    assert [event.payload.audit_cause for event in announced[2:]] == ["periodic"]
