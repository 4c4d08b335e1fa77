"""Request: one call of the scheduler, as filters and weighers see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason
from rtagent.model.request_spec import RequestSpec
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
