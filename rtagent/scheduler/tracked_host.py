"""TrackedHost: everything that a scheduler knows of one node."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.host_report import HostDescription, HostReport, HostUsage, InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Position
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.scheduler.instance_lists import HostInstances, InstanceList
from rtagent.scheduler.replica import AssumedClaim, owners_of, replica_of, with_assumed

#: Kinds of messages.
STATE, INSTANCES = "state", "instances"


class UsedReport(Value, frozen=True, kw_only=True):
    """The report in use.

    :ivar report: without the parts that are elsewhere: description, usage, claims.
    :ivar description: all hosts with an equal one have this object.
    :ivar replica: without assumed claims.
    :ivar claims: the uuids of the claims that the replica counts.
    """

    report: HostReport
    description: HostDescription
    replica: NodeState
    claims: frozenset[str]


class TrackedHost:
    """One node, by its uuid. Not thread-safe. A method that raises has changed nothing.

    :ivar host: the service's host, by which its agent is asked.
    :ivar seen: when the last new message came.
    :ivar state: None: there was no report yet that could be used.
    :ivar forced_down: an operator has forced the host down, whatever its agent reports.
    :ivar waits: a report cannot be used without a description.
    :ivar assumed: the assumed claims, by uuid, in the order in which they were assumed.
    :ivar lacking_since: when it was noticed that messages are missing.
    :ivar reported_at: when the last new report came.
    :ivar doubted_since: when a report came that is older than the one in use, although no new one
        had come for long.
    :ivar asked: when its agent was asked last.
    :ivar aside: why messages are set aside, by their kind: `STATE` or `INSTANCES`.
    """

    def __init__(self, host: str, seen: float) -> None:
        self.host, self.seen = host, seen
        self.state: HostState | None = None
        self.waits = self.forced_down = False
        self.instances = InstanceList()
        self.assumed: Mapping[str, AssumedClaim] = {}
        self.lacking_since: float | None = None
        self.reported_at = seen
        self.doubted_since: float | None = None
        self.asked: float | None = None
        self.aside: Mapping[str, str] = {}
        self._used: UsedReport | None = None

    @property
    def name(self) -> str:
        """The service's host, as the last report has it."""
        return self.host if self.state is None else self.state.host

    @property
    def lacks_instances(self) -> bool:
        """Whether messages about instances are missing."""
        return self._used is not None and self.instances.lacks(self._used.report)

    def is_old(self, report: HostReport) -> bool:
        """Whether a report is older than the one in use."""
        return self._used is not None and _at(report) < _at(self._used.report)

    def disproves(self, report: HostReport, at: float, down: float) -> bool:
        """Whether an older report shows that the position in use was never that of the host, which
        would wait for ever for a newer report.

        No newer report has come for so long that the host is down, and its agent was asked since,
        and this is an answer: only answers repeat the description.

        :param at: when the report came. :param down: the time after which a host is down.
        """
        if at < self.reported_at + down:
            return False
        if self.doubted_since is None:
            self.doubted_since = at
        return self._asked_since(self.doubted_since) and report.description is not None

    def list_is_wrong(self, epoch: int) -> bool:
        """Whether the whole list in a message of this epoch replaces one that has a later position:
        the agent was asked for it, because its report has an earlier one.
        """
        report = None if self._used is None else self._used.report
        if report is None or epoch != report.epoch or not self.instances.is_ahead(report):
            return False
        return self._asked_since(self.lacking_since)

    def _asked_since(self, since: float | None) -> bool:
        return since is not None and self.asked is not None and self.asked >= since

    def use(
        self,
        report: HostReport,
        description: HostDescription,
        aggregates: tuple[Aggregate, ...],
        version: int,
    ) -> None:
        """Use a report. One at the position of the report in use is a heartbeat: the replica stays.

        :param version: of the new state, if its replica changes.
        """
        self.accept(STATE)
        before = self._used
        if before is None or self.state is None or _basis(report) != _basis(before.report):
            replica, claims = replica_of(report, description), frozenset(report.claims)
        else:
            replica, claims, version = before.replica, before.claims, self.state.version
        used = UsedReport(
            report=replace(report, description=None, usage=HostUsage(), claims=()),
            description=description,
            replica=replica,
            claims=claims,
        )
        self._put(used, self.instances, self.assumed, aggregates, version)
        self.host, self.waits = report.node.host, False

    def change(
        self,
        version: int | None = None,
        *,
        instances: InstanceList | None = None,
        assumed: Mapping[str, AssumedClaim] | None = None,
        aggregates: tuple[Aggregate, ...] | None = None,
    ) -> None:
        """Replace the instances, the assumed claims or the aggregates.

        :param version: None: it stays.
        """
        instances = self.instances if instances is None else instances
        assumed = self.assumed if assumed is None else assumed
        if self._used is None or self.state is None:
            self.instances, self.assumed = instances, assumed
        else:
            found = self.state.aggregates if aggregates is None else aggregates
            version = self.state.version if version is None else version
            self._put(self._used, instances, assumed, found, version)

    def reported(self, at: float) -> None:
        """Note the time of a new report."""
        self.reported_at, self.doubted_since = max(self.reported_at, at), None
        self.saw(at)

    def accept(self, kind: str) -> None:
        """Note that a message of this kind is good. The next change shows it."""
        self.aside = {name: why for name, why in self.aside.items() if name != kind}

    def saw(self, at: float) -> None:
        """Note the time of a new message."""
        self.seen = max(self.seen, at)
        if self.state is not None:
            self.state = replace(self.state, seen=self.seen)

    def limit(self, uuid: str, until: float) -> None:
        """Set when an assumed claim is forgotten."""
        self.assumed = {**self.assumed, uuid: replace(self.assumed[uuid], until=until)}

    def granted(
        self, epoch: int, number: int, instances: Iterable[InstanceInfo]
    ) -> Mapping[str, AssumedClaim]:
        """Return the assumed claims, with a note in those that a message about instances names."""
        named = {claim.uuid for info in instances for claim in info.claims}
        return {
            uuid: each.granted(epoch, number) if uuid in named else each
            for uuid, each in self.assumed.items()
        }

    def _put(
        self,
        used: UsedReport,
        instances: InstanceList,
        assumed: Mapping[str, AssumedClaim],
        aggregates: tuple[Aggregate, ...],
        version: int,
    ) -> None:
        report = used.report
        lasting = {
            uuid: each.granted(report.epoch, report.instances_revision)
            if uuid in used.claims
            else each
            for uuid, each in assumed.items()
            if _lasts(each, used, instances)
        }
        listed = HostInstances(instances.entries, owners_of(lasting.values()), used.claims)
        folded = [each for uuid, each in lasting.items() if uuid not in used.claims]
        replica = with_assumed(used.replica, folded, listed)
        self.state = HostState(
            **replica_fields(replica, self.state),
            base=Position(epoch=report.epoch, revision=report.revision),
            version=version,
            seen=self.seen,
            service=replace(
                report.service, forced_down=self.forced_down or report.service.forced_down
            ),
            page_url=report.page_url,
            up=report.up and not self.aside,
            why_not="; ".join(self.aside.values()) or report.why_not,
            aggregates=aggregates,
            instances=listed,
            instance_uuids=frozenset(listed),
            instances_here=listed.here,
            differing=listed.differing,
            metrics=report.metrics,
        )
        self._used, self.instances, self.assumed = used, instances, lasting


