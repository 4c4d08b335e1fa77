"""HostTable: the tracked hosts by node uuid, the states that readers see, and assumed claims."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter

from immutables import Map

from rtagent.errors import InvalidRequest, NodeNotFound
from rtagent.model.claim import Claim
from rtagent.model.host_report import HostDescription, HostReport, InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.replica import AssumedClaim
from rtagent.scheduler.report import digest_of
from rtagent.scheduler.report_documents import InstanceMessage, SyncInstanceInfo
from rtagent.scheduler.tracked_host import INSTANCES, TrackedHost


class Descriptions:
    """Descriptions by digest, as long as a host has them. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, HostDescription] = {}
        self._users: Counter[str] = Counter()

    def find(self, report: HostReport) -> HostDescription | None:
        """Return the description of a report; None: it is not known.

        :raises InvalidRequest: the report's own description has another digest. Other hosts could
            get it.
        """
        known = self._known.get(report.digest)
        if known is not None or report.description is None:
            return known
        digest = digest_of(report.description)
        if digest != report.digest:
            raise InvalidRequest.at("update_host_state", "$.report.digest", f"must be {digest}")
        return report.description

    def replace(
        self, before: str | None, after: str | None, description: HostDescription | None
    ) -> None:
        """Note that a host has another description. :param before: its digest, or None."""
        if after is not None and description is not None:
            self._users[after] += 1
            self._known[after] = description
        if before is not None:
            self._users[before] -= 1
            if not self._users[before]:
                del self._users[before], self._known[before]


_NAME = attrgetter("nodename", "uuid")


