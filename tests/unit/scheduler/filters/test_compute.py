"""ComputeFilter: the service is enabled, not forced down, heard of, and grants claims."""

from __future__ import annotations

import pytest

from rtagent.model.host_report import ServiceState
from rtagent.scheduler.filters.hosts import ComputeFilter
from tests.support.host_states import SEEN, host_state
from tests.support.scheduling import passes, scheduler_request, why_not


def test_a_host_that_serves_passes():
    assert passes(ComputeFilter, host_state(), scheduler_request())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"service": ServiceState(disabled=True)}, "its service is disabled"),
        (
            {"service": ServiceState(disabled=True, disabled_reason="new disks")},
            "its service is disabled: new disks",
        ),
        ({"service": ServiceState(forced_down=True)}, "its service is forced down"),
        ({"seen": SEEN - 7}, "7.0 s before"),
        ({"up": False, "why_not": "the first audit runs"}, "the first audit runs"),
        ({"up": False}, "grants no claims"),
    ],
)
def test_a_host_that_does_not_serve_is_refused(fields, reason):
    assert reason in why_not(ComputeFilter, host_state(**fields), scheduler_request())
