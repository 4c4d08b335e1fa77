"""AllocationAuditor: reads the allocations on this node's providers and acts on the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.model.base import Value
from rtagent.model.claim import ClaimEnd
from rtagent.model.consumers import Parts, consumers_of
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.placement.allocation_audit import (
    AllocatedConsumer,
    AllocationVerdict,
    Finding,
    Published,
    classify,
    published_classes,
    quantities,
    unclaimed,
    without_record,
)
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import (
    ConsumerRecord,
    change_parts,
    read_consumers,
    read_record,
    tree_providers,
)
from rtagent.placement.healing import Healed, MissingParts, heal, is_healable, missing_parts
from rtagent.placement.provider import Tree
from rtagent.ports import Clock, Reporter


class SeenFinding(Value, frozen=True, kw_only=True):
    """When a finding was first seen as it is now.

    :ivar since: seconds of the monotonic clock. :ivar at: the time of day, for information.
    """

    verdict: AllocationVerdict
    generation: int | None
    since: float
    at: datetime


class FindingHistory(Value, frozen=True, kw_only=True):
    """For how long each finding that is not `Verdict.MATCHING` has been as it is, by consumer.

    An allocation is written before its claim is made, and may be removed after its claim has ended.
    So a finding counts only once it has been seen unchanged for a while. The time is this agent's
    own: the clock of Placement's host does not matter.
    """

    by_consumer: Mapping[str, SeenFinding] = {}

    def after(self, findings: Iterable[Finding], since: float, at: datetime) -> FindingHistory:
        """Add the findings of an audit, and forget those that it did not have.

        :param since: when the audit began.
        """
        seen: dict[str, SeenFinding] = {}
        for finding in findings:
            if finding.verdict == AllocationVerdict.MATCHING:
                continue
            uuid, generation = finding.consumer.uuid, finding.consumer.generation
            new = SeenFinding(verdict=finding.verdict, generation=generation, since=since, at=at)
            known = self.by_consumer.get(uuid, new)
            same = (known.verdict, known.generation) == (new.verdict, new.generation)
            seen[uuid] = known if same else new
        return FindingHistory(by_consumer=seen)

    def settled(self, uuid: str, now: float, term: float) -> bool:
        """Whether a consumer's finding has not changed for `term` seconds."""
        known = self.by_consumer.get(uuid)
        return known is not None and now - known.since >= term

    def unsettled_until(self, now: float, term: float) -> float | None:
        """Return when the last finding will be settled, if nothing changes; None: all are."""
        times = [each.since + term for each in self.by_consumer.values()]
        return max((time for time in times if time > now), default=None)


class NodeView(Value, frozen=True, kw_only=True):
    """What the auditor reads of the node. Each callable returns the state of that moment.

    :ivar state: the published state.
    :ivar tree: what is published to Placement; None: nothing yet.
    :ivar ended: how claims of these owners ended; raises `StoreUnavailable`.
    :ivar trusted: whether the records are complete: the store is there, and has not gone back in
        time.
    :ivar term: seconds for which a finding must be unchanged before it counts.
    """

    state: Callable[[], NodeState]
    tree: Callable[[], Tree | None]
    ended: Callable[[Collection[str]], Mapping[str, ClaimEnd]]
    trusted: Callable[[], bool]
    term: Callable[[], float]


class AuditReport(Value, frozen=True, kw_only=True):
    """The result of one audit.

    :ivar at: when it began. :ivar counts: consumers by verdict.
    :ivar settled: the findings that are not matching and that count.
    :ivar recheck: when the findings that do not count yet will, by the monotonic clock; None: there
        are none.
    :ivar removed: consumers whose allocations here were removed.
    :ivar rewritten: consumers that are to be written again. :ivar healed: consumers that got
        allocations of devices.
    :ivar problems: what could not be corrected.
    :ivar unclaimed: see `allocation_audit.unclaimed`.
    """

    at: datetime
    counts: Mapping[AllocationVerdict, int] = {}
    settled: tuple[Finding, ...] = ()
    recheck: float | None = None
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unclaimed: Mapping[str, Mapping[str, int]] = {}

    def settled_count(self, verdict: AllocationVerdict) -> int:
        """Return how many settled findings have this verdict."""
        return sum(finding.verdict == verdict for finding in self.settled)


