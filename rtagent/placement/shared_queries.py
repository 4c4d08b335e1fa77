"""SharedQueries: queries for allocation candidates, few at the same time.

Placement searches all hosts for each query. If it has more queries than it can answer in time, all
of them fail.
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
    """A query. :ivar calls: how many wait until it is sent. :ivar answer: the same for all."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: Future[Candidates] = Future()


class SharedQueries:
    """Thread-safe. Calls that wait with equal queries share one answer. A query that has been sent
    is not shared with later calls, so no answer is older than the call that gets it.

    A query whose answer is not awaited any more does not count, though Placement may go on with it.
    """

    def __init__(self, ask: Callable[[Query], Candidates], at_once: int = AT_ONCE) -> None:
        """:param ask: sends a query, and waits for its answer. One of the calls makes it."""
        self._ask, self._at_once = ask, at_once
        self._changed = threading.Condition()
        self._sent = 0
        #: Oldest first. The first one is sent next.
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
            self._changed.wait_for(
                lambda: self._is_sent(query, shared) or self._turn(shared), timeout
            )
            shared.calls -= 1
            sent, sends = self._is_sent(query, shared), self._turn(shared)
            self._sent += sends
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

    def _is_sent(self, query: Query, shared: _Shared) -> bool:
        return self._waiting.get(query) is not shared

    def _turn(self, shared: _Shared) -> bool:
        """Whether a query is the next one, and may be sent now."""
        first = next(iter(self._waiting.values()), None)
        return shared is first and self._sent < self._at_once

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
                self._sent -= 1
                self._changed.notify_all()
