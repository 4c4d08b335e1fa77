"""Observe domains: one bulk call, and single reads only of domains that may have changed."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import libvirt
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.domain_usage import EVERY_KIND, UNBOUND, Occupancy
from rtagent.model.guest import DomainDocument
from rtagent.model.observation import Domain, Problem
from rtagent.model.units import KIB_IN_MIB, round_up
from rtagent.virt.libvirt.connection import Session, broken, caused
from rtagent.virt.libvirt.document import BadDocument, HostFacts, received
from rtagent.virt.libvirt.domain import UNREADABLE, DomainFacts, parse_domain
from rtagent.virt.libvirt.storage import Storage, growth
from rtagent.virt.libvirt.workers import BoundedCalls, CallWorkers, LateCall

#: Number of observations in which every domain is read again, a part of the domains at each one,
#: because some changes emit no event.
ROUND = 10

#: The time-outs of one call for which the list of all domains is awaited: of 50,000, for instance.
_PATIENCE = 12

#: Bytes of all compressed documents. Those that were not read for longest are dropped first.
CAPACITY = 32 * 1024 * 1024
#: Bytes of the longest document that is kept. libvirt itself allows no longer string.
LONGEST = 4 * 1024 * 1024

#: The fastest level: an audit of thousands of domains must not take noticeably longer.
_LEVEL = 1

_STATE = libvirt.VIR_DOMAIN_STATS_STATE
_SIZES = _STATE | libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BALLOON
# A busy domain returns the statistics that need no waiting and does not delay the others.
_NOWAIT = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT


class Look(Value, frozen=True, kw_only=True):
    """One observation of all domains.

    :ivar growth: bytes by which the disks on the guests' file system may still grow.
    """

    domains: dict[str, Domain]
    growth: int
    problems: tuple[Problem, ...]


class _Listed:
    """A domain in the listing of one observation."""

    __slots__ = ("stats", "uuid", "virt")

    def __init__(self, virt: libvirt.virDomain, stats: dict[str, Any]) -> None:
        self.virt, self.stats = virt, stats
        self.uuid: str = virt.UUIDString()

    @property
    def active(self) -> bool:
        return bool(self.stats.get("state.state") != libvirt.VIR_DOMAIN_SHUTOFF)


class _ReadDocument(Value, frozen=True):
    """What a document says. :ivar digest: of the document."""

    facts: DomainFacts
    digest: bytes


_NEVER_READ = _ReadDocument(UNREADABLE, b"")


class _Known:
    """The result of the last read of a domain.

    :ivar changed: an event said that the domain differs from it.
    :ivar failure: why it could not be read since; "": the read succeeded.
    """

    __slots__ = ("changed", "domain", "failure", "growth", "read", "shown", "turn")

    def __init__(self, read: _ReadDocument, turn: int) -> None:
        self.read, self.turn = read, turn
        self.changed, self.failure = False, ""
        self.growth = 0
        self.domain: Domain | None = None
        self.shown: tuple[str, bool, int | None, int | None, bool] | None = None

    @property
    def facts(self) -> DomainFacts:
        return self.read.facts


class Domains:
    """Caches the results of reads, and records which domains must be read again.

    `mark` may be called on any thread, `look` on one at a time.
    """

    def __init__(self, workers: CallWorkers, storage: Storage) -> None:
        self._workers, self._storage = workers, storage
        self._known: dict[str, _Known] = {}
        self._session: Session | None = None
        self._host = HostFacts()
        self._looks = 0
        self._given = 0
        self._lock = threading.Lock()
        self._marked: set[str] = set()
        #: What was read, for the read API.
        self.documents = ReadDocuments()

    def mark(self, uuid: str) -> None:
        """Read this domain again at the next observation."""
        with self._lock:
            self._marked.add(uuid)

    def look(self, session: Session, host: HostFacts) -> Look:
        """Observe all domains, running or defined.

        :raises libvirt.libvirtError: TimeoutError: the session is unusable.
        """
        if session is not self._session:
            self._begin(session)
        if host != self._host:
            self._host = host
            self._show_anew()
        # This precedes the listing, because a domain that is marked from now on may be newer than
        # the data read below.
        marked = self._take_marks()
        listed, problems = self._list(session)
        outdated = self._outdated(listed, marked)
        self._read(session, outdated)
        problems += self._measure(outdated)
        domains = {each.uuid: self._domain(each) for each in listed}
        for uuid in self._known.keys() - domains.keys():
            del self._known[uuid]
        self.documents.retain(domains.keys())
        problems += self._unread()
        problems += self._missing(domains.values())
        return Look(
            domains=domains,
            growth=sum(known.growth for known in self._known.values()),
            problems=tuple(problems),
        )

    def _begin(self, session: Session) -> None:
        """Forget the results of an earlier session."""
        self._session, self._known = session, {}
        self._reading = BoundedCalls(session.virt.getLibVersion, self._workers, "domain")
        self._measuring = BoundedCalls(session.virt.getLibVersion, self._workers, "disks of domain")

    def _show_anew(self) -> None:
        """Show the domains anew that use something else on the host as it is now. Most do not: a
        host changes with each interface of a guest.
        """
        for known in self._known.values():
            shown = known.domain
            if shown is not None and shown.active and shown.occupancy != self._occupancy(known):
                known.domain = None

    def _take_marks(self) -> set[str]:
        with self._lock:
            marked, self._marked = self._marked, set()
        return marked

    def _list(self, session: Session) -> tuple[list[_Listed], list[Problem]]:
        """List all domains in one call, with their sizes if every domain answers."""
        virt = session.virt
        problems = []
        try:
            listed = self._workers.call(lambda: virt.getAllDomainStats(_SIZES, _NOWAIT))
        except (libvirt.libvirtError, TimeoutError) as error:
            # One domain with a hanging monitor causes this. The states can be read without the
            # monitor.
            listed = self._list_states(virt)
            problems.append(Problem(item="domain statistics", message=str(error)))
        return [_Listed(virt, stats) for virt, stats in listed], problems

    def _list_states(self, virt: libvirt.virConnect) -> Any:
        """List all domains, for as long as libvirt answers other calls in time.

        The late result of an earlier observation is not used: the absence of a domain is evidence
        only if the list was made after this observation had begun.
        """
        listing = LateCall[Any](self._workers.timeout)
        for _ in range(_PATIENCE):
            try:
                return listing.get(lambda: virt.getAllDomainStats(_STATE, _NOWAIT))
            except TimeoutError:
                self._workers.call(virt.getLibVersion)
        raise TimeoutError(f"no list of domains within {_PATIENCE * self._workers.timeout:g} s")

    def _outdated(self, listed: Sequence[_Listed], marked: set[str]) -> list[_Listed]:
        """Return new domains, changed and unreadable ones, and those due in this observation."""
        self._looks += 1
        turn = self._looks % ROUND
        for uuid in marked & self._known.keys():
            self._known[uuid].changed = True
        for each in listed:
            # The event of a start may come later than the list. A running domain's document can
            # name devices that its definition does not, such as one of a network's.
            known = self._known.get(each.uuid)
            if known is not None and known.shown is not None and known.shown[1] != each.active:
                known.changed = True
        return [
            each
            for each in listed
            if (known := self._known.get(each.uuid)) is None
            or known.turn == turn
            or known.changed
            or known.failure
            or known.facts.problems
        ]

    def _read(self, session: Session, outdated: Sequence[_Listed]) -> None:
        def read(each: _Listed) -> _ReadDocument | Problem | None:
            known = self._known.get(each.uuid)
            return _read(session, each, self.documents, None if known is None else known.read)

        for uuid, result in self._reading.each(read, {each.uuid: each for each in outdated}):
            if result is None:
                self._known.pop(uuid, None)
            elif isinstance(result, _ReadDocument):
                self._remember(uuid, result)
            elif uuid in self._known:
                self._known[uuid].failure = result.message
            else:
                self._remember(uuid, _NEVER_READ).failure = result.message

    def _remember(self, uuid: str, read: _ReadDocument) -> _Known:
        known = self._known.get(uuid)
        if known is None:
            known = self._known[uuid] = _Known(read, self._given % ROUND)
            self._given += 1
        elif known.facts != read.facts:
            known.domain = None
        known.read, known.changed, known.failure = read, False, ""
        return known

    def _unread(self) -> list[Problem]:
        """Report what could not be read of each domain."""
        return [
            Problem(item=f"domain {uuid}", message=message)
            for uuid, known in self._known.items()
            if known.failure or known.facts.problems
            for message in filter(None, (known.failure, *known.facts.problems))
        ]

    def _measure(self, outdated: Sequence[_Listed]) -> list[Problem]:
        """Measure by how much the disks of these domains may still grow."""

        def measure(each: _Listed) -> int | Problem:
            try:
                return sum(growth(each.virt, path) for path in self._files(each))
            except (libvirt.libvirtError, OSError) as error:
                return Problem(item=f"disks of domain {each.uuid}", message=str(error))

        problems = []
        with_files = {each.uuid: each for each in outdated if self._files(each)}
        for uuid, size in self._measuring.each(measure, with_files):
            if isinstance(size, Problem):
                problems.append(size)
            else:
                self._known[uuid].growth = size
        return problems

    def _missing(self, domains: Iterable[Domain]) -> list[Problem]:
        """Report running domains with a device that the host does not list."""
        return [
            Problem(item=f"domain {domain.uuid}", message=f"no device of the host has {name}")
            for domain in domains
            if domain.active and (known := self._known.get(domain.uuid)) is not None
            for name in known.facts.confinement.given.missing(self._host)
        ]

    def _files(self, each: _Listed) -> list[str]:
        known = self._known.get(each.uuid)
        files = known.facts.files if known is not None else ()
        return [path for path in files if self._storage.contains(path)]

    def _domain(self, each: _Listed) -> Domain:
        """Return the domain: the same value as last time if nothing changed."""
        known, name, active = self._known.get(each.uuid), each.virt.name(), each.active
        if known is None:
            return Domain(
                uuid=each.uuid, name=name, active=active, vcpus=None, memory_mb=None, gone=True
            )
        vcpus = each.stats.get("vcpu.current", known.facts.vcpus)
        kib = each.stats.get("balloon.maximum")
        memory_mb = known.facts.memory_mb
        if kib is not None:
            memory_mb = round_up(max(0, kib - known.facts.excluded_kib), KIB_IN_MIB)
        shown = (name, active, vcpus, memory_mb, known.changed)
        if known.domain is None or known.shown != shown:
            known.shown = shown
            known.domain = Domain(
                uuid=each.uuid,
                name=name,
                active=active,
                vcpus=vcpus,
                memory_mb=memory_mb,
                occupancy=self._occupancy(known) if active else UNBOUND,
            )
        return known.domain

    def _occupancy(self, known: _Known) -> Occupancy:
        """Return what a running domain is bound to. One that changed may have anything besides."""
        occupancy = known.facts.confinement.occupancy(self._host)
        if known.changed:
            return replace(occupancy, unknown=EVERY_KIND)
        return occupancy


def _read(
    session: Session, each: _Listed, documents: ReadDocuments, before: _ReadDocument | None
) -> _ReadDocument | Problem | None:
    """Read, keep and parse the document; None when the domain has gone since the listing.

    :param before: what it said when it was read last. Most documents are still the same.
    """
    try:
        # Without the flag for passwords: people see the document.
        document = caused(lambda: received(lambda: each.virt.XMLDesc(0)))
        digest = blake2b(document.encode("utf-8", "replace"), digest_size=16).digest()
        if before is not None and before.digest == digest and documents.confirm(each.uuid):
            return before
        documents.keep(each.uuid, document)
        return _ReadDocument(parse_domain(document), digest)
    except BadDocument as error:
        return Problem(item=f"domain {each.uuid}", message=str(error))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        if broken(session, error):
            raise
        return Problem(item=f"domain {each.uuid}", message=str(error))


class ReadDocuments:
    """The documents of domains as they were last read, within a bound of memory. Thread-safe:
    audits write it, and the read API reads it instead of calling libvirt.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity, self._size = capacity, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[bytes, datetime]] = OrderedDict()

    def keep(self, uuid: str, xml: str) -> None:
        """Keep the document of a domain that was read now."""
        content = xml.encode("utf-8", "replace")
        packed = b"" if len(content) > LONGEST else zlib.compress(content, _LEVEL)
        now = datetime.now(UTC)
        with self._lock:
            self._drop(uuid)
            if not packed:
                return
            self._kept[uuid] = (packed, now)
            self._size += len(packed)
            while self._size > self._capacity:
                self._drop(next(iter(self._kept)))

    def confirm(self, uuid: str) -> bool:
        """Note that the document of a domain was read now and is still the same one.

        :return: whether it is kept.
        """
        now = datetime.now(UTC)
        with self._lock:
            found = self._kept.pop(uuid, None)
            if found is not None:
                self._kept[uuid] = (found[0], now)
        return found is not None

    def retain(self, uuids: Collection[str]) -> None:
        """Drop the documents of all other domains: these no longer exist."""
        with self._lock:
            for uuid in self._kept.keys() - uuids:
                self._drop(uuid)

    def get(self, uuid: str) -> DomainDocument | None:
        """Return the document of a domain, or None if it is not kept."""
        with self._lock:
            found = self._kept.get(uuid)
        if found is None:
            return None
        packed, at = found
        return DomainDocument(xml=zlib.decompress(packed).decode(), at=at)

    def _drop(self, uuid: str) -> None:
        packed, _ = self._kept.pop(uuid, (b"", None))
        self._size -= len(packed)
