"""Fits: whether the claim of a request fits a host. The agents' own rules decide."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.requirements import Requirements, from_request
from rtagent.errors import InvalidFlavor, NodeNotReady, RequestError
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.claim import BUILD, Claim
from rtagent.model.decision import Refused
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.scheduler.claim_template import NO_OWNER, ClaimTemplate
from rtagent.scheduler.filter import Check, Fit, Rejection, Request, Verdict
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.ports import Candidate

#: The number of verdicts that are kept, of all hosts and requests together. A request is counted as
#: one more.
MAX_VERDICTS = 16 * 1024
#: The uuid of a claim that is not assumed yet.
NO_CLAIM = "ffffffff-ffff-ffff-ffff-ffffffffffff"

#: Returns the node's state with an instance's own claims, see `HostManager.replica_for`.
ReplicaFor = Callable[[HostState, str], NodeState]


class _Table:
    """The verdicts of one request.

    :ivar verdicts: by node uuid: the version of the host, and the verdict.
    :ivar fitting: the versions of the hosts that it fits, by node uuid.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, tuple[int, Verdict]] = {}
        self.fitting: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.verdicts)

    def verdict(self, host: HostState) -> Verdict | None:
        """Return the verdict on this version of the host; None: it is not known."""
        known = self.verdicts.get(host.uuid)
        return known[1] if known is not None and known[0] == host.version else None

    def add(self, host: HostState, verdict: Verdict) -> None:
        """Keep the verdict on this version of the host."""
        self.verdicts[host.uuid] = host.version, verdict
        if isinstance(verdict, Rejection):
            self.fitting.pop(host.uuid, None)
        else:
            self.fitting[host.uuid] = host.version


class Fits:
    """The verdicts of recent requests, so that an equal request judges only hosts that changed.

    Thread-safe.
    """

    def __init__(self, limit: int = MAX_VERDICTS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Table] = OrderedDict()

    def of_request(
        self, template: ClaimTemplate, replica_for: ReplicaFor, now: datetime
    ) -> RequestFit:
        """Return the fit of the instances of one request."""
        return RequestFit(self._table(template.digest), template, replica_for, now)

    def _table(self, digest: str) -> _Table:
        """Return the verdicts of requests with this digest. Callers add theirs."""
        with self._lock:
            table = self._tables.setdefault(digest, _Table())
            self._tables.move_to_end(digest)
            # A request without verdicts takes memory, too.
            total = sum(map(len, self._tables.values())) + len(self._tables)
            while total > self._limit and len(self._tables) > 1:
                total -= len(self._tables.popitem(last=False)[1]) + 1
            return table


class RequirementsOf:
    """What a request requires under the policies of hosts, computed once for each policy."""

    def __init__(self, build: BuildRequest) -> None:
        self._build = build
        # By identity of the policy, which equal hosts share.
        self._known: dict[int, tuple[Policy, Requirements]] = {}

    def __call__(self, policy: Policy) -> Requirements:
        """:raises RequestError: the request is invalid under this policy."""
        known = self._known.get(id(policy))
        if known is None:
            known = self._known[id(policy)] = policy, from_request(self._build, policy)
        return known[1]


class RequestFit:
    """The fit of the instances of one request, without allocations in Placement: the agent chooses.

    On a host where an instance has claims, they count as its own. On other hosts, equal instances
    have equal fits.
    """

    def __init__(
        self, table: _Table, template: ClaimTemplate, replica_for: ReplicaFor, now: datetime
    ) -> None:
        self._table, self._template = table, template
        self._replica_for, self._now = replica_for, now
        self._own: dict[str, _Table] = {}
        self._required = RequirementsOf(template.build)

    def __call__(self, host: HostState, owner_id: str) -> Verdict:
        """Decide, unless the verdict on this version of the host is known.

        :raises InvalidFlavor: no host would grant the request.
        """
        here = owner_id in host.instance_uuids
        table = self._own.setdefault(owner_id, _Table()) if here else self._table
        verdict = table.verdict(host)
        if verdict is None:
            verdict = self.decide(host, owner_id, None)
            table.add(host, verdict)
        return verdict

    def undecided(self, hosts: Iterable[HostState], owner_id: str) -> list[HostState]:
        """Return the hosts that are not known to fit, in one pass without a call for each verdict
        that is known.
        """
        find = self._table.fitting.get
        return [
            host
            for host in hosts
            if find(host.uuid) != host.version or owner_id in host.instance_uuids
        ]

    def decide(self, host: HostState, owner_id: str, candidate: Candidate | None) -> Verdict:
        """Decide with the allocations of a candidate.

        :raises InvalidFlavor: no host would grant the request.
        """
        try:
            return self._decide(host, owner_id, candidate)
        except InvalidFlavor:
            raise
        # A wrong report of one host must not end the request for all hosts.
        except Exception as error:
            return Rejection(f"this host cannot be judged: {type(error).__name__}: {error}")

    def _decide(self, host: HostState, owner_id: str, candidate: Candidate | None) -> Verdict:
        here = owner_id in host.instance_uuids
        replica = self._replica_for(host, owner_id) if here else host.replica
        build = self._template.build_request(owner_id if here else NO_OWNER)
        if candidate is not None:
            mapping = candidate.provider_mapping
            build = replace(build, allocations=candidate.allocations, provider_mapping=mapping)
        return judge(replica, self._template, build, self._now, self._requirements(replica.policy))

    def _requirements(self, policy: Policy) -> Requirements | None:
        """Return the requirements of a build under a policy; None: it is a move."""
        if self._template.kind != BUILD:
            return None
        try:
            return self._required(policy)
        except RequestError:
            return None  # the decision raises it


