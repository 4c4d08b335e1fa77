"""Search: the hosts that pass, while the instances of one request are selected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rtagent.scheduler.filtered import Refusal
from rtagent.scheduler.host_state import HostState, with_capacity
from rtagent.scheduler.refusals import Refusals
from rtagent.scheduler.request import Request
from rtagent.scheduler.scheduling_call import SchedulingCall
from rtagent.scheduler.verdict import Rejection
from rtagent.scheduler.weighed_hosts import WeighedHosts
from rtagent.scheduler.weighing import Weighed


class Search:
    """The hosts that pass the filters for one instance after the other. Each host is judged once,
    unless a claim is assumed there.

    :ivar refusals: of the hosts that do not pass.
    """

    def __init__(self, call: SchedulingCall) -> None:
        self._weighers, self._plain = call.parts.weighers, call.template.plain
        self._filters = call.parts.filters.prepare(call.request(call.instance_uuids[0]))
        hosts = call.candidate_hosts
        self.refusals = Refusals(len(call.hosts))
        self.refusals.without_candidates(len(call.hosts) - len(hosts))
        filtered = self._filters.filter(hosts)
        self.refusals.filtered(filtered)
        self._passing = self._with_capacity(filtered.hosts)
        self._weighed: WeighedHosts | None = None

    @property
    def request(self) -> Request:
        """The request of the current instance."""
        return self._filters.request

    def best_first(self) -> Iterator[Weighed]:
        """Yield the hosts that pass, in the order in which to try them."""
        return self._weighers.in_order(self._weigh())

    def refusal(self, host: HostState) -> Refusal | None:
        """Return why a changed host does not pass the filters any more; None: it passes."""
        return self._filters.judge_again(host)

    def refuse(self, refused: Collection[str]) -> None:
        """Take hosts out of those that pass. :param refused: their uuids."""
        weighed = self._weigh()
        weighed.keep([host for host in weighed.hosts if host.uuid not in refused])

    def weigh_again(self, host: HostState) -> None:
        """Weigh a host again that has changed."""
        self._weigh().replace(host)

    def join(self, hosts: Collection[str]) -> None:
        """Judge again, because other calls have put members of the affinity group on hosts."""
        weighed = self._weigh()
        self._filters = self._filters.joining(hosts)
        filtered = self._filters.filter_again(weighed.hosts, ())
        self.refusals.filtered(filtered)
        weighed.keep(filtered.hosts)

    def next_instance(self, instance_uuid: str, consumed: HostState) -> None:
        """Go on to the next instance.

        :param consumed: the host on which the claim of the current instance was assumed.
        """
        weighed = self._weigh()
        self._filters = self._filters.next_instance(instance_uuid, consumed)
        weighed.replace(consumed, self.request)
        if self._filters.judges_every_host:
            filtered = self._filters.filter_again(weighed.hosts, {consumed.uuid})
            self.refusals.filtered(filtered)
            weighed.keep(filtered.hosts)
        else:
            refusal = self._filters.judge_again(consumed)
            if refusal is not None:
                self.refusals.refused(consumed, refusal.rejection, refusal.filter)
                weighed.remove(consumed.uuid)
        if consumed.uuid in weighed and not self._with_capacity([consumed]):
            weighed.remove(consumed.uuid)

    def _weigh(self) -> WeighedHosts:
        """Weigh the hosts, once: only the host of a selection is weighed again after it."""
        if self._weighed is None:
            self._weighed = self._weighers.weigh(self._passing, self.request)
        return self._weighed

    def _with_capacity(self, hosts: Sequence[HostState]) -> Sequence[HostState]:
        """Return the hosts that have enough for a plain request; all, if it is not plain."""
        plain, fit, owner = self._plain, self.request.fit, self.request.instance_uuid
        if plain is None or fit is None:
            return hosts
        wanted = plain.vcpus, plain.pcpus, plain.memory_mb, plain.disk_mb
        passing = with_capacity(hosts, *wanted)
        if len(passing) == len(hosts):
            return passing
        full = list[HostState]()
        for host in hosts:
            if host.fits(*wanted):
                continue
            if owner not in host.instance_uuids:
                full.append(host)
            elif isinstance(verdict := fit(host, owner), Rejection):
                self.refusals.refused(host, verdict)
            else:  # the instance reuses its resources there
                passing.append(host)
        self.refusals.full(full, plain, lambda host: fit(host, owner))
        return passing
