"""SharedRequests: calls that wait at the same time share one request to Placement."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from rtagent.errors import PlacementUnavailable

#: Seconds for which a request waits for an equal one, so that more calls share it. One whose answer
#: is lost must not delay others for its time-out.
HOLD = 1.0

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
A = TypeVar("A")


class _Shared(Generic[T, A]):
    """A request. :ivar contents: of the calls that wait until it is sent. :ivar answer: the same
    for all. :ivar held: it waits until no call uses an equal one.
    """

    def __init__(self) -> None:
        self.contents, self.held = list[T](), True
        self.answer: Future[A] = Future()


class SharedRequests(Generic[K, T, A]):
    """Requests of which few are sent at the same time. Thread-safe.

    Calls that wait with equal keys share one request and its answer. One that has been sent is not
    shared with later calls, so no answer is older than the call that gets it. Later calls wait
    until the answer has come and is used, and share the next request.

    A request whose answer is not awaited any more does not count, though Placement may go on with
    it.
    """

    def __init__(
        self, name: str, send: Callable[[Sequence[T]], A], at_once: float, hold: float = HOLD
    ) -> None:
        """:param name: of the request, in errors.
        :param send: sends the contents of calls, and waits for the answer. One of the calls makes
            it.
        :param at_once: how many are sent at the same time.
        :param hold: the most seconds for which a request is held.
        """
        self._name, self._request, self._at_once, self._hold = name, send, at_once, hold
        self._changed = threading.Condition()
        #: The keys of those that are not answered, and of answers that calls use.
        self._sent, self._used = list[K](), Counter[K]()
        #: Oldest first. The first one that is not held is sent next.
        self._waiting: dict[K, _Shared[T, A]] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait until their request is sent."""
        with self._changed:
            return sum(len(shared.contents) for shared in self._waiting.values())

    @contextmanager
    def answer(self, key: K, content: T, timeout: float) -> Iterator[A]:
        """Return the answer. Later calls wait until the context ends.

        :param timeout: the most seconds until the request is sent.
        :raises PlacementUnavailable: it was not sent in that time.
        :raises Exception: as the sender.
        """
        with self._changed:
            shared = self._waiting.setdefault(key, _Shared())
            shared.contents.append(content)
            if not self._wait(key, shared, min(timeout, self._hold)) and timeout > self._hold:
                shared.held = False
                self._wait(key, shared, timeout - self._hold)
            sent, sends = self._is_sent(key, shared), self._turn(shared)
            if sends:
                self._sent.append(key)
            elif not sent:
                shared.contents.remove(content)
            if sends or not (sent or shared.contents):
                del self._waiting[key]
                self._changed.notify_all()
        if sends:
            self._send(key, shared)
        elif not sent:
            raise PlacementUnavailable(
                f"{self._name} was not sent within {timeout:g} s, because Placement had not"
                " answered earlier ones: repeat the request, start more schedulers, or give"
                " Placement more processes"
            )
        if error := shared.answer.exception():
            # Without the traceback of other calls: each would add its frames to it.
            raise error.with_traceback(None)
        try:
            yield shared.answer.result()
        finally:
            with self._changed:
                self._used -= Counter((key,))
                self._changed.notify_all()

    def _wait(self, key: K, shared: _Shared[T, A], timeout: float) -> bool:
        return self._changed.wait_for(
            lambda: self._is_sent(key, shared) or self._turn(shared), timeout
        )

    def _is_sent(self, key: K, shared: _Shared[T, A]) -> bool:
        return self._waiting.get(key) is not shared

    def _turn(self, shared: _Shared[T, A]) -> bool:
        """Whether a request is the next one, and may be sent now."""
        free = (
            each
            for key, each in self._waiting.items()
            if not (each.held and (key in self._sent or self._used[key]))
        )
        return shared is next(free, None) and len(self._sent) < self._at_once

    def _send(self, key: K, shared: _Shared[T, A]) -> None:
        try:
            found = self._request(shared.contents)
        except BaseException as error:  # raised to the other calls that share the request, too
            self._answered(key, 0)
            shared.answer.set_exception(error)
            raise
        self._answered(key, len(shared.contents))
        shared.answer.set_result(found)

    def _answered(self, key: K, users: int) -> None:
        with self._changed:
            self._sent.remove(key)
            self._used += Counter({key: users})
            self._changed.notify_all()
