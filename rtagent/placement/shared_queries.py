"""SharedQueries: queries for allocation candidates, few at the same time.

Placement searches all hosts for one query, and goes on if its client gives up meanwhile. More
queries than it can answer in time would all fail, and each would be made for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from rtagent.errors import PlacementUnavailable
from rtagent.scheduler.candidate import Candidates
from rtagent.scheduler.placement_request import Query

#: The most queries of a scheduler at the same time.
AT_ONCE = 4


class _Shared:
    """A query. :ivar calls: how many wait for it. :ivar answer: the same for all of them."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: Future[Candidates] = Future()


class SharedQueries:
    """Thread-safe. Calls that wait with the same query share its answer. A query that has been
    sent is not shared: a call never gets an answer that was made before it came.
    """

    def __init__(self, ask: Callable[[Query], Candidates], at_once: int = AT_ONCE) -> None:
        """:param ask: sends a query. It is called on the thread of one of the calls."""
        self._ask, self._at_once = ask, at_once
        self._changed = threading.Condition()
        self._sent = 0
        #: Oldest first. The first one is sent next.
        self._waiting: dict[Query, _Shared] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait for their query to be sent."""
        with self._changed:
            return sum(shared.calls for shared in self._waiting.values())

    def answer(self, query: Query, timeout: float) -> Candidates:
        """Return the candidates.

        :param timeout: the most seconds to wait for other calls' queries.
        :raises PlacementUnavailable: it took longer.
        :raises PlacementError: as `ask`.
        """
        with self._changed:
            shared = self._waiting.setdefault(query, _Shared())
            shared.calls += 1
            in_time = self._changed.wait_for(lambda: self._is_ready(shared), timeout)
            shared.calls -= 1
            sends = in_time and not shared.answer.done()
            if sends:
                self._sent += 1
            if sends or (not shared.calls and self._waiting.get(query) is shared):
                del self._waiting[query]
            self._changed.notify_all()
        if sends:
            self._send(query, shared.answer)
        elif not in_time:
            raise PlacementUnavailable(
                f"GET /allocation_candidates: Placement was busy with earlier queries for"
                f" {timeout:g} s: repeat the request, or give Placement more processes"
            )
        return shared.answer.result()

    def _is_ready(self, shared: _Shared) -> bool:
        """Whether a query has its answer, or may be sent now."""
        first = next(iter(self._waiting.values()), None)
        return shared.answer.done() or (shared is first and self._sent < self._at_once)

    def _send(self, query: Query, answer: Future[Candidates]) -> None:
        try:
            answer.set_result(self._ask(query))
        except BaseException as error:  # every call that shares the query raises it
            answer.set_exception(error)
        with self._changed:
            self._sent -= 1
            self._changed.notify_all()
