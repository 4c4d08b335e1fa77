"""JSON views of the health and readiness of a daemon, with the status code for load balancers."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from rtagent.api.reply import Reply, Replying
from rtagent.errors import RtAgentError
from rtagent.model.health import Check, Status, worst

#: The IETF's draft "Health Check Response Format for HTTP APIs".
MEDIA_TYPE = "application/health+json"


def health(view: Replying, checks: Sequence[Check], service: str = "rtagent") -> Reply:
    """``{"status", "serviceId", "checks": {part: [{"status", "time", "output"?}]}}``; ``output``
    only if it is not empty. The version is left out: probes need none, and it helps attackers.

    The status code tells whether a part has failed. Warnings do not count.
    """
    document = {
        "status": worst(checks),
        "serviceId": service,
        "checks": {check.part: [_check(check)] for check in checks},
    }
    return view.reply(document, _status(worst(checks) != Status.FAIL), MEDIA_TYPE)


def ready(view: Replying, error: RtAgentError | None) -> Reply:
    """``{"ready"}``, and the fields of the error that calls get while it is false."""
    document = {} if error is None else error.as_dict()
    return view.reply({**document, "ready": error is None}, _status(error is None))


def live(view: Replying, hung: Sequence[str]) -> Reply:
    """``{"live", "hung"}``. :param hung: the vital threads that hang."""
    return view.reply({"live": not hung, "hung": list(hung)}, _status(not hung))


def _status(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _check(check: Check) -> Mapping[str, Any]:
    output = {"output": check.output} if check.output else {}
    return {"status": check.status, "time": check.time, **output}
