"""Claims: for each claim that callers asked for, when it certainly existed, and when not."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.chaos.checker import documents, endings
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Call, Run

CREATING = frozenset(
    {
        *("instance_claim", "resize_claim", "live_migration_claim", "rebuild_claim"),
        *("claim_pci_devices", "adopt_domain"),
    }
)
#: After their success the claim has no lease, until it ends.
ACTIVATING = frozenset(
    {
        *("activate_claim", "allocate_pci_devices_for_instance"),
        *("finish_move", "finish_evacuation", "finish_revert", "start_move_out"),
    }
)
#: The detail ``lenient`` of a fault that replaces a store by an older copy.
RESTORED = "restored"
#: Seconds by which a lease may end earlier than its length says.
LEASE_MARGIN = 1.0


@dataclass
class Claim:
    """A claim on a host, as its callers know it.

    :ivar creating: the calls with its uuid as operation id. :ivar granted: the first that was
        answered with success, or None. After an older copy was restored, which may lack that one,
        it is the first one since then.
    :ivar ends: calls that may have ended it. :ivar certain_ends: those of them that certainly did.
    :ivar held_from: since then it certainly exists, :ivar held_until: up to then.
    :ivar gone_from: since then it certainly does not exist.
    """

    uuid: str
    host: str
    owner: str
    creating: list[Call] = field(default_factory=list)
    granted: Call | None = None
    ends: list[Call] = field(default_factory=list)
    certain_ends: list[Call] = field(default_factory=list)
    held_from: float = inf
    held_until: float = -inf
    gone_from: float = inf

    @property
    def document(self) -> Document:
        """The claim as it was granted."""
        reply = self.granted.reply if self.granted else {}
        claim = reply.get("claim", reply) if isinstance(reply, dict) else {}
        return claim if isinstance(claim, dict) else {}

    @property
    def refused(self) -> bool:
        """Whether every call that could have created it certainly had no effect."""
        return not any(call.may_have_effect for call in self.creating)

    @property
    def lines(self) -> tuple[int, ...]:
        """Lines of the grant, or of the last call that asked for it."""
        return (self.granted or self.creating[-1]).lines

    def held(self, begin: float, end: float) -> bool:
        """Whether it certainly existed all the time between."""
        return self.held_from <= begin and end <= self.held_until

    def gone(self, at: float) -> bool:
        """Whether it certainly did not exist at that time and later."""
        return self.refused or self.gone_from <= at


class Claims:
    """The claims of a run. :ivar by_host: by host, by uuid."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.by_host: dict[str, dict[str, Claim]] = defaultdict(dict)
        self.restored = _restored(run)
        changes = [call for call in run.calls.values() if call.operation_id]
        for call in changes:
            if call.method in CREATING and call.operation_id:
                self._create(call.operation_id, call)
        self._add_endings(changes)
        activations = [call for call in changes if call.method in ACTIVATING and call.ok]
        renewals = [call for call in changes if call.method == "renew_claim" and call.ok]
        active, renewed = _by_claim(activations), _by_claim(renewals)
        for claim in self:
            self._bound(claim, active[claim.uuid], renewed[claim.uuid])

    def __iter__(self) -> Iterator[Claim]:
        for claims in self.by_host.values():
            yield from claims.values()

    def _create(self, uuid: str, call: Call) -> None:
        claims = self.by_host[call.host]
        if uuid not in claims:
            instance = call.arguments.get("instance") or {}
            owner = instance.get("uuid") or call.arguments.get("domain_uuid") or ""
            claims[uuid] = Claim(uuid, call.host, owner)
        claim = claims[uuid]
        claim.creating.append(call)
        if call.ok and call.may_have_effect and self._is_first(claim, call):
            claim.granted = call

    def _is_first(self, claim: Claim, call: Call) -> bool:
        """Return whether a success is no repetition, or one of what an older copy may lack."""
        before = claim.granted
        return before is None or any(
            _overlaps(before, began, restored) and call.invoked >= restored
            for began, restored in self.restored.get(claim.host, ())
        )

    def _add_endings(self, changes: Iterable[Call]) -> None:
        """Add to each claim the calls that may have ended it."""
        possible = endings.Endings(call for call in changes if call.may_have_effect)
        for claim in self:
            begun = min(call.invoked for call in claim.creating)
            for call in possible.of(claim.host, claim.uuid, claim.owner, _kind(claim)):
                if not call.ok or call.ended >= begun:
                    claim.ends.append(call)
            granted = claim.granted.ended if claim.granted else inf
            migration = claim.document.get("migration_uuid") or ""
            for call in possible.certain(claim.host, claim.uuid, claim.owner, migration):
                # A call that names the uuid also ends a claim that is created later.
                begun = possible.begun[call.operation_id]
                if call.arguments.get("claim_uuid") == claim.uuid or begun >= granted:
                    claim.certain_ends.append(call)
            if _kind(claim) == "attach" and self._mains(claim) == 1:
                mains = possible.of_mains(claim.host, claim.owner)
                claim.certain_ends += [
                    call for call in mains if possible.begun[call.operation_id] >= granted
                ]

    def _mains(self, attached: Claim) -> int:
        """Return how many claims for its guest an attach claim may depend on."""
        return sum(
            claim.owner == attached.owner and _kind(claim) == "main" and not claim.refused
            for claim in self.by_host[attached.host].values()
        )

    def _bound(self, claim: Claim, active: list[Call], renewed: list[Call]) -> None:
        claim.gone_from = min((call.ended for call in claim.certain_ends), default=inf)
        if claim.granted is None:
            return
        claim.held_from = claim.granted.ended
        until = [inf, *(call.invoked for call in claim.ends)]
        length = documents.lease(claim.document)
        if length is not None and not active:
            # The lease began with the first call that had an effect, answered or not.
            begun = min(call.invoked for call in claim.creating if call.may_have_effect)
            begins = [begun, *(call.invoked for call in renewed)]
            until.append(max(begins) + length - LEASE_MARGIN)
        for began, restored in self.restored.get(claim.host, ()):
            if any(_overlaps(call, began, restored) for call in (claim.granted, *active)):
                until.append(began)  # the copy may lack the claim, or still have its lease
            if any(_overlaps(call, began, restored) for call in claim.certain_ends):
                claim.gone_from = inf
        claim.held_until = min(until)


def _kind(claim: Claim) -> str:
    if any(call.method == "claim_pci_devices" for call in claim.creating):
        return "attach"
    return "main"


def _by_claim(calls: Iterable[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        reply: Any = call.reply if isinstance(call.reply, dict) else {}
        if uuid := reply.get("uuid") or call.arguments.get("claim_uuid"):
            found[uuid].append(call)
    return found


def _overlaps(call: Call, begin: float, end: float) -> bool:
    return call.invoked <= end and call.ended >= begin


def _restored(run: Run) -> dict[str, list[tuple[float, float]]]:
    """Return by host when a copy of its store was begun, and when it replaced the store.

    What was acknowledged in between may be undone.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fault in run.faults:
        if fault.details.get("lenient") == RESTORED and fault.state == "begin":
            began = fault.details.get("since", -inf)  # before the copy was begun
            times = began, max(fault.t, fault.details.get("restored", fault.t))
            for host in {fault.target} & run.hosts or run.hosts:
                found[host].append(times)
    return found
