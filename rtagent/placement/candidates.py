"""PlacementCandidates: candidates for a request, and the allocations that a selection writes."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from msgspec.structs import replace

from rtagent.errors import PlacementConflict, PlacementError, PlacementUnavailable
from rtagent.model.consumers import Parts
from rtagent.placement.client import CONCURRENT_UPDATE, MICROVERSION, HttpPlacement
from rtagent.placement.consumers import (
    ATTEMPTS,
    INTERRUPTED,
    NO_IDENTITY,
    ConsumerRecord,
    read_record,
)
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
        new = ConsumerRecord(
            project_id=request.project_id or NO_IDENTITY, user_id=request.user_id or NO_IDENTITY
        )
        must_read = request.existing == ADD or request.generation
        before = self._read(request, new) if must_read else new
        for _ in range(ATTEMPTS):
            after = replace(new, allocations=_allocated(request, before))
            written = Written(
                consumer_uuid=request.consumer_uuid,
                before=before.allocations,
                allocations=after.allocations,
                generation=(before.generation or 0) + 1,
            )
            body = {**after.body(before.generation), "mappings": request.mappings}
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
            # The other generation that a consumer without allocations may have.
            other = INTERRUPTED if before.generation is None else None
            before = self._read(request, replace(new, generation=other))
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
        uuid = written.consumer_uuid
        now = read_record(self._local.api, uuid)
        # Another caller may have written the same: the request was repeated at another scheduler.
        if (now.generation, now.allocations) != (written.generation, written.allocations):
            return
        body = replace(now, allocations=written.before).body(now.generation)
        try:
            self._local.api.put_consumer(uuid, body)
        except PlacementConflict as error:
            if error.kwargs.get("code") != CONCURRENT_UPDATE:
                raise

    def _read(self, request: AllocationRequest, new: ConsumerRecord) -> ConsumerRecord:
        record = read_record(self._local.api, request.consumer_uuid, new)
        other = request.generation not in (None, record.generation or 0)
        if other or (record.allocations and request.existing == NEW):
            raise ConsumerHasAllocations(consumer_uuid=request.consumer_uuid)
        return record


def _allocated(request: AllocationRequest, before: ConsumerRecord) -> Parts:
    """Return what the consumer should have."""
    total = {uuid: Counter(part["resources"]) for uuid, part in request.allocations.items()}
    for uuid, part in before.allocations.items() if request.existing == ADD else ():
        total.setdefault(uuid, Counter()).update(part)
    return total
