"""Presence: what was acknowledged is there until its own end; what ended or was refused is not."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.checker.claims import Claim, Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Call, Run, Violation, rows

DURABLE = "P1, an acknowledged claim is held until its own end"
RELEASED = "P7, a release is complete"
REFUSED = "P14, a refused claim does not exist"
WHOLE = "P2, a call without an answer has all of its effect or none"


@dataclass(frozen=True)
class Reading:
    """The live claims of a host, read at some moment between two.

    :ivar owner: only claims of this owner were read; "": all claims of the host.
    """

    host: str
    begin: float
    end: float
    claims: list[Document]
    lines: tuple[int, ...]
    owner: str = ""


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield claims that a reading lacks, or that it should not have."""
    for reading in _readings(run):
        yield from _judge(reading, claims)
    yield from _not_found(run, claims)


def _readings(run: Run) -> Iterator[Reading]:
    for call in run.calls.values():
        if call.method in ("get_claims_for_host", "get_claims_for_instance") and call.ok:
            yield Reading(
                call.host,
                call.invoked,
                call.ended,
                rows(call.reply, "claims"),
                call.lines,
                str(call.arguments.get("instance_uuid") or ""),
            )
    for period in run.periods:
        if any(period.of("servers")):  # the records of conductors say which claims there are
            continue
        for host, each in period.of("claims"):
            found, lines = rows(each.document, "claims"), (period.line, each.line)
            yield Reading(host, period.t, each.t, found, lines)


def _judge(reading: Reading, claims: Claims) -> Iterator[Violation]:
    known = claims.by_host[reading.host]
    there = {claim["uuid"]: claim for claim in reading.claims}
    for claim in known.values():
        judged = reading.owner in ("", claim.owner)
        if claim.uuid not in there and judged and claim.held(reading.begin, reading.end):
            yield _missing(claim, reading)
    for uuid, document in there.items():
        if (known_claim := known.get(uuid)) is None:
            message = f"{reading.host}: there is claim {uuid}, which no caller asked for"
            yield Violation(REFUSED, message, reading.lines)
        else:
            yield from _present(known_claim, document, reading)


def _missing(claim: Claim, reading: Reading) -> Violation:
    activated = "" if claim.held_until < float("inf") else ", and no call ended it"
    message = f"{reading.host}: claim {claim.uuid} was granted, and is missing{activated}"
    return Violation(DURABLE, message, (*claim.lines, *reading.lines))


def _present(claim: Claim, document: Document, reading: Reading) -> Iterator[Violation]:
    if claim.refused:
        message = f"{reading.host}: claim {claim.uuid} was refused, and is there"
        yield Violation(REFUSED, message, (*claim.lines, *reading.lines))
    elif claim.gone_from <= reading.begin:
        end = min(claim.certain_ends, key=lambda call: call.ended)
        message = f"{reading.host}: claim {claim.uuid} is there after {end.method} has ended it"
        yield Violation(RELEASED, message, (*claim.lines, *end.lines, *reading.lines))
    elif wrong := _not_whole(claim, document):
        message = f"{reading.host}: claim {claim.uuid} {wrong}"
        yield Violation(WHOLE, message, (*claim.lines, *reading.lines))


def _not_whole(claim: Claim, document: Document) -> str:
    """Return what a claim lacks of what was asked for, or ""."""
    if document.get("owner_id") != claim.owner:
        return f"has owner {document.get('owner_id')}, not {claim.owner}"
    flavor = document.get("flavor") or {}
    if document.get("kind") == "attach" or not flavor or document.get("suspect"):
        return ""
    if any(name.startswith("resources") for name in flavor.get("extra_specs") or {}):
        return ""  # the flavor says otherwise
    if document["memory_mb"] != flavor["memory_mb"]:
        return f"has {document['memory_mb']} MB, its flavor {flavor['memory_mb']} MB"
    if document["vcpus"] + document.get("pcpus", 0) < flavor["vcpus"]:
        return f"has fewer CPUs than its flavor, which has {flavor['vcpus']}"
    return ""


def _not_found(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield answers that a claim does not exist, or has expired, although it is held."""
    for call in run.calls.values():
        uuid = call.arguments.get("claim_uuid")
        if call.outcome != "fail" or not uuid or not _denies(call):
            continue
        claim = claims.by_host[call.host].get(uuid)
        if claim is not None and claim.held(call.invoked, call.ended):
            message = f"{call.host}: {call.method} was answered with {call.error.get('type')},"
            message += f" although claim {uuid} is held"
            yield Violation(DURABLE, message, (*claim.lines, *call.lines))


def _denies(call: Call) -> bool:
    return call.error.get("type") in ("ClaimNotFound", "ClaimExpired")
