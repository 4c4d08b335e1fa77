"""Explanation: the results of all filters and weighers for each host, for one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rtagent.allocation.capacity import Capacity
from rtagent.model.base import Value
from rtagent.scheduler.filter import Rejection, Request
from rtagent.scheduler.filtered import FIT, NO_CANDIDATE, PLACEMENT, Refusal, refusal_of
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.weight_column import Score

if TYPE_CHECKING:  # an agent knows the documents of schedulers, and none of their selection
    from rtagent.scheduler.scheduling_call import SchedulingCall


class Objection(Value, frozen=True, kw_only=True):
    """Why a filter refuses a host. :ivar reasons: with numbers, nearest miss first."""

    filter: str
    message: str
    reasons: tuple[Mapping[str, Any], ...] = ()


class ExplainedHost(Value, frozen=True, kw_only=True):
    """One host.

    :ivar objections: of all filters, also of those that a selection would not have run.
    :ivar capacity: what a new owner can claim.
    :ivar rank: 1 is the host that would be selected; None: it is refused.
    :ivar weight: the sum of `weights`. :ivar weights: of hosts that are not refused.
    """

    host: str
    nodename: str
    node_uuid: str
    capacity: Capacity
    objections: tuple[Objection, ...] = ()
    rank: int | None = None
    weight: float | None = None
    weights: tuple[Score, ...] = ()


class Explanation(Value, frozen=True, kw_only=True):
    """The hosts, best first, then those that are refused.

    :ivar filters: the names of the filters that judged, in order.
    :ivar unmatched: a sentence for each requested name that no host has.
    """

    filters: tuple[str, ...]
    hosts: tuple[ExplainedHost, ...]
    unmatched: tuple[str, ...] = ()


def explained(call: SchedulingCall) -> Explanation:
    """Judge and weigh every host, without a selection."""
    [owner] = call.instance_uuids
    request = call.request(owner)
    filtered = call.parts.filters.get_filtered_hosts(call.hosts, request, every_verdict=True)
    objections: dict[str, list[Objection]] = {}
    for refusal in (*_without_candidates(call), *filtered.refusals):
        objections.setdefault(refusal.uuid, []).append(_objection(refusal))
    for host in call.hosts:
        objection = _of_fit(host, request)
        if objection is not None:
            objections.setdefault(host.uuid, []).append(objection)
    passing = [host for host in call.hosts if host.uuid not in objections]
    weighed = call.parts.weighers.weigh(passing, request)
    scores = weighed.scores()
    ranked = [
        _host(each.host, rank=rank, weight=each.weight, weights=scores[each.host.uuid])
        for rank, each in enumerate(call.parts.weighers.in_order(weighed), 1)
    ]
    refused = [
        _host(host, objections=tuple(objections[host.uuid]))
        for host in sorted(call.hosts, key=lambda each: (each.host, each.nodename))
        if host.uuid in objections
    ]
    return Explanation(
        filters=filtered.judged, hosts=(*ranked, *refused), unmatched=filtered.unmatched
    )


def _host(host: HostState, **verdict: Any) -> ExplainedHost:
    return ExplainedHost(
        host=host.host,
        nodename=host.nodename,
        node_uuid=host.uuid,
        capacity=host.capacity,
        **verdict,
    )


def _without_candidates(call: SchedulingCall) -> Iterator[Refusal]:
    known = {host.uuid for host in call.candidate_hosts}
    for host in call.hosts:
        if host.uuid not in known:
            yield refusal_of(host, NO_CANDIDATE, PLACEMENT)


def _of_fit(host: HostState, request: Request) -> Objection | None:
    verdict = None if request.fit is None else request.fit(host, request.instance_uuid)
    return _objection(refusal_of(host, verdict, FIT)) if isinstance(verdict, Rejection) else None


def _objection(refusal: Refusal) -> Objection:
    reasons = tuple(reason.as_dict() for reason in refusal.rejection.reasons)
    return Objection(filter=refusal.filter, message=refusal.rejection.message, reasons=reasons)
