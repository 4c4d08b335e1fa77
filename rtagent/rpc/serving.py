"""Endpoint: serves the methods of an API: validates, counts and times every call.

oslo.messaging serves each call on one of ``executor_thread_pool_size`` threads until the method
returns. A call that waits for Placement or libvirt keeps its thread, and many of them would leave
no thread for claims, ends and reads. So a call of a slow method over its limit is refused at once.
It is not queued, because a queued call would keep a thread, too.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.errors import (
    PlacementError,
    RequestError,
    RtAgentError,
    TooManyRequests,
    Unavailable,
)
from rtagent.model.change import Call
from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import request_id
from rtagent.rpc.method import Method, MethodTable
from rtagent.rpc.schemas import digest, validate
from rtagent.rpc.trust.access import Access, Caller

#: The fewest threads that serve calls, which is oslo.messaging's default.
THREADS = 64
#: The number of characters of an error message that are logged. The message quotes names that the
#: caller has sent, which may have any length.
MAX_SENTENCE = 1000

_decode = msgspec.json.Decoder().decode
#: Refuses the caller of a method with these arguments.
CheckCaller = Callable[[Caller, str, Any], None]


class InFlight:
    """The calls that are being served.

    Thread-safe: each thread serves one call at a time, and single operations of a dict are atomic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: dict[int, tuple[str, float]] = {}

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Count a call as in flight during the block."""
        thread = threading.get_ident()
        self._calls[thread] = (name, self._clock.monotonic())
        try:
            yield
        finally:
            del self._calls[thread]

    def __len__(self) -> int:
        return len(self._calls)

    def __str__(self) -> str:
        """Each call and its age in seconds, oldest first."""
        now = self._clock.monotonic()
        calls = sorted(self._calls.copy().values(), key=lambda call: call[1])
        return ", ".join(f"{name} for {now - started:.1f} s" for name, started in calls)


class CallLimit:
    """Bounds the calls of one method that are served at once. Thread-safe."""

    def __init__(self, method: str, limit: int) -> None:
        self._method, self._limit = method, limit
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Admit a call for the length of a block. :raises TooManyRequests: the limit is reached."""
        if not self._free.acquire(blocking=False):
            raise TooManyRequests(
                f"{self._limit} calls of {self._method} are being served, which is the limit:"
                " repeat the call in a few seconds",
                method=self._method,
                limit=self._limit,
            )
        try:
            yield
        finally:
            self._free.release()


class Endpoint:
    """Has one public attribute for each method of an API. A caller may invoke these only."""

    def __init__(
        self,
        table: MethodTable,
        served: object,
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
        access: Access,
        check: Callable[[Any], None] = lambda _: None,
        check_caller: CheckCaller = lambda *_: None,
    ) -> None:
        """:param served: what the methods use, which is the first parameter of their handlers.
        :param access: decides who may call. :param check: refuses arguments that are meant for
            another server.
        :param check_caller: refuses a caller whose key is not for what a method's arguments name.
        """
        self._in_flight, self._clock, self._access = in_flight, clock, access
        self._check, self._check_caller = check, check_caller
        self._reporter = reporter.named(__name__)
        self.target = oslo_messaging.Target(version=table.version)
        for method in table.methods.values():
            setattr(self, method.name, self._served(method, partial(method.handler, served)))

    def _served(self, method: Method, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The function of a method, which returns JSON primitives without tuples, so that all
        transports deliver the same."""

        slow = CallLimit(method.name, method.at_once) if method.slow else None
        has_call = method.takes_operation_id

        # The document's fields arrive as keywords of any name, so the context is positional only.
        def serve(context: RequestContext, /, **document: Any) -> Any:
            with (
                self._observed(method, context),
                self._access.admitted(method, context, document) as caller,
            ):
                arguments: Any = validate(method, document)
                for checked in (arguments, *(arguments.claims if method.batch_of else ())):
                    self._check(checked)
                self._check_caller(caller, method.name, arguments)
                calls = _calls(method, has_call, arguments, document, caller, context)
                with nullcontext() if slow is None else slow.call():
                    return _decode(msgspec.json.encode(handler(arguments, *calls)))

        expected = oslo_messaging.expected_exceptions(RequestError, Unavailable, PlacementError)
        function: Callable[..., Any] = oslo_messaging.expose(expected(serve))
        return function

    @contextmanager
    def _observed(self, method: Method, context: RequestContext) -> Iterator[None]:
        """Report time and outcome of a call, and log an error that its caller gets."""
        started = self._clock.monotonic()
        outcome = "ok"
        try:
            with self._in_flight.call(f"{method.name} ({request_id(context)})"):
                yield
        except Exception as error:
            outcome = type(error).__name__
            if isinstance(error, RtAgentError):
                sentence = f"{method.name}: {error.message}"[:MAX_SENTENCE]
                self._reporter.log(_level(method, error), sentence)
            raise
        finally:
            self._reporter.timed("rpc", method.name, self._clock.monotonic() - started)
            self._reporter.counted("rpc", outcome)


def _calls(
    method: Method,
    has_call: bool,
    arguments: Any,
    document: Mapping[str, Any],
    caller: Caller,
    context: RequestContext,
) -> Iterator[Call | list[Call]]:
    """Yield what a handler takes besides the arguments: nothing if it changes nothing, the call, or
    the list of the calls of a batch.

    :param has_call: whether the method takes an operation id of its own.
    """

    def call(name: str, operation_id: str, arguments: Mapping[str, Any]) -> Call:
        return Call(
            method=name,
            operation_id=operation_id,
            digest=digest(name, arguments),
            actor=caller.actor,
            request_id=request_id(context),
        )

    if has_call:
        yield call(method.name, arguments.operation_id, document)
    if method.batch_of:
        entries = zip(arguments.claims, document["claims"], strict=True)
        yield [call(method.batch_of, claim.operation_id, given) for claim, given in entries]


def _level(method: Method, error: RtAgentError) -> str:
    if not error.expected:
        return "error"
    # The refusal of a cast has no caller. A warning that is repeated is not logged again.
    return "warning" if method.cast else "info"
