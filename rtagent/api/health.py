"""JSON views of the agent's health and readiness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import rtagent
from rtagent.errors import RtAgentError
from rtagent.model.health import Check, Status, worst

#: The IETF's draft "Health Check Response Format for HTTP APIs".
MEDIA_TYPE = "application/health+json"


def health(checks: Sequence[Check]) -> Mapping[str, Any]:
    """``{"status", "serviceId", "releaseId", "checks": {part: [{"status", "time", "output"?}]}}``;
    ``output`` only if it is not empty."""
    return {
        "status": worst(checks),
        "serviceId": "rtagent",
        "releaseId": rtagent.__version__,
        "checks": {check.part: [_check(check)] for check in checks},
    }


def readiness(error: RtAgentError | None) -> Mapping[str, Any]:
    """``{"ready"}``, and the fields of the error that creating calls get while it is false."""
    if error is None:
        return {"ready": True}
    return {**error.as_dict(), "ready": False}


def status(healthy: bool) -> HTTPStatus:
    """The status code, for load balancers."""
    return HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE


def healthy(checks: Sequence[Check]) -> bool:
    """Whether no part has failed. Warnings do not count."""
    return worst(checks) != Status.FAIL


def _check(check: Check) -> Mapping[str, Any]:
    output = {"output": check.output} if check.output else {}
    return {"status": check.status, "time": check.time, **output}
