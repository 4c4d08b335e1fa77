"""Health and readiness, as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import rtagent
from rtagent.errors import RtAgentError
from rtagent.model.health import Check, Status, worst

#: The IETF's draft "Health Check Response Format for HTTP APIs".
MEDIA_TYPE = "application/health+json"


def document(checks: Sequence[Check]) -> Mapping[str, Any]:
    """Shape: ``{"status", "serviceId", "releaseId", "checks": {part: [{"status", "time",
    "output"?}]}}``; ``output`` only where there is something to say."""
    return {
        "status": worst(checks),
        "serviceId": "rtagent",
        "releaseId": rtagent.__version__,
        "checks": {check.part: [_one(check)] for check in checks},
    }


def readiness(held_back: RtAgentError | None) -> Mapping[str, Any]:
    """Shape: ``{"ready"}``, and the error with which creating calls are answered meanwhile."""
    if held_back is None:
        return {"ready": True}
    return {**held_back.as_dict(), "ready": False}


def status(healthy: bool) -> HTTPStatus:
    """What a load balancer looks at."""
    return HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE


def healthy(checks: Sequence[Check]) -> bool:
    """Whether the agent does its work, a warning or not."""
    return worst(checks) != Status.FAIL


def _one(check: Check) -> Mapping[str, Any]:
    said = {"output": check.output} if check.output else {}
    return {"status": check.status, "time": check.time, **said}
