"""Filter: the base class of the filters (entry points ``rtagent.scheduler.filters``).

Request: one call of the scheduler, as filters and weighers see it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from rtagent.conf.scheduler import FilterOptions
from rtagent.errors import InvalidRequest
from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason
from rtagent.model.server import RequestSpec
from rtagent.scheduler.host_state import HostState


class Rejection(Value, frozen=True):
    """Why a filter refuses a host. :ivar reasons: of a fit, nearest miss first."""

    message: str
    reasons: tuple[Reason, ...] = ()


#: The claim that a host's agent would grant, or why it would refuse.
Verdict = Claim | Rejection
#: Decides whether the claim of an instance, by its uuid, fits a host.
Fit = Callable[[HostState, str], Verdict]


class Request(Value, frozen=True, kw_only=True):
    """What is searched, and when.

    :ivar instance_uuid: the owner of the claim. It may have claims on a host already.
    :ivar alive_since: a host of which no message came since this time (on the scheduler's monotonic
        clock) is down.
    :ivar now: UTC. :ivar placement: the hosts are candidates of Placement.
    :ivar fit: decides whether an instance's claim fits a host. Verdicts are kept, so filters may
        ask again; None: only in tests of filters that do not ask.
    """

    spec: RequestSpec
    instance_uuid: str
    alive_since: float
    now: datetime
    placement: bool = False
    fit: Fit | None = None


#: Judges one host: None if it passes. It may have a method ``undecided``, which returns those of
#: several hosts that have to be judged, because the others are known to pass; and a method
#: ``after(host, builds)``, which judges a host as it is after that many further builds of the
#: request have finished. A host that it refuses once is refused after more builds, too.
Check = Callable[[HostState], Rejection | None]


class Lasting(Value, frozen=True):
    """A check that no build of the request changes. :ivar check: the check itself."""

    check: Check

    def __call__(self, host: HostState) -> Rejection | None:
        return self.check(host)

    def after(self, host: HostState, _builds: int) -> Rejection | None:
        """Judge the host as it is after further builds."""
        return self.check(host)


class Filter:
    """A rule that refuses hosts.

    A filter is stateless and pure. An error that a check raises sets the host aside for this
    request, with the error as its rejection; other hosts go on.

    :ivar cost: filters run in order of their cost, and of the option among equals: 0 reads some
        fields, 1 reads aggregates or instances, 2 fits a claim.
    :ivar every_instance: its verdict may change while several instances of one request are
        selected, so it judges a consumed host again. Other filters judge a host once a request.
    :ivar every_host: with ``every_instance``: a selection may change its verdict on any host, so it
        judges all hosts again.
    """

    cost: ClassVar[int] = 0
    every_instance: ClassVar[bool] = False
    every_host: ClassVar[bool] = False

    def __init__(self, options: FilterOptions) -> None:
        self.options = options

    @property
    def name(self) -> str:
        """The name in options, logs and `explain`."""
        return type(self).__name__

    def prepare(self, request: Request) -> Check | None:
        """Return the check of this request, with everything computed that hosts have in common;
        None: the request asks for nothing that this filter judges, so every host passes.

        :raises InvalidRequest: the request itself is wrong, so no host is searched.
        """
        raise NotImplementedError


def invalid(path: str, message: str) -> InvalidRequest:
    """Return the error of a request whose field breaks a rule of a filter.

    :param path: of the field in the request spec, like ``.scheduler_hints.query``.
    """
    return InvalidRequest.at("select_destinations", f"$.request_spec{path}", message)
