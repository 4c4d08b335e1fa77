"""PlacementCandidates: candidates for a request, and the allocations that a selection writes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.consumers import INSTANCE
from rtagent.placement.client import CONCURRENT_UPDATE, MICROVERSION, HttpPlacement
from rtagent.placement.consumers import ATTEMPTS, INTERRUPTED, NO_IDENTITY
from rtagent.placement.loading import ThreadClient
from rtagent.scheduler.errors import ConsumerHasAllocations
from rtagent.scheduler.placement_request import Query
from rtagent.scheduler.ports import ADD, NEW, AllocationRequest, Candidates, Written

#: The most queries of a scheduler at the same time.
AT_ONCE = 4
#: Seconds for which a query waits for the answer of an equal one, so that more calls share it. One
#: whose answer is lost must not delay others for its time-out.
HOLD = 1.0


class _Shared:
    """A query. :ivar calls: how many wait until it is sent. :ivar answer: the same for all.
    :ivar held: it waits for the answer of an equal one.
    """

    def __init__(self) -> None:
        self.calls, self.held = 0, True
        self.answer: Future[Candidates] = Future()


class SharedQueries:
    """Queries for allocation candidates, few at the same time: Placement searches all hosts for
    each, and if it has more than it can answer in time, all of them fail.

    Thread-safe. Calls that wait with equal queries share one answer. A query that has been sent
    is not shared with later calls, so no answer is older than the call that gets it. Later calls
    wait for its answer, and share the next query.

    A query whose answer is not awaited any more does not count, though Placement may go on with it.
    """

    def __init__(
        self, ask: Callable[[Query], Candidates], at_once: int = AT_ONCE, hold: float = HOLD
    ) -> None:
        """:param ask: sends a query, and waits for its answer. One of the calls makes it.
        :param hold: the most seconds for which a query is held.
        """
        self._ask, self._at_once, self._hold = ask, at_once, hold
        self._changed = threading.Condition()
        #: Those that are not answered.
        self._sent: list[Query] = []
        #: Oldest first. The first one that is not held is sent next.
        self._waiting: dict[Query, _Shared] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait until their query is sent."""
        with self._changed:
            return sum(shared.calls for shared in self._waiting.values())

    def answer(self, query: Query, timeout: float) -> Candidates:
        """Return the candidates.

        :param timeout: the most seconds until the query is sent.
        :raises PlacementUnavailable: it was not sent in that time.
        :raises PlacementError: as `ask`.
        """
        with self._changed:
            shared = self._waiting.setdefault(query, _Shared())
            shared.calls += 1
            if not self._wait(query, shared, min(timeout, self._hold)) and timeout > self._hold:
                shared.held = False
                self._wait(query, shared, timeout - self._hold)
            shared.calls -= 1
            sent, sends = self._is_sent(query, shared), self._turn(shared)
            if sends:
                self._sent.append(query)
            if sends or not (sent or shared.calls):
                del self._waiting[query]
                self._changed.notify_all()
        if sends:
            return self._send(query, shared.answer)
        if not sent:
            raise PlacementUnavailable(
                f"GET /allocation_candidates was not sent within {timeout:g} s, because Placement"
                " had not answered earlier ones: repeat the request, start more schedulers, or give"
                " Placement more processes"
            )
        if error := shared.answer.exception():
            # Without the traceback of other calls: each would add its frames to it.
            raise error.with_traceback(None)
        return shared.answer.result()

    def _wait(self, query: Query, shared: _Shared, timeout: float) -> bool:
        return self._changed.wait_for(
            lambda: self._is_sent(query, shared) or self._turn(shared), timeout
        )

    def _is_sent(self, query: Query, shared: _Shared) -> bool:
        return self._waiting.get(query) is not shared

    def _turn(self, shared: _Shared) -> bool:
        """Whether a query is the next one, and may be sent now."""
        free = (
            each for query, each in self._waiting.items() if not (each.held and query in self._sent)
        )
        return shared is next(free, None) and len(self._sent) < self._at_once

    def _send(self, query: Query, answer: Future[Candidates]) -> Candidates:
        try:
            found = self._ask(query)
        except BaseException as error:  # raised to the other calls that share the query, too
            answer.set_exception(error)
            raise
        else:
            answer.set_result(found)
            return found
        finally:
            with self._changed:
                self._sent.remove(query)
                self._changed.notify_all()


