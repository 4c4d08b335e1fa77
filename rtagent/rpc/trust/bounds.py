"""CallerBounds: bounds the calls of each caller, so that one caller does not delay the others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from rtagent.conf.rpc import Rpc
from rtagent.errors import TooManyRequests
from rtagent.ports import Clock

#: The number of callers that are remembered. More are served: the one that was idle for longest is
#: forgotten.
MAX_CALLERS = 1000

#: Reasons of refusals, which are also labels of a metric.
CALLS, RATE = "calls", "rate"


class _Account:
    """The calls of one caller. :ivar tokens: calls that it may make at once, as of `time`."""

    __slots__ = ("in_flight", "time", "tokens")

    def __init__(self, tokens: float, time: float) -> None:
        self.in_flight, self.tokens, self.time = 0, tokens, time


class CallerBounds:
    """Thread-safe. A token bucket for each caller bounds the rate: a caller that was idle for a
    second may make the calls of a second at once.
    """

    def __init__(self, options: Callable[[], Rpc], clock: Clock) -> None:
        """:param options: returns those in force."""
        self._options, self._clock = options, clock
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def enter(self, caller: str, method: str) -> None:
        """Count a call in. :raises TooManyRequests: the caller has too many calls."""
        options, now = self._options(), self._clock.monotonic()
        burst = max(1.0, options.max_call_rate)
        with self._lock:
            account = self._account(caller, burst, now)
            if account.in_flight >= options.max_calls_per_caller:
                raise _too_many_calls(method, options.max_calls_per_caller)
            if options.max_call_rate:
                earned = (now - account.time) * options.max_call_rate
                account.tokens, account.time = min(burst, account.tokens + earned), now
                if account.tokens < 1:
                    raise _too_fast(method, options.max_call_rate)
                account.tokens -= 1
            account.in_flight += 1

    def leave(self, caller: str) -> None:
        """Count a call out."""
        with self._lock:
            self._accounts[caller].in_flight -= 1

    def _account(self, caller: str, burst: float, now: float) -> _Account:
        """Return the account of a caller, as the one that was used last."""
        account = self._accounts.get(caller)
        if account is None:
            if len(self._accounts) >= MAX_CALLERS:
                self._forget_one()
            account = self._accounts[caller] = _Account(burst, now)
        self._accounts.move_to_end(caller)
        return account

    def _forget_one(self) -> None:
        """Forget the caller that was idle for longest. There is one: threads bound the calls."""
        idle = (name for name, account in self._accounts.items() if not account.in_flight)
        name = next(idle, None)
        if name is not None:
            del self._accounts[name]


def _too_many_calls(method: str, limit: int) -> TooManyRequests:
    return TooManyRequests(
        f"{limit} calls of this caller are being served, which is [rpc] max_calls_per_caller:"
        " repeat the call when one of them has ended",
        method=method,
        limit=limit,
        reason=CALLS,
    )


def _too_fast(method: str, limit: float) -> TooManyRequests:
    return TooManyRequests(
        f"this caller makes more than {limit:g} calls per second, which is [rpc] max_call_rate:"
        " make fewer, and repeat the call in a second",
        method=method,
        limit=limit,
        reason=RATE,
    )