class AllocationAuditor:
    """Audits the allocations on a node's providers. For one thread at a time.

    :ivar history: since when the findings are as they are.
    """

    def __init__(
        self,
        api: HttpPlacement,
        view: NodeView,
        clock: Clock,
        reporter: Reporter,
        *,
        enqueue: Callable[[Collection[str]], None],
        republish: Callable[[], None],
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """:param enqueue: puts consumers into the outbox; raises `Unavailable`.
        :param republish: makes the mirror write the inventories again.
        :param give_way: called between two requests, for what is more urgent.
        """
        self._api, self._view, self._clock = api, view, clock
        self._reporter = reporter.named(__name__)
        self._enqueue, self._republish, self._give_way = enqueue, republish, give_way
        self.history = FindingHistory()

    def run(self) -> AuditReport:
        """Compare every allocation with the claims, and correct what this agent may correct.

        :raises PlacementError: the allocations cannot be read. :raises Unavailable: the store.
        """
        began, at = self._clock.monotonic(), self._clock.now()
        read = self._read()
        state = self._view.state()  # now: what was claimed during the requests counts
        findings = self._classify(state, read)
        self.history = self.history.after(findings, began, at)
        term = self._view.term()
        settled = [
            finding
            for finding in findings
            if finding.verdict != AllocationVerdict.MATCHING
            and self.history.settled(finding.consumer.uuid, began, term)
        ]
        work = _Work()
        if self._view.trusted():
            self._heal(state.owners, state, read, work)
            for finding in settled:
                self._give_way()
                self._correct(finding, read, work)
            if work.rewritten:
                self._enqueue(work.rewritten)
        done = {*work.removed, *work.rewritten}
        return AuditReport(
            at=at,
            counts=Counter(finding.verdict for finding in findings),
            settled=tuple(each for each in settled if each.consumer.uuid not in done),
            recheck=self.history.unsettled_until(began, term),
            removed=tuple(work.removed),
            rewritten=tuple(work.rewritten),
            healed=tuple(work.healed),
            problems=tuple(work.problems),
            unclaimed={
                uuid: quantities
                for uuid, quantities in unclaimed(state, read.consumers).items()
                if uuid not in work.removed
            },
        )

    def heal(self, owners: Iterable[str]) -> None:
        """Write the allocations of devices that the guests of these owners lack, without an audit.

        A failure of one consumer is reported by the next audit.

        :raises PlacementError: nothing can be read.
        """
        state = self._view.state()
        if _is_managed(state):
            return
        published = published_classes(self._view.tree())
        healable = [owner for owner in owners if is_healable(state, owner, published)]
        consumers = {}
        for owner in healable:
            self._give_way()
            for uuid in {owner, *consumers_of(state, owner)}:
                consumers[uuid], _ = read_record(self._api, uuid).on(uuid, published.keys())
        read = _Read(providers=frozenset(published), consumers=consumers, published=published)
        if self._view.trusted():
            self._heal(healable, state, read, _Work())

    def _read(self) -> _Read:
        providers = tree_providers(self._api, self._view.state().node.uuid)
        return _Read(
            providers=providers,
            consumers=read_consumers(self._api, providers, self._give_way),
            published=published_classes(self._view.tree()),
        )

    def _classify(self, state: NodeState, read: _Read) -> tuple[Finding, ...]:
        ended = self._view.ended(without_record(state, read.consumers))
        return classify(state, read.consumers, ended, read.published)

    # -- corrections ------------------------------------------------------------------------------

    def _correct(self, finding: Finding, read: _Read, work: _Work) -> None:
        uuid = finding.consumer.uuid
        if finding.verdict == AllocationVerdict.DIFFERENT and _is_managed(self._view.state()):
            work.rewritten.append(uuid)
        elif finding.verdict == AllocationVerdict.ENDED and finding.removable:
            with work.of(uuid):
                self._remove(finding, read, work)

    def _remove(self, finding: Finding, read: _Read, work: _Work) -> None:
        """Remove the allocation of a claim that has ended, unless anything has changed since."""

        def nothing(now: AllocatedConsumer) -> Parts | None:
            unchanged = now.parts and now.generation == finding.consumer.generation
            return {} if unchanged and self._is_still_removable(now, finding, read) else None

        uuid = finding.consumer.uuid
        shared = self._view.state().policy.placement.disk_provider
        removed = change_parts(self._api, uuid, read.providers, nothing, shared=shared)
        if removed is None:
            return
        if uuid in self._view.state().owners:  # a claim was made during the write
            self._put_back(uuid, read, removed)
            return
        work.removed.append(uuid)
        self._reporter.counted("placement", "allocation_removed")
        what = quantities(removed.allocations)
        self._log(f"removed the allocation of {uuid} ({what}): {finding.reason}")

    def _is_still_removable(self, now: AllocatedConsumer, before: Finding, read: _Read) -> bool:
        """Whether the verdict on a consumer is the same in the state of this moment."""
        if not self._view.trusted():
            return False
        owner = before.instance_uuid or now.uuid
        known = {owner: read.consumers[owner]} if owner in read.consumers else {}
        read = replace(read, consumers={**known, now.uuid: now})
        findings = self._classify(self._view.state(), read)
        return any(each.consumer.uuid == now.uuid and each.removable for each in findings)

    def _put_back(self, uuid: str, read: _Read, removed: ConsumerRecord) -> None:
        def before(now: AllocatedConsumer) -> Parts | None:
            return None if now.parts else removed.allocations

        new = replace(removed, generation=None, allocations={})
        change_parts(self._api, uuid, read.providers | removed.allocations.keys(), before, new)

    def _heal(self, owners: Iterable[str], state: NodeState, read: _Read, work: _Work) -> None:
        """Write the allocations of devices that their users lack.

        If the agent manages allocations, it writes them with all others.
        """
        if _is_managed(state):
            return
        lifted = False
        try:
            for each in missing_parts(state, read.consumers, read.published, owners):
                self._give_way()
                with work.of(each.consumer.uuid):
                    lifted = self._heal_consumer(each, work) == Healed.BOTH or lifted
        except PlacementUnavailable:
            lifted = True  # perhaps: the response may be lost
            raise
        finally:
            if lifted:
                self._republish()

    def _heal_consumer(self, missing: MissingParts, work: _Work) -> Healed:
        uuid, what = missing.consumer.uuid, quantities(missing.parts)
        healed = heal(self._api, missing, self._view.state)
        if healed != Healed.NOTHING:
            work.healed.append(uuid)
            self._reporter.counted("placement", "allocation_healed")
            self._log(f"{uuid} got the allocation of its devices, which was missing: {what}")
        return healed

    def _log(self, sentence: str) -> None:
        self._reporter.log("info", f"placement: {sentence}")


def _is_managed(state: NodeState) -> bool:
    """Whether this agent writes the allocations of its claims."""
    return state.policy.placement.manage_allocations != ManageAllocations.NO


class _Read(Value, frozen=True, kw_only=True):
    """What an audit has read. :ivar providers: all of the node's, by uuid."""

    providers: frozenset[str]
    consumers: Mapping[str, AllocatedConsumer]
    published: Published


class _Work:
    """What an audit does, and what it cannot do."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.rewritten: list[str] = []
        self.healed: list[str] = []
        self.problems: list[str] = []

    @contextmanager
    def of(self, uuid: str) -> Iterator[None]:
        """Work on one consumer. A failure costs this consumer only, unless Placement is away.

        :raises PlacementUnavailable:
        """
        try:
            yield
        except PlacementUnavailable:
            raise
        except PlacementError as error:
            self.problems.append(f"{uuid}: {error.message}")
