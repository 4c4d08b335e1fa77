"""Caller: who makes a call, and what the caller may do. Access: admits the calls of proved and of
other callers, within bounds, and records refusals.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oslo_context.context import RequestContext

from rtagent.conf.rpc import ROLES, Rpc
from rtagent.errors import RequestError, RtAgentError, TooManyRequests
from rtagent.model.base import Value
from rtagent.model.printable import printable
from rtagent.ports import ACCESS_LOG, Clock, Reporter
from rtagent.rpc.context import actor, reply_queue, request_id
from rtagent.rpc.errors import NotAuthorized, SignatureInvalid
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ANY, OPERATOR

#: The number of callers that are remembered. More are served: the one that was idle for longest is
#: forgotten.
MAX_CALLERS = 1000

#: The beginning of the name of a proved caller in records and events.
_PROVED = "key:"
#: The beginning of a user's name that looks like the name of a proved caller.
_UNPROVED = "user:"
#: The role in contexts of OpenStack that may do everything, and its name here.
_ADMIN, _OPERATOR = "admin", "operator"
#: The roles of OpenStack to which Keystone adds its role ``reader``. A caller with one of them is
#: more than a reader.
_IMPLY_READER, _READER = frozenset({"member", "manager"}), "reader"

#: Reasons of refusals, which are also labels of a metric.
CALLS, RATE = "calls", "rate"


class Caller(Value, frozen=True, kw_only=True):
    """The caller of one call.

    :ivar name: of the key; without a proof, the user id of the context, which may be "".
    :ivar roles: see `rtagent.rpc.roles`.
    :ivar proved: whether a signature proves name and roles.
    :ivar host: the host whose agent this is; None: any, or not an agent.
    """

    name: str
    roles: frozenset[str]
    proved: bool = False
    host: str | None = None

    @property
    def actor(self) -> str:
        """The name in records and events. Only that of a proved caller begins with ``key:``."""
        if self.proved:
            return f"{_PROVED}{self.name}"
        return f"{_UNPROVED}{self.name}" if self.name.startswith(_PROVED) else self.name


#: Return the caller of a call, from its context, the name of its method and its arguments; or raise
#: a `RequestError`.
Authenticate = Callable[[RequestContext, str, Mapping[str, Any]], Caller]


def unsigned_caller(context: RequestContext, default_roles: Iterable[str]) -> Caller:
    """Return the caller of a call without a signature: who the context says.

    :param default_roles: those of a context that says no role of ours.
    """
    # A context has no schema.
    stated = set(context.roles) if isinstance(context.roles, list) else set()
    if _ADMIN in stated:
        stated.add(_OPERATOR)
    if stated & _IMPLY_READER:
        stated.discard(_READER)
    return Caller(name=actor(context), roles=frozenset(stated & set(ROLES) or default_roles))


#: Raises `NotAuthorized` if a caller may not call a method.
Authorize = Callable[[Caller, Method], None]


def not_authorized(caller: Caller, method: Method, role: str) -> NotAuthorized:
    """Return the error for a caller that lacks a role."""
    roles = ", ".join(sorted(caller.roles))
    return NotAuthorized(method=method.name, role=role, caller=caller.actor, roles=roles)


class _Account:
    """The calls of one caller. :ivar tokens: calls that it may make at once, as of `time`."""

    __slots__ = ("in_flight", "time", "tokens")

    def __init__(self, tokens: float, time: float) -> None:
        self.in_flight, self.tokens, self.time = 0, tokens, time


class CallerBounds:
    """Thread-safe. A token bucket for each caller bounds the rate: a caller that was idle for a
    second may make the calls of a second at once.

    :ivar options: those in force. Others may take their place at any time.
    """

    def __init__(self, options: Rpc, clock: Clock) -> None:
        self.options, self._clock = options, clock
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def enter(self, caller: str, method: str) -> None:
        """Count a call in. :raises TooManyRequests: the caller has too many calls."""
        options, now = self.options, self._clock.monotonic()
        burst = max(1.0, options.max_call_rate)
        with self._lock:
            account = self._account(caller, burst, now)
            if account.in_flight >= options.max_calls_per_caller:
                limit = options.max_calls_per_caller
                raise TooManyRequests(
                    f"{limit} calls of this caller are being served, which is [rpc]"
                    " max_calls_per_caller: repeat the call when one of them has ended",
                    method=method,
                    limit=limit,
                    reason=CALLS,
                )
            if options.max_call_rate:
                earned = (now - account.time) * options.max_call_rate
                account.tokens, account.time = min(burst, account.tokens + earned), now
                if account.tokens < 1:
                    raise TooManyRequests(
                        f"this caller makes more than {options.max_call_rate:g} calls per second,"
                        " which is [rpc] max_call_rate: make fewer, and repeat the call in a"
                        " second",
                        method=method,
                        limit=options.max_call_rate,
                        reason=RATE,
                    )
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


#: The counter of refusals. Its label is one of these reasons, or one of the two above.
COUNTER = "calls_refused"
SIGNATURE, ROLE = "signature", "role"
#: The number of characters of an error message that are logged.
MAX_REASON = 1000


class Access:
    """Thread-safe."""

    def __init__(
        self,
        reporter: Reporter,
        authenticate: Authenticate,
        authorize: Authorize,
        bounds: CallerBounds | None,
    ) -> None:
        """:param bounds: None: calls are not bounded."""
        self._authenticate, self._authorize, self._bounds = authenticate, authorize, bounds
        self._reporter = reporter.named(ACCESS_LOG)

    @contextmanager
    def admitted(
        self, method: Method, context: RequestContext, document: Mapping[str, Any]
    ) -> Iterator[Caller]:
        """Find out who calls, and count the call as in flight during the block.

        Each refusal is recorded, also one by the block, and each call that administers hosts,
        aggregates or services: not all of these have an event that names the caller.

        :param document: its arguments.
        :raises SignatureInvalid: NotAuthorized: TooManyRequests:
        """
        try:
            caller = self._authenticate(context, method.name, document)
        except RequestError as error:
            who = f"{_name(actor(context))}, not proved"
            self._refused(SIGNATURE, method, who, context, error)
            raise
        administers = method.role == OPERATOR
        counted = self._enter(caller, method, context)
        try:
            self._authorize(caller, method)
            yield caller
        except (NotAuthorized, SignatureInvalid) as error:
            self._refused(ROLE, method, _shown(caller), context, error)
            raise
        except Exception as error:
            if administers:
                why = printable(str(error), MAX_REASON)
                self._administered("failed", method, caller, context, document, f": {why}")
            raise
        else:
            if administers:
                self._administered("served", method, caller, context, document)
        finally:
            if self._bounds is not None and counted is not None:
                self._bounds.leave(counted)

    def _enter(self, caller: Caller, method: Method, context: RequestContext) -> str | None:
        """Count a call in. Return by what; None: it is not counted. :raises TooManyRequests:"""
        counted = None if self._bounds is None else identity(caller, method, context)
        if self._bounds is None or counted is None:
            return None
        try:
            self._bounds.enter(counted, method.name)
        except TooManyRequests as error:
            self._reporter.counted(COUNTER, error.kwargs["reason"])
            # Without the request's id: a caller that makes too many calls must not fill the log.
            sentence = f"refused {method.name} of {_shown(caller)}: {error}"
            self._reporter.log("warning", sentence)
            raise
        return counted

    def _administered(
        self,
        outcome: str,
        method: Method,
        caller: Caller,
        context: RequestContext,
        document: Mapping[str, Any],
        why: str = "",
    ) -> None:
        what = f"{method.name} of {_shown(caller)}, request {request_id(context)}"
        text = printable(json.dumps(document, default=str, sort_keys=True), MAX_REASON)
        self._reporter.log("info", f"{outcome} {what}: {text}{why}")

    def _refused(
        self, reason: str, method: Method, who: str, context: RequestContext, error: RtAgentError
    ) -> None:
        """Log every refusal: at this level, none is taken for a repetition."""
        self._reporter.counted(COUNTER, reason)
        where = f"reply queue {printable(reply_queue(context) or 'none', 100)}"
        text = printable(error.message, MAX_REASON)
        self._reporter.log(
            "info",
            f"refused {method.name} of {who}, {where}, request {request_id(context)}: {text}",
        )


def identity(caller: Caller, method: Method, context: RequestContext) -> str | None:
    """Return by what the calls of a caller are counted; None: they are not.

    A key counts by its name. A caller without a key could give any name, also that of another
    caller; so it counts by its reply queue, of which a process has one. All calls without a reply
    queue count together as one caller. A cast has none, and is not counted. Nor are calls that
    every caller may make.
    """
    if method.role == ANY:
        return None
    if caller.proved:
        return caller.actor
    queue = reply_queue(context)
    if not queue and method.cast:
        return None
    return f"queue:{queue}"


def _shown(caller: Caller) -> str:
    return f"{_name(caller.actor)}, {'proved' if caller.proved else 'not proved'}"


def _name(text: str) -> str:
    return printable(text, 300) or "(no name)"
