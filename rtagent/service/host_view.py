"""HostView: updates the view of the hosts, and reports when it is complete. RecordedHosts: fills it
from a shared database.
"""

from collections.abc import Callable, Sequence

from rtagent.conf.settings import SettingsHolder
from rtagent.db.host_records import HostRecord, HostRecords
from rtagent.errors import StoreUnavailable
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.errors import SchedulerNotReady
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.host_state import HostState
from rtagent.service.loop import Backoff, Rest, every

PART = "hosts"
#: Seconds between two turns.
INTERVAL = 1.0
#: Seconds for which reports are awaited, in addition to ``report_jitter``.
SETTLE = 2.0
#: How many hosts a line of health names.
NAMED = 5


class HostTurns:
    """The turns of the thread ``hosts``."""

    def __init__(
        self,
        manager: HostManager,
        settings: SettingsHolder,
        serving: Callable[[], bool],
        ready: Callable[[], None],
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param serving: whether messages of agents arrive. :param ready: is called once, when the
        view is complete or ``[scheduler] start_grace`` has passed.
        """
        self._manager, self._settings, self._clock = manager, settings, clock
        self._serving, self._ready = serving, ready
        self._reporter = reporter.named(__name__)
        self._started = clock.monotonic()
        self._asked = self._announced = False

    @property
    def not_ready(self) -> SchedulerNotReady | None:
        """The error that selections get until the view is complete, or ``start_grace`` is over."""
        if self._announced:
            return None
        known = len(self._manager.get_all_host_states())
        return SchedulerNotReady(why=f"it has just started, and knows {known}")

    def turn(self) -> Rest:
        """Update the view for the time that has passed, and report the hosts that are down."""
        if not self._asked and self._serving():
            # The answers need the queue of the server.
            self._asked = True
            settle = self._settings.current.scheduler.report_jitter + SETTLE
            self._manager.begin(settle)
        self._manager.tick()
        self._announce()
        self._report_health()
        return every(INTERVAL)

    def is_down(self, host: HostState) -> bool:
        """Whether the host is down: its agent is silent, or an operator has forced it down."""
        silent = self._clock.monotonic() - host.seen
        return silent >= self._down_time or host.service.forced_down

    def number_down(self) -> int:
        """Return how many hosts are down."""
        return sum(map(self.is_down, self._manager.get_all_host_states()))

    @property
    def _down_time(self) -> int:
        return self._settings.current.default.service_down_time

    def _announce(self) -> None:
        if self._announced:
            return
        grace = self._settings.current.scheduler.start_grace
        complete = self._manager.complete
        if complete or self._clock.monotonic() - self._started >= grace:
            self._announced = True
            number = len(self._manager.get_all_host_states())
            kind = "all hosts are known" if complete else "start_grace is over"
            self._reporter.log("info", f"{kind}: {number}")
            self._ready()

    def _report_health(self) -> None:
        hosts = self._manager.get_all_host_states()
        down = sorted(host.host for host in hosts if self.is_down(host))
        aside = [f"{host} ({why})" for host, why in sorted(self._manager.get_set_aside().items())]
        sentences = []
        if down:
            sentences.append(f"{len(down)} of {len(hosts)} hosts are down: {_listed(down)}")
        if aside:
            sentences.append(f"messages of {len(aside)} hosts are set aside: {_listed(aside)}")
        self._reporter.health(PART, "warn" if sentences else "pass", "; ".join(sentences))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


RECORDS = "host-records"
#: Seconds between two looks at which nodes were removed.
REMOVED_INTERVAL = 60.0
#: How many records that do not suffice are logged.
LOGGED = 10


class RecordedHosts:
    """The turns of the thread ``host-records``. The first one fills the view, so that requests need
    not wait for the reports of all agents.
    """

    def __init__(
        self, records: HostRecords, manager: HostManager, clock: Clock, reporter: Reporter
    ) -> None:
        self._records, self._manager, self._clock = records, manager, clock
        self._reporter = reporter.named(__name__)
        self._backoff = Backoff()
        self._started = False

    def turn(self) -> Rest:
        """Fill the view once; then drop nodes that were removed."""
        try:
            self._manager.expect(self._records.nodes())
            if not self._started:
                self._start()
        except StoreUnavailable as error:
            self._reporter.health(RECORDS, "warn", error.message)
            return every(self._backoff.pause())
        self._backoff.reset()
        self._reporter.health(RECORDS, "pass")
        return every(REMOVED_INTERVAL)

    def _start(self) -> None:
        began, known, missing = self._clock.monotonic(), 0, list[HostRecord]()
        for record in self._records.read(self._clock.now()):
            if record.report is None:
                missing.append(record)
            else:
                self._manager.start_host(record.report, record.instances, record.age)
                known += 1
        self._started = True
        seconds = self._clock.monotonic() - began
        self._reporter.log("info", f"{known} hosts are known from the database, in {seconds:.1f} s")
        for each in missing[:LOGGED]:
            sentence = f"node {each.node_uuid} is not known before its first report"
            self._reporter.log("info", f"{sentence}: {each.why_not}")
        if len(missing) > LOGGED:
            self._reporter.log("info", f"and {len(missing) - LOGGED} more nodes")
