"""PlacementCandidates: candidates for a request, and the allocations that a selection writes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.consumers import INSTANCE
from rtagent.placement.client import CONCURRENT_UPDATE, MICROVERSION, HttpPlacement
from rtagent.placement.consumers import ATTEMPTS, INTERRUPTED, NO_IDENTITY
from rtagent.placement.loading import ThreadClient
from rtagent.placement.shared_requests import HOLD, SharedRequests
from rtagent.scheduler.errors import ConsumerHasAllocations
from rtagent.scheduler.placement_request import Query
from rtagent.scheduler.ports import ADD, NEW, AllocationRequest, Candidates, Written

#: The most queries of a scheduler at the same time: Placement searches all hosts for each, and if
#: it has more than it can answer in time, all of them fail.
AT_ONCE = 4

#: The new allocations of a consumer, by its uuid.
_Write: TypeAlias = tuple[str, Mapping[str, Any]]


class _RefusedTogetherError(Exception):
    """Placement refuses a request with several consumers. Some of them may be right."""


class PlacementCandidates:
    """Placement as a scheduler uses it, see `PlacementPort`. Thread-safe.

    :param connect: makes a client. Each thread has its own.
    """

    def __init__(self, connect: Callable[[], HttpPlacement]) -> None:
        self._local = ThreadClient(connect)
        self._queries = SharedRequests[Query, Query, Candidates](
            "GET /allocation_candidates", self._ask, AT_ONCE
        )
        self._writes = SharedRequests[str, _Write, None]("POST /allocations", self._put, math.inf)

    @property
    def waiting(self) -> int:
        """How many calls wait until their query or their allocations are sent."""
        return self._queries.waiting + self._writes.waiting

    def allocation_candidates(
        self, query: Query, timeout: float
    ) -> AbstractContextManager[Candidates]:
        """Return the candidates. Equal queries of later calls wait until the context ends, but
        `HOLD` at most, and share the next one: they see what is written in the context.

        :param timeout: the most seconds until the query is sent.
        :raises PlacementError: Placement does not answer, or refuses the query.
        """
        return self._queries.answer(query, query, timeout)

    def _ask(self, queries: Sequence[Query]) -> Candidates:
        answer = self._local.api.allocation_candidates(queries[0])
        roots = {
            uuid: summary["root_provider_uuid"]
            for uuid, summary in answer["provider_summaries"].items()
        }
        return Candidates(
            requests=tuple(answer["allocation_requests"]), roots=roots, version=MICROVERSION
        )

    def write(self, request: AllocationRequest) -> Written:
        """Write the allocations of a consumer, together with those of calls that wait.

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
                self._write((request.consumer_uuid, body))
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

    def _write(self, write: _Write) -> None:
        try:
            with self._writes.answer("", write, 2 * HOLD):
                pass
        except _RefusedTogetherError:
            self._put([write])

    def _put(self, writes: Sequence[_Write]) -> None:
        [(uuid, content), *others] = writes
        if not others:
            self._local.api.put_consumer(uuid, content)
            return
        contents = dict(writes)
        if len(contents) < len(writes):  # a call was repeated
            raise _RefusedTogetherError
        try:
            self._local.api.post_consumers(contents)
        except PlacementUnavailable:
            raise
        except PlacementError as error:
            raise _RefusedTogetherError from error

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
