"""Verdicts: whether a request passes a filter, and whether its claim fits a host."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.model.base import Value
from rtagent.model.claim import Claim
from rtagent.model.decision import Reason
from rtagent.scheduler.host_state import HostState


class Rejection(Value, frozen=True):
    """Why a filter refuses a host. :ivar reasons: of a fit, nearest miss first."""

    message: str
    reasons: tuple[Reason, ...] = ()


#: The claim that a host's agent would grant, or why it would refuse.
Verdict = Claim | Rejection
#: Decides whether the claim of an instance, by its uuid, fits a host.
Fit = Callable[[HostState, str], Verdict]
