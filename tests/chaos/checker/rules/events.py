"""Events: folded, they give the claims; those of a claim are a chain, and none comes twice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.run import Observed, Run, Violation, rows

PROMISE = "P2, the events of a node are its claims"
#: Fields of an event of a claim that are those of the claim.
FIELDS = ("owner_id", "kind", "vcpus", "pcpus", "memory_mb", "disk_mb")

Event = Mapping[str, Any]


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield events that are missing, repeated, or do not follow from each other.

    Each period has the events since the one before it.
    """
    logs: dict[str, list[Event]] = defaultdict(list)
    for period in run.periods:
        for host, observed in period.of("events"):
            logs[host] += rows(observed.document, "events")
            log = _Log(host, logs[host], host in claims.restored)
            seen = period.observed.get(("claims", host))
            messages = [*log.repeated(), *log.broken()]
            if not any(period.of("servers")):  # the calls of conductors are not in the history
                messages += log.of_refused(claims)
            messages += log.unlike_answers(claims, period.t)
            lines = [period.line, observed.line]
            if seen is not None:
                messages += log.unlike_claims(seen)
                lines.append(seen.line)
            for message in messages:
                yield Violation(PROMISE, f"{host}: {message}", tuple(lines))


class _Log:
    """The events of a host.

    :param restored: the store was replaced by an older copy, so that events may be missing.
    """

    def __init__(self, host: str, events: list[Event], restored: bool) -> None:
        listed = [each for each in events if "sequence" in each]  # not what says that some are gone
        self._host, self._events = host, sorted(listed, key=lambda each: each["sequence"])
        numbers = [each["sequence"] for each in self._events]
        #: Whether the log has every event since the first.
        self._whole = not restored and numbers[:1] == [1]
        self._gaps = not numbers or numbers[-1] - numbers[0] + 1 != len(set(numbers))
        self._by_claim: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            type_ = str(event["event_type"])
            if type_.startswith("claim.") and type_ != "claim.refuse":
                self._by_claim[event["payload"]["claim_uuid"]].append(event)
        self._complete = self._whole and not self._gaps

    def repeated(self) -> Iterator[str]:
        seen: set[Any] = set()
        for event in self._events:
            if event["id"] in seen or event["sequence"] in seen:
                yield f"event {event['id']} is there twice"
            seen |= {event["id"], event["sequence"]}

    def broken(self) -> Iterator[str]:
        """Yield histories that are no chain from a creation."""
        for uuid, events in self._by_claim.items():
            state = events[0]["payload"]["before_state"]
            if state is not None and self._complete:
                yield f"the history of claim {uuid} begins with {events[0]['event_type']}"
            if sum(event["event_type"] == "claim.create" for event in events) > 1:
                yield f"claim {uuid} was created twice"
            for event in events:
                payload = event["payload"]
                if payload["before_state"] != state and not self._gaps:
                    yield (
                        f"event {event['id']} of claim {uuid} begins with state"
                        f" {payload['before_state']}, the one before ended with {state}"
                    )
                state = payload["state"]

    def of_refused(self, claims: Claims) -> Iterator[str]:
        for uuid in self._by_claim:
            claim = claims.by_host[self._host].get(uuid)
            if claim is None:
                yield f"there are events of claim {uuid}, which no caller asked for"
            elif claim.refused:
                yield f"there are events of claim {uuid}, which was refused"

    def unlike_answers(self, claims: Claims, until: float) -> Iterator[str]:
        """Yield acknowledged grants and ends without an event."""
        if not self._complete:
            return
        for claim in claims.by_host[self._host].values():
            events = self._by_claim.get(claim.uuid, [])
            if claim.held_from < until and not events:
                yield f"claim {claim.uuid} was granted, and has no events"
            elif claim.gone_from < until and events and _state(events) != "released":
                yield f"claim {claim.uuid} has ended, and has no event of its end"

    def unlike_claims(self, seen: Observed) -> Iterator[str]:
        """Yield claims that are not what their events say."""
        live = {claim["uuid"]: claim for claim in rows(seen.document, "claims")}
        for uuid in sorted({*live, *self._by_claim}):
            events, claim = self._by_claim.get(uuid), live.get(uuid)
            if not events:
                if self._complete:
                    yield f"claim {uuid} has no events"
                continue
            state = claim["state"] if claim else "released"
            if _state(events) != state:
                yield f"claim {uuid} is {state}, by its events it is {_state(events)}"
            elif claim is not None:
                payload = events[-1]["payload"]
                for name in FIELDS:
                    if payload[name] != claim[name]:
                        yield (
                            f"{name} of claim {uuid} is {claim[name]}, by its events it is"
                            f" {payload[name]}"
                        )


def _state(events: list[Event]) -> str:
    return str(events[-1]["payload"]["state"])
