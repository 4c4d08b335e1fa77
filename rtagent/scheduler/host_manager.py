"""HostManager: the scheduler's view of all hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.host_table import HostTable
from rtagent.scheduler.instance_lists import HostInstances
from rtagent.scheduler.replica import own_replica
from rtagent.scheduler.report_documents import InstanceMessage
from rtagent.scheduler.tracked_host import TrackedHost, Wanted, wanted_of

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


class HostManager:
    """The hosts as their agents report them, with the claims that selections have assumed.

    Thread-safe. Readers take no lock: host states are immutable, and their map is replaced with
    each change. Messages may be lost, doubled or reordered.

    :param wanted: called without a lock, by the thread that consumed a message. It must not raise.
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
        self._table = HostTable()
        self._settled_at: float | None = None
        self._aggregates: tuple[Aggregate, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of messages and assumed claims, by outcome."""
        return self._table.counts

    @property
    def aggregates(self) -> Sequence[Aggregate]:
        """All aggregates, also those without hosts."""
        return self._aggregates

    # -- readers ----------------------------------------------------------------------------------

    def get_all_host_states(self) -> Sequence[HostState]:
        """Return all hosts, also those that are down, in order of their names."""
        self._end_assumptions()
        ordered = self._table.ordered
        if ordered is None:
            with self._lock:
                ordered = self._table.order()
        return tuple(ordered.values())

    def get_host_state(self, node_uuid: str) -> HostState | None:
        """Return one node as it is now, up or not; None: it is not known any more."""
        self._end_assumptions()
        return self._table.states.get(node_uuid)

    def get_set_aside(self) -> Mapping[str, str]:
        """Return why messages of a node are set aside, by the name of its host."""
        with self._lock:
            hosts = [host for host in self._table.hosts.values() if host.aside]
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
        table, settled_at = self._table, self._settled_at
        if settled_at is None:
            return False
        if table.expected and all(uuid in table.states for uuid in table.expected):
            return True
        if self._clock.monotonic() < settled_at:
            return False
        with self._lock:
            return all(host.state is not None or host.aside for host in table.hosts.values())

    # -- messages of agents -----------------------------------------------------------------------

    def update_host_state(self, report: HostReport) -> None:
        """Use the report of an agent, unless it is older than the one in use. Correct whether the
        agent knows that its host is forced down.
        """
        self._use_report(report, age=0.0)
        with self._lock:
            forced_down = self._table.forced_down_for(report)
        if forced_down is not None:
            self._wanted(Wanted(host=report.node.host, forced_down=forced_down))

    def _use_report(self, report: HostReport, age: float) -> None:
        """:param age: the time since the last message or heartbeat of the host, in seconds."""
        seen = self._clock.monotonic() - age
        node = report.node
        self._consume(
            node.host,
            node.uuid,
            seen,
            lambda host: self._table.use_report(host, report, seen, self._times.down),
        )

    def change_instances(
        self, message: InstanceMessage, instances: Sequence[InstanceInfo] | None = None
    ) -> None:
        """Insert or replace instances of a host, remove one, or compare all with the agent's.

        :param instances: those of the message, unpacked; None: it has none.
        """
        seen = self._clock.monotonic()
        self._consume(
            message.host,
            message.node_uuid,
            seen,
            lambda host: self._table.use_instances(host, message, instances, seen),
        )

    def set_aside(self, host: str, node_uuid: str, kind: str, why: str) -> None:
        """Select a node no more, because a message of its agent cannot be used, until one of this
        kind can.
        """
        with self._lock:
            now = self._clock.monotonic()
            self._table.set_aside(host, node_uuid, kind, why[:MAX_WHY], now)

    # -- assumed claims ---------------------------------------------------------------------------

    def assume(self, node_uuid: str, claim: Claim, here: bool) -> HostState:
        """Count a claim until a report names it, it is forgotten, or its time has passed.

        :param here: the instance counts as one of the host from now on.
        :returns: the host with the claim. :raises NodeNotFound: the host is not known any more.
        """
        with self._lock:
            until = self._clock.monotonic() + self._times.assume
            return self._table.assume(node_uuid, claim, here, until)

    def assumed_until(self, operation_ids: Iterable[str], at: float) -> None:
        """Set when assumed claims are forgotten: after the answer that names them.

        Claims that are confirmed or forgotten already are ignored.

        :param at: on the monotonic clock.
        """
        with self._lock:
            for uuid in operation_ids:
                self._table.limit(uuid, at)

    def forget_claim(self, operation_id: str) -> bool:
        """Forget an assumed claim. Return whether it was known."""
        with self._lock:
            return self._table.forget(operation_id, "forgotten")

    def forget_owners(self, owners: Collection[str], kind: str) -> None:
        """Forget the assumed claims of these instances that are of this kind, except those that an
        agent has granted. Claims of another kind belong to an earlier operation; a report will
        confirm them.
        """
        with self._lock:
            self._table.forget_owners(owners, kind)

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
            self._table.expect(nodes)

    def forget_node(self, node_uuid: str) -> None:
        """Drop a node from the view."""
        with self._lock:
            self._table.drop(node_uuid)

    def start_host(self, report: HostReport, instances: Sequence[InstanceInfo], age: float) -> None:
        """Begin with the record of a host in a database, until its agent reports.

        :param report: with its description.
        :param age: the time since the last heartbeat of the host, in seconds.
        """
        self._use_report(report, age)
        node, seen = report.node, self._clock.monotonic() - age
        self._consume(
            node.host,
            node.uuid,
            seen,
            lambda host: self._table.start_instances(host, report.epoch, instances),
        )

    def set_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Replace all aggregates."""
        self._aggregates = aggregates = tuple(aggregates)
        with self._lock:
            self._table.set_aggregates(aggregates)

    def set_forced_down(self, hosts: Collection[str], released: Collection[str] = ()) -> None:
        """Replace the service hosts that an operator has forced down.

        :param released: the hosts with a record that they are not forced down.
        """
        with self._lock:
            self._table.set_forced_down(hosts, released)

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
            self._table.drop_silent(self._clock.monotonic() - FORGOTTEN_AFTER * self._times.down)
            uuids = list(self._table.hosts)
        for uuid in uuids:
            self._ask(uuid)

    # -- both -------------------------------------------------------------------------------------

    def _consume(
        self, sender: str, node_uuid: str, seen: float, use: Callable[[TrackedHost], None]
    ) -> None:
        """Use a message, or set it aside if that is not possible. Then request missing messages."""
        why = ""
        with self._lock:
            try:
                self._table.change(sender, node_uuid, seen, use)
            # A sender may be of another version, or faulty. Other hosts must stay visible.
            except Exception as error:
                self._table.counts["set_aside"] += 1
                why = f"{type(error).__name__}: {error}"
        if why:
            self._reporter.log("warning", f"a message of {sender} is set aside: {why}")
        self._ask(node_uuid)

    def _end_assumptions(self) -> None:
        now = self._clock.monotonic()
        # Read without the lock: at worst, the next reader ends them.
        if now >= self._table.next_end:
            with self._lock:
                self._table.forget_until(now)

    def _ask(self, node_uuid: str) -> None:
        """Request missing messages from the agent of a node."""
        with self._lock:
            host = self._table.hosts.get(node_uuid)
            wanted = None if host is None else wanted_of(host, self._clock.monotonic())
            self._table.counts["asked"] += wanted is not None
        if wanted is not None:
            self._wanted(wanted)
