"""Access: admits the calls of proved and of other callers, and records the refused ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oslo_context.context import RequestContext

from rtagent.errors import RequestError, RtAgentError, TooManyRequests
from rtagent.model.printable import printable
from rtagent.ports import ACCESS_LOG, Reporter
from rtagent.rpc.context import actor, reply_queue, request_id
from rtagent.rpc.errors import NotAuthorized, SignatureInvalid
from rtagent.rpc.method import Method
from rtagent.rpc.roles import ANY, OPERATOR
from rtagent.rpc.trust.authorization import Authorize, authorize_by_role
from rtagent.rpc.trust.bounds import CallerBounds
from rtagent.rpc.trust.caller import Caller

#: The counter of refusals. Its label is one of these reasons, or one of `rtagent.rpc.trust.bounds`.
COUNTER = "calls_refused"
SIGNATURE, ROLE = "signature", "role"
#: The number of characters of an error message that are logged.
MAX_REASON = 1000


class Access:
    """Thread-safe."""

    def __init__(
        self,
        reporter: Reporter,
        authorize: Authorize = authorize_by_role,
        bounds: CallerBounds | None = None,
    ) -> None:
        """:param bounds: None: calls are not bounded."""
        self._authorize, self._bounds = authorize, bounds
        self._reporter = reporter.named(ACCESS_LOG)

    @contextmanager
    def proving(self, context: RequestContext, method: Method) -> Iterator[None]:
        """Record an error of the block, which finds out who calls."""
        try:
            yield
        except RequestError as error:
            self._record(SIGNATURE, method, f"{_name(actor(context))}, not proved", context, error)
            raise

    @contextmanager
    def admitted(
        self, caller: Caller, method: Method, context: RequestContext, document: Mapping[str, Any]
    ) -> Iterator[None]:
        """Count the call as in flight during the block.

        :param document: its arguments.
        :raises NotAuthorized: TooManyRequests:
        """
        who = identity(caller, method, context) if self._bounds is not None else None
        if self._bounds is None or who is None:
            with self._recorded(caller, method, context, document):
                yield
            return
        try:
            self._bounds.enter(who, method.name)
        except TooManyRequests as error:
            self._too_many(_shown(caller), method, error)
            raise
        try:
            with self._recorded(caller, method, context, document):
                yield
        finally:
            self._bounds.leave(who)

    @contextmanager
    def _recorded(
        self, caller: Caller, method: Method, context: RequestContext, document: Mapping[str, Any]
    ) -> Iterator[None]:
        """Authorize the call, and record a refusal, also one by the block."""
        try:
            self._authorize(caller, method)
            with self._audited(caller, method, context, document):
                yield
        except (NotAuthorized, SignatureInvalid) as error:
            self._record(ROLE, method, _shown(caller), context, error)
            raise

    @contextmanager
    def _audited(
        self, caller: Caller, method: Method, context: RequestContext, document: Mapping[str, Any]
    ) -> Iterator[None]:
        """Record a call that administers hosts, aggregates or services. Not all of these calls
        have an event that names the caller.
        """
        if method.role != OPERATOR:
            yield
            return
        what = f"{method.name} of {_shown(caller)}, request {request_id(context)}"
        text = printable(json.dumps(document, default=str, sort_keys=True), MAX_REASON)
        try:
            yield
        except (NotAuthorized, SignatureInvalid):
            raise
        except Exception as error:
            why = printable(str(error), MAX_REASON)
            self._reporter.log("info", f"failed {what}: {text}: {why}")
            raise
        self._reporter.log("info", f"served {what}: {text}")

    def _too_many(self, who: str, method: Method, error: TooManyRequests) -> None:
        self._reporter.counted(COUNTER, error.kwargs["reason"])
        # Without the request's id: a caller that makes too many calls must not fill the log.
        self._reporter.log("warning", f"refused {method.name} of {who}: {error}")

    def _record(
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
