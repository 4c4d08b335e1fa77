"""FleetCounts: the room of each flavor in the fleet, counted again where a host has changed."""

import itertools
import threading
import time
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from rtagent.capacity.catalogue import Catalogue, CatalogueFlavor, fleet_catalogue, guests_of
from rtagent.capacity.fleet import Group, HostCount, Summary, groups, summary
from rtagent.capacity.room import nothing
from rtagent.errors import FlavorNotFound, RequestError, RtAgentError
from rtagent.model.base import Value
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.scheduler.claim_template import spec_of
from rtagent.scheduler.fleet import Ask, AskedOfPlacement, Counting, ask, asked_of_placement
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.scheduling_call import Parts

#: How many hosts are judged together.
CHUNK = 10
#: How many requests beside the catalogue are kept.
MAX_ASKED = 8
#: Seconds for which a count works before it leaves the processor to others, and for which it does;
#: and the longest time for which it waits then while a selection is made.
WORK, REST, LONGEST = 0.001, 0.004, 0.02

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
#: A host, and a number that changes with everything that decides on it.
_Numbered = tuple[HostState, int]


class FleetFlavor(Value, frozen=True, kw_only=True):
    """The room of one flavor.

    :ivar name: in the catalogue. :ivar variant: see `CatalogueFlavor`.
    :ivar summary: of all hosts that are counted; None: the room is not known, see `undecided`.
    :ivar groups: the same by host, zone or aggregate, if that was asked.
    :ivar undecided: what only Placement decides on, or "".
    :ivar error: why no host takes the flavor, whatever it has, or "".
    :ivar pending: the number of hosts that are not counted yet: the room is at least that then.
    :ivar claims: live ones of the flavor. :ivar in_file: the operator's file lists it.
    """

    name: str
    flavor: Flavor
    summary: Summary | None
    groups: tuple[Group, ...] = ()
    undecided: str = ""
    error: str = ""
    pending: int = 0
    claims: int = 0
    in_file: bool = False
    variant: str = ""


class FleetCapacity(Value, frozen=True, kw_only=True):
    """The flavors of the catalogue. :ivar left_out: the number of those beyond its limit."""

    flavors: tuple[FleetFlavor, ...]
    left_out: int = 0


class _Asked:
    """A request, and its counts by node uuid, of every host up to a number."""

    def __init__(self, spec: RequestSpec, error: str = "") -> None:
        self.spec, self.error, self.placement = spec, error, AskedOfPlacement()
        self.hosts: dict[str, HostCount] = {}
        self.upto = self.pending = 0
        self.ask: Ask | None = None
        try:
            self.ask = None if error else ask(spec)
        except RequestError as refusal:
            self.error = refusal.message

    def shown(
        self, flavor: CatalogueFlavor | None, by: str | None, node_uuid: str | None = None
    ) -> FleetFlavor:
        """Return the room as it is counted. :param flavor: None: it is not of the catalogue."""
        counts, pending = list(self.hosts.values()), self.pending
        total = summary(counts)
        # Agents that offer no such units do not say that nobody does.
        undecided = self.placement.undecided or (self.placement.units if total.never else "")
        if node_uuid is not None:
            counts = [count for count in counts if count.uuid == node_uuid]
            total, pending = summary(counts), int(not counts and not self.error)
        if pending:
            total = replace(total, at_least=True)
        more = {}
        if flavor is not None:
            more = {name: getattr(flavor, name) for name in ("claims", "in_file", "variant")}
        return FleetFlavor(
            name=self.spec.flavor.name if flavor is None else flavor.name,
            flavor=self.spec.flavor,
            summary=None if undecided else total,
            groups=tuple(groups(counts, by)) if by and not undecided else (),
            undecided=undecided,
            error=self.error,
            pending=pending,
            **more,
        )


class Pace:
    """Leaves the processor to others, again and again. For one thread.

    :param busy: returns whether a selection is made at present. :param rest: seconds for which it
        leaves the processor to others.
    """

    def __init__(self, busy: Callable[[], bool], rest: float = REST) -> None:
        self._busy, self._rest, self._until = busy, rest, 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now < self._until:
            return
        time.sleep(self._rest)
        while self._busy() and time.monotonic() < now + LONGEST:
            time.sleep(self._rest)
        self._until = time.monotonic() + WORK


