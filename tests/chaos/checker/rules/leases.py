"""Leases: a claim that was never activated ends when its lease has lapsed."""

from collections.abc import Iterator

from tests.chaos.checker import documents
from tests.chaos.checker.claims import ACTIVATING, Claim, Claims
from tests.chaos.checker.endings import owner_of
from tests.chaos.checker.rules.usage import domains_of
from tests.chaos.checker.run import Period, Run, Violation, rows

PROMISE = "P4, a lapsed lease ends its claim"
#: Seconds within which an agent has recovered from a fault, and has audited its host, for a
#: `patience` of 1.
RECOVERY = 120.0
#: Targets whose faults leave leases alone. Others may be the agent's, its store's or its host's.
ELSEWHERE = ("broker", "placement", "scheduler")


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield claims that are there in a quiet period although their lease has lapsed."""
    activated = {
        (call.host, name)
        for call in run.calls.values()
        if call.method in ACTIVATING and call.outcome != "fail"
        for name in (owner_of(call), call.arguments.get("claim_uuid"))
        if name
    }
    for period in run.periods:
        for host, observed in period.of("claims"):
            for document in rows(observed.document, "claims"):
                claim = claims.by_host[host].get(document["uuid"])
                if claim is None or {(host, claim.owner), (host, claim.uuid)} & activated:
                    continue
                lapsed = _lapsed(run, claim, period)
                if lapsed < observed.t and not _runs(period, host, claim.owner):
                    message = f"{host}: claim {claim.uuid} is there {observed.t - lapsed:.0f} s"
                    message += " after its lease has lapsed"
                    yield Violation(PROMISE, message, (*claim.lines, period.line, observed.line))


def _lapsed(run: Run, claim: Claim, period: Period) -> float:
    """Return when the lease has certainly lapsed. A fault at its host may begin it anew."""
    length = documents.lease(claim.document)
    if claim.granted is None or length is None:
        return float("inf")
    begins = [claim.granted.ended]
    begins += [
        call.ended
        for call in run.calls.values()
        if call.method == "renew_claim" and call.arguments.get("claim_uuid") == claim.uuid
    ]
    others = run.hosts - {claim.host}
    for fault in run.faults:
        parts = fault.target.replace(" - ", " ").split()
        elsewhere = parts[-1:] and (parts[-1].startswith(ELSEWHERE) or set(parts) <= others)
        if fault.t < period.t and not elsewhere:
            begins.append(fault.t)
    return max(begins) + length + RECOVERY * run.patience


def _runs(period: Period, host: str, owner: str) -> bool:
    """Return whether a domain of the owner is on the host, or may be."""
    seen = period.observed.get(("domains", host))
    return seen is None or owner in domains_of(seen.document)
