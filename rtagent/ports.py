"""The interfaces between the core and its adapters. Each adapter has a fake for tests.

WrappedHypervisor: the base of hypervisors that show another one differently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value
from rtagent.model.change import Change, Operation
from rtagent.model.claim import ClaimEnd, HistoryPage
from rtagent.model.event import RecordedEvents
from rtagent.model.guest import DomainDocument, GuestLayout
from rtagent.model.metric import CpuUse
from rtagent.model.migration import TakenOver
from rtagent.model.node import NodeRecord
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Observation
from rtagent.model.store_restore import StoreRestore
from rtagent.model.stored import Position, Retention, Stored


class Clock(Protocol):
    """The time. It is an argument everywhere, so that tests control it."""

    def now(self) -> datetime:
        """Return the current time, in UTC and with a time zone."""

    def monotonic(self) -> float:
        """Return seconds since a fixed point in the past."""


#: The rule of an enrollment. Given the records with this node's uuid or hypervisor hostname, return
#: the record to write, with the epoch that the writer will have, or raise `IdentityError`.
Enroll = Callable[[Sequence[NodeRecord]], NodeRecord]


class Store(Protocol):
    """Durable state. Every method is one transaction, bounded by the operation timeout.

    Every method raises `StoreUnavailable` if the database did not execute it; then nothing has
    changed.
    """

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        """Become the writer of a node: read the records, apply the rule, write its result, and read
        everything.

        :raises IdentityError: from the rule; then nothing is written.
        """

    def load(self, node_uuid: str) -> Stored:
        """Read everything of the node in one transaction. Write nothing."""

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        """Set the epoch to one more than the given one; then read everything.

        The write comes first, because it waits for a commit that is still in flight, or makes that
        commit fail. If the answer of an earlier reload was lost, the epoch that it has raised still
        belongs to this store. A lower epoch is that of an older copy, which this writer continues.

        :raises WriterFenced: another store has raised the epoch.
        """

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        """Write the changes that lead from one state to the other.

        The node's row must have ``before.revision`` and ``before.epoch``.

        :raises RevisionConflict: the row has another revision, or a lower epoch. Nothing was
            written.
        :raises WriterFenced: the row has a higher epoch. Nothing was written.
        :raises Deadlock: the database chose another transaction. Nothing was written.
        :raises ChangeRejected: the database refused the rows, for example because an operation id
            was used before. Nothing was written.
        :raises CommitUnknown: the connection was lost while COMMIT was in flight.
        """

    def position(self, node_uuid: str) -> Position | None:
        """Return epoch and revision of the node's record; None if there is no record."""

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        """Return the record of an operation id, or None."""

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        """Return the node's claims whose guests another node has taken over, by claim uuid.

        The other node has an active claim of kind ``evacuation`` for the same owner, made after the
        claim of this node. A database with one node only has no such claims.
        """

    def ended(self, node_uuid: str, owners: Collection[str]) -> Mapping[str, ClaimEnd]:
        """Return how the last main claim of each of these owners ended on the node, by owner.

        Left out are owners without a released claim (there was none, or it was purged) and owners
        of a released claim whose row is damaged.
        """

    def retention(self, node_uuid: str) -> Retention:
        """Return the ages of the node's records."""

    def purge(self, node_uuid: str, revision: int, kept: Retention) -> int:
        """Delete the operations and the released claims up to a revision, 0: none. Then write the
        ages of the other records. Return the number of deleted rows.
        """

    def history_page(
        self, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
    ) -> HistoryPage:
        """Return the newest events of a claim, or of all claims of the node (None).

        :param before: only events with a lower number; None: the newest.
        :param limit: of the number of events.
        """


class EventLog(Protocol):
    """The recorded events of nodes. Every method raises `StoreUnavailable`."""

    def read(self, node_uuid: str, after: int, rows: int) -> Sequence[RecordedEvents]:
        """Return the commits whose last event has a higher number than `after`, oldest first.

        :param rows: the maximum number of commits.
        """

    def published(self, node_uuid: str) -> int | None:
        """Return the number of the last published event; None: nothing is published."""

    def set_published(self, node_uuid: str, sequence: int | None) -> None:
        """Remember how far events were published; None: nothing is published any more."""


class Mark(Value, frozen=True, kw_only=True):
    """The highest position of a node that was acknowledged. :ivar at: when."""

    position: Position
    at: datetime


class Witness(Protocol):
    """What an agent remembers of its node outside of the store, so that it notices a store that
    went back in time.

    :ivar mark: the last recorded one; None: nothing is remembered.
    :ivar restore: the last one that was kept, accepted or not.
    """

    @property
    def mark(self) -> Mark | None: ...

    @property
    def restore(self) -> StoreRestore | None: ...

    def record(self, mark: Mark) -> None:
        """Remember the position of a commit, also if the process is killed afterwards.

        Called for each commit before it is answered. It neither fails nor waits for a disk.
        """

    def keep(self, restore: StoreRestore) -> None:
        """Remember a restore durably.

        :raises StoreUnavailable: it cannot be made durable.
        """

    def sync(self) -> None:
        """Make the mark durable, and report if it cannot be. Called at each heartbeat."""


class Service(Value, frozen=True, kw_only=True):
    """The record of a service (a row of ``services``, as in Nova)."""

    host: str
    binary: str
    report_count: int = 0
    last_seen_up: datetime | None = None
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    version: int = 0


