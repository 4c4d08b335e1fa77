"""The methods of a scheduler that select hosts, and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta

from rtagent.errors import RtAgentError
from rtagent.model.base import Document, Uuid, Value
from rtagent.model.server import RequestSpec
from rtagent.rpc.method import FLAVOR_ERRORS, rpc_method
from rtagent.rpc.roles import CONDUCTOR, READER, SCHEDULER
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.selection import Selections

#: How many requests are served at once. Others are refused with `TooManyRequests`, so that reports
#: and reads have threads while requests wait for Placement.
REQUESTS_AT_ONCE = 40

#: Errors that a request may cause, in addition to `InvalidRequest`.
SPEC_ERRORS = ("InvalidFlavor", *FLAVOR_ERRORS)
#: Errors of a request to Placement.
PLACEMENT_ERRORS = ("PlacementError", "PlacementUnavailable")


class SelectDestinations(Document, frozen=True, kw_only=True):
    """The arguments of `select_destinations`.

    :ivar instance_uuids: of equal instances; each gets a host.
    :ivar alternates: add hosts to try if the selected one refuses.
    :ivar claim: count the instances on their hosts until the hosts' reports do.
    """

    request_spec: RequestSpec
    instance_uuids: Annotated[tuple[Uuid, ...], Meta(min_length=1, max_length=1000)]
    alternates: bool = False
    claim: bool = True


class Explain(Document, frozen=True, kw_only=True):
    """The arguments of `explain`. :ivar instance_uuid: of a move: its claims are its own."""

    request_spec: RequestSpec
    instance_uuid: Uuid | None = None


class ForgetClaim(Document, frozen=True, kw_only=True):
    """The arguments of `forget_claim`. :ivar operation_id: that of the selection."""

    operation_id: Uuid


class Selected(Value, frozen=True, kw_only=True):
    """:ivar selections: one for each instance, in their order."""

    selections: tuple[Selections, ...]


class HostSelector(Protocol):
    """What selects hosts, see `rtagent.scheduler.select.Scheduler`."""

    def select_destinations(
        self,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        alternates: bool = False,
        claim: bool = True,
    ) -> tuple[Selections, ...]:
        """Select a host for each instance."""
        ...

    def explain(self, spec: RequestSpec, instance_uuid: str = ...) -> Explanation:
        """Return the results of all filters and weighers for each host."""
        ...

    def forget_claim(self, operation_id: str) -> bool:
        """Forget an assumed claim. Return whether it was known."""
        ...


class SelectionEndpoint:
    """Serves the methods that select hosts."""

    def __init__(
        self,
        scheduler: HostSelector,
        not_ready: Callable[[], RtAgentError | None],
        unknown_claim: Callable[[str], None],
    ) -> None:
        """:param not_ready: returns the error that selections get now, or None.
        :param unknown_claim: called with the operation id of a claim that another scheduler may
            have assumed, and that is to be forgotten.
        """
        self._scheduler, self._not_ready = scheduler, not_ready
        self._unknown_claim = unknown_claim

    @rpc_method(
        CONDUCTOR,
        errors=(
            "NoValidHost",
            "SchedulerNotReady",
            "SchedulingTimedOut",
            "ConsumerHasAllocations",
            *SPEC_ERRORS,
            *PLACEMENT_ERRORS,
        ),
        by_position=("alternates", "claim"),
        slow=True,
        at_once=REQUESTS_AT_ONCE,
    )
    def select_destinations(self, arguments: SelectDestinations) -> Selected:
        """Select a host for each instance, and alternates for it. Make the claim at the host with
        the operation id of the selection. The scheduler counts the claim there until the host's
        report has it, or ``[scheduler] assume_timeout`` is over."""
        if (error := self._not_ready()) is not None:
            raise error
        selections = self._scheduler.select_destinations(
            arguments.request_spec,
            arguments.instance_uuids,
            arguments.alternates,
            arguments.claim,
        )
        return Selected(selections=selections)

    @rpc_method(
        READER, errors=(*SPEC_ERRORS, *PLACEMENT_ERRORS), by_position=("instance_uuid",), slow=True
    )
    def explain(self, arguments: Explain) -> Explanation:
        """Return the result of every filter and weigher for every host. Nothing is selected."""
        if arguments.instance_uuid is None:
            return self._scheduler.explain(arguments.request_spec)
        return self._scheduler.explain(arguments.request_spec, arguments.instance_uuid)

    @rpc_method(CONDUCTOR)
    def forget_claim(self, arguments: ForgetClaim) -> None:
        """Forget an assumed claim: its host has refused it, or the build was given up.

        Any scheduler takes the call. One that does not know the operation id passes it on to the
        others."""
        if not self._scheduler.forget_claim(arguments.operation_id):
            self._unknown_claim(arguments.operation_id)

    @rpc_method(SCHEDULER, cast=True)
    def drop_assumed_claim(self, arguments: ForgetClaim) -> None:
        """Forget an assumed claim, at the request of a scheduler that does not know it. An unknown
        operation id is ignored."""
        self._scheduler.forget_claim(arguments.operation_id)