def _at(report: HostReport) -> tuple[int, int, int, int]:
    # A restored database has a lower revision, with a higher epoch. Of two heartbeats, the one that
    # knows of fewer messages about instances is older, or that was sent first; what a database has
    # knows of none, and was not sent.
    return report.epoch, report.revision, report.instances_revision, report.number


def _basis(report: HostReport) -> tuple[int, int, str]:
    return report.epoch, report.revision, report.digest


def _lasts(assumed: AssumedClaim, used: UsedReport, instances: InstanceList) -> bool:
    """Return whether a claim is still assumed: the agent's messages neither show it nor its end."""
    report, granted = used.report, assumed.granted_at
    if assumed.claim.uuid in used.claims:
        return not instances.includes(report.epoch, report.instances_revision)
    return granted is None or granted > (report.epoch, report.instances_revision)


#: The time for which a message must be missing before the agent is asked, in seconds. The threads
#: that serve messages may overtake each other.
GAP = 1.0
#: The shortest time between two questions to one agent, in seconds. It answers after at most
#: ``report_jitter``.
ASK_AGAIN = 10.0


class Wanted(Value, frozen=True, kw_only=True):
    """A request for a report, and what the report must include; or a correction.

    :ivar host: None: all agents. :ivar instances: the whole list of instances.
    :ivar forced_down: what the agent must record; None: nothing, a report is wanted.
    """

    host: str | None
    description: bool = False
    instances: bool = False
    forced_down: bool | None = None


def wanted_of(host: TrackedHost, now: float) -> Wanted | None:
    """Return the request for the agent of a host, and note its time; None: nothing is missing.

    :param now: on the monotonic clock.
    """
    if not (host.lacks_instances or host.state is None):
        host.lacking_since = None
    elif host.lacking_since is None:
        host.lacking_since = now
    gap = host.lacking_since is not None and now >= host.lacking_since + GAP
    waits = host.waits or host.doubted_since is not None
    if not (waits or gap) or (host.asked is not None and now < host.asked + ASK_AGAIN):
        return None
    host.asked = now
    description = waits or host.state is None
    return Wanted(host=host.host, description=description, instances=host.lacks_instances)
