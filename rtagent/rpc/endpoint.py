"""Endpoint: dispatches the calls of the RPC server to the endpoint groups."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.audit import Auditor
from rtagent.errors import NodeNotFound, PlacementError, RequestError, RtAgentError, Unavailable
from rtagent.model.base import Value
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.ports import Clock, Reporter, ServiceRegistry
from rtagent.rpc.allocation_endpoint import AllocationEndpoint, DeleteAllocation
from rtagent.rpc.call_limit import CallLimit
from rtagent.rpc.claim_endpoint import ClaimEndpoint
from rtagent.rpc.context import actor, request_id
from rtagent.rpc.device_endpoint import DeviceEndpoint
from rtagent.rpc.duplicates import Duplicates
from rtagent.rpc.method import Arguments, Method, declared
from rtagent.rpc.methods import VERSION
from rtagent.rpc.move_endpoint import MoveEndpoint
from rtagent.rpc.node_endpoint import NodeEndpoint
from rtagent.rpc.read_endpoint import ReadEndpoint
from rtagent.rpc.replies import ClaimReplies, Guest
from rtagent.rpc.validation import digest, validate
from rtagent.tracker import ResourceTracker

#: The number of characters of an error message that are logged. The message quotes names that the
#: caller has sent, which may have any length.
MAX_SENTENCE = 1000

_Handler = Callable[..., Any]


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


class PlacementCalls(Value, frozen=True, kw_only=True):
    """What calls need of Placement.

    :ivar sync: updates Placement and returns the revision that Placement then has; raises
        `PlacementError`.
    :ivar delete_allocation: deletes this node's part of an instance's allocations; raises
        `PlacementError`.
    :ivar confirm: waits until Placement has the allocation of a new claim, if it has to; raises
        `AllocationNotWritten`, with the claim aborted.
    """

    sync: Callable[[], int]
    delete_allocation: DeleteAllocation
    confirm: Callable[[Claim, Call], None]


class Endpoint:
    """Has one public attribute for each method of `METHODS`. A caller may invoke these only.

    Every call is validated, counted and timed here, and served by the group that declares its
    method.
    """

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        tracker: ResourceTracker,
        auditor: Auditor,
        registry: ServiceRegistry,
        clock: Clock,
        reporter: Reporter,
        version: str,
        in_flight: InFlight,
        guest: Guest,
        placement: PlacementCalls,
        settle: Callable[[Claim], None],
        duplicates: Duplicates,
    ) -> None:
        """:param version: of the software, for `ping`.
        :param guest: makes the documents that enact a claim.
        :param settle: prepares the host for the domain of a claim, before the caller may start the
            domain; raises `Unavailable` if the domain must not be started yet.
        :param duplicates: whether another agent serves this host name.
        """
        self._duplicates = duplicates
        self._tracker, self._clock = tracker, clock
        self._reporter = reporter.named(__name__)
        self._in_flight = in_flight
        claim_replies = ClaimReplies(guest, settle, tracker.snapshot, placement.confirm)
        groups = (
            ClaimEndpoint(tracker, claim_replies),
            MoveEndpoint(tracker, auditor, claim_replies),
            DeviceEndpoint(tracker, claim_replies),
            AllocationEndpoint(tracker, placement.delete_allocation),
            ReadEndpoint(tracker, claim_replies),
            NodeEndpoint(
                tracker, auditor, registry, clock, version, placement.sync, duplicates.me.agent_uuid
            ),
        )
        for group in groups:
            for method in declared(type(group)):
                setattr(self, method.name, self._served(method, getattr(group, method.name)))

    def _served(self, method: Method, handler: _Handler) -> _Handler:
        """The function that oslo.messaging calls for a method."""

        limit = CallLimit(method.name) if method.slow else nullcontext()

        # The document's fields arrive as keywords of any name, so the context is positional only.
        @oslo_messaging.expected_exceptions(RequestError, Unavailable, PlacementError)
        def serve(context: RequestContext, /, **document: Any) -> Any:
            with self._observed(method, context):
                arguments: Any = validate(method, document)
                self._check_node(arguments)
                if not method.changes:
                    with limit:
                        return _primitives(handler(arguments))
                call = Call(
                    method=method.name,
                    operation_id=arguments.operation_id,
                    digest=digest(method, document),
                    actor=actor(context),
                    request_id=request_id(context),
                )
                with limit:
                    return _primitives(handler(arguments, call))

        served: _Handler = serve
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
            self._reporter.log("info" if error.expected else "error", sentence)
            raise
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._reporter.timed("rpc", method.name, self._clock.monotonic() - started)
            self._reporter.counted("rpc", outcome)

    def _check_node(self, arguments: Arguments) -> None:
        state = self._tracker.snapshot()
        served = state.node
        if arguments.node not in (None, served.hypervisor_hostname):
            raise NodeNotFound(node=arguments.node, served=served.hypervisor_hostname)
        if arguments.node_uuid not in (None, served.uuid):
            raise NodeNotFound(node=arguments.node_uuid, served=served.uuid)
        self._duplicates.check(arguments, state)


def _primitives(reply: Any) -> Any:
    """The reply as JSON primitives without tuples, so that all transports deliver the same."""
    return msgspec.json.decode(msgspec.json.encode(reply))
