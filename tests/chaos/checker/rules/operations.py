"""Operations: an operation id has one effect; a repeated call gets the same claim."""

from collections.abc import Iterator

from tests.chaos.checker import documents
from tests.chaos.checker.claims import Claim, Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Call, Run, Violation, rows

PROMISE = "P12, an operation id has one effect"
ONE_CLAIM = "P6, an owner has one claim for its guest, and one more during a move"


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield replies and readings that differ from the claim that was granted."""
    for claim in claims:
        if claim.granted is None:
            continue
        for call in claim.creating:
            # What was granted before an older copy was restored may have been granted anew.
            if call.ok and call.may_have_effect and call.ended >= claim.granted.invoked:
                yield from _same(claim, _claim_of(call), call.lines)
    for period in run.periods:
        for host, observed in period.of("claims"):
            for document in rows(observed.document, "claims"):
                known = claims.by_host[host].get(document["uuid"])
                if known is not None and known.granted:
                    yield from _same(known, document, (period.line, observed.line))
            lines = (period.line, observed.line)
            yield from _owners(host, rows(observed.document, "claims"), lines)


def _same(claim: Claim, document: Document, lines: tuple[int, ...]) -> Iterator[Violation]:
    where = (*claim.lines, *lines)
    if document.get("uuid") != claim.uuid:
        message = f"{claim.host}: operation {claim.uuid} was answered with claim"
        yield Violation(PROMISE, f"{message} {document.get('uuid')}", where)
        return
    granted = claim.document
    if documents.quantities(granted) != documents.quantities(document):
        message = f"{claim.host}: the quantities of claim {claim.uuid} are not those that were"
        yield Violation(PROMISE, f"{message} granted", where)
    units, others = documents.units(granted), documents.units(document)
    # Some of its devices may have been released; nothing may have been added.
    released = any(call.arguments.get("devices") for call in claim.ends)
    if units != others and not (released and others < units):
        listed = ", ".join(f"{kind} {name}" for kind, name in sorted(units ^ others))
        message = f"{claim.host}: claim {claim.uuid} was granted with other units: {listed}"
        yield Violation(PROMISE, message, where)


def _owners(host: str, found: list[Document], lines: tuple[int, ...]) -> Iterator[Violation]:
    mains: dict[str, list[Document]] = {}
    for document in found:
        if document.get("kind") != "attach":
            mains.setdefault(document["owner_id"], []).append(document)
    for owner, its in mains.items():
        moving = any(document.get("migration_uuid") for document in its)
        if len(its) > (2 if moving else 1):
            listed = ", ".join(document["uuid"] for document in its)
            yield Violation(ONE_CLAIM, f"{host}: owner {owner} has claims {listed}", lines)


def _claim_of(call: Call) -> Document:
    reply = call.reply if isinstance(call.reply, dict) else {}
    claim = reply.get("claim", reply)
    return claim if isinstance(claim, dict) else {}
