"""RecordedHosts: the hosts of a shared database, in the view of a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from rtagent.db.host_records import HostRecord
from rtagent.errors import StoreUnavailable
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.host_manager import HostManager
from rtagent.service.loop import Backoff, Rest, every

PART = "host-records"
#: Seconds between two looks at which nodes were removed.
INTERVAL = 60.0
#: How many records that do not suffice are logged.
NAMED = 10


class Records(Protocol):
    """Reads the records, see `rtagent.db.host_records.HostRecords`."""

    def nodes(self) -> frozenset[str]:
        """Return the uuids of the nodes that were not removed."""
        ...

    def read(self, now: datetime) -> Iterator[HostRecord]:
        """Return the record of each node."""
        ...


class RecordedHosts:
    """The turns of the thread ``host-records``. The first one fills the view, so that requests need
    not wait for the reports of all agents.
    """

    def __init__(
        self, records: Records, manager: HostManager, clock: Clock, reporter: Reporter
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
            self._reporter.health(PART, "warn", error.message)
            return every(self._backoff.pause())
        self._backoff.reset()
        self._reporter.health(PART, "pass")
        return every(INTERVAL)

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
        for each in missing[:NAMED]:
            sentence = f"node {each.node_uuid} is not known before its first report"
            self._reporter.log("info", f"{sentence}: {each.why_not}")
        if len(missing) > NAMED:
            self._reporter.log("info", f"and {len(missing) - NAMED} more nodes")