class HostTable:
    """Not thread-safe, but for `states`: an immutable map that is replaced with each change.

    :ivar ordered: the same in order of names; None: `order` must sort it again.
    :ivar next_end: when the next assumed claim is forgotten, on the monotonic clock.
    :ivar expected: uuids of the nodes that the database has.
    :ivar counts: messages and assumed claims, by outcome.
    """

    def __init__(self) -> None:
        self.states: Map[str, HostState] = Map()
        self.ordered: dict[str, HostState] | None = {}
        self.hosts: dict[str, TrackedHost] = {}
        self.expected: frozenset[str] = frozenset()
        self.next_end = float("inf")
        self.counts: Counter[str] = Counter()
        self._versions = itertools.count(1)
        self._assumed_on: dict[str, str] = {}
        self._descriptions = Descriptions()
        self._aggregates: Mapping[str, tuple[Aggregate, ...]] = {}
        self._forced_down: frozenset[str] = frozenset()
        self._released: frozenset[str] = frozenset()

    # -- messages ---------------------------------------------------------------------------------

    def change(
        self, sender: str, node_uuid: str, seen: float, use: Callable[[TrackedHost], None]
    ) -> None:
        """Apply a message to its host, which becomes known with it. If `use` raises, nothing has
        changed.
        """
        host = self.hosts.get(node_uuid) or TrackedHost(sender, seen)
        had = host.assumed
        use(host)
        self.hosts[node_uuid] = host
        self._publish(node_uuid, host, had)

    def use_report(self, host: TrackedHost, report: HostReport, seen: float, down: float) -> None:
        """Use a report, unless it is older than the one in use. :param down: see `Times`."""
        if host.is_old(report) and not host.disproves(report, seen, down):
            self.counts["old"] += 1
            self._end(host, report.ended)
            return
        description = self._descriptions.find(report)
        if description is None:
            host.waits = True
        else:
            before, aggregates = host.digest, self._aggregates.get(report.node.host, ())
            host.forced_down = report.node.host in self._forced_down
            host.use(report, description, aggregates, next(self._versions))
            self._descriptions.replace(before, report.digest, description)
            self.counts["accepted"] += 1
        self._end(host, report.ended)
        host.reported(seen)

    def _end(self, host: TrackedHost, ended: Collection[str]) -> None:
        """Count claims that have ended no more."""
        left = {uuid: each for uuid, each in host.assumed.items() if uuid not in ended}
        if len(left) < len(host.assumed):
            host.change(next(self._versions), assumed=left)

    def use_instances(
        self,
        host: TrackedHost,
        message: InstanceMessage,
        instances: Sequence[InstanceInfo] | None,
        seen: float,
    ) -> None:
        """Use a message about instances, unless it is old.

        :param instances: those of the message; None: it has none.
        """
        after = copy(host.instances)
        whole = isinstance(message, SyncInstanceInfo) and instances is not None
        if whole and host.list_is_wrong(message.epoch):
            after.restart()
        if not after.use(message, instances):
            self.counts["old"] += 1
            return
        same = after.entries is host.instances.entries and not host.assumed
        version = host.state.version if same and host.state else next(self._versions)
        if whole:
            host.accept(INSTANCES)
        granted = host.granted(message.epoch, message.revision, instances or ())
        host.change(version, instances=after, assumed=granted)
        host.saw(seen)
        self.counts["accepted"] += 1

    def start_instances(
        self, host: TrackedHost, epoch: int, instances: Sequence[InstanceInfo]
    ) -> None:
        """Begin with the instances of a database."""
        known = copy(host.instances)
        known.start(epoch, instances)
        host.change(next(self._versions), instances=known)

    def set_aside(self, sender: str, node_uuid: str, kind: str, why: str, seen: float) -> None:
        """Select a node no more until a good message of this kind comes. :param why: for people."""
        host = self.hosts.setdefault(node_uuid, TrackedHost(sender, seen))
        had = host.assumed
        host.aside = {**host.aside, kind: why}
        host.change(0 if host.state is None else host.state.version)
        self._publish(node_uuid, host, had)

    # -- assumed claims ---------------------------------------------------------------------------

    def assume(self, node_uuid: str, claim: Claim, here: bool, until: float) -> HostState:
        """Count a claim. :raises NodeNotFound:"""
        host = self.hosts.get(node_uuid)
        if host is None or host.state is None:
            raise NodeNotFound(node=node_uuid, served=f"{len(self.states)} others")
        each = AssumedClaim(claim=claim, here=here, until=until)
        host.change(next(self._versions), assumed={**host.assumed, claim.uuid: each})
        self._assumed_on[claim.uuid] = node_uuid
        self.next_end = min(self.next_end, until)
        self._publish(node_uuid, host, (claim.uuid,))
        self.counts["assumed"] += 1
        return host.state

    def limit(self, claim_uuid: str, until: float) -> None:
        """Set when an assumed claim is forgotten. An unknown one is ignored."""
        node_uuid = self._assumed_on.get(claim_uuid)
        if node_uuid is not None:
            self.hosts[node_uuid].limit(claim_uuid, until)
            self.next_end = min(self.next_end, until)

    def forget(self, claim_uuid: str, why: str) -> bool:
        """Forget an assumed claim. Return whether it was known. :param why: for `counts`."""
        node_uuid = self._assumed_on.pop(claim_uuid, None)
        if node_uuid is None:
            return False
        host = self.hosts[node_uuid]
        left = {uuid: each for uuid, each in host.assumed.items() if uuid != claim_uuid}
        host.change(next(self._versions), assumed=left)
        self._publish(node_uuid, host, left)
        self.counts[why] += 1
        return True

    def forget_owners(self, owners: Collection[str], kind: str) -> None:
        """Forget the assumed claims of these owners that are of this kind, except those that an
        agent has granted.
        """
        for uuid, node_uuid in list(self._assumed_on.items()):
            assumed = self.hosts[node_uuid].assumed[uuid]
            claim = assumed.claim
            same = claim.owner_id in owners and claim.kind == kind
            if same and assumed.granted_at is None:
                self.forget(uuid, "forgotten")

    def forget_until(self, now: float) -> None:
        """Forget the assumed claims whose time has passed."""
        for uuid, node_uuid in list(self._assumed_on.items()):
            if self.hosts[node_uuid].assumed[uuid].until <= now:
                self.forget(uuid, "expired")
        ends = (
            self.hosts[node_uuid].assumed[uuid].until
            for uuid, node_uuid in self._assumed_on.items()
        )
        self.next_end = min(ends, default=float("inf"))

    # -- all hosts --------------------------------------------------------------------------------

    def set_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Replace all aggregates."""
        by_host = dict[str, list[Aggregate]]()
        for each in sorted(aggregates, key=lambda one: one.uuid):
            for name in each.hosts:
                by_host.setdefault(name, []).append(each)
        self._aggregates = {name: tuple(found) for name, found in by_host.items()}
        for uuid, host in self.hosts.items():
            found = self._aggregates.get(host.host, ())
            if host.state is not None and host.state.aggregates != found:
                had = host.assumed
                host.change(host.state.version, aggregates=found)
                self._publish(uuid, host, had)

    def forced_down_for(self, report: HostReport) -> bool | None:
        """Return what the agent has to record, because it has a database of its own, and reports
        otherwise; None: nothing.
        """
        host, reported = report.node.host, report.service.forced_down
        if report.node.uuid in self.expected:  # the agent reads the record itself
            return None
        if host in self._forced_down and not reported:
            return True
        return False if host in self._released and reported else None

    def set_forced_down(self, hosts: Collection[str], released: Collection[str] = ()) -> None:
        """Replace the hosts that an operator has forced down, whatever their agents report.

        :param released: the hosts with a record that they are not forced down.
        """
        self._forced_down, self._released = frozenset(hosts), frozenset(released)
        for uuid, host in self.hosts.items():
            forced = host.host in self._forced_down
            if host.state is not None and host.forced_down is not forced:
                host.forced_down, had = forced, host.assumed
                host.change(host.state.version)
                self._publish(uuid, host, had)

    def expect(self, nodes: Collection[str]) -> None:
        """Set the nodes of the database, and drop those that were removed from it."""
        removed = self.expected.difference(nodes)
        self.expected = frozenset(nodes)
        for uuid in removed:
            self.drop(uuid)

    def drop_silent(self, limit: float) -> None:
        """Drop the hosts that are not in the database and were seen last before a time."""
        silent = {uuid for uuid, host in self.hosts.items() if host.seen < limit}
        for uuid in silent - self.expected:
            self.drop(uuid)

    def _publish(self, node_uuid: str, host: TrackedHost, had: Collection[str]) -> None:
        """Publish a changed host to readers. :param had: claims that were assumed on it before."""
        for uuid in had:
            if uuid not in host.assumed and self._assumed_on.pop(uuid, None) is not None:
                self.counts["confirmed"] += 1
        if host.state is not None:
            self.states = self.states.set(node_uuid, host.state)
            before = None if self.ordered is None else self.ordered.get(node_uuid)
            if before is None or self.ordered is None or _NAME(before) != _NAME(host.state):
                self.ordered = None
            else:
                self.ordered[node_uuid] = host.state

    def drop(self, node_uuid: str) -> None:
        """Forget a node."""
        host = self.hosts.pop(node_uuid, None)
        if host is None:
            return
        for uuid in host.assumed:
            self._assumed_on.pop(uuid, None)
        self._descriptions.replace(host.digest, None, None)
        if node_uuid in self.states:
            self.states = self.states.delete(node_uuid)
            self.ordered = None

    def order(self) -> dict[str, HostState]:
        """Return the states in order of their names."""
        if self.ordered is None:
            states = sorted(self.states.values(), key=_NAME)
            self.ordered = {each.uuid: each for each in states}
        return self.ordered