class ServiceRegistry(Protocol):
    """The services and their heartbeats. Every method raises `StoreUnavailable`."""

    def heartbeat(self, host: str, now: datetime) -> Service:
        """Count one more report, and create the record at the first. Return the record.

        :param now: the time of this host. A database server takes its own time instead, which all
            hosts share.
        """

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        """Disable or enable the host for scheduling. Return the record."""

    def set_forced_down(self, host: str, forced_down: bool) -> Service:
        """Force the host down, or no longer. Return the record, which is made if there is none."""

    def services(self) -> Sequence[Service]:
        """Return all services, by host."""


class HostIdentity(Value, frozen=True, kw_only=True):
    """The identity that the hypervisor reports.

    :ivar hostname: libvirt's host name.
    :ivar host_uuid: libvirt's host uuid, or "" if the driver has none of its own (``test://``).
    """

    hostname: str
    host_uuid: str


class Hypervisor(Protocol):
    """Observes the host. Methods raise `HypervisorUnavailable` without a connection."""

    def identity(self) -> HostIdentity:
        """Connect if needed, and return the identity of the host."""

    def observe(self) -> Observation:
        """Observe the whole host. An item that cannot be read is a `Problem`, never an error."""

    def document(self, uuid: str) -> DomainDocument | None:
        """Return the document of a domain as the last observations read it, without passwords.

        It returns at once, and never asks the hypervisor. None: it was not read, the domain has
        gone, or there was no memory left for its document.
        """

    def cpu_use(self) -> CpuUse:
        """Return how the host's CPUs have spent their time, as far as it is known."""

    def guest(self, uuid: str) -> GuestLayout | None:
        """Read one domain now. Return None if there is no such domain.

        A domain that cannot be read has a layout with a `problem`.
        """

    def start(self, on_event: Callable[[str], None]) -> None:
        """Start watching for events.

        :param on_event: called for each event that needs a targeted audit, with its kind
            (``lifecycle``, ``device``, ``connection``, ``file``). It must return at once.
        """

    def stop(self) -> None:
        """Stop watching, and close the connection."""


class PmemUnavailable(Exception):
    """The host's namespaces cannot be listed now. The message says why."""


class PersistentMemory(Protocol):
    """Lists the host's persistent memory."""

    def namespaces(self) -> Sequence[PmemNamespace]:
        """Return the namespaces that guests can use, in bounded time.

        :raises PmemUnavailable:
        """


class CpuPower(Protocol):
    """Manages the power of host CPUs by one strategy. A CPU that is already in the requested state
    costs one read. Each call ends in bounded time.

    :ivar switches_off: a CPU that is down is offline, and the hypervisor reports little about it.
    :raises CpuPowerFailed: names a CPU that could not be changed. The other CPUs were changed,
        unless the change of this one hangs.
    """

    switches_off: bool

    def up(self, cpus: Iterable[int]) -> None:
        """Make CPUs ready for guests before returning."""

    def down(self, cpus: Iterable[int]) -> None:
        """Save power on CPUs that no guest needs."""


#: The logger of refused calls and requests, whose level and destination an operator can choose.
ACCESS_LOG = "rtagent.access"


class Reporter(Protocol):
    """Receives reports. Methods are called without a lock held, and must return at once."""

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        """Report a duration, by name (``lock_wait``, ``lock_hold``, ``audit``, ``rpc``,
        ``placement``) and purpose.
        """

    def counted(self, name: str, label: str, number: int = 1) -> None:
        """Count an event: ``refused`` by code, ``granted`` by kind, ``skipped`` and others.

        A number of 0 makes the count known before its first event. An alert on an increase needs
        that: the first value of a count is no increase.
        """

    def health(self, part: str, status: str, output: str = "") -> None:
        """Report the health of a part: ``pass``, ``warn`` or ``fail``, and the reason."""

    def log(self, level: str, sentence: str) -> None:
        """Log a sentence at a level: ``debug``, ``info``, ``warning`` or ``error``."""

    def named(self, origin: str) -> Reporter:
        """Return a reporter that logs under this name: the ``__name__`` of the module that uses it.

        So each module has a log level of its own; everything else is shared.
        """


class NullReporter:
    """A `Reporter` that drops everything."""

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        pass

    def counted(self, name: str, label: str, number: int = 1) -> None:
        pass

    def health(self, part: str, status: str, output: str = "") -> None:
        pass

    def log(self, level: str, sentence: str) -> None:
        pass

    def named(self, origin: str) -> Reporter:
        return self


class WrappedHypervisor:
    """A `Hypervisor` that passes every call on."""

    def __init__(self, hypervisor: Hypervisor) -> None:
        self._hypervisor = hypervisor

    def identity(self) -> HostIdentity:
        return self._hypervisor.identity()

    def observe(self) -> Observation:
        return self._hypervisor.observe()

    def document(self, uuid: str) -> DomainDocument | None:
        return self._hypervisor.document(uuid)

    def cpu_use(self) -> CpuUse:
        return self._hypervisor.cpu_use()

    def guest(self, uuid: str) -> GuestLayout | None:
        return self._hypervisor.guest(uuid)

    def start(self, on_event: Callable[[str], None]) -> None:
        self._hypervisor.start(on_event)

    def stop(self) -> None:
        self._hypervisor.stop()
