"""HostManager: the scheduler's view of all hosts."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from immutables import Map

from rtagent.errors import InvalidRequest, NodeNotFound
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.host_report import HostDescription, HostReport, InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.instance_lists import HostInstances
from rtagent.scheduler.replica import AssumedClaim, own_replica
from rtagent.scheduler.report import digest_of
from rtagent.scheduler.report_documents import InstanceMessage, SyncInstanceInfo
from rtagent.scheduler.tracked_host import INSTANCES, TrackedHost, Wanted, wanted_of

#: A host that was silent for this multiple of ``service_down_time`` is dropped from the view.
FORGOTTEN_AFTER = 60
#: The most characters of the reason why a host is set aside.
MAX_WHY = 1000


class Times(Value, frozen=True, kw_only=True):
    """Times, in seconds.

    :ivar down: a host without a message for this time is down.
    :ivar assume: an assumed claim that was never answered is forgotten after it.
    """

    down: float = 60.0
    assume: float = 60.0


#: With the default options.
TIMES = Times()


_NAME = attrgetter("nodename", "uuid")


class HostManager:
    """The hosts as their agents report them, with the claims that selections have assumed.

    Thread-safe. Readers take no lock: host states are immutable, and their map is replaced with
    each change. Messages may be lost, doubled or reordered.

    :param wanted: called without a lock, by the thread that consumed a message. It must not raise.
    :ivar aggregates: all of them, also those without hosts.
    :ivar counts: the numbers of messages and assumed claims, by outcome.
    """

    def __init__(
        self,
        clock: Clock,
        reporter: Reporter,
        wanted: Callable[[Wanted], None],
        times: Times = TIMES,
    ) -> None:
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._wanted, self._times = wanted, times
        self._lock = threading.Lock()
        self._settled_at: float | None = None
        self.aggregates: Sequence[Aggregate] = ()
        self.counts: Counter[str] = Counter()
        self._hosts: dict[str, TrackedHost] = {}
        self._states: Map[str, HostState] = Map()
        # The same in order of names; None: it has to be sorted again.
        self._ordered: dict[str, HostState] | None = {}
        # The nodes that the database has.
        self._expected: frozenset[str] = frozenset()
        # When the next assumed claim is forgotten, on the monotonic clock.
        self._next_end = float("inf")
        self._versions = itertools.count(1)
        self._assumed_on: dict[str, str] = {}
        # Descriptions by digest, as long as a host has them.
        self._descriptions = WeakValueDictionary[str, HostDescription]()
        self._aggregates_of: Mapping[str, tuple[Aggregate, ...]] = {}
        self._forced_down: frozenset[str] = frozenset()
        self._released: frozenset[str] = frozenset()

    # -- readers ----------------------------------------------------------------------------------

    def get_all_host_states(self) -> Sequence[HostState]:
        """Return all hosts, also those that are down, in order of their names."""
        self._end_assumptions()
        ordered = self._ordered
        if ordered is None:
            with self._lock:
                states = sorted(self._states.values(), key=_NAME)
                ordered = self._ordered = {each.uuid: each for each in states}
        return tuple(ordered.values())

    def get_host_state(self, node_uuid: str) -> HostState | None:
        """Return one node as it is now, up or not; None: it is not known any more."""
        self._end_assumptions()
        return self._states.get(node_uuid)

    def get_set_aside(self) -> Mapping[str, str]:
        """Return why messages of a node are set aside, by the name of its host."""
        with self._lock:
            hosts = [host for host in self._hosts.values() if host.aside]
        return {host.name: "; ".join(host.aside.values()) for host in hosts}

    def replica_for(self, host_state: HostState, instance_uuid: str) -> NodeState:
        """Return the replica with the claims that an instance has on the host as claims."""
        instances = host_state.instances
        if not isinstance(instances, HostInstances):
            return host_state.replica
        return own_replica(host_state.replica, instances, instance_uuid)

    @property
    def complete(self) -> bool:
        """Whether all hosts are known: see `begin`."""
        settled_at = self._settled_at
        if settled_at is None:
            return False
        if self._expected and all(uuid in self._states for uuid in self._expected):
            return True
        if self._clock.monotonic() < settled_at:
            return False
        with self._lock:
            return all(host.state is not None or host.aside for host in self._hosts.values())

    # -- messages of agents -----------------------------------------------------------------------

    def update_host_state(self, report: HostReport) -> None:
        """Use the report of an agent, unless it is older than the one in use. Correct whether the
        agent knows that its host is forced down.
        """
        self._report(report, age=0.0)
        with self._lock:
            forced_down = self._correction(report)
        if forced_down is not None:
            self._wanted(Wanted(host=report.node.host, forced_down=forced_down))

    def _report(self, report: HostReport, age: float) -> None:
        """:param age: the time since the last message or heartbeat of the host, in seconds."""
        node, seen = report.node, self._clock.monotonic() - age
        self._consume(node.host, node.uuid, seen, lambda host: self._use_report(host, report, seen))

    def _use_report(self, host: TrackedHost, report: HostReport, seen: float) -> None:
        if host.is_old(report) and not host.disproves(report, seen, self._times.down):
            self.counts["old"] += 1
            self._end(host, report.ended)
            return
        description = self._description_of(report)
        if description is None:
            host.waits = True
        else:
            aggregates = self._aggregates_of.get(report.node.host, ())
            host.forced_down = report.node.host in self._forced_down
            host.use(report, description, aggregates, next(self._versions))
            self._descriptions[report.digest] = description
            self.counts["accepted"] += 1
        self._end(host, report.ended)
        host.reported(seen)

    def _description_of(self, report: HostReport) -> HostDescription | None:
        """Return the description of a report; None: it is not known.

        :raises InvalidRequest: the report's own description has another digest. Other hosts could
            get it.
        """
        known = self._descriptions.get(report.digest)
        if known is not None or report.description is None:
            return known
        digest = digest_of(report.description)
        if digest != report.digest:
            raise InvalidRequest.at("update_host_state", "$.report.digest", f"must be {digest}")
        return report.description

    def _end(self, host: TrackedHost, ended: Collection[str]) -> None:
        """Count claims that have ended no more."""
        left = {uuid: each for uuid, each in host.assumed.items() if uuid not in ended}
        if len(left) < len(host.assumed):
            host.change(next(self._versions), assumed=left)

    def _correction(self, report: HostReport) -> bool | None:
        """Return what the agent has to record, because it has a database of its own, and reports
        otherwise; None: nothing.
        """
        host, reported = report.node.host, report.service.forced_down
        if report.node.uuid in self._expected:  # the agent reads the record itself
            return None
        if host in self._forced_down and not reported:
            return True
        return False if host in self._released and reported else None

    def change_instances(
        self, message: InstanceMessage, instances: Sequence[InstanceInfo] | None = None
    ) -> None:
        """Insert or replace instances of a host, remove one, or compare all with the agent's,
        unless the message is old.

        :param instances: those of the message, unpacked; None: it has none.
        """
        seen = self._clock.monotonic()

        def use(host: TrackedHost) -> None:
            after = copy(host.instances)
            whole = isinstance(message, SyncInstanceInfo) and instances is not None
            if whole and host.list_is_wrong(message.epoch):
                after.restart()
            if not after.use(message, instances):
                self.counts["old"] += 1
                return
            same = after.entries is host.instances.entries and not host.assumed
            if whole:
                host.accept(INSTANCES)
            granted = host.granted(message.epoch, message.revision, instances or ())
            version = None if same else next(self._versions)
            host.change(version, instances=after, assumed=granted)
            host.saw(seen)
            self.counts["accepted"] += 1

        self._consume(message.host, message.node_uuid, seen, use)

    def set_aside(self, host: str, node_uuid: str, kind: str, why: str) -> None:
        """Select a node no more, because a message of its agent cannot be used, until one of this
        kind can.
        """
        with self._lock:
            tracked = TrackedHost(host, self._clock.monotonic())
            tracked = self._hosts.setdefault(node_uuid, tracked)
            tracked.aside = {**tracked.aside, kind: why[:MAX_WHY]}
            self._change(node_uuid, tracked)

    # -- assumed claims ---------------------------------------------------------------------------

    def assume(self, node_uuid: str, claim: Claim, here: bool) -> HostState:
        """Count a claim until a report names it, it is forgotten, or its time has passed.

        :param here: the instance counts as one of the host from now on.
        :returns: the host with the claim. :raises NodeNotFound: the host is not known any more.
        """
        with self._lock:
            host = self._hosts.get(node_uuid)
            if host is None or host.state is None:
                raise NodeNotFound(node=node_uuid, served=f"{len(self._states)} others")
            until = self._clock.monotonic() + self._times.assume
            each = AssumedClaim(claim=claim, here=here, until=until)
            host.change(next(self._versions), assumed={**host.assumed, claim.uuid: each})
            self._assumed_on[claim.uuid] = node_uuid
            self._publish(node_uuid, host, (claim.uuid,))
            self._next_end = min(self._next_end, until)
            self.counts["assumed"] += 1
            return host.state

    def assumed_until(self, operation_ids: Iterable[str], at: float) -> None:
        """Set when assumed claims are forgotten: after the answer that names them.

        Claims that are confirmed or forgotten already are ignored.

        :param at: on the monotonic clock.
        """
        with self._lock:
            for uuid in operation_ids:
                node_uuid = self._assumed_on.get(uuid)
                if node_uuid is not None:
                    self._hosts[node_uuid].limit(uuid, at)
                    self._next_end = min(self._next_end, at)

    def forget_claim(self, operation_id: str) -> bool:
        """Forget an assumed claim. Return whether it was known."""
        with self._lock:
            return self._forget(operation_id, "forgotten")

    def forget_owners(self, owners: Collection[str], kind: str) -> None:
        """Forget the assumed claims of these instances that are of this kind, except those that an
        agent has granted. Claims of another kind belong to an earlier operation; a report will
        confirm them.
        """
        with self._lock:
            for uuid, each in self._assumed().items():
                same = each.claim.owner_id in owners and each.claim.kind == kind
                if same and each.granted_at is None:
                    self._forget(uuid, "forgotten")

    def _end_assumptions(self) -> None:
        """Forget the assumed claims whose time has passed."""
        now = self._clock.monotonic()
        # Read without the lock: at worst, the next reader ends them.
        if now < self._next_end:
            return
        with self._lock:
            for uuid, each in self._assumed().items():
                if each.until <= now:
                    self._forget(uuid, "expired")
            ends = (each.until for each in self._assumed().values())
            self._next_end = min(ends, default=float("inf"))

    def _assumed(self) -> dict[str, AssumedClaim]:
        return {uuid: self._hosts[node].assumed[uuid] for uuid, node in self._assumed_on.items()}

    def _forget(self, claim_uuid: str, why: str) -> bool:
        """Forget an assumed claim. Return whether it was known. :param why: for `counts`."""
        node_uuid = self._assumed_on.pop(claim_uuid, None)
        if node_uuid is None:
            return False
        host = self._hosts[node_uuid]
        left = {uuid: each for uuid, each in host.assumed.items() if uuid != claim_uuid}
        self._change(node_uuid, host, next(self._versions), assumed=left)
        self.counts[why] += 1
        return True

    # -- the view as a whole ----------------------------------------------------------------------

    def begin(self, settle: float) -> None:
        """Ask all agents for their reports.

        The view is complete when all nodes of the database are known, see `expect`; otherwise when
        the agents had time to answer, and every host that sent a message has reported.

        :param settle: this time, in seconds.
        """
        self._settled_at = self._clock.monotonic() + settle
        self._wanted(Wanted(host=None, description=True, instances=True))

    def expect(self, nodes: Collection[str]) -> None:
        """Set the nodes of the database. A node that was removed from it is dropped. The others
        stay in the view, however long they are silent.

        :param nodes: their uuids.
        """
        with self._lock:
            removed = self._expected.difference(nodes)
            self._expected = frozenset(nodes)
            for uuid in removed:
                self._drop(uuid)

    def forget_node(self, node_uuid: str) -> None:
        """Drop a node from the view."""
        with self._lock:
            self._drop(node_uuid)

    def start_host(self, report: HostReport, instances: Sequence[InstanceInfo], age: float) -> None:
        """Begin with the record of a host in a database, until its agent reports.

        :param report: with its description.
        :param age: the time since the last heartbeat of the host, in seconds.
        """
        self._report(report, age)
        node, seen = report.node, self._clock.monotonic() - age

        def start(host: TrackedHost) -> None:
            known = copy(host.instances)
            known.start(report.epoch, instances)
            host.change(next(self._versions), instances=known)

        self._consume(node.host, node.uuid, seen, start)

    def set_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Replace all aggregates."""
        self.aggregates = tuple(aggregates)
        by_host = dict[str, list[Aggregate]]()
        for each in sorted(self.aggregates, key=lambda one: one.uuid):
            for name in each.hosts:
                by_host.setdefault(name, []).append(each)
        with self._lock:
            self._aggregates_of = {name: tuple(found) for name, found in by_host.items()}
            for uuid, host in self._hosts.items():
                found = self._aggregates_of.get(host.host, ())
                if host.state is not None and host.state.aggregates != found:
                    self._change(uuid, host, aggregates=found)

    def set_forced_down(self, hosts: Collection[str], released: Collection[str] = ()) -> None:
        """Replace the service hosts that an operator has forced down, whatever their agents report.

        :param released: the hosts with a record that they are not forced down.
        """
        with self._lock:
            self._forced_down, self._released = frozenset(hosts), frozenset(released)
            for uuid, host in self._hosts.items():
                forced = host.host in self._forced_down
                if host.forced_down is not forced:
                    host.forced_down = forced
                    self._change(uuid, host)

    def knows(self, host: str) -> bool:
        """Return whether a service host is in the view, up or not."""
        return any(each.host == host for each in self.get_all_host_states())

    def set_times(self, times: Times) -> None:
        """Use other times from now on."""
        self._times = times

    def tick(self) -> None:
        """Update the view for the time that has passed. Call it about each second.

        It forgets assumed claims, repeats requests for missing messages, and drops hosts that
        are not in the database and were silent for `FORGOTTEN_AFTER` times ``service_down_time``.
        """
        self._end_assumptions()
        with self._lock:
            limit = self._clock.monotonic() - FORGOTTEN_AFTER * self._times.down
            silent = {uuid for uuid, host in self._hosts.items() if host.seen < limit}
            for uuid in silent - self._expected:
                self._drop(uuid)
            uuids = list(self._hosts)
        for uuid in uuids:
            self._ask(uuid)

    # -- all of them ------------------------------------------------------------------------------

    def _consume(
        self, sender: str, node_uuid: str, seen: float, use: Callable[[TrackedHost], None]
    ) -> None:
        """Use a message of a host, which becomes known with it, or set it aside if that is not
        possible. Then request missing messages.

        :param use: raises before it has changed anything.
        """
        why = ""
        with self._lock:
            host = self._hosts.get(node_uuid) or TrackedHost(sender, seen)
            had = host.assumed
            try:
                use(host)
                self._hosts[node_uuid] = host
                self._publish(node_uuid, host, had)
            # A sender may be of another version, or faulty. Other hosts must stay visible.
            except Exception as error:
                self.counts["set_aside"] += 1
                why = f"{type(error).__name__}: {error}"
        if why:
            self._reporter.log("warning", f"a message of {sender} is set aside: {why}")
        self._ask(node_uuid)

    def _ask(self, node_uuid: str) -> None:
        """Request missing messages from the agent of a node."""
        with self._lock:
            host = self._hosts.get(node_uuid)
            wanted = None if host is None else wanted_of(host, self._clock.monotonic())
            self.counts["asked"] += wanted is not None
        if wanted is not None:
            self._wanted(wanted)

    def _change(
        self, node_uuid: str, host: TrackedHost, version: int | None = None, **parts: Any
    ) -> None:
        """Change a known host, see `TrackedHost.change`, and publish it."""
        had = host.assumed
        host.change(version, **parts)
        self._publish(node_uuid, host, had)

    def _publish(self, node_uuid: str, host: TrackedHost, had: Collection[str]) -> None:
        """Publish a changed host to readers. :param had: claims that were assumed on it before."""
        for uuid in had:
            if uuid not in host.assumed and self._assumed_on.pop(uuid, None) is not None:
                self.counts["confirmed"] += 1
        if host.state is not None:
            self._states = self._states.set(node_uuid, host.state)
            before = None if self._ordered is None else self._ordered.get(node_uuid)
            if before is None or self._ordered is None or _NAME(before) != _NAME(host.state):
                self._ordered = None
            else:
                self._ordered[node_uuid] = host.state

    def _drop(self, node_uuid: str) -> None:
        host = self._hosts.pop(node_uuid, None)
        if host is None:
            return
        for uuid in host.assumed:
            self._assumed_on.pop(uuid, None)
        if node_uuid in self._states:
            self._states = self._states.delete(node_uuid)
            self._ordered = None
