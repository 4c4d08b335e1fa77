"""Serving: makes the functions of an endpoint, which validate, count and time every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.errors import PlacementError, RequestError, RtAgentError, Unavailable
from rtagent.model.change import Call
from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import request_id
from rtagent.rpc.in_flight import CallLimit, InFlight
from rtagent.rpc.method import Method, declared
from rtagent.rpc.trust.access import Access, Authenticate, Caller, accept_unsigned
from rtagent.rpc.validation import digest, validate

#: The number of characters of an error message that are logged. The message quotes names that the
#: caller has sent, which may have any length.
MAX_SENTENCE = 1000

_Handler = Callable[..., Any]
_decode = msgspec.json.Decoder().decode
#: Refuses the caller of a method with these arguments.
CheckCaller = Callable[[Caller, str, Any], None]


class Serving:
    """Serves the methods of endpoint groups."""

    def __init__(
        self,
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
        check: Callable[[Any], None] = lambda _: None,
        authenticate: Authenticate = accept_unsigned,
        access: Access | None = None,
        check_caller: CheckCaller = lambda *_: None,
    ) -> None:
        """:param check: refuses arguments that are meant for another server.
        :param authenticate: see `Authenticate`.
        :param check_caller: refuses a caller whose key is not for what a method's arguments name.
        :param access: None: callers may do what their roles allow, as often as they want.
        """
        self._in_flight, self._clock, self._check = in_flight, clock, check
        self._authenticate, self._check_caller = authenticate, check_caller
        self._access = access or Access(reporter)
        self._reporter = reporter.named(__name__)

    def add(self, endpoint: object, groups: Iterable[object]) -> None:
        """Give the endpoint a function for each method that the groups declare."""
        for group in groups:
            for method in declared(type(group)):
                setattr(endpoint, method.name, self._served(method, getattr(group, method.name)))

    def _served(self, method: Method, handler: _Handler) -> _Handler:
        """The function of a method, which returns JSON primitives without tuples, so that all
        transports deliver the same."""

        limit = CallLimit(method.name, method.at_once) if method.slow else nullcontext()
        has_call = method.takes_operation_id

        # The document's fields arrive as keywords of any name, so the context is positional only.
        def serve(context: RequestContext, /, **document: Any) -> Any:
            with self._observed(method, context):
                with self._access.proving(context, method):
                    caller = self._authenticate(context, method.name, document)
                with self._access.admitted(caller, method, context, document):
                    arguments: Any = validate(method, document)
                    for each in (arguments, *(arguments.claims if method.batch_of else ())):
                        self._check(each)
                    self._check_caller(caller, method.name, arguments)
                    calls = _calls(method, has_call, arguments, document, caller, context)
                    with limit:
                        return _decode(msgspec.json.encode(handler(arguments, *calls)))

        expected = oslo_messaging.expected_exceptions(RequestError, Unavailable, PlacementError)
        served: _Handler = expected(serve)
        served.rpc_method = method  # type: ignore[attr-defined]
        return served

    @contextmanager
    def _observed(self, method: Method, context: RequestContext) -> Iterator[None]:
        """Report time and outcome of a call, and log an error that its caller gets."""
        started = self._clock.monotonic()
        outcome = "ok"
        try:
            with self._in_flight.call(f"{method.name} ({request_id(context)})"):
                yield
        except RtAgentError as error:
            outcome = type(error).__name__
            sentence = f"{method.name}: {error.message}"[:MAX_SENTENCE]
            self._reporter.log(_level(method, error), sentence)
            raise
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._reporter.timed("rpc", method.name, self._clock.monotonic() - started)
            self._reporter.counted("rpc", outcome)


def is_served(endpoint: object, name: str) -> bool:
    """Whether an endpoint has a method of this name, and not just another attribute."""
    return hasattr(getattr(endpoint, name, None), "rpc_method")


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

    def made(name: str, operation_id: str, given: Mapping[str, Any]) -> Call:
        return Call(
            method=name,
            operation_id=operation_id,
            digest=digest(name, given),
            actor=caller.actor,
            request_id=request_id(context),
        )

    if has_call:
        yield made(method.name, arguments.operation_id, document)
    if method.batch_of:
        entries = zip(arguments.claims, document["claims"], strict=True)
        yield [made(method.batch_of, each.operation_id, given) for each, given in entries]


def _level(method: Method, error: RtAgentError) -> str:
    if not error.expected:
        return "error"
    # The refusal of a cast has no caller. A warning that is repeated is not logged again.
    return "warning" if method.cast else "info"