class FleetCounts:
    """Counts in one thread, which calls `count`. The other methods are thread-safe.

    :param parts: returns what a selection works with at present.
    :param listed: returns the flavors of the operator's file, the same object while they are the
        same.
    :param wake: lets that thread call `count` soon. :param pause: called between decisions.
    """

    def __init__(
        self,
        parts: Callable[[], Parts],
        listed: Callable[[], Sequence[Flavor]] = tuple,
        wake: Callable[[], None] = nothing,
        pause: Callable[[], None] = nothing,
    ) -> None:
        self._parts, self._listed, self._wake, self._pause = parts, listed, wake, pause
        self._counted = threading.Condition()
        self._counted_since = -1.0
        self._filters: object = None
        self._bases: dict[str, tuple[object, int]] = {}
        self._numbers = itertools.count(1)
        self._guests: dict[str, tuple[int, Counter[bytes]]] = {}
        self._total = Counter[bytes]()
        # What readers see: that of the catalogue, and not what is being read.
        self._claims: Mapping[bytes, int] = {}
        self._flavors: Sequence[Flavor] = ()
        self._catalogue = Catalogue()
        self._rows: Mapping[tuple[str, str], _Asked] = {}
        self._asked: OrderedDict[bytes, _Asked] = OrderedDict()

    # -- readers ----------------------------------------------------------------------------------

    @property
    def began(self) -> bool:
        """Whether everything was counted once. The catalogue may lack flavors until then."""
        return self._counted_since >= 0

    def capacity(
        self,
        only: str | None = None,
        by: str | None = None,
        patience: float = 0.0,
        node_uuid: str | None = None,
    ) -> FleetCapacity:
        """Return the room of each flavor of the catalogue.

        :param only: a name in the catalogue: that flavor alone, also one beyond the limit, or none.
        :param by: adds groups, see `rtagent.capacity.fleet.groups`.
        :param patience: the seconds for which the count of what has changed is waited for.
        :param node_uuid: the room of this host alone.
        """
        self.wait(patience)
        catalogue, rows = self._catalogue, self._rows
        flavors = [each for each in catalogue.flavors if only in (None, each.name)]
        counted = [(each, rows[_key(each)]) for each in flavors if _key(each) in rows]
        if only is not None and not counted:
            others = fleet_catalogue(self._claims, self._listed(), only).flavors
            counted = [(each, self._also(_spec(each), each.error, patience)) for each in others]
        return FleetCapacity(
            flavors=tuple(row.shown(each, by, node_uuid) for each, row in counted),
            left_out=catalogue.left_out if only is None else 0,
        )

    def spec_of(self, name: str, patience: float = 0.0) -> RequestSpec:
        """Return the request of one more guest of a flavor, by its name in the catalogue.

        :raises FlavorNotFound:
        """
        self.wait(patience)
        for flavor in fleet_catalogue(self._claims, self._listed(), name).flavors:
            return _spec(flavor)
        raise FlavorNotFound(flavor=name, command="rtagent schedule capacity")

    def of_request(
        self, spec: RequestSpec, by: str | None = None, patience: float = 0.0
    ) -> FleetFlavor:
        """Return the room of any request.

        :raises InvalidFlavor: InvalidRequest: as `ask`, and as the filters.
        """
        ask(spec)
        self._counting(_Asked(spec), self._parts())
        return self._also(spec, "", patience).shown(None, by)

    def _also(self, spec: RequestSpec, error: str, patience: float) -> _Asked:
        """Return the counts of a request that is not in the rows of the catalogue."""
        with self._counted:
            asked = self._asked.setdefault(_encode(spec), _Asked(spec, error))
            self._asked.move_to_end(_encode(spec))
            while len(self._asked) > MAX_ASKED:
                self._asked.popitem(last=False)
        self.wait(patience)
        return asked

    def wait(self, patience: float) -> None:
        """Wait until everything that is asked is counted as it is now, or for so many seconds."""
        now = time.monotonic()
        self._wake()
        with self._counted:
            self._counted.wait_for(lambda: self._counted_since >= now, patience)

    # -- the counting thread ----------------------------------------------------------------------

    def count(self, seconds: float) -> bool:
        """Count what has changed, for about this long. Return whether everything is counted."""
        began = time.monotonic()
        ends, parts = began + seconds, self._parts()
        if parts.filters is not self._filters:
            self._filters, self._bases = parts.filters, {}
        hosts = self._numbered(parts)
        left = self._read_guests(hosts, ends)
        with self._counted:
            asked = [*self._asked.values(), *self._rows.values()]
        for each in asked:
            left += self._count(each, hosts, parts, ends)
        if left:
            return False
        with self._counted:
            self._counted_since = began
            self._counted.notify_all()
        return True

    def _numbered(self, parts: Parts) -> list[_Numbered]:
        """Return the hosts, in order of their numbers. A host gets a new number, higher than all
        others, if anything has changed that filters or the fit of a claim read; measured values
        alone do not count.
        """
        alive_since = parts.alive_since
        numbered, bases = list[_Numbered](), dict[str, tuple[object, int]]()
        for host in parts.manager.get_all_host_states():
            basis = (
                *(host.version, host.seen >= alive_since, host.up, host.why_not, host.service),
                *(host.aggregates, tuple(metric.name for metric in host.metrics)),
            )
            known = self._bases.get(host.uuid)
            if known is None or known[0] != basis:
                known = basis, next(self._numbers)
            bases[host.uuid] = known
            numbered.append((host, known[1]))
        self._bases = bases
        return sorted(numbered, key=_number)

    def _read_guests(self, hosts: Sequence[_Numbered], ends: float) -> int:
        """Read the flavors of the guests of hosts that have changed, and make the catalogue.
        Return the number of hosts that are left.
        """
        listed, left, changed = self._listed(), 0, False
        for host, _ in hosts:
            known = self._guests.get(host.uuid)
            if known is not None and known[0] == host.version:
                continue
            if time.monotonic() >= ends:
                left += 1
                continue
            self._pause()
            infos = host.instances.values()
            guests = guests_of(claim for info in infos for claim in info.claims)
            changed |= self._has(host.uuid, host.version, guests)
        for uuid in self._guests.keys() - self._bases.keys():
            changed |= self._has(uuid, 0, Counter())
            del self._guests[uuid]
        if changed or listed is not self._flavors:
            self._flavors, self._total = listed, +self._total
            self._claims = dict(self._total)
            self._catalogue = fleet_catalogue(self._claims, listed)
            keyed = {_key(each): each for each in self._catalogue.flavors}
            self._rows = {
                key: self._rows.get(key) or _Asked(_spec(flavor), flavor.error)
                for key, flavor in keyed.items()
            }
        return left

    def _has(self, uuid: str, version: int, guests: Counter[bytes]) -> bool:
        """Keep the guests of a host. Return whether they are others than before."""
        _, before = self._guests.get(uuid, (0, Counter[bytes]()))
        self._guests[uuid] = version, guests
        if before == guests:
            return False
        self._total.update(guests)
        self._total.subtract(before)
        return True

    def _count(self, asked: _Asked, hosts: Sequence[_Numbered], parts: Parts, ends: float) -> int:
        """Count one request on the hosts that have changed. Return how many are left."""
        if asked.ask is None:
            return 0
        for uuid in asked.hosts.keys() - self._bases.keys():
            del asked.hosts[uuid]
        try:
            counting = self._counting(asked, parts)
        except RtAgentError as error:
            asked.error, asked.hosts, asked.upto = error.message, {}, 0
            return 0
        asked.error = ""
        if asked.placement.undecided:
            return 0
        stale = hosts[bisect_right(hosts, asked.upto, key=_number) :]
        left = len(stale)
        while left and time.monotonic() < ends:
            chunk = stale[-left:][:CHUNK]
            counts = counting.counts([host for host, _ in chunk])
            asked.hosts.update((count.uuid, count) for count in counts)
            left, asked.upto = left - len(chunk), _number(chunk[-1])
        asked.pending = len(hosts) - len(asked.hosts)
        return left

    def _counting(self, asked: _Asked, parts: Parts) -> Counting:
        assert asked.ask is not None
        placement = asked_of_placement(asked.ask, parts)
        if placement != asked.placement:
            asked.placement, asked.upto = placement, 0
        return Counting(asked.ask, parts, self._pause, asked.placement.member_of)


def _number(host: _Numbered) -> int:
    return host[1]


def _key(flavor: CatalogueFlavor) -> tuple[str, str]:
    return flavor.name, flavor.digest


def _spec(flavor: CatalogueFlavor) -> RequestSpec:
    """Return the request of one more guest of a flavor."""
    instance = flavor.build.instance
    return RequestSpec(flavor=instance.flavor) if flavor.alone else spec_of(instance)