class CandidateFit:
    """The fit of the instances of one request with the candidates of Placement: any may fit.

    :param candidates: returns those of a node.
    """

    def __init__(
        self,
        fit: RequestFit,
        template: ClaimTemplate,
        candidates: Callable[[str], Sequence[Candidate]],
    ) -> None:
        self._fit, self._candidates = fit, candidates
        # Units of a class may be counted by another service, or come from several providers.
        self._alone = not template.needs_units
        self._table: dict[tuple[str, str], tuple[int, Verdict]] = {}

    def __call__(self, host: HostState, owner_id: str) -> Verdict:
        """Decide, unless this request has decided on this version of the host before."""
        key = host.uuid, owner_id if owner_id in host.instance_uuids else NO_OWNER
        known = self._table.get(key)
        if known is None or known[0] != host.version:
            known = self._table[key] = host.version, self._decide(host, owner_id)
        return known[1]

    def _decide(self, host: HostState, owner_id: str) -> Verdict:
        verdict: Verdict = Rejection("Placement has no candidate on this host")
        if self._alone and isinstance(alone := self._fit(host, owner_id), Rejection):
            return alone
        for candidate in self._candidates(host.uuid):
            verdict = self._fit.decide(host, owner_id, candidate)
            if isinstance(verdict, Claim):
                break
        return verdict


class FitCheck(Value, frozen=True):
    """The check that the claim of a request fits. Those of one request are equal."""

    fit: Fit
    owner_id: str

    def __call__(self, host: HostState) -> Rejection | None:
        verdict = self.fit(host, self.owner_id)
        return verdict if isinstance(verdict, Rejection) else None

    def undecided(self, hosts: Iterable[HostState]) -> Iterable[HostState]:
        """Return the hosts that have to be judged."""
        fit = self.fit
        return fit.undecided(hosts, self.owner_id) if isinstance(fit, RequestFit) else hosts


def fit_check(request: Request) -> Check | None:
    """Return the check that the claim of a request fits; None: its claim is not judged."""
    return None if request.fit is None else FitCheck(request.fit, request.instance_uuid)


def judge(
    replica: NodeState,
    template: ClaimTemplate,
    build: BuildRequest,
    now: datetime,
    required: Requirements | None = None,
) -> Verdict:
    """Decide on a claim as the host's agent would.

    :param required: the requirements of a build, if they are known.
    :raises InvalidFlavor: no host would grant the request.
    """
    call = Call(method="select_destinations", operation_id=NO_CLAIM, digest="")
    try:
        if template.kind == BUILD:
            decision = claims.instance_claim(replica, call, now, build, required)
        else:
            decision = move_claim(replica, call, now, template.move_request(build))
    except InvalidFlavor:
        raise
    except (RequestError, NodeNotReady) as error:
        return Rejection(error.message)
    if isinstance(decision, Refused):
        return Rejection(str(decision), decision.reasons)
    return decision.claims[0]


def owned(
    claim: Claim, template: ClaimTemplate, owner_id: str, operation_id: str, now: datetime
) -> Claim:
    """Return a claim that fits, as an instance's own, with the operation id as its uuid."""
    return replace(
        claim,
        uuid=operation_id,
        owner_id=owner_id,
        instance=template.build.instance.facts(),
        flavor=template.build.instance.flavor,  # equal flavors may have other names
        created_at=now if claim.owner_id == NO_OWNER else claim.created_at,
        updated_at=now,
        migration_uuid=None if claim.migration_uuid is None else operation_id,
    )