class PlacementCandidates:
    """Placement as a scheduler uses it, see `PlacementPort`. Thread-safe.

    :param connect: makes a client. Each thread has its own.
    """

    def __init__(self, connect: Callable[[], HttpPlacement]) -> None:
        self._local = ThreadClient(connect)
        self._queries = SharedQueries(self._ask)

    @property
    def waiting(self) -> int:
        """How many calls wait until their query for candidates is sent."""
        return self._queries.waiting

    def allocation_candidates(self, query: Query, timeout: float) -> Candidates:
        """Return the candidates.

        :param timeout: the most seconds until the query is sent.
        :raises PlacementError: Placement does not answer, or refuses the query.
        """
        return self._queries.answer(query, timeout)

    def _ask(self, query: Query) -> Candidates:
        answer = self._local.api.allocation_candidates(query)
        roots = {
            uuid: summary["root_provider_uuid"]
            for uuid, summary in answer["provider_summaries"].items()
        }
        return Candidates(
            requests=tuple(answer["allocation_requests"]), roots=roots, version=MICROVERSION
        )

    def write(self, request: AllocationRequest) -> Written:
        """Write the allocations of a consumer.

        :raises PlacementConflict: they are not available any more.
        :raises ConsumerHasAllocations: the consumer has some already, or another generation.
        :raises PlacementError: it does not answer, or refuses them. If it does not answer, it may
            have written them: they are removed, if that is possible.
        """
        must_read = request.existing == ADD or request.generation
        before = self._read(request) if must_read else _NOTHING
        generation = before.get("consumer_generation")
        for _ in range(ATTEMPTS):
            body = _body(request, before, generation)
            written = Written(
                consumer_uuid=request.consumer_uuid,
                before=before,
                allocations=body["allocations"],
                generation=(generation or 0) + 1,
            )
            try:
                self._local.api.put_consumer(request.consumer_uuid, body)
                return written
            except PlacementUnavailable:
                with contextlib.suppress(PlacementError):
                    self.undo(written)
                raise
            except PlacementConflict as error:
                if error.kwargs.get("code") != CONCURRENT_UPDATE:
                    raise
                conflict = error
            before = self._read(request)
            generation = before.get("consumer_generation", _other(generation))
        raise conflict

    def undo(self, written: Written) -> None:
        """Write what the consumer had before, unless another caller has written since.

        :raises PlacementError:
        """
        uuid, before = written.consumer_uuid, written.before
        now = self._local.api.consumer(uuid)
        generation = now.get("consumer_generation")
        # Another caller may have written the same: the request was repeated at another scheduler.
        if (generation, _resources(now)) != (written.generation, written.allocations):
            return
        body = {
            "allocations": _resources(before),
            "project_id": now.get("project_id", NO_IDENTITY),
            "user_id": now.get("user_id", NO_IDENTITY),
            "consumer_type": now.get("consumer_type", INSTANCE),
            "consumer_generation": generation,
        }
        try:
            self._local.api.put_consumer(uuid, body)
        except PlacementConflict as error:
            if error.kwargs.get("code") != CONCURRENT_UPDATE:
                raise

    def _read(self, request: AllocationRequest) -> Mapping[str, Any]:
        found = self._local.api.consumer(request.consumer_uuid)
        other = request.generation not in (None, found.get("consumer_generation") or 0)
        if other or (found["allocations"] and request.existing == NEW):
            raise ConsumerHasAllocations(consumer_uuid=request.consumer_uuid)
        return found


#: A consumer without allocations.
_NOTHING: Mapping[str, Any] = {"allocations": {}}


def _body(
    request: AllocationRequest, before: Mapping[str, Any], generation: int | None
) -> Mapping[str, Any]:
    allocations = {
        uuid: {"resources": dict(part["resources"])} for uuid, part in request.allocations.items()
    }
    if request.existing == ADD:
        allocations = _sum(_resources(before), allocations)
    return {
        "allocations": allocations,
        "mappings": request.mappings,
        "project_id": request.project_id or NO_IDENTITY,
        "user_id": request.user_id or NO_IDENTITY,
        "consumer_type": INSTANCE,
        "consumer_generation": generation,
    }


def _resources(consumer: Mapping[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    return {
        uuid: {"resources": dict(part["resources"])}
        for uuid, part in consumer["allocations"].items()
    }


def _sum(
    before: Mapping[str, Mapping[str, Mapping[str, int]]],
    added: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> dict[str, dict[str, dict[str, int]]]:
    total = {uuid: {"resources": dict(part["resources"])} for uuid, part in before.items()}
    for uuid, part in added.items():
        resources = total.setdefault(uuid, {"resources": {}})["resources"]
        for name, number in part["resources"].items():
            resources[name] = resources.get(name, 0) + number
    return total


def _other(generation: int | None) -> int | None:
    """Return the other generation that a consumer without allocations may have."""
    return INTERRUPTED if generation is None else None
