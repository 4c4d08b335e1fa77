"""JSON views of the agent's health and readiness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from rtagent.errors import RtAgentError
from rtagent.model.health import Check, Status, worst

#: The IETF's draft "Health Check Response Format for HTTP APIs".
MEDIA_TYPE = "application/health+json"


def health(checks: Sequence[Check], service: str = "rtagent") -> Mapping[str, Any]:
    """``{"status", "serviceId", "checks": {part: [{"status", "time", "output"?}]}}``; ``output``
    only if it is not empty. The version is left out: probes need none, and it helps attackers."""
    return {
        "status": worst(checks),
        "serviceId": service,
        "checks": {check.part: [_check(check)] for check in checks},
    }


def readiness(error: RtAgentError | None) -> Mapping[str, Any]:
    """``{"ready"}``, and the fields of the error that creating calls get while it is false."""
    if error is None:
        return {"ready": True}
    return {**error.as_dict(), "ready": False}


def liveness(hung: Sequence[str]) -> Mapping[str, Any]:
    """``{"live", "hung"}``. :param hung: the vital threads that hang."""
    return {"live": not hung, "hung": list(hung)}


def status(healthy: bool) -> HTTPStatus:
    """The status code, for load balancers."""
    return HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE


def healthy(checks: Sequence[Check]) -> bool:
    """Whether no part has failed. Warnings do not count."""
    return worst(checks) != Status.FAIL


def _check(check: Check) -> Mapping[str, Any]:
    output = {"output": check.output} if check.output else {}
    return {"status": check.status, "time": check.time, **output}
